//! The stream that the files of a trace make together, with the processes and threads whose references they hold.

use hashbrown::HashMap;

use crate::assemble::Assembler;
use crate::frt::MAX_ADDRESS_SPACES;
use farreach_types::addr::Asid;
use farreach_types::event::Op;

/// Most threads of a trace: Linux has no more identifiers.
const MAX_THREADS: u32 = 1 << 22;

/// A thread of the operating system, in its process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Thread {
    pub pid: u64,
    pub tid: u64,
}

/// A thread that was seen.
struct Seen {
    /// Number in its process, from 0 in the order of the first references.
    number: u32,
    running: bool,
}

#[derive(Default)]
struct Process {
    threads: u32,
    /// The thread whose references these are.
    current: Option<u32>,
}

/// The stream being made. Each process is an address space, in the order in which they appear.
pub(super) struct Processes {
    pub made: Assembler,
    processes: Vec<Process>,
    by_pid: HashMap<u64, u32>,
    threads: HashMap<Thread, Seen>,
}

impl Processes {
    pub fn new() -> Processes {
        let (by_pid, threads) = (HashMap::new(), HashMap::new());
        Processes { made: Assembler::new(0), processes: Vec::new(), by_pid, threads }
    }

    /// Switches to this thread. It starts if it does not run.
    pub fn enter(&mut self, thread: Thread) -> Result<(), String> {
        let (space, number) = self.run(thread)?;
        let process = &mut self.processes[space as usize];
        // The first thread that starts is the one that runs.
        if process.current.replace(number).is_some_and(|former| former != number) {
            self.made.op(Op::Switch { thread: number })?;
        }
        Ok(())
    }

    /// Ends the thread.
    pub fn exit(&mut self, thread: Thread) -> Result<(), String> {
        if self.threads.get(&thread).is_some_and(|seen| !seen.running) {
            return Err(format!("thread {} of process {} ends, but has ended before", thread.tid, thread.pid));
        }
        let (space, number) = self.run(thread)?;
        self.processes[space as usize].current.get_or_insert(number);
        self.threads.get_mut(&thread).expect("it runs").running = false;
        self.made.op(Op::ThreadExit { thread: number })
    }

    /// Address space and number of a thread that runs now.
    fn run(&mut self, thread: Thread) -> Result<(u32, u32), String> {
        let new = self.processes.len() as u32;
        let space = *self.by_pid.entry(thread.pid).or_insert(new);
        if space == new {
            if u64::from(new) >= MAX_ADDRESS_SPACES {
                return Err(format!("the trace has more than {MAX_ADDRESS_SPACES} processes"));
            }
            self.processes.push(Process::default());
        }
        self.made.space(Asid(space))?;
        if self.threads.len() as u64 >= u64::from(MAX_THREADS) {
            return Err(format!("the trace has more than {MAX_THREADS} threads"));
        }
        let process = &mut self.processes[space as usize];
        let seen = self.threads.entry(thread).or_insert_with(|| {
            process.threads += 1;
            Seen { number: process.threads - 1, running: false }
        });
        let number = seen.number;
        if !std::mem::replace(&mut seen.running, true) {
            self.made.op(Op::ThreadStart { thread: number })?;
        }
        Ok((space, number))
    }
}
