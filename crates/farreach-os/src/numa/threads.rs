//! Which node the running thread of each process is on. Threads are dealt to cores in the order in which they first
//! run, and cores to nodes in equal runs, as in hardware with several cores: see `cores` and `numa_nodes` there.

use farreach_types::addr::Asid;
use farreach_types::event::Op;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// All threads that ran.
pub(super) struct Threads {
    cores: u64,
    cores_of_node: u64,
    /// The node of each thread. `None` is that of a process of which no event has named a thread yet.
    of: HashMap<(Asid, Option<u32>), u8, FixedState>,
    /// The thread that runs, or ran last, in each process.
    current: HashMap<Asid, u32, FixedState>,
    /// Threads that got a core so far.
    dealt: u64,
}

impl Threads {
    /// `cores`: a multiple of `nodes`.
    pub fn new(cores: u64, nodes: u64) -> Threads {
        Threads { cores, cores_of_node: cores / nodes, of: HashMap::default(), current: HashMap::default(), dealt: 0 }
    }

    /// The node of the thread that runs in a process, which does so now.
    pub fn node_of(&mut self, asid: Asid) -> u8 {
        let thread = self.current.get(&asid).copied();
        let Threads { cores, cores_of_node, of, dealt, .. } = self;
        *of.entry((asid, thread)).or_insert_with(|| {
            *dealt += 1;
            ((*dealt - 1) % *cores / *cores_of_node) as u8
        })
    }

    /// After an event of a process.
    pub fn follow(&mut self, asid: Asid, op: &Op) {
        match *op {
            Op::Switch { thread } => self.named(asid, thread),
            // The first thread announced is the one that has been running.
            Op::ThreadStart { thread } if !self.current.contains_key(&asid) => self.named(asid, thread),
            Op::Fork { child } => {
                if let Some(&thread) = self.current.get(&asid) {
                    self.current.insert(child, thread);
                }
            }
            Op::End(_) => {
                self.current.remove(&asid);
                self.of.retain(|(of, _), _| *of != asid);
            }
            _ => {}
        }
    }

    /// This thread of a process runs from now on. The first to be named is the one that has been running.
    fn named(&mut self, asid: Asid, thread: u32) {
        if self.current.insert(asid, thread).is_none()
            && let Some(node) = self.of.remove(&(asid, None))
        {
            self.of.insert((asid, Some(thread)), node);
        }
        self.node_of(asid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clp_1_threads_are_dealt_to_the_cores_of_nodes_as_they_first_run() {
        let mut threads = Threads::new(4, 2);
        let run = |threads: &mut Threads, asid: u32, thread: u32| {
            threads.follow(Asid(asid), &Op::Switch { thread });
            threads.node_of(Asid(asid))
        };
        assert_eq!(threads.node_of(Asid(0)), 0);
        threads.follow(Asid(0), &Op::ThreadStart { thread: 7 });
        threads.follow(Asid(0), &Op::ThreadStart { thread: 8 });
        assert_eq!(threads.node_of(Asid(0)), 0, "7 has been running, and 8 has not run");
        // On cores 1, 2 and 3, and 0 again.
        assert_eq!([9, 8, 6, 5].map(|thread| run(&mut threads, 0, thread)), [0, 1, 1, 0]);
        assert_eq!(run(&mut threads, 0, 8), 1);
        // The child goes on as thread 8, on a core of its own, once it runs.
        threads.follow(Asid(0), &Op::Fork { child: Asid(1) });
        assert_eq!([run(&mut threads, 1, 8), run(&mut threads, 1, 9)], [0, 1]);
    }
}
