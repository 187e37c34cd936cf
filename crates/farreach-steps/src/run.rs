//! A program from its first to its last instruction.

use std::ops::Range;
use std::process::{Command, Stdio};

use farreach_types::event::{Access, Kind};
use iced_x86::{Code, Decoder, DecoderOptions, Instruction, Mnemonic, OpKind};

use crate::decode::references_of;
use crate::error::Error;
use crate::tracee::{End, Registers, Stop, Tracee};
use crate::witness;

/// Longest instruction.
const LONGEST: usize = 15;
/// Signals that instructions raise.
const SYNCHRONOUS: [i32; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP];

/// How to follow a program.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Ask the processor too, for references into these pages, which the program must have readable and writable: with
    /// the page of the first reference taken away, and with that of the first store protected, the instruction must
    /// fault at the computed address. Not while a signal is handled.
    pub witness: Option<Range<u64>>,
    /// Give up behind this many steps.
    pub limit: Option<u64>,
}

/// One step: an instruction, or an iteration of a repeated one.
#[derive(Clone, Copy, Debug)]
pub struct Attempt {
    /// Its address.
    pub at: u64,
    /// Its length in bytes.
    pub length: u32,
    /// What it is.
    pub code: Code,
    /// Whether it is an atomic read-modify-write: with the prefix `lock`, or an exchange with memory.
    pub locked: bool,
    /// The signal that it ended with; `None` if it completed.
    pub fault: Option<i32>,
    /// Where its loads and stores begin in [`Run::references`], and how many they are; none if it did not complete.
    pub references: (usize, u32),
}

/// What a program did.
#[derive(Debug)]
pub struct Run {
    /// All steps in order, those that faulted too.
    pub attempts: Vec<Attempt>,
    /// All loads and stores.
    pub references: Vec<Access>,
    /// How many faults [`Options::witness`] provoked; each was where it was computed.
    pub witnessed: u64,
    /// How it ended.
    pub end: End,
}

impl Run {
    /// The loads and stores of a step.
    pub fn of(&self, attempt: &Attempt) -> &[Access] {
        let (first, count) = attempt.references;
        &self.references[first..first + count as usize]
    }

    /// All references of completed instructions, in order.
    pub fn accesses(&self) -> impl Iterator<Item = Access> {
        self.attempts.iter().filter(|attempt| attempt.fault.is_none()).flat_map(|attempt| {
            let fetch = Access { kind: Kind::Fetch, addr: attempt.at, size: attempt.length };
            std::iter::once(fetch).chain(self.of(attempt).iter().copied())
        })
    }
}

/// Follows a program to its end.
///
/// # Errors
/// It cannot be started; it starts a thread, a process or another program; it has an instruction whose references are
/// not known; the processor contradicts what was computed; the limit.
pub fn run(command: &mut Command, options: &Options) -> Result<Run, Error> {
    let tracee = Tracee::start(command.stdin(Stdio::null()))?;
    let gadget = options.witness.as_ref().map(|_| witness::find_syscall(&tracee)).transpose()?;
    let mut follow = Follow { tracee, gadget, handlers: 0 };
    let mut run = Run { attempts: Vec::new(), references: Vec::new(), witnessed: 0, end: End::Code(0) };
    loop {
        if let Some(limit) = options.limit.filter(|limit| run.attempts.len() as u64 >= *limit) {
            return Err(follow.refused(&format!("more than {limit} steps")));
        }
        let registers = follow.tracee.registers()?;
        let instruction = follow.decode(registers.rip);
        let known = match instruction.is_invalid() {
            true => None,
            false => Some(references_of(&instruction, &follow.tracee, &registers)?),
        };
        follow.check_call(&instruction, &registers)?;
        if let (Some(range), Some(gadget), Some(known)) = (&options.witness, follow.gadget, &known)
            && follow.handlers == 0
        {
            run.witnessed += witness::ask(&mut follow.tracee, &instruction, known, range, gadget)?;
        }
        let mut attempt = Attempt {
            at: registers.rip,
            length: instruction.len() as u32,
            code: instruction.code(),
            locked: instruction.has_lock_prefix()
                || instruction.mnemonic() == Mnemonic::Xchg && instruction.op0_kind() == OpKind::Memory,
            fault: None,
            references: (run.references.len(), 0),
        };
        let stop = follow.tracee.step(0)?;
        match stop {
            Stop::Stepped | Stop::Ended(End::Code(_)) => {
                let known = known.ok_or_else(|| follow.refused("completed, but it cannot be decoded"))?;
                attempt.references.1 = known.len() as u32;
                run.references.extend(known);
                run.attempts.push(attempt);
                if let Stop::Ended(end) = stop {
                    return Ok(Run { end, ..run });
                }
                follow.hide_trap_flag(&instruction)?;
            }
            Stop::Signal { signal, .. } => {
                if follow.tracee.registers()?.rip != registers.rip {
                    return Err(follow.refused(&format!("signal {signal} behind an instruction")));
                }
                if SYNCHRONOUS.contains(&signal) {
                    run.attempts.push(Attempt { fault: Some(signal), ..attempt });
                }
                // The kernel makes the frame and stops before the handler's first instruction, or the program ends.
                match follow.tracee.step(signal)? {
                    Stop::Entered => follow.handlers += 1,
                    Stop::Ended(end) => return Ok(Run { end, ..run }),
                    other => return Err(follow.refused(&format!("{other:?} after signal {signal}"))),
                }
            }
            Stop::Splits => return Err(follow.refused("the program starts a thread, a process or another program")),
            Stop::Entered => return Err(follow.refused("a signal that nobody saw")),
            Stop::Ended(End::Signal(signal)) => return Err(follow.refused(&format!("killed by signal {signal}"))),
        }
    }
}

struct Follow {
    tracee: Tracee,
    /// For a witness: the address of an instruction `syscall`.
    gadget: Option<u64>,
    /// How many signal handlers have begun and not ended.
    handlers: u32,
}

impl Follow {
    fn refused(&self, what: &str) -> Error {
        let at = self.tracee.registers().map_or(0, |registers| registers.rip);
        Error::Refused { at, what: what.to_owned() }
    }

    /// Read anew each time: code may change.
    fn decode(&self, at: u64) -> Instruction {
        let mut bytes = [0; LONGEST];
        let have = self.tracee.read(at, &mut bytes);
        Decoder::with_ip(64, &bytes[..have], at, DecoderOptions::NONE).decode()
    }

    /// System calls that make a second thread or process, or another image, are not followed.
    fn check_call(&mut self, instruction: &Instruction, registers: &Registers) -> Result<(), Error> {
        if instruction.mnemonic() != Mnemonic::Syscall {
            return Ok(());
        }
        match registers.rax as i64 {
            libc::SYS_fork | libc::SYS_vfork | libc::SYS_clone | libc::SYS_clone3 => {
                Err(self.refused("the program starts a thread or a process"))
            }
            libc::SYS_execve | libc::SYS_execveat => Err(self.refused("the program becomes another one")),
            libc::SYS_rt_sigreturn => {
                self.handlers = self.handlers.saturating_sub(1);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Two instructions copy the flags, and the flag that makes the processor step with them.
    fn hide_trap_flag(&mut self, instruction: &Instruction) -> Result<(), Error> {
        const TRAP_FLAG: u64 = 1 << 8;
        match instruction.mnemonic() {
            Mnemonic::Pushf | Mnemonic::Pushfq => {
                let at = self.tracee.registers()?.rsp + 1;
                let mut second = [0];
                self.tracee.read(at, &mut second);
                self.tracee.write(at, &[second[0] & !((TRAP_FLAG >> 8) as u8)])
            }
            Mnemonic::Syscall => {
                let mut registers = self.tracee.registers()?;
                if registers.r11 & TRAP_FLAG == 0 || registers.rip != registers.rcx {
                    return Ok(());
                }
                registers.r11 &= !TRAP_FLAG;
                self.tracee.set_registers(&registers)
            }
            _ => Ok(()),
        }
    }
}
