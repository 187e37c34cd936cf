//! Entries of page tables, and of the caches of them.

pub(in crate::tlb) use crate::cache::{Entry, RADIX};
use crate::tlb::parts::store::Contents;

/// A cached entry is its tag alone.
#[derive(Clone, Copy, Default)]
pub(in crate::tlb) struct Pointer;

impl Contents for Pointer {
    fn subblocks(&self) -> Option<u64> {
        None
    }
}
