//! Which thread of a process runs, and on which core (CLP-1).

use farreach_types::event::Op;
use std::collections::BTreeMap;

/// A process. The thread that ran before any was named is `None`.
#[derive(Clone, Debug, Default)]
struct Process {
    runs: Option<u32>,
    cores: BTreeMap<Option<u32>, u64>,
}

/// All threads.
#[derive(Clone, Debug)]
pub struct Threads {
    cores: u64,
    nodes: u64,
    /// Threads that ran so far.
    ran: u64,
    processes: BTreeMap<u32, Process>,
}

impl Threads {
    /// None ran so far. `cores` is a multiple of `nodes`.
    pub fn new(cores: u64, nodes: u64) -> Threads {
        Threads { cores, nodes, ran: 0, processes: BTreeMap::new() }
    }

    /// ON-91: the process runs, on the core of the thread that was named last.
    pub fn run(&mut self, process: u32) {
        let of = self.processes.entry(process).or_default();
        if !of.cores.contains_key(&of.runs) {
            of.cores.insert(of.runs, self.ran % self.cores);
            self.ran += 1;
        }
    }

    /// The node of the thread that runs in a process that ran.
    pub fn node(&self, process: u32) -> u64 {
        let of = &self.processes[&process];
        of.cores[&of.runs] / (self.cores / self.nodes)
    }

    /// What an event says of threads, after its process ran.
    pub fn follow(&mut self, process: u32, op: &Op) {
        let of = self.processes.get_mut(&process).expect("it ran");
        match op {
            Op::Switch { thread } if of.runs.is_some() => {
                of.runs = Some(*thread);
                self.run(process);
            }
            Op::Switch { thread } | Op::ThreadStart { thread } if of.runs.is_none() => {
                let core = of.cores.remove(&None).expect("it ran without a name");
                of.cores.insert(Some(*thread), core);
                of.runs = Some(*thread);
            }
            Op::Fork { child } => {
                let born = Process { runs: of.runs, cores: BTreeMap::new() };
                self.processes.insert(child.0, born);
            }
            Op::End(_) => _ = self.processes.remove(&process),
            _ => {}
        }
    }
}
