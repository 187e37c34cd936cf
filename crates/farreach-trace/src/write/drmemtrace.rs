//! Traces of DynamoRIO's drmemtrace; `crate::drmemtrace` has the layout.
//!
//! The recorder ran one thread at a time, so what it recorded is what one core executed: one file, whose type says so.
//! At each change of the thread it says thread, process and time.

use hashbrown::HashMap;

use super::champsim::taken;
use super::code::{Code, Flow};
use super::{Holds, Sink, Step, Target};
use crate::drmemtrace::record::{Record, filetype, marker, ty};
use crate::drmemtrace::shard::MAX_INSTR_BYTES;
use farreach_types::addr::Asid;
use farreach_types::event::Kind;
use farreach_types::plural::with_noun;

/// For the registry.
pub(super) const TARGET: Target = Target {
    name: "drmemtrace",
    about: "DynamoRIO's drmemtrace: one file of one core, with the bytes and the branches of instructions",
    text: false,
    endings: &["gz"],
    sink: |_| Box::new(Drmemtrace::default()),
};

/// The version with branches that say whether they were taken, and where indirect ones go.
const VERSION: u64 = 5;
/// Bytes of a thread and of a process in their records.
const ID: u16 = 4;
/// Bytes of an encoding that a record has.
const ENCODING: usize = 8;
/// The recorder knows no caches; what most processors have.
const LINE: u64 = 64;
const PAGE: u64 = 4096;

#[derive(Default)]
struct Drmemtrace {
    /// Whether instructions have their bytes; `None` before the first.
    encodings: Option<bool>,
    /// The thread that runs.
    thread: Option<u32>,
    /// The bytes that were told last of the instruction at an address.
    told: HashMap<u64, Box<[u8]>>,
    /// Instructions so far: the time.
    time: u64,
    /// The thread and address of the last one.
    last: Option<(u32, u64)>,
    iterations: u64,
    undecided: u64,
    unknown: u64,
}

fn put(out: &mut Vec<u8>, ty: u16, size: u16, value: u64) {
    out.extend_from_slice(&Record { ty, size, value }.to_bytes());
}

/// Numbers of threads and processes begin at 1, as 0 is none.
fn id(number: u32) -> u64 {
    u64::from(number) + 1
}

impl Drmemtrace {
    /// What is in front of the first thread.
    fn begin(&mut self, code: bool, out: &mut Vec<u8>) {
        let of = if code { filetype::X86_64 | filetype::ENCODINGS } else { 0 };
        put(out, ty::HEADER, 0, VERSION);
        put(out, ty::MARKER, marker::VERSION, VERSION);
        put(out, ty::MARKER, marker::FILETYPE, filetype::CORE_SHARDED | of);
    }

    fn enter(&mut self, asid: Asid, thread: u32, out: &mut Vec<u8>) {
        if self.thread == Some(thread) {
            return;
        }
        put(out, ty::THREAD, ID, id(thread));
        put(out, ty::PID, ID, id(asid.0));
        if self.time == 0 {
            put(out, ty::MARKER, marker::CACHE_LINE_SIZE, LINE);
            put(out, ty::MARKER, marker::PAGE_SIZE, PAGE);
        }
        put(out, ty::MARKER, marker::TIMESTAMP, self.time + 1);
        put(out, ty::MARKER, marker::CPU, 0);
        self.thread = Some(thread);
    }

    /// The type of the instruction's record. What stands before it is written.
    fn classify(&mut self, step: &Step, code: &Code, pc: u64, out: &mut Vec<u8>) -> u16 {
        if self.told.get(&pc).is_none_or(|told| **told != *code.bytes()) {
            self.told.insert(pc, code.bytes().into());
            for part in code.bytes().chunks(ENCODING) {
                let mut value = [0; ENCODING];
                value[..part.len()].copy_from_slice(part);
                put(out, ty::ENCODING, part.len() as u16, u64::from_le_bytes(value));
            }
        }
        let indirect = matches!(code.flow, Flow::IndirectJump | Flow::IndirectCall | Flow::Return);
        if indirect {
            self.undecided += u64::from(step.next.is_none());
            put(out, ty::MARKER, marker::BRANCH_TARGET, step.next.unwrap_or(0));
        }
        match code.flow {
            Flow::Next => ty::INSTR,
            Flow::Unknown => {
                self.unknown += 1;
                ty::INSTR
            }
            Flow::Jump => ty::INSTR_DIRECT_JUMP,
            Flow::IndirectJump => ty::INSTR_INDIRECT_JUMP,
            Flow::Call => ty::INSTR_DIRECT_CALL,
            Flow::IndirectCall => ty::INSTR_INDIRECT_CALL,
            Flow::Return => ty::INSTR_RETURN,
            Flow::Conditional => {
                let taken = taken(step, code);
                self.undecided += u64::from(taken.is_none());
                if taken == Some(true) { ty::INSTR_TAKEN_JUMP } else { ty::INSTR_UNTAKEN_JUMP }
            }
        }
    }
}

impl Sink for Drmemtrace {
    fn holds(&self) -> Holds {
        Holds { spaces: true, threads: true, sizes: true, code: true, systems: false }
    }

    fn step(&mut self, step: &Step, out: &mut Vec<u8>) -> Result<(), String> {
        let has = step.code.is_some();
        if self.encodings.is_none() {
            self.begin(has, out);
            self.encodings = Some(has);
        }
        self.enter(step.asid, step.thread, out);
        if let Some(instr) = step.instr {
            if instr.len > MAX_INSTR_BYTES.into() {
                let (len, pc) = (instr.len, instr.pc);
                return Err(format!("an instruction of {len} bytes at {pc:#x}; 1 to {MAX_INSTR_BYTES} are allowed"));
            }
            // What is no branch and is executed again at once is a later iteration of a string instruction.
            let again = self.last.replace((step.thread, instr.pc)) == Some((step.thread, instr.pc));
            let ty = match step.code {
                Some(code) if again && code.flow == Flow::Next => {
                    self.iterations += 1;
                    ty::INSTR_NO_FETCH
                }
                Some(code) if self.encodings == Some(true) => self.classify(step, code, instr.pc, out),
                None if self.encodings == Some(true) => {
                    let pc = instr.pc;
                    return Err(format!("the bytes of the instruction at {pc:#x} are not known; those before it are"));
                }
                _ => {
                    self.unknown += 1;
                    ty::INSTR
                }
            };
            put(out, ty, instr.len as u16, instr.pc);
            self.time += 1;
        }
        for access in step.data {
            let ty = if access.kind == Kind::Store { ty::WRITE } else { ty::READ };
            let Ok(size) = u16::try_from(access.size) else {
                let (size, addr) = (access.size, access.addr);
                return Err(format!("a reference of {size} bytes at {addr:#x}; 1 to {} are allowed", u16::MAX));
            };
            put(out, ty, size, access.addr);
        }
        Ok(())
    }

    fn exit(&mut self, _: Asid, thread: u32, out: &mut Vec<u8>) {
        // Readers take a thread that comes back and executes nothing for damage: one that others end just ends.
        if self.thread == Some(thread) {
            put(out, ty::THREAD_EXIT, ID, id(thread));
            self.thread = None;
        }
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Vec<String> {
        if self.encodings.is_none() {
            self.begin(false, out);
        }
        put(out, ty::FOOTER, 0, 0);
        let mut lost = vec!["timestamps count instructions: a trace has no times".into()];
        if self.iterations > 0 {
            let all = with_noun(self.iterations, "later iteration");
            lost.push(format!("{all} of string instructions written as no fetch"));
        }
        if self.undecided > 0 {
            let branches = with_noun(self.undecided, "branch");
            lost.push(format!(
                "{branches} written as not taken, or with target 0: what the thread executed next is not known"
            ));
        }
        if self.unknown > 0 {
            let all = with_noun(self.unknown, "instruction");
            lost.push(format!("the trace does not tell what {all} are: none is written as a branch"));
        }
        lost
    }
}
