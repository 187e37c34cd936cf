//! Collapse in the background (LNX-10 to LNX-13).

use super::PlainLinux;
use crate::superpages::group;
use crate::system::System;

/// What came of a group.
#[derive(PartialEq, Eq)]
enum Looked {
    NoBlock,
    Otherwise,
}

impl PlainLinux {
    /// LNX-11, at a fault.
    pub(super) fn faulted(&mut self, process: u32, page: u64) {
        if self.eligible(process, page) {
            self.enter(process);
        }
    }

    /// A process joins the ring.
    pub(super) fn enter(&mut self, process: u32) {
        if self.config.khugepaged.pages_to_scan > 0 && self.ring.enter(process) && self.due == u64::MAX {
            self.due = self.now;
        }
    }

    /// LNX-10, LNX-11.
    pub(super) fn wake(&mut self) {
        self.own.wakes += 1;
        let size = 1 << self.config.pmd;
        let mut sleep = self.config.khugepaged.scan_sleep;
        let (mut used, mut from_first) = (0, false);
        while used < self.config.khugepaged.pages_to_scan {
            let (paging, (pmd, mode)) = (&self.paging, self.config.modes[0]);
            let find = |process, from| paging.first_eligible(process, from, pmd, mode);
            let Some((process, first)) = self.ring.turn(&mut from_first, find) else { break };
            self.ring.behind(first + size);
            used += size;
            if self.look(process, first) == Looked::NoBlock {
                self.own.no_block += 1;
                sleep = self.config.khugepaged.alloc_sleep;
                break;
            }
        }
        self.give_back();
        self.own.scanned += used;
        self.due = if self.ring.processes().is_empty() { u64::MAX } else { self.now + sleep };
    }

    /// LNX-12, LNX-13.
    fn look(&mut self, process: u32, first: u64) -> Looked {
        let (order, rule) = (self.config.pmd, self.config.khugepaged);
        let group = group(first, order);
        if !self.paging.qualifies(process, &group, rule.max_ptes_none, rule.max_ptes_shared) {
            return Looked::Otherwise;
        }
        let Some(base) = self.paging.frames.block(order) else { return Looked::NoBlock };
        let done = self.paging.collapse(process, &group, base);
        self.keep_block(base, order);
        self.own.copied += done.copied;
        self.own.zeroed += done.missing;
        Looked::Otherwise
    }
}
