//! Blocks as the loop wants them: which page they fetch from, what their references are, how much they count. Small, because
//! what a program has of blocks decides how well the loop lives in the caches.

use super::quiet;
use crate::addr::BASE_SHIFT;
use crate::event::{Block, Blocks, Broken, ById, DataRef, Instr, Kind, address_in, addresses, block_id};
use crate::hw::tlb::NO_PAGE;
use std::sync::Arc;

pub(super) const PAGE: u64 = 1 << BASE_SHIFT;
/// Ids up to here can be on the fast path; a hostile stream cannot make the array larger.
const MAX_QUICK: usize = 1 << 22;

/// A data reference as the loop wants it.
#[derive(Clone, Copy)]
pub(super) struct HotRef {
    /// Bytes, less one.
    past: u16,
    /// [`quiet::LOADS`] or [`quiet::STORES`].
    table: u16,
    /// Instructions fetched before it.
    pub after: u32,
    word: u32,
    offset: u32,
}

impl HotRef {
    /// See [`DataRef::address`].
    #[inline(always)]
    pub fn address(self, words: &[u64]) -> u64 {
        address_in(words, self.word, self.offset)
    }
    /// [`quiet::LOADS`] or [`quiet::STORES`].
    #[inline(always)]
    pub fn table(self) -> usize {
        self.table.into()
    }
    /// See [`reach`].
    #[inline(always)]
    pub fn reach(self, addr: u64) -> u64 {
        reach(addr, self.past.into())
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

/// At least [`PAGE`] if a reference to this address, of `past` bytes and one, touches two pages or more. These numbers can be or-ed.
#[inline(always)]
fn reach(addr: u64, past: u64) -> u64 {
    (addr & (PAGE - 1)) + past
}

/// One block.
#[derive(Clone, Copy)]
pub(super) struct Hot {
    /// The page it fetches from.
    pub vpn: u64,
    refs_at: u32,
    /// Data references.
    pub refs: u32,
    /// Address words.
    words: u32,
    /// Instructions, which are also the fetch references and lookups.
    pub instrs: u32,
    /// Its fetches touch several pages: the block must be taken reference by reference.
    pub spread: bool,
}

/// Address words that [`Quick`] describes.
pub(super) const TOGETHER: usize = 4;

/// All that the fast path needs of a block, in a quarter of a cache line: a program has more blocks than fit the nearest caches.
#[derive(Clone, Copy)]
#[repr(align(16))]
pub(super) struct Quick {
    /// The page it fetches from, or [`NEVER`].
    pub vpn: u64,
    /// What its address words are for; if they are more than these, where that is said: see [`Compiled::all_of`].
    pub first: [QuickWord; TOGETHER],
    /// Instructions.
    pub instrs: u8,
    /// Address words.
    pub words: u8,
    pub loads: u8,
    pub stores: u8,
}

/// A page that is never quiet: for what the fast path leaves alone.
const NEVER: u64 = NO_PAGE - 1;

impl Quick {
    const NONE: Quick = Quick { vpn: NEVER, first: [QuickWord(0); TOGETHER], instrs: 0, words: 0, loads: 0, stores: 0 };

    /// `None` for a block that is too large, or odd. What does not fit is appended to `all`.
    fn of(block: &Block, hot: &Hot, all: &mut Vec<QuickWord>) -> Option<Quick> {
        let mut words = vec![QuickWord(0); hot.words as usize];
        for r in &block.refs {
            words[r.word as usize].add(r)?;
        }
        let loads = block.refs.iter().filter(|r| r.kind == Kind::Load).count();
        let mut quick = Quick {
            vpn: if hot.spread || hot.instrs == 0 { return None } else { hot.vpn },
            first: [QuickWord(0); TOGETHER],
            instrs: hot.instrs.try_into().ok()?,
            words: hot.words.try_into().ok()?,
            loads: loads.try_into().ok()?,
            stores: (block.refs.len() - loads).try_into().ok()?,
        };
        if words.len() <= TOGETHER {
            quick.first[..words.len()].copy_from_slice(&words);
        } else {
            quick.first = u32::try_from(all.len()).ok()?.to_ne_bytes().map(QuickWord);
            all.extend(words);
        }
        Some(quick)
    }
}

/// The references of one address word for the fast path: the bytes that they reach, less one, and above them whether there is a store. They are as good
/// as one reference: what is quiet for stores is quiet for loads, and where they reach into another page the fast path leaves the block alone.
#[derive(Clone, Copy)]
pub(super) struct QuickWord(u8);

/// Bits for the bytes less one.
const SIZE_BITS: u32 = 7;

impl QuickWord {
    /// Takes in one more reference, unless it reaches too far.
    fn add(&mut self, r: &DataRef) -> Option<()> {
        const PAST: u8 = (1 << SIZE_BITS) - 1;
        let past = r.offset.checked_add(r.size - 1)?;
        let past = u8::try_from(past).ok().filter(|&past| past <= PAST)?;
        let store = self.0 & !PAST | u8::from(r.kind == Kind::Store) << SIZE_BITS;
        self.0 = past.max(self.0 & PAST) | store;
        Some(())
    }
    /// [`quiet::LOADS`] or [`quiet::STORES`].
    #[inline(always)]
    pub fn table(self) -> usize {
        usize::from(self.0 >> SIZE_BITS) * quiet::STORES
    }
    /// See [`reach`].
    #[inline(always)]
    pub fn reach(self, addr: u64) -> u64 {
        reach(addr, u64::from(self.0) & ((1 << SIZE_BITS) - 1))
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
    /// Address words of blocks that have more than [`TOGETHER`].
    all: Vec<QuickWord>,
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
            word: r.word,
            offset: r.offset,
        }));
        let vpn = block.instrs.first().map_or(0, |i| i.pc >> BASE_SHIFT);
        let inside = |i: &Instr| (i.pc >> BASE_SHIFT, (i.pc + u64::from(i.len) - 1) >> BASE_SHIFT) == (vpn, vpn);
        let too_many = |_| "more than 2^32 of its kind";
        let hot = Hot {
            vpn,
            refs_at,
            refs: block.refs.len().try_into().map_err(too_many)?,
            words: block.words().try_into().map_err(too_many)?,
            instrs: block.instrs.len().try_into().map_err(too_many)?,
            spread: !block.instrs.iter().all(inside),
        };
        self.hot.insert(id, hot);
        if (id as usize) < MAX_QUICK
            && let Some(quick) = Quick::of(block, &hot, &mut self.all)
        {
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
    /// What the address words are for of a block that has more than [`TOGETHER`].
    #[inline(always)]
    pub fn all_of(&self, quick: &Quick) -> &[QuickWord] {
        let at = u32::from_ne_bytes(quick.first.map(|word| word.0)) as usize;
        &self.all[at..][..quick.words.into()]
    }

    /// What `words[at]` executes, and its address words.
    #[inline]
    pub fn execution<'w>(&self, words: &'w [u64], at: usize) -> Result<(&Hot, &'w [u64]), Broken> {
        let id = block_id(words[at]);
        let hot = self.hot.get(id).ok_or(Broken::UndefinedBlock { id })?;
        Ok((hot, addresses(words, at, hot.words as usize)?))
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
        assert_eq!((size_of::<Quick>(), size_of::<HotRef>()), (16, 16));
    }
}
