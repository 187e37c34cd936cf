//! Tasks and address spaces begin and end: clone, fork, exec, exit.

use super::{Failure, Monitor, Task};
use crate::agent::{Agent, Trouble};
use crate::call::{alive, go};
use crate::space::Space;
use crate::sys::{self, Go, Stop};
use farreach_types::addr::Asid;
use farreach_types::event::{End, Op};
use std::io;

impl Monitor<'_> {
    /// A task has made another one.
    pub(super) fn born(&mut self, task: i32) -> Result<(), Failure> {
        let Some(child) = alive(sys::event_message(task))? else { return Ok(()) };
        if self.unborn.remove(&child) {
            return self.grow(task, child);
        }
        self.expected.insert(child, task);
        Ok(())
    }

    /// Both a new task and its parent are stopped.
    pub(super) fn grow(&mut self, task: i32, child: i32) -> Result<(), Failure> {
        let Some(parent) = self.tasks.get_mut(&task) else { return go(child, Go::On) };
        let (making, space) = (parent.making.take().unwrap_or_default(), parent.space);
        let status = procfs::process::Process::new(child).and_then(|process| process.status());
        let process = status.as_ref().map_or(child, |status| status.tgid);
        // As the program knows it, in a PID namespace of its own, say.
        let number = status.map_or(child, |status| number_of(&status, child));
        let space = match (space, alive(sys::share_memory(task, child))?) {
            (Some(asid), Some(true)) => {
                self.spaces.get_mut(&asid).expect("it has a task").tasks += 1;
                if self.tasks.get(&task).is_some_and(|parent| parent.process == process) {
                    self.event(asid, Op::ThreadStart { thread: child as u32 });
                }
                Some(asid)
            }
            (Some(asid), Some(false)) => match self.forked(asid, child, making.write.map(|at| (at, number))) {
                Ok(asid) => Some(asid),
                Err(Trouble::Gone) => None,
                Err(trouble) => return Err(Failure::trouble("following a fork of the program", trouble)),
            },
            _ => None, // one of them was killed, which is reported soon
        };
        if let Some(chosen) = self.chosen.get(&task).cloned() {
            self.chosen.insert(child, chosen);
        }
        self.tasks.insert(child, Task { clear_at_end: making.clear, ..Task::new(process, number, space) });
        go(child, Go::On)?;
        self.go_on(task)
    }

    /// A child with a copy of its parent's memory. `write`: a number, and where it is written there.
    fn forked(&mut self, parent: Asid, child: i32, write: Option<(u64, i32)>) -> Result<Asid, Trouble> {
        let agent = Agent::at_fork(child)?;
        let from = &self.spaces[&parent];
        let mut space = Space::new(agent, Default::default(), from.heap_end)?;
        self.report.copied_pages += space.take_over(from)?;
        if let Some((at, number)) = write
            && space.regions.find(at).is_some_and(|(_, region)| region.memory.is_own())
        {
            crate::contents::write_all(&space.memory, &number.to_ne_bytes(), at)?;
        }
        self.report.forks += 1;
        let asid = self.new_asid();
        self.event(parent, Op::Fork { child: asid });
        self.watch(asid, &space)?;
        self.spaces.insert(asid, space);
        self.unmap_left().map_err(|failure| match failure {
            Failure::System(_, error) => Trouble::Io(error),
            _ => Trouble::Io(io::Error::other("unmapping pages of the parent")),
        })?;
        Ok(asid)
    }

    /// A process runs another program now.
    pub(super) fn executed(&mut self, process: i32) -> Result<(), Failure> {
        let former = alive(sys::event_message(process))?.unwrap_or(process);
        let old = self.tasks.get(&former).and_then(|task| task.space);
        let gone: Vec<i32> = self.tasks.iter().filter(|(_, t)| t.process == process).map(|(task, _)| *task).collect();
        let mut ended = None;
        if let Some(chosen) = self.chosen.remove(&former) {
            self.chosen.insert(process, chosen);
        }
        let number = self.tasks.get(&process).map(|task| task.number);
        for task in gone {
            self.let_go(task)?;
            self.forget_turn(task)?;
            ended = self.leave_space(task, End::Exec)?.or(ended);
        }
        let number = number.unwrap_or(process);
        self.tasks.insert(process, Task::new(process, number, None));
        self.begin_program(process, old.filter(|old| ended == Some(*old)))?;
        go(process, Go::On)
    }

    /// A task has ended.
    pub(super) fn ended(&mut self, task: i32, stop: Stop) -> Result<(), Failure> {
        self.unborn.remove(&task);
        if let Some(parent) = self.expected.remove(&task) {
            self.go_on(parent)?;
        }
        self.let_go(task)?;
        self.chosen.remove(&task);
        self.parents_of_others.remove(&task);
        if task == self.root {
            self.exit = Some(stop);
        }
        let how = match stop {
            Stop::Exit(status) => End::Exit(status),
            Stop::Killed(signal) => End::Signal(signal),
            _ => End::Lost,
        };
        self.leave_space(task, how)?;
        self.forget_turn(task)
    }

    /// A task is no longer in its address space. Returns the space if it has ended with that.
    fn leave_space(&mut self, task: i32, how: End) -> Result<Option<Asid>, Failure> {
        let Some(asid) = self.tasks.remove(&task).and_then(|task| task.space) else { return Ok(None) };
        self.next_caller(asid, task)?;
        if let Some(space) = self.spaces.get_mut(&asid) {
            space.tasks -= 1;
            if space.tasks > 0 {
                return Ok(None);
            }
        }
        self.event(asid, Op::End(how));
        self.spaces.remove(&asid);
        self.unmap_left()?;
        Ok(Some(asid))
    }
}

/// The number of a task as it knows it itself, in a PID namespace of its own, say.
fn number_of(status: &procfs::process::Status, task: i32) -> i32 {
    status.nspid.as_ref().and_then(|numbers| numbers.last().copied()).unwrap_or(task)
}
