//! Changes of mappings, page by page: hardware is told of one page at a time.

use farreach_types::addr::{Asid, Vpn, VpnRange};

/// The most pages of a change that are gone through one by one. Of more, only those that something is held of are.
const MOST: u64 = 4096;

/// The groups of `2^order` pages that share a page with a range: each of them, or if they are many those that `held`
/// names among others.
pub fn groups(range: VpnRange, order: u8, held: impl IntoIterator<Item = Vpn>) -> Vec<u64> {
    if range.pages == 0 {
        return Vec::new();
    }
    let last = range.start.0.saturating_add(range.pages - 1) >> order;
    let all = range.start.0 >> order..=last;
    if last - all.start() < MOST {
        return all.collect();
    }
    let mut some: Vec<u64> = held.into_iter().map(|vpn| vpn.0 >> order).filter(|group| all.contains(group)).collect();
    some.sort_unstable();
    some.dedup();
    some
}

/// Which process runs, for tags without process ids.
pub struct Running {
    process_ids: bool,
    now: Option<Asid>,
}

impl Running {
    pub fn new(process_ids: bool) -> Running {
        Running { process_ids, now: None }
    }

    /// Another process runs; whether tags without process ids forget everything.
    pub fn switch(&mut self, to: Asid) -> bool {
        let before = self.now.replace(to);
        !self.process_ids && before.is_some_and(|before| before != to)
    }
}
