//! Blocks as the loop wants them: which page they fetch from, what their references are, how much they count. Small, because
//! what a program has of blocks decides how well the loop lives in the caches.

use super::quiet;
use crate::addr::BASE_SHIFT;
use crate::event::{Block, Blocks, Broken, ById, DataRef, Instr, Kind, addresses, block_id};
use crate::hw::tlb::NO_PAGE;
use std::sync::Arc;

pub(super) const PAGE: u64 = 1 << BASE_SHIFT;
/// Ids up to here can be on the fast path; a hostile stream cannot make the array larger.
const MAX_QUICK: usize = 1 << 22;

/// A data reference as the loop wants it.
#[derive(Clone, Copy)]
pub(super) struct HotRef {
    /// Bytes, less one.
    pub past: u16,
    /// [`quiet::LOADS`] or [`quiet::STORES`].
    table: u16,
    /// Instructions fetched before it.
    pub after: u32,
}

impl HotRef {
    /// [`quiet::LOADS`] or [`quiet::STORES`].
    #[inline(always)]
    pub fn table(self) -> usize {
        self.table.into()
    }
    /// Load or store.
    #[inline(always)]
    pub fn kind(self) -> Kind {
        if self.table() == quiet::LOADS { Kind::Load } else { Kind::Store }
    }
    /// Bytes.
    #[inline(always)]
    pub fn size(self) -> u64 {
        u64::from(self.past) + 1
    }
}

/// At least [`PAGE`] if a reference to this address touches two pages or more; `past` is its bytes less one. These numbers can be or-ed.
#[inline(always)]
pub(super) fn reach(addr: u64, past: impl Into<u64>) -> u64 {
    (addr & (PAGE - 1)) + past.into()
}

/// One block.
#[derive(Clone, Copy)]
pub(super) struct Hot {
    /// The page it fetches from.
    pub vpn: u64,
    refs_at: u32,
    /// Data references.
    pub refs: u32,
    /// Instructions, which are also the fetch references and lookups.
    pub instrs: u32,
    /// Its fetches touch several pages: the block must be taken reference by reference.
    pub spread: bool,
}

/// References that [`Quick`] describes.
pub(super) const TOGETHER: usize = 4;

/// All that the fast path needs of a block, in a quarter of a cache line: a program has more blocks than fit the nearest caches.
#[derive(Clone, Copy)]
#[repr(align(16))]
pub(super) struct Quick {
    /// The page it fetches from, or [`NEVER`].
    pub vpn: u64,
    /// Of each reference the bytes, less one.
    pub past: [u8; TOGETHER],
    /// Instructions.
    pub instrs: u16,
    /// Its references as [`Kinds`]; [`Kinds::MANY`]: they are in the arena of [`Compiled`].
    pub kinds: u8,
    /// Loads among the references; the others are stores.
    pub loads: u8,
}

/// A page that is never quiet: for what the fast path leaves alone.
const NEVER: u64 = NO_PAGE - 1;

impl Quick {
    const NONE: Quick = Quick { vpn: NEVER, past: [0; TOGETHER], instrs: 0, kinds: Kinds::NONE, loads: 0 };

    /// `None` for a block that is too large, or odd.
    fn of(block: &Block, hot: &Hot) -> Option<Quick> {
        let loads = block.refs.iter().filter(|r| r.kind == Kind::Load).count();
        let mut past = [0; TOGETHER];
        for (to, r) in past.iter_mut().zip(&block.refs) {
            *to = (r.size - 1).try_into().ok()?;
        }
        Some(Quick {
            vpn: if hot.spread || hot.instrs == 0 { return None } else { hot.vpn },
            past,
            instrs: hot.instrs.try_into().ok()?,
            kinds: Kinds::of(&block.refs),
            loads: loads.try_into().ok()?,
        })
    }
}

/// Up to [`TOGETHER`] references, none of them before the first fetch, as one small number, so that there can be code for each: below the
/// highest bit, which says how many they are, a bit for each, set for a store; the first is the lowest.
pub(super) struct Kinds;

impl Kinds {
    /// No reference.
    pub const NONE: u8 = 1;
    /// Anything else.
    pub const MANY: u8 = 0;

    fn of(refs: &[DataRef]) -> u8 {
        if refs.len() > TOGETHER || refs.first().is_some_and(|r| r.after == 0) {
            return Kinds::MANY;
        }
        refs.iter().rev().fold(Kinds::NONE, |kinds, r| kinds << 1 | u8::from(r.kind == Kind::Store))
    }
    /// How many they are.
    pub const fn count(kinds: u8) -> usize {
        kinds.ilog2() as usize
    }
    /// Loads among them.
    pub const fn loads(kinds: u8) -> u64 {
        (Kinds::count(kinds) as u32 + 1 - kinds.count_ones()) as u64
    }
    /// Where to look for the `i`-th: [`quiet::LOADS`] or [`quiet::STORES`].
    #[inline(always)]
    pub const fn table(kinds: u8, i: usize) -> usize {
        if kinds >> i & 1 != 0 { quiet::STORES } else { quiet::LOADS }
    }
}

/// All blocks defined so far.
#[derive(Default)]
pub(super) struct Compiled {
    /// The blocks as they were defined.
    pub blocks: Blocks,
    hot: ById<Hot>,
    /// By id.
    quick: Vec<Quick>,
    refs: Vec<HotRef>,
}

impl Compiled {
    /// Takes in a definition.
    pub fn define(&mut self, id: u32, block: &Arc<Block>) -> Result<(), String> {
        self.blocks.define(id, block)?;
        if self.hot.get(id).is_some() {
            return Ok(()); // The same block again.
        }
        let refs_at = u32::try_from(self.refs.len()).map_err(|_| "more than 2^32 references in all blocks")?;
        self.refs.extend(block.refs.iter().map(|r| HotRef {
            past: (r.size - 1) as u16, // At most MAX_REF_BYTES, 2^16.
            table: if r.kind == Kind::Store { quiet::STORES } else { quiet::LOADS } as u16,
            after: r.after,
        }));
        let vpn = block.instrs.first().map_or(0, |i| i.pc >> BASE_SHIFT);
        let inside = |i: &Instr| (i.pc >> BASE_SHIFT, (i.pc + u64::from(i.len) - 1) >> BASE_SHIFT) == (vpn, vpn);
        let too_many = |_| "more than 2^32 of its kind";
        let hot = Hot {
            vpn,
            refs_at,
            refs: block.refs.len().try_into().map_err(too_many)?,
            instrs: block.instrs.len().try_into().map_err(too_many)?,
            spread: !block.instrs.iter().all(inside),
        };
        self.hot.insert(id, hot);
        if let Some(quick) = Quick::of(block, &hot).filter(|_| (id as usize) < MAX_QUICK) {
            if self.quick.len() <= id as usize {
                self.quick.resize((id as usize + 1).next_power_of_two(), Quick::NONE);
            }
            self.quick[id as usize] = quick;
        }
        Ok(())
    }

    /// The block with this id for the fast path; never quiet if that must leave it alone, `None` if that is certain of all from it on.
    #[inline(always)]
    pub fn quick(&self, id: u32) -> Option<&Quick> {
        self.quick.get(id as usize)
    }
    /// All references of a block.
    #[inline(always)]
    pub fn refs_of(&self, id: u32) -> &[HotRef] {
        self.hot.get(id).map_or(&[], |hot| self.refs(hot))
    }

    /// What `words[at]` executes, and the addresses of its references.
    #[inline]
    pub fn execution<'w>(&self, words: &'w [u64], at: usize) -> Result<(Hot, &'w [u64]), Broken> {
        let id = block_id(words[at]);
        let hot = *self.hot.get(id).ok_or(Broken::UndefinedBlock { id })?;
        Ok((hot, addresses(words, at, hot.refs as usize)?))
    }
    /// Its data references.
    #[inline(always)]
    pub fn refs(&self, hot: &Hot) -> &[HotRef] {
        &self.refs[hot.refs_at as usize..][..hot.refs as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_a_cache_line() {
        assert_eq!((size_of::<Quick>(), size_of::<HotRef>()), (16, 8));
    }
}
