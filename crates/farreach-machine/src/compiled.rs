//! Blocks in the form that the loop uses: page of the fetches, references, counts. They are small, because the blocks
//! of a program compete for the caches of the host.

use super::filter::{self, NEVER_FILTERED};
use farreach_types::addr::BASE_SHIFT;
use farreach_types::event::{Block, Blocks, DataRef, Instr, Kind, address_in, block_id, words_behind};
use std::sync::Arc;

pub(super) const PAGE: u64 = 1 << BASE_SHIFT;
/// Ids up to here can be on the fast path; a hostile stream cannot make the array larger.
const MAX_QUICK: usize = 1 << 22;

/// A data reference in the form that the loop uses.
#[derive(Clone, Copy)]
pub(super) struct HotRef {
    is: Reach,
    /// Instructions fetched before it.
    after: u8,
    word: u8,
    offset: u8,
}

impl HotRef {
    /// See [`DataRef::address`].
    #[inline(always)]
    pub fn address(self, words: &[u64]) -> u64 {
        address_in(words, self.word.into(), self.offset.into())
    }
    /// Instructions fetched before it.
    #[inline(always)]
    pub fn after(self) -> u32 {
        self.after.into()
    }
    /// [`filter::LOADS`] or [`filter::STORES`].
    #[inline(always)]
    pub fn table(self) -> usize {
        self.is.table()
    }
    /// See [`reach`].
    #[inline(always)]
    pub fn reach(self, addr: u64) -> u64 {
        self.is.reach(addr)
    }
    /// Load or store.
    #[inline(always)]
    pub fn kind(self) -> Kind {
        if self.table() == filter::LOADS { Kind::Load } else { Kind::Store }
    }
    /// Bytes.
    #[inline(always)]
    pub fn size(self) -> u64 {
        self.is.past() + 1
    }
}

/// At least [`PAGE`] if a reference of `past + 1` bytes to this address touches two pages or more. Such numbers can be
/// or-ed.
#[inline(always)]
fn reach(addr: u64, past: u64) -> u64 {
    (addr & (PAGE - 1)) + past
}

/// An execution of a block that fetches from one page (of a canonical address) or not at all, whose counts fit a byte
/// each, and without references of more than 128 bytes. Other blocks are rare, and taken reference by reference.
#[derive(Clone, Copy)]
pub(super) struct Hot<'a> {
    /// The page it fetches from.
    pub vpn: u64,
    /// Instructions, which are also the fetch references and lookups.
    pub instrs: u32,
    /// Data references.
    pub refs: &'a [HotRef],
    /// Address words.
    pub addrs: &'a [u64],
    /// Its number, and all blocks.
    id: u32,
    blocks: &'a Blocks,
}

impl Hot<'_> {
    /// As [`Block::changes`], for its i-th reference, at this address.
    pub fn changes(&self, i: usize, addr: u64) -> bool {
        let load = self.refs[i];
        let mut same = self.refs[i + 1..].iter().take_while(|r| r.after == load.after);
        self.instrs > 0
            && load.kind() == Kind::Load
            && same.any(|r| r.kind() == Kind::Store && r.address(self.addrs) == addr)
    }
    /// The address of its i-th instruction.
    pub fn pc(&self, i: usize) -> u64 {
        self.blocks.get(self.id).expect("it is compiled").instrs[i].pc
    }
    /// Whether it fetches, and no reference comes before.
    #[inline(always)]
    pub fn begins_with_fetch(&self) -> bool {
        self.instrs > 0 && self.refs.first().is_none_or(|r| r.after > 0)
    }
    /// Instructions, or references if they are more: at least its count against a limit.
    #[inline(always)]
    pub fn limit_count(&self) -> u64 {
        u64::from(self.instrs).max(self.refs.len() as u64)
    }
}

/// Address words that [`Quick`] describes.
pub(super) const INLINE_WORDS: usize = 4;

/// All data that the fast path needs of a block, in a quarter of a cache line, since a program has more blocks than fit
/// the nearest caches. It also has the place of the references, for blocks that are not filtered.
#[derive(Clone, Copy)]
#[repr(align(16))]
pub(super) struct Quick {
    /// In the upper bits the page it fetches from, [`NEVER_FILTERED`] if it does not fetch; below, three bits for
    /// [`Quick::words_before_fetch`], then the place of its references, or [`NO_REFS`].
    page_and_refs: u64,
    /// Its address words; if they are more than fit, their place in a separate array: see [`Compiled::all_of`].
    pub first: [QuickWord; INLINE_WORDS],
    /// Instructions.
    pub instrs: u8,
    /// Address words.
    pub words: u8,
    pub loads: u8,
    pub stores: u8,
}

/// Bits below the page, which is that of any canonical address of 48 bits, of either half.
const PAGE_AT: u32 = 28;
/// Of these, bits for the place of the references.
const REFS_BITS: u32 = 25;
/// No place for references.
const NO_REFS: usize = (1 << REFS_BITS) - 1;

impl Quick {
    const NONE: Quick = Quick {
        page_and_refs: NEVER_FILTERED << PAGE_AT | NO_REFS as u64,
        first: [QuickWord(0); INLINE_WORDS],
        instrs: 0,
        words: 0,
        loads: 0,
        stores: 0,
    };

    /// The page it fetches from; [`NEVER_FILTERED`] if it does not fetch, or the fast path must leave it alone.
    #[inline(always)]
    pub fn vpn(&self) -> u64 {
        (self.page_and_refs as i64 >> (PAGE_AT - BASE_SHIFT)) as u64 >> BASE_SHIFT
    }
    /// The address words of which the last reference comes before the last fetch, if all words fit.
    #[inline(always)]
    pub fn words_before_fetch(&self) -> u32 {
        (self.page_and_refs >> REFS_BITS) as u32 & ((1 << (PAGE_AT - REFS_BITS)) - 1)
    }
    /// The place of its references, if it is a [`Hot`].
    #[inline(always)]
    fn refs_at(&self) -> Option<usize> {
        let at = self.page_and_refs as usize & NO_REFS;
        (at != NO_REFS).then_some(at)
    }

    /// `None` for a block that is no [`Hot`]. Its references begin at `refs_at`; address words that do not fit are
    /// appended to `all`. `ordered`: notes the order of lookups.
    fn of(block: &Block, ordered: bool, refs_at: usize, all: &mut Vec<QuickWord>) -> Option<Quick> {
        let vpn = fetch_page(block)?;
        let mut words = vec![Reach(0); block.words()];
        for r in &block.refs {
            words[r.word as usize].add(r)?;
        }
        let mut words: Vec<_> = words.into_iter().map(|reach| QuickWord(reach.0)).collect();
        let words_before_fetch = if ordered { note_order(block, &mut words) } else { 0 };
        let loads = block.refs.iter().filter(|r| r.kind == Kind::Load).count();
        let mut quick = Quick {
            page_and_refs: vpn << PAGE_AT | refs_at as u64,
            first: [QuickWord(0); INLINE_WORDS],
            instrs: block.instrs.len().try_into().ok()?,
            words: words.len().try_into().ok()?,
            loads: loads.try_into().ok()?,
            stores: (block.refs.len() - loads).try_into().ok()?,
        };
        if refs_at >= NO_REFS || quick.vpn() != vpn {
            return None;
        }
        if words.len() <= INLINE_WORDS {
            quick.first[..words.len()].copy_from_slice(&words);
            quick.page_and_refs |= (words_before_fetch as u64) << REFS_BITS;
        } else {
            quick.first = u32::try_from(all.len()).ok()?.to_ne_bytes().map(QuickWord);
            all.extend(words);
        }
        Some(quick)
    }
}

/// Notes the order of the last references of the words. Returns how many come before the last fetch.
fn note_order(block: &Block, words: &mut [QuickWord]) -> usize {
    let mut last = vec![0; words.len()];
    for (i, r) in block.refs.iter().enumerate() {
        last[r.word as usize] = i;
    }
    let mut places: Vec<usize> = (0..words.len()).collect();
    places.sort_by_key(|&word| last[word]);
    for (word, place) in words.iter_mut().zip(places) {
        *word = word.at(place);
    }
    let before_fetch = |reference: &&usize| (block.refs[**reference].after as usize) < block.instrs.len();
    last.iter().filter(before_fetch).count()
}

/// The one page that a block fetches from, [`NEVER_FILTERED`] if it does not fetch.
fn fetch_page(block: &Block) -> Option<u64> {
    let Some(first) = block.instrs.first() else { return Some(NEVER_FILTERED) };
    let vpn = first.pc >> BASE_SHIFT;
    let inside = |i: &Instr| (i.pc >> BASE_SHIFT, (i.pc + u64::from(i.len) - 1) >> BASE_SHIFT) == (vpn, vpn);
    block.instrs.iter().all(inside).then_some(vpn)
}

/// The references of one address word: the number of bytes that they span, less one, and a bit above it that says
/// whether one is a store. They count as one reference: a page that is filtered for stores is filtered for loads, and
/// blocks whose references span two pages do not take the fast path.
#[derive(Clone, Copy)]
struct Reach(u8);

/// The bits for the bytes less one; the one above says that there is a store.
const PAST_MASK: u8 = (1 << STORE_BIT) - 1;
const STORE_BIT: u32 = 7;

/// The table for references with this bit: [`filter::LOADS`] or [`filter::STORES`].
#[inline(always)]
fn table(bits: u8) -> usize {
    usize::from(bits >> STORE_BIT) * filter::STORES
}

impl Reach {
    /// Adds a reference, unless it is too long.
    fn add(&mut self, r: &DataRef) -> Option<()> {
        let past = r.offset.checked_add(r.size - 1)?;
        let past = u8::try_from(past).ok().filter(|&past| past <= PAST_MASK)?;
        let store = self.0 & !PAST_MASK | u8::from(r.kind == Kind::Store) << STORE_BIT;
        self.0 = past.max(self.0 & PAST_MASK) | store;
        Some(())
    }
    #[inline(always)]
    fn past(self) -> u64 {
        u64::from(self.0 & PAST_MASK)
    }
    #[inline(always)]
    fn table(self) -> usize {
        table(self.0)
    }
    /// See [`reach`].
    #[inline(always)]
    fn reach(self, addr: u64) -> u64 {
        reach(addr, self.past())
    }
}

/// An address word for the fast path: its [`Reach`]. Where the order of lookups is noted, in whole groups of four
/// bytes, so that there are two bits for it. Those of the `i`-th word of a block say which of its words is the `i`-th
/// by their last references.
#[derive(Clone, Copy)]
pub(super) struct QuickWord(u8);

const PLACE_MASK: u8 = 3;

impl QuickWord {
    /// With this place.
    fn at(self, place: usize) -> QuickWord {
        QuickWord(self.0 & !PLACE_MASK | place as u8 & PLACE_MASK)
    }
    /// [`filter::LOADS`] or [`filter::STORES`].
    #[inline(always)]
    pub fn table(self) -> usize {
        table(self.0)
    }
    /// See [`reach`]; up to three bytes more where the order is noted.
    #[inline(always)]
    pub fn reach<const ORDERED: bool>(self, addr: u64) -> u64 {
        reach(addr, u64::from(self.0 & PAST_MASK | if ORDERED { PLACE_MASK } else { 0 }))
    }
    /// Where the order is noted: the word that is last used at the place of this one.
    #[inline(always)]
    pub fn place(self) -> usize {
        usize::from(self.0 & PLACE_MASK)
    }
}

/// All blocks defined so far.
#[derive(Default)]
pub(super) struct Compiled {
    /// Whether the order of lookups is noted.
    ordered: bool,
    /// The blocks as they were defined.
    pub blocks: Blocks,
    /// By id.
    quick: Vec<Quick>,
    refs: Vec<HotRef>,
    /// Address words of blocks that have more than [`INLINE_WORDS`].
    all: Vec<QuickWord>,
}

impl Compiled {
    /// No blocks. `ordered`: notes the order of lookups.
    pub fn new(ordered: bool) -> Compiled {
        Compiled { ordered, ..Compiled::default() }
    }

    /// Adds a definition.
    pub fn define(&mut self, id: u32, block: &Arc<Block>) -> Result<(), String> {
        let again = self.blocks.get(id).is_some();
        self.blocks.define(id, block)?;
        let at = id as usize;
        if again || at >= MAX_QUICK {
            return Ok(());
        }
        let Some(quick) = Quick::of(block, self.ordered, self.refs.len(), &mut self.all) else { return Ok(()) };
        self.refs.extend(block.refs.iter().map(|r| {
            let mut is = Reach(0);
            let alone = is.add(&DataRef { offset: 0, ..*r });
            debug_assert!(alone.is_some(), "its word took it with its offset");
            // The fast path does not take blocks beyond these limits.
            HotRef { is, after: r.after as u8, word: r.word as u8, offset: r.offset as u8 }
        }));
        if self.quick.len() <= at {
            let len = (at + 1).next_power_of_two();
            self.quick.resize(len, Quick::NONE);
        }
        self.quick[at] = quick;
        Ok(())
    }

    /// The block with this id for the fast path, marked as never filtered if that must not take it; `None` if that must
    /// take no block from this id on.
    #[inline(always)]
    pub fn quick(&self, id: u32) -> Option<&Quick> {
        self.quick.get(id as usize)
    }
    /// The address words of a block that has more than [`INLINE_WORDS`].
    #[inline(always)]
    pub fn all_of(&self, quick: &Quick) -> &[QuickWord] {
        let at = u32::from_ne_bytes(quick.first.map(|word| word.0)) as usize;
        &self.all[at..][..quick.words.into()]
    }

    /// The references of a block, in order.
    #[inline(always)]
    pub fn refs_of(&self, quick: &Quick) -> &[HotRef] {
        let refs = usize::from(quick.loads) + usize::from(quick.stores);
        quick.refs_at().map_or(&[], |at| &self.refs[at..][..refs])
    }

    /// The block that `words[at]` executes. `None` if it is no [`Hot`], or no valid execution.
    #[inline(always)]
    pub fn hot<'a>(&'a self, words: &'a [u64], at: usize) -> Option<Hot<'a>> {
        let (&word, behind) = words.get(at..)?.split_first()?;
        let quick = self.quick(block_id(word)).filter(|quick| words_behind(word) == usize::from(quick.words))?;
        quick.refs_at()?;
        Some(Hot {
            vpn: quick.vpn(),
            instrs: quick.instrs.into(),
            refs: self.refs_of(quick),
            addrs: behind.get(..quick.words.into())?,
            id: block_id(word),
            blocks: &self.blocks,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farreach_types::event::block_word;

    #[test]
    fn a_quarter_of_a_cache_line() {
        assert_eq!((size_of::<Quick>(), size_of::<HotRef>()), (16, 4));
    }

    /// The page of a block of one instruction, if the fast path takes it.
    fn page_of(pc: u64) -> Option<u64> {
        let mut compiled = Compiled::default();
        let before =
            Block { instrs: [Instr { pc: 0x1000, len: 1 }].into(), refs: [DataRef::new(1, Kind::Load, 8, 0)].into() };
        let block = Block { instrs: [Instr { pc, len: 1 }].into(), refs: [DataRef::new(1, Kind::Store, 8, 0)].into() };
        compiled.define(3, &Arc::new(before)).unwrap();
        compiled.define(2, &Arc::new(block)).unwrap();
        let words = [block_word(2, 1), 0x5000];
        let hot = compiled.hot(&words, 0);
        let quick = compiled.quick(2).expect("there is one with a greater id");
        assert_eq!(quick.vpn(), hot.map_or(NEVER_FILTERED, |hot| hot.vpn));
        hot.map(|hot| {
            assert_eq!(hot.refs.iter().map(|r| r.kind()).collect::<Vec<_>>(), [Kind::Store], "its own references");
            hot.vpn
        })
    }

    #[test]
    fn code_at_canonical_addresses_is_quick() {
        for pc in [0, 0x401_000, 0x7fff_ffff_ffff, 0xffff_8000_0000_0000, 0xffff_ffff_8123_4567, u64::MAX - 1] {
            assert_eq!(page_of(pc), Some(pc >> BASE_SHIFT), "{pc:#x}");
        }
        for pc in [0x8000_0000_0000, 0x00ff_8000_0000_0000, 0xffff_7fff_ffff_ffff] {
            assert_eq!(page_of(pc), None, "{pc:#x}");
        }
    }
}
