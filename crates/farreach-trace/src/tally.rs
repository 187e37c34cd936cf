//! Small tables that several parts of the trace layer use: processes and threads, and block ids.

use hashbrown::{HashMap, HashSet};

use farreach_types::addr::Asid;
use farreach_types::event::Op;

/// The address spaces that ran.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    seen: HashSet<Asid, foldhash::fast::FixedState>,
    last: Option<Asid>,
    starts: u64,
    forks: u64,
}

impl Processes {
    /// An item of the stream: an event, or a block. Definitions belong to no address space.
    #[inline]
    pub fn see(&mut self, asid: Asid, op: Option<&Op>) {
        match op {
            Some(Op::Define { .. } | Op::Code { .. } | Op::Pages | Op::Samples) => return,
            Some(Op::Start { parent: None, .. }) => self.starts += 1,
            Some(Op::Fork { .. }) => self.forks += 1,
            _ => {}
        }
        if self.last != Some(asid) {
            self.last = Some(asid);
            self.seen.insert(asid);
        }
    }

    /// Adds what another saw of the same stream.
    pub fn absorb(&mut self, other: Processes) {
        self.seen.extend(other.seen);
        self.starts += other.starts;
        self.forks += other.forks;
    }

    /// Programs begun; a trace without `Start` counts as one program if it is not empty.
    pub fn processes(&self) -> u64 {
        self.forks + if self.starts == 0 { u64::from(!self.seen.is_empty()) } else { self.starts }
    }

    /// Address spaces that own an item.
    pub fn address_spaces(&self) -> u64 {
        self.seen.len() as u64
    }
}

/// Numbers by block id. Ids are dense in every honest trace, so a table holds them; a few huge ids must not make it
/// huge.
#[derive(Debug, Default)]
pub(crate) struct ByBlock {
    /// The number plus 1; 0 is none.
    dense: Vec<u32>,
    sparse: HashMap<u32, u32, foldhash::fast::FixedState>,
    len: u32,
}

impl ByBlock {
    /// The number of this block.
    #[inline]
    pub fn get(&self, id: u32) -> Option<u32> {
        match self.dense.get(id as usize) {
            Some(&n) if n != 0 => Some(n - 1),
            _ if self.sparse.is_empty() => None,
            _ => self.sparse.get(&id).copied(),
        }
    }

    /// Gives a block without a number its number.
    pub fn insert(&mut self, id: u32, number: u32) {
        self.len += 1;
        if id < self.len.saturating_mul(2).saturating_add(1 << 16) {
            if self.dense.len() <= id as usize {
                self.dense.resize(id as usize + 1, 0);
            }
            self.dense[id as usize] = number + 1;
        } else {
            self.sparse.insert(id, number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_ids_take_no_table() {
        let mut map = ByBlock::default();
        let ids = [5, 0, 1 << 25, 70_000, 3, u32::MAX];
        ids.iter().enumerate().for_each(|(n, &id)| map.insert(id, n as u32));
        ids.iter().enumerate().for_each(|(n, &id)| assert_eq!(map.get(id), Some(n as u32)));
        assert_eq!((map.get(4), map.get(1 << 26), map.get(u32::MAX - 1)), (None, None, None));
        assert!(map.dense.len() < 100_000);
    }
}
