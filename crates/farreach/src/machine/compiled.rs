//! Blocks as the loop wants them: which page they fetch from, what their references are, how much they count. Small, because
//! what a program has of blocks decides how well the loop lives in the caches.

use super::quiet;
use crate::addr::BASE_SHIFT;
use crate::event::{Block, Blocks, ById, Kind};
use std::num::NonZeroU8;
use std::sync::Arc;

const PAGE: u64 = 1 << BASE_SHIFT;

/// A data reference as the loop wants it.
#[derive(Clone, Copy)]
pub(super) struct HotRef {
    /// Largest offset in a page at which the reference does not cross its end; negative if it always does.
    pub last_offset: i32,
    /// Twice the instructions fetched before it, plus one for a store.
    after_store: u32,
}

impl HotRef {
    /// 1 for a store, 0 for a load.
    #[inline(always)]
    pub fn store(self) -> usize {
        (self.after_store & 1) as usize
    }
    /// Load or store.
    #[inline(always)]
    pub fn kind(self) -> Kind {
        if self.after_store & 1 == 0 { Kind::Load } else { Kind::Store }
    }
    /// Instructions fetched before it.
    #[inline(always)]
    pub fn after(self) -> u32 {
        self.after_store >> 1
    }
    /// Bytes.
    #[inline(always)]
    pub fn size(self) -> u64 {
        (PAGE as i32 - self.last_offset) as u64
    }
    /// Whether it touches two pages or more.
    #[inline(always)]
    pub fn crosses(self, addr: u64) -> bool {
        (addr & (PAGE - 1)) as i32 > self.last_offset
    }
}

/// How the fetches of a block lie.
const ONE_PAGE: NonZeroU8 = NonZeroU8::new(1).unwrap();
const NO_FETCH: NonZeroU8 = NonZeroU8::new(2).unwrap();
/// Several pages, or counts too large for the fields below: taken reference by reference.
const SPREAD: NonZeroU8 = NonZeroU8::new(3).unwrap();

/// One block, in half a cache line; its references are in the arena of [`Compiled`].
#[derive(Clone, Copy)]
pub(super) struct Hot {
    /// [`quiet::key`] of the page it fetches from.
    pub key: u64,
    refs_at: u32,
    /// [`quiet::place`] of the key.
    pub place: u16,
    /// Data references.
    pub refs: u16,
    /// Instructions, which are also the fetch references and lookups.
    pub instrs: u16,
    /// Loads; the other references are stores.
    pub loads: u16,
    shape: NonZeroU8,
}

impl Hot {
    /// It fetches, and from one page only.
    #[inline(always)]
    pub fn one_page(&self) -> bool {
        self.shape == ONE_PAGE
    }
    /// Its fetches are not described here: the block must be taken reference by reference.
    #[inline(always)]
    pub fn spread(&self) -> bool {
        self.shape == SPREAD
    }
}

/// All blocks defined so far.
#[derive(Default)]
pub(super) struct Compiled {
    /// The blocks as they were defined.
    pub blocks: Blocks,
    hot: ById<Hot>,
    refs: Vec<HotRef>,
}

impl Compiled {
    /// Takes in a definition.
    pub fn define(&mut self, id: u32, block: &Arc<Block>) -> Result<(), String> {
        self.blocks.define(id, block)?;
        if self.hot.get(id.into()).is_some() {
            return Ok(()); // The same block again.
        }
        let refs_at = u32::try_from(self.refs.len()).map_err(|_| "more than 2^32 references in all blocks")?;
        self.refs.extend(block.refs.iter().map(|r| HotRef {
            last_offset: PAGE as i32 - r.size as i32,
            after_store: r.after << 1 | u32::from(r.kind == Kind::Store),
        }));
        let first = block.instrs.first().map(|i| i.pc >> BASE_SHIFT);
        let inside =
            |vpn| block.instrs.iter().all(|i| (i.pc >> BASE_SHIFT, (i.pc + u64::from(i.len) - 1) >> BASE_SHIFT) == (vpn, vpn));
        let small = block.instrs.len().max(block.refs.len()) <= usize::from(u16::MAX);
        let shape = match first {
            None if small => NO_FETCH,
            Some(vpn) if small && inside(vpn) => ONE_PAGE,
            _ => SPREAD,
        };
        let key = first.map_or(0, |vpn| quiet::key(vpn, true));
        let hot = Hot {
            key,
            refs_at,
            place: quiet::place(key) as u16,
            // Wrong only for what is taken reference by reference.
            refs: block.refs.len() as u16,
            instrs: block.instrs.len() as u16,
            loads: block.refs.iter().filter(|r| r.kind == Kind::Load).count() as u16,
            shape,
        };
        self.hot.insert(id, hot);
        Ok(())
    }

    /// The block with this id, if there is one.
    #[inline(always)]
    pub fn hot(&self, id: u64) -> Option<&Hot> {
        self.hot.get(id)
    }
    /// Address words that follow it.
    #[inline(always)]
    pub fn words(&self, id: u64, hot: &Hot) -> usize {
        if hot.spread() { self.blocks.get(id).map_or(0, |b| b.refs.len()) } else { usize::from(hot.refs) }
    }
    /// Its data references, unless it is [`Hot::spread`].
    #[inline(always)]
    pub fn refs(&self, hot: &Hot) -> &[HotRef] {
        &self.refs[hot.refs_at as usize..][..usize::from(hot.refs)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_cache_line_or_less() {
        assert_eq!((size_of::<Option<Hot>>(), size_of::<HotRef>()), (24, 8));
    }
}
