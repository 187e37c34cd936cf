//! The running threads.

use farreach_types::addr::Asid;
use farreach_types::event::Op;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// The running thread of each address space, as far as events have named it.
#[derive(Default)]
pub(super) struct Threads(HashMap<Asid, u32, FixedState>);

impl Threads {
    /// Handles an event; returns the thread that runs in the address space from now on, if it changed.
    pub fn follow(&mut self, asid: Asid, op: &Op) -> Option<u32> {
        match *op {
            Op::Switch { thread } => (self.0.insert(asid, thread) != Some(thread)).then_some(thread),
            // The first thread announced is the one that has been running.
            Op::ThreadStart { thread } if !self.0.contains_key(&asid) => {
                self.0.insert(asid, thread);
                Some(thread)
            }
            Op::Fork { child } => {
                if let Some(&thread) = self.0.get(&asid) {
                    self.0.insert(child, thread);
                }
                None
            }
            Op::End(_) => {
                self.0.remove(&asid);
                None
            }
            _ => None,
        }
    }

    /// The thread that runs when this address space does.
    pub fn of(&self, asid: Asid) -> Option<u32> {
        self.0.get(&asid).copied()
    }
}
