//! The monitor: it waits for what the tasks of the program do, and for their traps.

mod lifecycle;
mod schedule;

use crate::agent::Trouble;
use crate::call::{Call, Making, go};
use crate::gaps::Gaps;
use crate::idle::Idle;
use crate::progress::AllProgress;
use crate::report::TrapReport;
use crate::space::Space;
use crate::sys::{self, CpuTime, Event, Go, Stop};
use crate::turns::Turns;
use crate::{Next, Tick};
use farreach_machine::TrapLab;
use farreach_types::Error;
use farreach_types::addr::Asid;
use farreach_types::event::Op;
use foldhash::fast::FixedState;
use rustix::event::epoll;
use rustix::fd::{AsFd, OwnedFd};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::mem::take;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Why a run ended before its program did.
#[derive(Debug)]
pub enum Failure {
    /// Something that the monitor did, and the system's answer.
    System(&'static str, io::Error),
    /// A machine cannot go on.
    Laboratory(Error),
    /// A program that is not run.
    Refused { program: PathBuf, why: &'static str },
    /// An instruction needs more pages at once than a machine holds.
    Stuck { instruction: u64, page: u64 },
    /// A task of the monitor's own was killed.
    Killed(&'static str),
}

impl Failure {
    pub fn trouble(what: &'static str, trouble: Trouble) -> Failure {
        match trouble {
            Trouble::Gone => Failure::Killed(what),
            Trouble::Io(error) => Failure::System(what, error),
        }
    }
}

/// A task of the program.
pub struct Task {
    /// Its process.
    pub process: i32,
    /// Its own number, as the kernel tells it in its messages.
    pub number: i32,
    /// Its address space; none before exec.
    pub space: Option<Asid>,
    /// The call that changes mappings, while the kernel does it.
    pub call: Option<Call>,
    /// The task that it is about to make.
    pub making: Option<Making>,
    /// Where the kernel clears its number when it ends.
    pub clear_at_end: Option<u64>,
    /// It is to stop because its turn is over.
    pub asked: bool,
    /// It is stopped until its next turn.
    pub halted: bool,
}

impl Task {
    fn new(process: i32, number: i32, space: Option<Asid>) -> Task {
        Task { process, number, space, call: None, making: None, clear_at_end: None, asked: false, halted: false }
    }
}

/// See the module.
pub struct Monitor<'a> {
    pub lab: &'a mut TrapLab,
    pub report: TrapReport,
    pub tasks: HashMap<i32, Task>,
    /// New tasks that stopped before their parents told of them.
    unborn: HashSet<i32>,
    /// New tasks that have not stopped yet, and their parents, which wait.
    expected: HashMap<i32, i32>,
    /// Pages that stay mapped until a task is through.
    pub held: HashMap<i32, Vec<(Asid, u64)>>,
    pub spaces: hashbrown::HashMap<Asid, Space, FixedState>,
    made: u32,
    /// Files that are mapped privately, by number; and their numbers, by device and inode.
    pub files: Vec<File>,
    numbers: HashMap<(u64, u64), u32>,
    /// Where to look for the instruction of a thread.
    pub threads: hashbrown::HashMap<u32, File, FixedState>,
    /// Pages to unmap; empty but for its room.
    pub left: Vec<(Asid, std::ops::Range<u64>)>,
    pub progress: AllProgress,
    pub turns: Turns,
    /// Tells when the processor has nothing else to do, if there could be a thread for that.
    idle: Option<Idle>,
    /// Where to look for the states of tasks.
    states: HashMap<i32, File>,
    /// The last task that was looked at outside its turn.
    swept: i32,
    /// Whether the kernel is asked to reclaim pages.
    pub reclaim: bool,
    /// Processors that the program would have natively.
    pub processors: libc::cpu_set_t,
    /// Those that tasks chose, as a mask. In fact they stay on that of the monitor.
    pub chosen: HashMap<i32, Vec<u8>>,
    /// Processes that have made children of which no SIGCHLD tells.
    pub parents_of_others: HashSet<i32>,
    pub begun: Instant,
    pub trap_time: Duration,
    pub gaps: Gaps,
    /// CPU time of this process before it was the monitor.
    pub own_before: u64,
    /// An error of the laboratory, to be reported when the event under way is over.
    failed: Option<Error>,
    events: OwnedFd,
    root: i32,
    exit: Option<Stop>,
    /// CPU time of the first process and its children, once it has ended.
    time: CpuTime,
}

/// In the place of an address space: the signal of tasks.
const TASKS: u64 = u64::MAX;
/// The same, of the thread that runs when no other does.
const IDLE: u64 = u64::MAX - 1;

impl<'a> Monitor<'a> {
    /// A monitor of a process that is about to call exec.
    pub fn new(
        lab: &'a mut TrapLab,
        root: i32,
        processors: libc::cpu_set_t,
        slice: Duration,
    ) -> io::Result<Monitor<'a>> {
        let events = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Monitor {
            lab,
            report: TrapReport::default(),
            tasks: HashMap::from([(root, Task::new(root, root, None))]),
            unborn: HashSet::new(),
            expected: HashMap::new(),
            held: HashMap::new(),
            spaces: Default::default(),
            made: 0,
            files: Vec::new(),
            numbers: HashMap::new(),
            threads: Default::default(),
            left: Vec::new(),
            progress: AllProgress::default(),
            turns: Turns::new(slice),
            idle: Idle::begin().ok(),
            states: HashMap::new(),
            swept: 0,
            reclaim: true,
            processors,
            chosen: HashMap::new(),
            parents_of_others: HashSet::new(),
            begun: Instant::now(),
            trap_time: Duration::ZERO,
            gaps: Gaps::new(),
            own_before: crate::sampling::own_time(),
            failed: None,
            events,
            root,
            exit: None,
            time: CpuTime::default(),
        })
    }

    /// Runs the program to its end. `tick` is called several times a second, and may end the run. Returns how the first
    /// process ended; none if `tick` ended the run.
    pub fn run(
        &mut self,
        signals: impl AsFd,
        interval: Duration,
        tick: &mut dyn FnMut(Tick) -> Next,
    ) -> Result<Option<Stop>, Failure> {
        let failed = |error: rustix::io::Errno| Failure::System("waiting for the program", error.into());
        epoll::add(&self.events, &signals, epoll::EventData::new_u64(TASKS), epoll::EventFlags::IN).map_err(failed)?;
        if let Some(idle) = &self.idle {
            epoll::add(&self.events, idle, epoll::EventData::new_u64(IDLE), epoll::EventFlags::IN).map_err(failed)?;
        }
        let mut next_tick = Instant::now() + interval;
        let mut ready = Vec::with_capacity(16);
        while !self.tasks.is_empty() {
            let now = Instant::now();
            if now >= next_tick {
                next_tick = now + interval;
                self.lab.pass(self.begun.elapsed().as_micros() as u64);
                self.measure();
                let process = self.tasks.contains_key(&self.root).then_some(self.root as u32);
                let elapsed = self.begun.elapsed();
                match tick(Tick { lab: self.lab, report: &self.report, elapsed, process }) {
                    Next::GoOn => {}
                    Next::Signal(signal) => sys::send(self.root, signal),
                    Next::End => return Ok(None),
                }
                if self.lab.take_forgotten() {
                    self.unmap_all()?;
                }
            }
            ready.clear();
            if self.turns.is_due() {
                self.look()?;
            }
            let until = self.turns.due().map_or(next_tick, |end| end.min(next_tick));
            let timeout =
                rustix::event::Timespec::try_from(until.saturating_duration_since(now)).expect("an interval is short");
            match epoll::wait(&self.events, rustix::buffer::spare_capacity(&mut ready), Some(&timeout)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(failed(error)),
            }
            // What stopped first: a task that is stopped is not blocked.
            ready.sort_by_key(|event| event.data.u64() != TASKS);
            for event in &ready {
                match event.data.u64() {
                    TASKS => {
                        let mut word = [0; 128];
                        while rustix::io::read(&signals, &mut word).is_ok() {}
                        self.serve_tasks()?;
                    }
                    IDLE => {
                        self.idle.iter_mut().for_each(Idle::told);
                        self.look()?;
                    }
                    asid => self.serve_faults(Asid(asid as u32))?,
                }
                if let Some(error) = self.failed.take() {
                    return Err(Failure::Laboratory(error));
                }
            }
        }
        Ok(self.exit)
    }

    /// Serves all tasks that have news. Returns whether any had.
    fn serve_tasks(&mut self) -> Result<bool, Failure> {
        let mut any = false;
        while let Some((task, stop, time)) =
            sys::wait_and_measure(None, false).map_err(|error| Failure::System("waiting for the program", error))?
        {
            any = true;
            self.note_time(task, stop, time);
            self.lab.pass(self.begun.elapsed().as_micros() as u64);
            let cut_short =
                stop != Stop::Event(Event::Begin) && self.tasks.get_mut(&task).is_some_and(|of| take(&mut of.asked));
            match self.serve_task(task, stop) {
                Err(Failure::Killed(what)) if self.has_agent(task) => self.await_end(task, what)?,
                other => other?,
            }
            if cut_short {
                self.halt_again(task)?;
            }
        }
        Ok(any)
    }

    /// Keeps the CPU time of the first process, if this is its end.
    fn note_time(&mut self, task: i32, stop: Stop, time: CpuTime) {
        if task == self.root && matches!(stop, Stop::Exit(_) | Stop::Killed(_)) {
            self.time = time;
        }
    }

    /// A task seems to have been killed amid something: then its end is reported soon.
    fn await_end(&mut self, task: i32, what: &'static str) -> Result<(), Failure> {
        const PATIENCE: u32 = 2000;
        for _ in 0..PATIENCE {
            let news = sys::wait_and_measure(Some(task), false);
            match news.map_err(|error| Failure::System("waiting for the program", error))? {
                Some((task, stop, time)) => {
                    self.note_time(task, stop, time);
                    return self.serve_task(task, stop);
                }
                None if !self.tasks.contains_key(&task) => return Ok(()),
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        Err(Failure::Killed(what))
    }

    /// Whether nothing is wrong with the agent of a task.
    fn has_agent(&self, task: i32) -> bool {
        let space = self.tasks.get(&task).and_then(|task| task.space);
        let Some(space) = space.and_then(|asid| self.spaces.get(&asid)) else { return true };
        is_living(space.agent.number())
    }

    fn serve_task(&mut self, task: i32, stop: Stop) -> Result<(), Failure> {
        let known = self.tasks.contains_key(&task);
        match stop {
            Stop::Exit(_) | Stop::Killed(_) => self.ended(task, stop),
            Stop::Event(Event::Begin) if !known => match self.expected.remove(&task) {
                Some(parent) => self.grow(parent, task),
                None => {
                    self.unborn.insert(task);
                    Ok(())
                }
            },
            _ if !known => go(task, Go::On),
            Stop::Event(Event::Call) => self.enter(task),
            Stop::Call => self.leave(task),
            Stop::Event(Event::Fork | Event::Vfork | Event::Clone) => self.born(task),
            Stop::Event(Event::Exec) => self.executed(task),
            Stop::Event(Event::Exit) => self.ending(task),
            Stop::Event(Event::Begin) if self.has_halted(task)? => Ok(()),
            Stop::Event(_) => self.go_on(task),
            Stop::Group(_) => {
                self.forget_turn(task)?;
                go(task, Go::Listen)
            }
            Stop::Signal(signal) => {
                let how = if self.tasks[&task].call.is_some() { Go::ToCall } else { Go::On };
                sys::go(task, how, signal).map_err(|error| Failure::System("letting the program go on", error))
            }
        }
    }

    /// Lets a task go on, to the end of its call if it is in one.
    fn go_on(&mut self, task: i32) -> Result<(), Failure> {
        let calls = self.tasks.get(&task).is_some_and(|task| task.call.is_some());
        go(task, if calls { Go::ToCall } else { Go::On })
    }

    /// Whether a task of an address space has not ended.
    pub fn has_living_task(&self, asid: Asid) -> bool {
        self.tasks.iter().any(|(task, of)| of.space == Some(asid) && is_living(*task))
    }

    /// A number for a new address space.
    pub fn new_asid(&mut self) -> Asid {
        self.made += 1;
        Asid(self.made - 1)
    }

    /// Begins to serve the faults of an address space.
    pub fn add_space(&mut self, asid: Asid, space: Space) -> Result<(), Failure> {
        self.watch(asid, &space).map_err(|error| Failure::System("waiting for page faults", error))?;
        self.spaces.insert(asid, space);
        Ok(())
    }

    fn watch(&self, asid: Asid, space: &Space) -> io::Result<()> {
        let data = epoll::EventData::new_u64(asid.0.into());
        Ok(epoll::add(&self.events, &space.uffd, data, epoll::EventFlags::IN)?)
    }

    /// The number of a file; the same file has one.
    pub fn file_number(&mut self, file: File) -> io::Result<u32> {
        let meta = file.metadata()?;
        let next = self.files.len() as u32;
        let number = *self.numbers.entry((meta.dev(), meta.ino())).or_insert(next);
        if number == next {
            self.files.push(file);
        }
        Ok(number)
    }

    /// Tells the laboratory of an event of the program.
    pub fn event(&mut self, asid: Asid, op: Op) {
        if let Err(error) = self.lab.event(asid, &op) {
            self.failed.get_or_insert(error);
        }
    }

    /// A mapping of which nothing is seen.
    pub fn not_observed(&mut self, name: String, bytes: u64) {
        let most = self.report.unobserved.entry(name).or_default();
        *most = bytes.max(*most);
    }

    /// The report of a run that is over.
    pub fn into_report(self) -> TrapReport {
        let user_microseconds = self.report.user_microseconds.max(self.time.user);
        let cpu_microseconds = self.report.cpu_microseconds.max(self.time.all);
        self.lab.progress(user_microseconds);
        TrapReport {
            between_nanoseconds: self.gaps.short(),
            trap_microseconds: self.trap_time.as_micros() as u64,
            monitor_microseconds: self.monitor_time(),
            wall_microseconds: self.begun.elapsed().as_micros() as u64,
            user_microseconds,
            cpu_microseconds,
            ..self.report
        }
    }

    /// Ends all tasks.
    pub fn kill_all(&mut self) {
        let processes: HashSet<i32> = self.tasks.values().map(|task| task.process).collect();
        processes.into_iter().for_each(sys::kill);
        // Their parents were killed before they could tell of them.
        self.unborn.drain().for_each(sys::kill);
        self.spaces.clear(); // with their agents; faults that wait are woken
        // And those that were being taken over when something failed.
        traced().into_iter().for_each(sys::kill);
        while let Ok(Some((task, stop, time))) = sys::wait_and_measure(None, true) {
            self.note_time(task, stop, time);
            match stop {
                Stop::Exit(_) | Stop::Killed(_) => {
                    if task == self.root {
                        self.exit = Some(stop);
                    }
                }
                _ => {
                    sys::kill(task); // a task that was born meanwhile
                    let _ = sys::go(task, Go::On, 0);
                }
            }
        }
    }
}

/// All processes with a task that this one traces.
fn traced() -> Vec<i32> {
    let of = std::process::id() as i32;
    let processes = procfs::process::all_processes().into_iter().flatten().flatten();
    let traced = processes.filter(|process| process.status().is_ok_and(|status| status.tracerpid == of));
    traced.map(|process| process.pid).collect()
}

/// Whether a task has not ended.
fn is_living(task: i32) -> bool {
    let status = procfs::process::Process::new(task).and_then(|process| process.stat());
    status.is_ok_and(|status| !matches!(status.state, 'Z' | 'X' | 'x'))
}
