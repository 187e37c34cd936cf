//! System calls of the program that change mappings. The kernel does them, as natively; then memory of the space's own
//! takes the place of what it mapped, and the laboratory is told.
//!
//! A call stops before the kernel does it ([`Monitor::enter`]) and behind it ([`Monitor::leave`]). One task of an
//! address space at a time is in between, so that what it maps or unmaps is not given to another meanwhile.

mod apart;
mod decide;
mod follow;

use crate::monitor::{Failure, Monitor};
use crate::space::PAGE;
use crate::sys::{self, Go, Registers};
use farreach_types::addr::Asid;
use farreach_types::event::Prot;
use std::ops::Range;
use std::sync::Arc;

/// A task that is about to make such a call.
#[derive(Clone, Copy)]
pub struct Waiting(Registers);

/// A call that the kernel does now.
pub struct Call {
    /// As the program made it.
    registers: Registers,
    what: What,
}

#[derive(Clone)]
enum What {
    Map {
        file: Option<MappedFile>,
        bytes: u64,
        prot: i32,
        flags: i32,
    },
    Unmap(Range<u64>),
    Move {
        old: Range<u64>,
        bytes: u64,
        fixed: bool,
    },
    Heap,
    Protect(Range<u64>, i32),
    Advise(Range<u64>, i32),
    Attach,
    Detach(u64),
    Fork,
    Processors {
        of: i32,
        bytes: u64,
        place: u64,
    },
    /// Something that may take long, and changes no mapping.
    Apart,
}

/// The file of a private mapping.
#[derive(Clone)]
struct MappedFile {
    /// Its number, if it is to be observed.
    number: Option<u32>,
    path: Arc<str>,
    offset: u64,
}

/// A task that is about to be made: where the number of a new process is written, and where the kernel clears the
/// number of the task when it ends.
#[derive(Clone, Copy, Default)]
pub struct Making {
    pub write: Option<u64>,
    pub clear: Option<u64>,
}

/// What becomes of a call.
enum Decision {
    /// The kernel does it, with these registers.
    Do(What, Box<Registers>),
    /// The kernel does it, and what it did is reported otherwise.
    Pass,
    /// It waits for the turn of its task.
    Stay,
    /// It has this value.
    Answer(i64),
    /// The same, and the report names it.
    Refuse(&'static str, i32),
}

fn up(address: u64) -> u64 {
    address.saturating_add(PAGE - 1) & !(PAGE - 1)
}

/// The protection as the laboratory has it: on this processor, what can be executed or written can be read.
pub fn prot_of(bits: i32) -> Prot {
    let has = |bit| bits & bit != 0;
    Prot { read: bits != libc::PROT_NONE, write: has(libc::PROT_WRITE), exec: has(libc::PROT_EXEC) }
}

impl Monitor<'_> {
    /// A task is about to make a system call that the filter stops.
    pub fn enter(&mut self, task: i32) -> Result<(), Failure> {
        let Some(registers) = alive(sys::registers(task))? else { return Ok(()) };
        let Some(asid) = self.tasks.get(&task).and_then(|t| t.space) else {
            return go(task, Go::On); // not yet the program
        };
        if let Some(decision) = self.decide_apart(asid, task, registers)? {
            return self.carry_out(asid, task, registers, decision);
        }
        let space = self.spaces.get_mut(&asid).expect("it has a task");
        if space.caller.is_some_and(|caller| caller != task) {
            space.callers.push_back((task, Waiting(registers)));
            return Ok(());
        }
        self.begin_call(asid, task, Waiting(registers))
    }

    fn begin_call(&mut self, asid: Asid, task: i32, Waiting(registers): Waiting) -> Result<(), Failure> {
        let decision = self.decide(asid, task, registers)?;
        self.carry_out(asid, task, registers, decision)
    }

    fn carry_out(&mut self, asid: Asid, task: i32, registers: Registers, decision: Decision) -> Result<(), Failure> {
        match decision {
            Decision::Do(what, changed) => {
                if alive(sys::set_registers(task, &changed))?.is_none() {
                    return Ok(());
                }
                if !matches!(what, What::Apart) {
                    self.spaces.get_mut(&asid).expect("it has a task").caller = Some(task);
                }
                self.tasks.get_mut(&task).expect("it makes a call").call = Some(Call { registers, what });
                go(task, Go::ToCall)
            }
            Decision::Pass => go(task, Go::On),
            Decision::Stay => Ok(()),
            Decision::Answer(value) => answer(task, registers, value),
            Decision::Refuse(name, error) => {
                *self.report.refused.entry(name.to_owned()).or_default() += 1;
                answer(task, registers, -i64::from(error))
            }
        }
    }

    /// The kernel has done the call of a task.
    pub fn leave(&mut self, task: i32) -> Result<(), Failure> {
        let Some(call) = self.tasks.get_mut(&task).and_then(|t| t.call.take()) else { return go(task, Go::On) };
        let asid = self.tasks[&task].space.expect("it made a call");
        if let Some(after) = alive(sys::registers(task))? {
            self.report.calls += u64::from(!matches!(call.what, What::Apart));
            let value = after.rax as i64;
            let tell = |trouble| Failure::trouble("following a system call of the program", trouble);
            let part = matches!(call.what, What::Advise(..) | What::Protect(..)) && value == -i64::from(libc::ENOMEM);
            if part || !(-4095..0).contains(&value) {
                self.follow(asid, call.what, after.rax, part).map_err(tell)?;
            }
            // The program finds its registers as it left them.
            let Registers { rdi, rsi, rdx, r10, r8, r9, .. } = call.registers;
            alive(sys::set_registers(task, &Registers { rdi, rsi, rdx, r10, r8, r9, ..after }))?;
            self.unmap_left()?;
        }
        self.let_go(task)?;
        self.next_caller(asid, task)?;
        go(task, Go::On)
    }

    /// A task is no longer in a call, or has ended: the next one may begin.
    pub fn next_caller(&mut self, asid: Asid, task: i32) -> Result<(), Failure> {
        let Some(space) = self.spaces.get_mut(&asid) else { return Ok(()) };
        space.callers.retain(|(waiting, _)| *waiting != task);
        if space.caller == Some(task) {
            space.caller = None;
        }
        while let Some(space) = self.spaces.get_mut(&asid)
            && space.caller.is_none()
            && let Some((next, waiting)) = space.callers.pop_front()
        {
            self.begin_call(asid, next, waiting)?;
        }
        Ok(())
    }
}

/// Ends a call before the kernel does it.
fn answer(task: i32, registers: Registers, value: i64) -> Result<(), Failure> {
    alive(sys::set_registers(task, &Registers { orig_rax: !0, rax: value as u64, ..registers }))?;
    go(task, Go::On)
}

/// The outcome of something done to a stopped task; `None` if it was killed meanwhile, which is reported later.
pub fn alive<T>(outcome: std::io::Result<T>) -> Result<Option<T>, Failure> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(None),
        Err(error) => Err(Failure::System("the registers of the program", error)),
    }
}

pub fn go(task: i32, how: Go) -> Result<(), Failure> {
    sys::go(task, how, 0).map_err(|error| Failure::System("letting the program go on", error))
}
