//! The range table of the prototype (RMM15-35): a linked list, ascending; each element takes two cache lines and names
//! the next.

use super::table::RangeTable;
use farreach_types::addr::Vpn;
use farreach_types::translation::{Range, RangeWalk};

/// The elements in the order in which they are linked.
#[derive(Default)]
pub struct List {
    ranges: Vec<Range>,
}

impl RangeTable for List {
    fn insert(&mut self, range: Range) {
        let at = self.ranges.partition_point(|r| r.first < range.first);
        self.ranges.insert(at, range);
    }

    fn remove(&mut self, first: Vpn) -> Option<Range> {
        let at = self.ranges.binary_search_by_key(&first, |r| r.first).ok()?;
        Some(self.ranges.remove(at))
    }

    fn search(&self, vpn: Vpn) -> RangeWalk {
        // The walker goes from element to element until one ends behind the page.
        let at = self.ranges.partition_point(|r| r.first.0 + r.pages <= vpn.0);
        let found = self.ranges.get(at).copied().filter(|r| r.first <= vpn);
        RangeWalk { nodes: (at + 1).min(self.ranges.len()) as u32, found }
    }

    fn ranges(&self) -> Vec<Range> {
        self.ranges.clone()
    }

    fn nodes(&self) -> u64 {
        self.ranges.len() as u64
    }
}
