//! Groups of base pages that wait to be collapsed into superpages in the background.

use farreach_types::addr::{Asid, Vpn};
use foldhash::fast::FixedState;
use hashbrown::HashSet;
use std::collections::VecDeque;

/// First pages of groups, in the order of the groups' first faults, each once.
#[derive(Default)]
pub(crate) struct CollapseQueue {
    queue: VecDeque<(Asid, Vpn)>,
    inside: HashSet<(Asid, Vpn), FixedState>,
    faults: u64,
}

impl CollapseQueue {
    /// Groups in the queue.
    pub fn len(&self) -> u64 {
        self.queue.len() as u64
    }

    /// Adds a group at the end, unless it waits already.
    pub fn push(&mut self, asid: Asid, first: Vpn) {
        if self.inside.insert((asid, first)) {
            self.queue.push_back((asid, first));
        }
    }

    /// Takes the group that waits longest. [`CollapseQueue::push_back`] or [`CollapseQueue::remove`] must follow.
    pub fn pop(&mut self) -> Option<(Asid, Vpn)> {
        self.queue.pop_front()
    }

    /// A popped group waits again, at the end.
    pub fn push_back(&mut self, asid: Asid, first: Vpn) {
        self.queue.push_back((asid, first));
    }

    /// A popped group is done.
    pub fn remove(&mut self, asid: Asid, first: Vpn) {
        self.inside.remove(&(asid, first));
    }

    /// Counts a page fault; whether a scan is due, one in `every` faults.
    pub fn scan_due(&mut self, every: u64) -> bool {
        self.faults += 1;
        self.faults.is_multiple_of(every)
    }
}
