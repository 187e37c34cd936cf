//! Collapse in the background (LNX-10 to LNX-13).

use super::PlainLinux;
use crate::paging::Entry;
use crate::superpages::group;

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
        if self.ring.contains(&process) || self.config.khugepaged.pages_to_scan == 0 {
            return;
        }
        if self.due == u64::MAX {
            self.due = self.now;
        }
        self.ring.push(process);
    }

    /// A process ended.
    pub(super) fn leave(&mut self, process: u32) {
        let Some(place) = self.ring.iter().position(|of| *of == process) else { return };
        self.ring.remove(place);
        self.next = match self.next {
            Some((turn, page)) if place < turn => Some((turn - 1, page)),
            Some((turn, _)) if place == turn => (turn < self.ring.len()).then_some((turn, 0)),
            next => next,
        };
    }

    /// LNX-10, LNX-11.
    pub(super) fn wake(&mut self) {
        self.own.wakes += 1;
        let size = 1 << self.config.pmd;
        let mut sleep = self.config.khugepaged.scan_sleep;
        let (mut used, mut from_first) = (0, false);
        while used < self.config.khugepaged.pages_to_scan {
            // OK-5.
            if self.next.is_none() && (from_first || self.ring.is_empty()) {
                break;
            }
            from_first |= self.next.is_none();
            let (turn, cursor) = self.next.unwrap_or((0, 0));
            let process = self.ring[turn];
            let mut pages = self.paging.programs.spaces[&process].pages.keys().copied();
            let candidate = |page: &u64| *page >= cursor && page.is_multiple_of(size) && self.eligible(process, *page);
            let Some(first) = pages.find(candidate) else {
                self.next = (turn + 1 < self.ring.len()).then_some((turn + 1, 0));
                continue;
            };
            self.next = Some((turn, first + size));
            used += size;
            if self.look(process, first) == Looked::NoBlock {
                self.own.no_block += 1;
                sleep = self.config.khugepaged.alloc_sleep;
                break;
            }
        }
        self.give_back();
        self.own.scanned += used;
        self.due = if self.ring.is_empty() { u64::MAX } else { self.now + sleep };
    }

    /// LNX-12, LNX-13.
    fn look(&mut self, process: u32, first: u64) -> Looked {
        let (order, rule) = (self.config.pmd, self.config.khugepaged);
        let group = group(first, order);
        let mapped: Vec<(u64, Entry)> =
            group.clone().filter_map(|page| Some((page, self.entry(process, page)?))).collect();
        let missing = (1 << order) - mapped.len() as u64;
        let shared = mapped.iter().filter(|(_, entry)| self.paging.names(entry.frame) > 1).count() as u64;
        let accessed = mapped.iter().any(|(page, _)| self.young.contains(&(process, *page)));
        let superpage = mapped.first().is_some_and(|(_, entry)| entry.order == order);
        if superpage || !accessed || missing > rule.max_ptes_none || shared > rule.max_ptes_shared {
            return Looked::Otherwise;
        }
        let Some(base) = self.paging.frames.block(order) else { return Looked::NoBlock };
        mapped.iter().for_each(|(page, _)| self.paging.split(process, *page));
        self.map_block(process, &group, base, order);
        self.paging.counts.collapses += 1;
        self.paging.counts.gathered_pages += mapped.len() as u64;
        self.paging.counts.populated_pages += missing;
        self.paging.counts.zeroed_pages += missing;
        self.own.copied += mapped.len() as u64;
        self.own.zeroed += missing;
        Looked::Otherwise
    }
}
