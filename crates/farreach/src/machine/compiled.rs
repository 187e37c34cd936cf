//! Blocks as the loop wants them: which page they fetch from, what their references are, how much they count. Small, because
//! what a program has of blocks decides how well the loop lives in the caches.

use super::quiet;
use crate::addr::BASE_SHIFT;
use crate::event::{Block, Blocks, ById, Kind};
use crate::hw::tlb::Marks;
use std::num::NonZeroU8;
use std::sync::Arc;

pub(super) const PAGE: u64 = 1 << BASE_SHIFT;
/// Ids up to here can be on the fast path; a hostile stream cannot make the array larger.
const MAX_STEPS: usize = 1 << 22;

/// A data reference as the loop wants it.
#[derive(Clone, Copy)]
pub(super) struct HotRef {
    /// Bytes, less one.
    pub past: u16,
    /// [`quiet::LOADS`] or [`quiet::STORES`].
    pub table: u16,
    /// Instructions fetched before it.
    pub after: u32,
}

impl HotRef {
    /// Load or store.
    #[inline(always)]
    pub fn kind(self) -> Kind {
        if usize::from(self.table) == quiet::LOADS { Kind::Load } else { Kind::Store }
    }
    /// Bytes.
    #[inline(always)]
    pub fn size(self) -> u64 {
        u64::from(self.past) + 1
    }
    /// At least [`PAGE`] if the reference touches two pages or more. These numbers can be or-ed.
    #[inline(always)]
    pub fn reach(self, addr: u64) -> u64 {
        (addr & (PAGE - 1)) + u64::from(self.past)
    }
}

/// How the fetches of a block lie.
const ONE_PAGE: NonZeroU8 = NonZeroU8::new(1).unwrap();
const NO_FETCH: NonZeroU8 = NonZeroU8::new(2).unwrap();
/// Several pages, or counts too large for the fields below: taken reference by reference.
const SPREAD: NonZeroU8 = NonZeroU8::new(3).unwrap();

/// One block, all that the fast path needs of it in half a cache line: a program has more blocks than fit the nearest caches.
/// All its references are in the arena of [`Compiled`].
#[derive(Clone, Copy)]
#[repr(align(32))]
pub(super) struct Hot {
    /// The page it fetches from.
    pub vpn: u64,
    refs_at: u32,
    /// [`Marks::place`] of that page.
    pub place: u16,
    /// Data references.
    pub refs: u16,
    /// Instructions, which are also the fetch references and lookups.
    pub instrs: u16,
    /// Loads; the other references are stores.
    pub loads: u16,
    /// Its first references.
    pub first: [FirstRef; TOGETHER],
    shape: NonZeroU8,
}

/// One of the first references of a block: bytes less one, plus [`quiet::LOADS`] or [`quiet::STORES`].
#[derive(Clone, Copy)]
pub(super) struct FirstRef(u16);

/// Largest reference in bytes that a [`FirstRef`] describes.
const FIRST_BYTES: u32 = quiet::STORES as u32;

impl FirstRef {
    /// As [`HotRef::table`].
    #[inline(always)]
    pub fn table(self) -> usize {
        usize::from(self.0) & quiet::STORES
    }
    /// As [`HotRef::reach`].
    #[inline(always)]
    pub fn reach(self, addr: u64) -> u64 {
        (addr & (PAGE - 1)) + (u64::from(self.0) & (quiet::STORES as u64 - 1))
    }
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

/// References that the fast path looks at together, whether the block has so many or not.
pub(super) const TOGETHER: usize = 4;

/// All blocks defined so far.
#[derive(Default)]
pub(super) struct Compiled {
    /// The blocks as they were defined.
    pub blocks: Blocks,
    hot: ById<Hot>,
    /// Words of an execution of a block, by id; 0 for what the fast path leaves alone. The loop cannot go to the next block before it
    /// knows this: one byte per block stays in the nearest cache.
    steps: Vec<u8>,
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
            past: (r.size - 1) as u16, // At most MAX_REF_BYTES, 2^16.
            table: if r.kind == Kind::Store { quiet::STORES } else { quiet::LOADS } as u16,
            after: r.after,
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
        let vpn = first.unwrap_or(0);
        let hot = Hot {
            vpn,
            refs_at,
            place: Marks::place(vpn) as u16,
            // Wrong only for what is taken reference by reference.
            refs: block.refs.len() as u16,
            instrs: block.instrs.len() as u16,
            loads: block.refs.iter().filter(|r| r.kind == Kind::Load).count() as u16,
            first: std::array::from_fn(|i| {
                let r = block.refs.get(i).map_or((1, Kind::Load), |r| (r.size.min(FIRST_BYTES), r.kind));
                FirstRef((r.0 - 1) as u16 | if r.1 == Kind::Store { quiet::STORES as u16 } else { 0 })
            }),
            shape,
        };
        let fits = block.refs.iter().take(TOGETHER).all(|r| r.size <= FIRST_BYTES);
        self.hot.insert(id, hot);
        if hot.one_page() && fits && hot.refs < 255 && (id as usize) < MAX_STEPS {
            if self.steps.len() <= id as usize {
                self.steps.resize((id as usize + 1).next_power_of_two(), 0);
            }
            self.steps[id as usize] = hot.refs as u8 + 1;
        }
        Ok(())
    }

    /// Words of an execution of this block if it fetches from one page and nothing is odd about it; 0 for others, for events, and
    /// for what was never defined.
    #[inline(always)]
    pub fn step(&self, word: u64) -> usize {
        self.steps.get(word as usize).map_or(0, |&s| usize::from(s))
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
        assert_eq!((size_of::<Option<Hot>>(), size_of::<HotRef>()), (32, 8));
    }
}
