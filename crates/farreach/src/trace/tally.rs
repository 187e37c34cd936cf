//! Counts processes and address spaces of a stream.

use hashbrown::HashSet;

use crate::addr::Asid;
use crate::event::Op;

/// Who ran.
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
            Some(Op::Define { .. }) => return,
            Some(Op::Start { parent: None, .. }) => self.starts += 1,
            Some(Op::Fork { .. }) => self.forks += 1,
            _ => {}
        }
        if self.last != Some(asid) {
            self.last = Some(asid);
            self.seen.insert(asid);
        }
    }

    /// Programs begun; a trace that starts none, but has something in it, began with one.
    pub fn processes(&self) -> u64 {
        self.forks + if self.starts == 0 { u64::from(!self.seen.is_empty()) } else { self.starts }
    }

    /// Address spaces that own something.
    pub fn address_spaces(&self) -> u64 {
        self.seen.len() as u64
    }
}
