//! Blocks as the loop wants them: which pages they fetch from, what their references are, how much they count.

use super::quiet;
use crate::addr::BASE_SHIFT;
use crate::event::{Block, Blocks, ById, Kind};
use std::sync::Arc;

/// A data reference as the loop wants it.
#[derive(Clone, Copy)]
pub(super) struct HotRef {
    /// Largest offset in a page at which the reference does not cross its end; negative if it always does.
    pub last_offset: i32,
    /// 1 for a store.
    pub store: u32,
}

/// One block; the slices are in the arenas of [`Compiled`].
#[derive(Clone, Copy, Default)]
pub(super) struct Hot {
    /// [`quiet::key`] of the first page it fetches from; nearly all blocks have no other.
    pub first: FetchPage,
    refs_at: u32,
    /// Data references.
    pub refs: u32,
    pages_at: u32,
    pages: u32,
    /// Instructions, which are also the fetch references.
    pub instrs: u32,
    /// Fetch lookups: an instruction that crosses a page makes two.
    pub fetch_lookups: u32,
    /// Loads.
    pub loads: u32,
    /// Stores.
    pub stores: u32,
}

impl Hot {
    /// How many distinct pages it fetches from.
    #[inline(always)]
    pub fn fetch_pages(&self) -> u32 {
        self.pages
    }
}

/// A page that a block fetches from, ready to be looked up in the table of quiet pages.
#[derive(Clone, Copy, Default)]
pub(super) struct FetchPage {
    /// [`quiet::key`].
    pub key: u64,
    /// [`quiet::place`] of the key.
    pub place: u32,
}

/// All blocks defined so far.
#[derive(Default)]
pub(super) struct Compiled {
    /// The blocks as they were defined.
    pub blocks: Blocks,
    hot: ById<Hot>,
    refs: Vec<HotRef>,
    pages: Vec<FetchPage>,
}

impl Compiled {
    /// Takes in a definition.
    pub fn define(&mut self, id: u32, block: &Arc<Block>) -> Result<(), String> {
        self.blocks.define(id, block)?;
        if self.hot.get(id.into()).is_some() {
            return Ok(()); // The same block again.
        }
        let (refs_at, pages_at) = (self.refs.len() as u32, self.pages.len() as u32);
        self.refs.extend(
            block
                .refs
                .iter()
                .map(|r| HotRef { last_offset: (1 << BASE_SHIFT) - r.size as i32, store: u32::from(r.kind == Kind::Store) }),
        );
        let mut fetch_lookups = 0;
        for i in block.instrs.iter() {
            for vpn in i.pc >> BASE_SHIFT..=(i.pc + u64::from(i.len) - 1) >> BASE_SHIFT {
                fetch_lookups += 1;
                let key = quiet::key(vpn, true);
                if !self.pages[pages_at as usize..].iter().any(|p| p.key == key) {
                    self.pages.push(FetchPage { key, place: quiet::place(key) as u32 });
                }
            }
        }
        let count = |kind| block.refs.iter().filter(|r| r.kind == kind).count() as u32;
        let hot = Hot {
            first: self.pages.get(pages_at as usize).copied().unwrap_or_default(),
            refs_at,
            refs: block.refs.len() as u32,
            pages_at,
            pages: self.pages.len() as u32 - pages_at,
            instrs: block.instrs.len() as u32,
            fetch_lookups,
            loads: count(Kind::Load),
            stores: count(Kind::Store),
        };
        self.hot.insert(id, hot);
        Ok(())
    }

    /// The block with this id, if there is one.
    #[inline(always)]
    pub fn hot(&self, id: u64) -> Option<&Hot> {
        self.hot.get(id)
    }
    /// Its data references.
    #[inline(always)]
    pub fn refs(&self, hot: &Hot) -> &[HotRef] {
        &self.refs[hot.refs_at as usize..][..hot.refs as usize]
    }
    /// The distinct pages it fetches from.
    #[inline(always)]
    pub fn pages(&self, hot: &Hot) -> &[FetchPage] {
        &self.pages[hot.pages_at as usize..][..hot.pages as usize]
    }
}
