//! Records of ChampSim; `crate::champsim` has the layout.
//!
//! ChampSim finds out by the registers of a record whether it is a branch, and of which kind, and takes the instruction
//! pointer of the next record for the target of a taken one. So a branch has the registers by which ChampSim knows its
//! kind and none of its others; anything else has its own, as far as there is room.

use super::code::{Code, Flow, INSTRUCTION_POINTER, STACK_POINTER};
use super::{Holds, Sink, Step, Target};
use farreach_types::event::{Access, Kind};
use farreach_types::plural::with_noun;

/// Plain records, for the registry.
pub(super) const TARGET: Target = Target {
    name: "champsim",
    about: "Records of ChampSim, 64 bytes for each instruction, with branches and registers",
    text: false,
    endings: &["gz", "xz"],
    sink: |_| Box::new(ChampSim::new(&PLAIN)),
};

/// Those of CloudSuite, for the registry.
pub(super) const CLOUDSUITE: Target = Target {
    name: "cloudsuite",
    about: "Records of ChampSim for CloudSuite, 96 bytes, with address spaces",
    text: false,
    endings: &["gz", "xz"],
    sink: |_| Box::new(ChampSim::new(&WIDE)),
};

/// Places of a record: first byte and number.
struct Layout {
    bytes: usize,
    written: (usize, usize),
    read: (usize, usize),
    stores: (usize, usize),
    loads: (usize, usize),
    space: Option<usize>,
}

const PLAIN: Layout =
    Layout { bytes: 64, written: (10, 2), read: (12, 4), stores: (16, 2), loads: (32, 4), space: None };
const WIDE: Layout =
    Layout { bytes: 96, written: (10, 4), read: (14, 4), stores: (24, 4), loads: (56, 4), space: Some(88) };

/// The register from which an indirect branch has its target if none holds it. Nothing writes it.
const FROM_MEMORY: u8 = 1;

struct ChampSim {
    layout: &'static Layout,
    /// The last instruction.
    ip: Option<u64>,
    /// Bytes of the record, and the addresses in it.
    record: [u8; 96],
    loads: usize,
    stores: usize,
    further: u64,
    nowhere: u64,
    undecided: u64,
    inferred: u64,
    without_code: u64,
    too_many_registers: u64,
}

impl ChampSim {
    fn new(layout: &'static Layout) -> ChampSim {
        ChampSim {
            layout,
            ip: None,
            record: [0; 96],
            loads: 0,
            stores: 0,
            further: 0,
            nowhere: 0,
            undecided: 0,
            inferred: 0,
            without_code: 0,
            too_many_registers: 0,
        }
    }

    fn begin(&mut self, ip: u64, step: &Step) {
        self.record = [0; 96];
        self.record[..8].copy_from_slice(&ip.to_le_bytes());
        if let Some(at) = self.layout.space {
            self.record[at..at + 2].copy_from_slice(&(step.asid.0 as u16).to_le_bytes());
        }
        (self.loads, self.stores) = (0, 0);
    }

    /// Puts an address into the record. False: it has no room, or the order would be another.
    fn put(&mut self, access: &Access) -> bool {
        let (used, (first, room)) = match access.kind {
            Kind::Store => (&mut self.stores, self.layout.stores),
            // A record is read as all loads, then all stores.
            _ if self.stores > 0 => return false,
            _ => (&mut self.loads, self.layout.loads),
        };
        if *used == room {
            return false;
        }
        let at = first + 8 * *used;
        self.record[at..at + 8].copy_from_slice(&access.addr.to_le_bytes());
        *used += 1;
        true
    }

    fn end(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.record[..self.layout.bytes]);
    }

    /// Registers, and whether it is a branch that was taken.
    fn describe(&mut self, step: &Step) {
        let Some(code) = step.code.filter(|code| code.flow != Flow::Unknown) else {
            self.without_code += u64::from(step.instr.is_some());
            // Where the thread goes on says that something has branched, and not what. The same address again is a
            // later iteration of a string instruction, most often.
            let jumps =
                |pc: u64, len: u32| step.next.is_some_and(|next| next != pc.wrapping_add(len.into()) && next != pc);
            if step.instr.is_some_and(|instr| jumps(instr.pc, instr.len)) {
                self.inferred += 1;
                (self.record[8], self.record[9]) = (1, 1);
                // By what it writes ChampSim knows a branch, and by these two that its kind is none of the usual ones.
                self.record[self.layout.written.0] = INSTRUCTION_POINTER;
                self.record[self.layout.read.0] = INSTRUCTION_POINTER;
                self.record[self.layout.read.0 + 1] = STACK_POINTER;
            }
            return;
        };
        let taken = taken(step, code);
        self.undecided += u64::from(taken.is_none());
        self.record[8] = u8::from(code.flow != Flow::Next);
        self.record[9] = u8::from(taken == Some(true));
        let (written, read) = registers(code);
        let mut fits = true;
        for ((first, room), numbers) in [(self.layout.written, &written), (self.layout.read, &read)] {
            let kept = room.min(numbers.len());
            self.record[first..first + kept].copy_from_slice(&numbers[..kept]);
            fits &= kept == numbers.len();
        }
        self.too_many_registers += u64::from(!fits);
    }
}

/// Whether the instruction was a branch that was taken; `None` if that cannot be told.
pub(super) fn taken(step: &Step, code: &Code) -> Option<bool> {
    let instr = step.instr?;
    match code.flow {
        Flow::Next => Some(false),
        Flow::Unknown => None,
        Flow::Conditional => match step.next? {
            next if next == instr.pc.wrapping_add(instr.len.into()) => Some(false),
            next if next == code.target => Some(true),
            // A handler of a signal came between.
            _ => None,
        },
        _ => Some(true),
    }
}

/// Those that are written, and read, in the order in which they are kept.
fn registers(code: &Code) -> (Vec<u8>, Vec<u8>) {
    let (ip, sp) = (INSTRUCTION_POINTER, STACK_POINTER);
    let own = || code.reads.list().iter().copied().filter(|&number| number != sp);
    let or_memory = || if own().next().is_some() { own().collect() } else { vec![FROM_MEMORY] };
    match code.flow {
        Flow::Next | Flow::Unknown => (code.writes.list().to_vec(), code.reads.list().to_vec()),
        Flow::Jump => (vec![ip], vec![ip]),
        Flow::Conditional => (vec![ip], std::iter::once(ip).chain(own()).collect()),
        Flow::IndirectJump => (vec![ip], or_memory()),
        Flow::Call => (vec![ip, sp], vec![ip, sp]),
        Flow::IndirectCall => (vec![ip, sp], [vec![ip, sp], or_memory()].concat()),
        Flow::Return => (vec![ip, sp], vec![sp]),
    }
}

impl Sink for ChampSim {
    fn holds(&self) -> Holds {
        Holds { spaces: self.layout.space.is_some(), threads: false, sizes: false, code: true, systems: true }
    }

    fn step(&mut self, step: &Step, out: &mut Vec<u8>) -> Result<(), String> {
        if self.layout.space.is_some() && step.asid.0 > u16::MAX.into() {
            return Err(format!("address space {}; a record has 0 to {}", step.asid.0, u16::MAX));
        }
        let ip = match (step.instr, self.ip) {
            (Some(instr), _) if instr.pc == 0 => return Err("an instruction at address 0, which is none".into()),
            (Some(instr), _) => *self.ip.insert(instr.pc),
            (None, Some(ip)) => ip,
            (None, None) => {
                return Err("a reference before the first instruction; a record of ChampSim is an instruction".into());
            }
        };
        self.further += u64::from(step.instr.is_none());
        self.begin(ip, step);
        for access in step.data {
            if access.addr == 0 {
                self.nowhere += 1;
            } else if !self.put(access) {
                self.end(out);
                self.further += 1;
                self.begin(ip, step);
                self.put(access);
            }
        }
        self.describe(step);
        self.end(out);
        Ok(())
    }

    fn finish(&mut self, _: &mut Vec<u8>) -> Vec<String> {
        let mut lost = Vec::new();
        let mut say = |n: u64, one: &str, rest: &str| {
            if n > 0 {
                lost.push(format!("{}{rest}", with_noun(n, one)));
            }
        };
        say(
            self.further,
            "further record",
            " of instructions with more references than a record holds, or in another order",
        );
        say(self.nowhere, "reference", " to address 0 left out: it means none");
        say(self.too_many_registers, "instruction", " with more registers than a record holds");
        say(self.undecided, "conditional branch", " written as not taken: what the thread executed next is not known");
        if self.without_code > 0 {
            let all = with_noun(self.without_code, "instruction");
            let branches = with_noun(self.inferred, "taken branch");
            lost.push(format!("the trace does not tell what {all} are: without registers, and {branches} inferred"));
        }
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::super::code::Disassembler;
    use super::*;
    use farreach_types::event::{Block, Instr};

    /// The rules by which ChampSim tells kinds of branches, as its `inc/instruction.h` states them.
    fn kind(written: &[u8], read: &[u8]) -> &'static str {
        let [writes_sp, writes_ip] = [6, 26].map(|number| written.contains(&number));
        let [reads_sp, reads_flags, reads_ip] = [6, 25, 26].map(|number| read.contains(&number));
        let reads_other = read.iter().any(|number| ![6, 25, 26].contains(number));
        match () {
            () if !reads_sp && !reads_flags && writes_ip && !reads_other => "direct jump",
            () if !reads_sp && !reads_ip && !reads_flags && writes_ip && reads_other => "indirect",
            () if !reads_sp && reads_ip && !writes_sp && writes_ip && (reads_flags || reads_other) => "conditional",
            () if reads_sp && reads_ip && writes_sp && writes_ip && !reads_flags && !reads_other => "direct call",
            () if reads_sp && reads_ip && writes_sp && writes_ip && !reads_flags && reads_other => "indirect call",
            () if reads_sp && !reads_ip && writes_sp && writes_ip => "return",
            () if writes_ip => "other",
            () => "none",
        }
    }

    #[test]
    fn champsim_knows_the_kind_of_each_branch() {
        let cases: [(&[u8], &str); 12] = [
            (&[0xeb, 0x10], "direct jump"),
            (&[0x75, 0x10], "conditional"),
            (&[0xe3, 0x10], "conditional"), // jrcxz
            (&[0xe2, 0x10], "conditional"), // loop
            (&[0xe8, 0, 0, 0, 0], "direct call"),
            (&[0xff, 0xd0], "indirect call"),             // call rax
            (&[0xff, 0x54, 0x24, 8], "indirect call"),    // call [rsp+8]
            (&[0xff, 0x15, 0, 0, 0, 0], "indirect call"), // call [rip]
            (&[0xff, 0x25, 0, 0, 0, 0], "indirect"),      // jmp [rip]
            (&[0xff, 0x64, 0xc4, 8], "indirect"),         // jmp [rsp+rax*8+8]
            (&[0xc2, 8, 0], "return"),
            (&[0x0f, 0x05], "none"), // syscall
        ];
        for (bytes, expected) in cases {
            let block = Block { instrs: [Instr { pc: 0x1000, len: bytes.len() as u32 }].into(), refs: [].into() };
            let code = Disassembler::new().block(&block, bytes).expect("an instruction");
            let (written, read) = registers(&code[0]);
            for layout in [&PLAIN, &WIDE] {
                let kept = |numbers: &[u8], room: usize| numbers[..room.min(numbers.len())].to_vec();
                let (written, read) = (kept(&written, layout.written.1), kept(&read, layout.read.1));
                assert_eq!(kind(&written, &read), expected, "{bytes:02x?}: {written:?}, {read:?}");
            }
        }
    }
}
