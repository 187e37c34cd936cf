//! Collapse in the background (LNX-10 to LNX-13), and when a program asks for it (LNX-14).

use super::PlainLinux;
use crate::superpages::group;
use crate::system::System;
use farreach_types::event::ThpRule;
use std::ops::Range;

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

    /// LNX-14: at once, of each group in a range.
    pub(super) fn collapse_all(&mut self, process: u32, range: Range<u64>) {
        let order = self.config.pmd;
        let firsts = (range.start.next_multiple_of(1 << order)..range.end).step_by(1 << order);
        for group in firsts.map(|first| group(first, order)).filter(|group| group.end <= range.end) {
            let empty = self.paging.mapped(process, group.clone()).is_empty();
            let may = self.may_be_asked_for(process, group.start);
            if empty || !may || !self.paging.may_collapse(process, &group, u64::MAX, u64::MAX) {
                continue;
            }
            let Some(base) = self.paging.frames.block(order) else { continue };
            self.paging.collapse(process, &group, base);
            self.own.asked_for += 1;
            self.keep_block(base, order);
            self.give_back();
        }
    }

    /// Whether the group around a page may be a superpage if a program asks for it.
    fn may_be_asked_for(&self, process: u32, page: u64) -> bool {
        let never = self.paging.programs.spaces[&process].thp == ThpRule::Never;
        let known = self.paging.page(process, page).filter(|page| page.private() && page.huge != Some(false));
        !never && known.is_some() && self.paging.covers(process, page, self.config.pmd)
    }
}
