//! Which task of the program has the turn: see [`Turns`](crate::turns::Turns).

use super::{Failure, Monitor};
use crate::call::{alive, go};
use crate::sys::{self, Go};
use crate::turns::Wait;
use crate::uffd::{Fault, Message};
use farreach_types::addr::{Asid, Vpn};
use procfs::process::Process;
use rustix::io::Errno;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// What a trap takes of a task's CPU time, until that is measured.
const OF_TRAP: Duration = Duration::from_micros(3);
/// Tasks of which files of their states are kept open.
const STATES: usize = 256;
/// Tasks that are looked at, one time in a slice, whether they run outside their turns.
const SWEPT: usize = 16;

impl Monitor<'_> {
    /// A task has trapped: the trap is served now if it has the turn, or gets it.
    pub fn arrive(&mut self, asid: Asid, fault: Fault) -> Result<(), Failure> {
        let Some(task) = self.task_of(asid, fault.thread) else {
            return self.trap(asid, fault); // a worker that the kernel made for the program
        };
        if !self.lab.observes(Vpn(fault.address / crate::space::PAGE)) {
            return self.fault(asid, fault); // nothing is simulated, so nothing can be taken away
        }
        match self.turns.whose() {
            Some(whose) if whose == task => {
                if self.turns.count() && self.is_over(task) {
                    self.turns.wait(task, Wait::Fault(asid, fault));
                    self.report.used_up += 1;
                    return self.next_turn();
                }
                self.trap(asid, fault)
            }
            None => {
                self.begin_turn(task);
                self.trap(asid, fault)
            }
            Some(_) if self.turns.repeats(task, &fault) => self.trap(asid, fault),
            Some(_) => {
                self.turns.wait(task, Wait::Fault(asid, fault));
                self.look()
            }
        }
    }

    /// The task with this number, which may be one of a PID namespace of its own.
    fn task_of(&self, asid: Asid, number: u32) -> Option<i32> {
        let number = number as i32;
        if self.tasks.get(&number).is_some_and(|task| task.number == number) {
            return Some(number);
        }
        let same = self.tasks.iter().find(|(_, task)| task.space == Some(asid) && task.number == number);
        same.map(|(task, _)| *task)
    }

    fn begin_turn(&mut self, task: i32) {
        self.report.switches += u64::from(self.turns.begin(task));
        if self.turns.is_wanted() {
            self.is_over(task); // its slice begins
        }
    }

    /// Whether the slice of the task that has the turn is over.
    fn is_over(&mut self, task: i32) -> bool {
        let of_trap = self.gaps.short().map_or(OF_TRAP, Duration::from_nanos);
        let now = self.cpu_time(task);
        self.turns.is_over(now, of_trap)
    }

    /// Whether a task runs, or could.
    fn is_ready(&mut self, task: i32) -> bool {
        let mut text = [0; 128];
        let known = self.states.get(&task).and_then(|file| file.read_at(&mut text, 0).ok());
        let used = known.or_else(|| {
            if self.states.len() >= STATES {
                self.states.clear();
            }
            // Its number may be another task's now.
            let file = self.with_room(|| File::open(format!("/proc/{task}/stat")))?;
            let used = file.read_at(&mut text, 0).ok()?;
            self.states.insert(task, file);
            Some(used)
        });
        // Behind the name, which has no more than 64 bytes and may have any.
        let text = &text[..used.unwrap_or(0)];
        text.iter().rposition(|byte| *byte == b')').is_some_and(|at| text.get(at + 2) == Some(&b'R'))
    }

    /// Opens something. At the limit of descriptors those that are kept open for speed alone make room: without a
    /// look at a task it would seem blocked, and lose its turn at each trap.
    fn with_room<T>(&mut self, open: impl Fn() -> std::io::Result<T>) -> Option<T> {
        let full = |error: &std::io::Error| matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE));
        match open() {
            Err(error) if full(&error) && !self.states.is_empty() => {
                self.states.clear();
                open().ok()
            }
            opened => opened.ok(),
        }
    }

    /// CPU time of a task so far. It does not run, as this thread has its processor. A kernel that keeps no such times
    /// has those of the clock.
    fn cpu_time(&mut self, task: i32) -> Duration {
        let times = self.with_room(|| std::fs::read_to_string(format!("/proc/{task}/schedstat")));
        let nanoseconds = times.as_ref().and_then(|times| times.split(' ').next()?.parse().ok());
        nanoseconds.map_or_else(|| self.begun.elapsed(), Duration::from_nanos)
    }

    /// Looks whether the task that has the turn is through with it, where others wait.
    pub fn look(&mut self) -> Result<(), Failure> {
        while self.turns.is_wanted() {
            let Some(task) = self.turns.whose() else { return self.next_turn() };
            let blocked = self.is_blocked(task)?;
            if self.turns.whose() != Some(task) {
                continue;
            }
            if blocked {
                self.turns.end();
                self.next_turn()?;
                continue;
            }
            // A call that is followed is over soon.
            if self.is_over(task) && self.tasks[&task].call.is_none() {
                self.halt(task)?;
                self.report.used_up += 1;
                self.next_turn()?;
            }
            break;
        }
        if self.turns.is_sweep_due() {
            self.sweep()?;
        }
        if self.turns.is_wanted()
            && let Some(idle) = &mut self.idle
        {
            idle.ask();
        }
        Ok(())
    }

    /// Whether a task waits for something else than the monitor.
    fn is_blocked(&mut self, task: i32) -> Result<bool, Failure> {
        if self.is_ready(task) {
            return Ok(false);
        }
        // It may have stopped or trapped just now.
        let mut has_news = self.serve_tasks()?;
        let Some(asid) = self.tasks.get(&task).and_then(|task| task.space) else { return Ok(true) };
        let mut messages = [Message::default(); 16];
        while let Some(space) = self.spaces.get(&asid) {
            let got = match space.uffd.read(&mut messages) {
                Ok(got) => got,
                Err(Errno::AGAIN | Errno::INTR) => break,
                Err(error) => return Err(Failure::System("reading page faults", error.into())),
            };
            has_news = true;
            for fault in messages[..got].iter().filter_map(|message| message.fault()) {
                match self.task_of(asid, fault.thread) {
                    // To look again, at this task, would go round in circles.
                    Some(other) if other != task && self.turns.whose() == Some(task) => {
                        self.turns.wait(other, Wait::Fault(asid, fault));
                    }
                    _ => self.arrive(asid, fault)?,
                }
            }
        }
        Ok(!has_news || !self.is_ready(task))
    }

    /// The next task that waits has the turn.
    pub fn next_turn(&mut self) -> Result<(), Failure> {
        while let Some((task, wait)) = self.turns.next() {
            let Some(of) = self.tasks.get_mut(&task) else { continue };
            let halted = std::mem::take(&mut of.halted);
            self.begin_turn(task);
            return match wait {
                Wait::Fault(asid, fault) => self.trap(asid, fault),
                Wait::Stopped if halted => go(task, Go::On),
                Wait::Stopped => Ok(()), // its stop is not reported yet
            };
        }
        self.turns.end();
        Ok(())
    }

    /// A task that runs is to stop, and waits for its next turn.
    fn halt(&mut self, task: i32) -> Result<(), Failure> {
        let Some(of) = self.tasks.get_mut(&task) else { return Ok(()) };
        if alive(sys::interrupt(task))?.is_some() {
            of.asked = true;
            self.turns.wait(task, Wait::Stopped);
        }
        Ok(())
    }

    /// A task that was to stop has stopped. Returns whether it stays so.
    pub fn has_halted(&mut self, task: i32) -> Result<bool, Failure> {
        let Some(of) = self.tasks.get_mut(&task) else { return Ok(false) };
        if !std::mem::take(&mut of.asked) {
            return Ok(false);
        }
        repeat_call(task)?;
        if self.turns.whose() == Some(task) || !self.turns.is_wanted() {
            return Ok(false);
        }
        self.tasks.get_mut(&task).expect("it has stopped").halted = true;
        self.turns.wait(task, Wait::Stopped);
        Ok(true)
    }

    /// A task stopped for another reason before it could for its turn.
    pub fn halt_again(&mut self, task: i32) -> Result<(), Failure> {
        let waits = self.turns.waits(task) && self.turns.whose() != Some(task);
        if waits && self.tasks.get(&task).is_some_and(|of| !of.halted) { self.halt(task) } else { Ok(()) }
    }

    /// A task gives the processor up, and is stopped. Returns whether it stays so until its next turn.
    pub fn yields(&mut self, task: i32) -> Result<bool, Failure> {
        if self.turns.whose() != Some(task) || !self.turns.is_wanted() {
            return Ok(false);
        }
        self.tasks.get_mut(&task).expect("it makes a call").halted = true;
        self.turns.wait(task, Wait::Stopped);
        self.next_turn()?;
        Ok(true)
    }

    /// A task has ended, or stopped for long.
    pub fn forget_turn(&mut self, task: i32) -> Result<(), Failure> {
        if self.turns.forget(task) { self.next_turn() } else { Ok(()) }
    }

    /// Stops tasks that run outside their turns.
    fn sweep(&mut self) -> Result<(), Failure> {
        let mut tasks: Vec<i32> = self.tasks.keys().copied().collect();
        tasks.sort_unstable();
        let first = tasks.partition_point(|task| *task <= self.swept);
        tasks.rotate_left(first);
        for task in tasks.into_iter().take(SWEPT) {
            self.swept = task;
            let of = &self.tasks[&task];
            let free = !of.asked && !of.halted && of.call.is_none() && of.space.is_some();
            if free && self.turns.whose() != Some(task) && !self.turns.waits(task) && self.is_ready(task) {
                self.halt(task)?;
            }
        }
        Ok(())
    }
}

/// Lets a stopped task make a call again that ended only because it was to stop: some calls do not go on by themselves.
/// One that a signal ended has to return.
fn repeat_call(task: i32) -> Result<(), Failure> {
    let Some(registers) = alive(sys::registers(task))? else { return Ok(()) };
    let interrupted = registers.orig_rax as i64 >= 0 && registers.rax as i64 == -i64::from(libc::EINTR);
    if !interrupted {
        return Ok(());
    }
    let Ok(status) = Process::new(task).and_then(|process| process.status()) else { return Ok(()) };
    if (status.sigpnd | status.shdpnd) & !status.sigblk != 0 {
        return Ok(());
    }
    let again = sys::Registers { rax: registers.orig_rax, rip: registers.rip - 2, ..registers };
    alive(sys::set_registers(task, &again)).map(drop)
}
