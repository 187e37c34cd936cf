//! The loop of the page-size study: batches of the stream go to an LRU stack for each page size and side.
//!
//! What it means: each reference, in program order, makes one lookup per page *of that size* that it touches, on its side (PS-1).
//! What makes it fast: a lookup of the 4 KB page that its side looked up last is at distance 1, so it is only counted. And what is at
//! distance 1 at one size is so at all larger ones, so the sizes are asked in ascending order until one says so.

use super::super::compiled::{Compiled, Hot};
use super::super::crew::Work;
use super::super::engine::Tally;
use super::super::lab::Progress;
use super::book::{Book, DATA, FETCHED, Pages, STORED};
use super::stack::{Distances, Stack};
use crate::Error;
use crate::addr::{Asid, BASE_SHIFT, Vpn, VpnRange};
use crate::event::{Advice, Batch, Block, Instr, Kind, NOT_EXECUTED, OP_BIT, Op};

/// No 4 KB page.
const NO_PAGE: u64 = u64::MAX;

/// Fetches.
const FETCH: usize = 0;
/// Loads and stores.
const DATA_SIDE: usize = 1;

/// See the module.
pub(super) struct PageEngine {
    /// Over 4 KB, as powers of two, ascending.
    orders: Vec<u32>,
    /// For each size, lookups besides one per reference, by side.
    crossings: Vec<[u64; 2]>,
    /// By side, for each size.
    stacks: [Vec<Stack>; 2],
    pub tally: Tally,
    pub book: Book,
    pub processes: u64,
    pub threads: u64,
    compiled: Compiled,
    current: Option<Asid>,
    /// The 4 KB page from which another fetch changes nothing.
    last_fetch: u64,
    /// The 4 KB page to which another load, another store changes nothing.
    last_data: [u64; 2],
    limit: u64,
    plain: bool,
}

/// What one size came to.
pub(super) struct Row {
    pub order: u32,
    /// Lookups, by side.
    pub lookups: [u64; 2],
    /// Distances, by side.
    pub distances: [Distances; 2],
    pub pages: Pages,
}

impl PageEngine {
    /// `orders`: page sizes over 4 KB, as powers of two, ascending. `limit`: stop after so many instructions. `plain`: without shortcuts.
    pub fn new(orders: &[u32], limit: Option<u64>, plain: bool) -> PageEngine {
        let stacks = || orders.iter().map(|_| Stack::new()).collect();
        PageEngine {
            orders: orders.to_vec(),
            crossings: vec![[0; 2]; orders.len()],
            stacks: [stacks(), stacks()],
            tally: Tally::default(),
            book: Book::new(orders),
            processes: 0,
            threads: 0,
            compiled: Compiled::default(),
            current: None,
            last_fetch: NO_PAGE,
            last_data: [NO_PAGE; 2],
            limit: limit.unwrap_or(u64::MAX),
            plain,
        }
    }

    /// What was counted so far, in the order of the sizes.
    pub fn rows(&self) -> Vec<Row> {
        let references = [self.tally.references.fetch, self.tally.references.load + self.tally.references.store];
        let row = |(i, pages): (usize, Pages)| Row {
            order: self.orders[i],
            lookups: [FETCH, DATA_SIDE].map(|side| references[side] + self.crossings[i][side]),
            distances: [FETCH, DATA_SIDE].map(|side| self.stacks[side][i].distances()),
            pages,
        };
        self.book.pages().into_iter().enumerate().map(row).collect()
    }

    /// One block that fetches from one page or not at all.
    #[inline]
    fn hot_block(&mut self, asid: Asid, hot: &Hot, at: usize, words: &[u64]) {
        let (instrs, refs, loads) = (u64::from(hot.instrs), u64::from(hot.refs), u64::from(hot.loads));
        for lookups in [&mut self.tally.references, &mut self.tally.lookups] {
            lookups.fetch += instrs;
            lookups.load += loads;
            lookups.store += refs - loads;
        }
        if hot.one_page() && hot.key >> 1 != self.last_fetch {
            self.page(asid, hot.key >> 1, Kind::Fetch);
        }
        for i in 0..usize::from(hot.refs) {
            let (r, addr) = (self.compiled.refs(hot)[i], words[at + i]);
            if addr >> BASE_SHIFT == self.last_data[r.store()] && !r.crosses(addr) && addr != NOT_EXECUTED {
                continue;
            }
            if r.crosses(addr) || addr == NOT_EXECUTED {
                // Counted above as one reference with one lookup.
                for lookups in [&mut self.tally.references, &mut self.tally.lookups] {
                    *(if r.kind() == Kind::Load { &mut lookups.load } else { &mut lookups.store }) -= 1;
                }
                if addr != NOT_EXECUTED {
                    self.reference(asid, r.kind(), addr, r.size());
                }
            } else {
                self.page(asid, addr >> BASE_SHIFT, r.kind());
            }
        }
    }

    /// One block, reference by reference, up to the limit.
    fn plain_block(&mut self, asid: Asid, block: &Block, addrs: &[u64]) {
        let mut instrs = block.instrs.iter();
        let mut fetched = 0;
        for (r, &addr) in block.refs.iter().zip(addrs) {
            for instr in instrs.by_ref().take((r.after - fetched) as usize) {
                if !self.fetch(asid, instr) {
                    return;
                }
            }
            fetched = r.after;
            if block.instrs.is_empty() && self.done() {
                return;
            }
            if addr != NOT_EXECUTED {
                self.reference(asid, r.kind, addr, u64::from(r.size));
            }
        }
        for instr in instrs {
            if !self.fetch(asid, instr) {
                return;
            }
        }
    }

    /// One fetch; false if the limit was reached before it.
    fn fetch(&mut self, asid: Asid, instr: &Instr) -> bool {
        if self.done() {
            return false;
        }
        self.reference(asid, Kind::Fetch, instr.pc, u64::from(instr.len));
        true
    }

    /// One reference: its 4 KB pages in ascending order, and with them its pages of every size. Several 4 KB pages of one larger page are one
    /// lookup of it.
    fn reference(&mut self, asid: Asid, kind: Kind, addr: u64, size: u64) {
        let last = addr.saturating_add(size - 1);
        let (side, references, lookups) = match kind {
            Kind::Fetch => (FETCH, &mut self.tally.references.fetch, &mut self.tally.lookups.fetch),
            Kind::Load => (DATA_SIDE, &mut self.tally.references.load, &mut self.tally.lookups.load),
            Kind::Store => (DATA_SIDE, &mut self.tally.references.store, &mut self.tally.lookups.store),
        };
        let (from, to) = (addr >> BASE_SHIFT, last >> BASE_SHIFT);
        *references += 1;
        *lookups += 1 + to - from;
        for (crossings, order) in self.crossings.iter_mut().zip(&self.orders) {
            crossings[side] += (to >> order) - (from >> order);
        }
        for vpn in from..=to {
            let known = if kind == Kind::Fetch { self.last_fetch } else { self.last_data[usize::from(kind == Kind::Store)] };
            if vpn != known || self.plain {
                self.page(asid, vpn, kind);
            }
        }
    }

    /// A lookup of a 4 KB page, and of the pages of every size it lies in.
    #[inline]
    fn page(&mut self, asid: Asid, vpn: u64, kind: Kind) {
        let (side, flags) = match kind {
            Kind::Fetch => (FETCH, FETCHED),
            Kind::Load => (DATA_SIDE, DATA),
            Kind::Store => (DATA_SIDE, DATA | STORED),
        };
        let row = self.book.touch(asid, vpn, flags);
        for (stack, &id) in self.stacks[side].iter_mut().zip(self.book.ids(row)) {
            if !stack.lookup(id) && !self.plain {
                break;
            }
        }
        match kind {
            Kind::Fetch => self.last_fetch = vpn,
            _ => self.last_data = [vpn, if self.book.is_stored(row) { vpn } else { NO_PAGE }],
        }
    }

    fn op(&mut self, asid: Asid, op: &Op) -> Result<(), String> {
        let range = |start: u64, len: u64| VpnRange::of_bytes(start, len, BASE_SHIFT);
        match op {
            Op::Define { id, block } => self.compiled.define(*id, block).map_err(|e| format!("block {id}: {e}"))?,
            Op::Start { .. } | Op::Fork { .. } => self.processes += 1,
            Op::ThreadStart { .. } => self.threads += 1,
            Op::Map(mapping) => self.release(asid, range(mapping.start, mapping.len)),
            Op::Unmap { start, len } | Op::Advise { start, len, advice: Advice::DontNeed } => self.release(asid, range(*start, *len)),
            Op::Remap { old_start, old_len, new_start, new_len } => {
                let (old, new) = (range(*old_start, *old_len), range(*new_start, *new_len));
                if old.start == new.start {
                    let (small, large) = (old.pages.min(new.pages), old.pages.max(new.pages));
                    self.release(asid, VpnRange { start: Vpn(old.start.0 + small), pages: large - small });
                } else {
                    self.release(asid, old);
                    self.release(asid, new);
                }
            }
            Op::End(_) => {
                self.release(asid, VpnRange { start: Vpn(0), pages: 1 << (64 - BASE_SHIFT) });
                self.book.forget(asid);
            }
            Op::Protect { .. } | Op::Advise { .. } | Op::ThreadExit { .. } | Op::Switch { .. } => {}
        }
        Ok(())
    }

    /// The pages of a range are mapped no more.
    fn release(&mut self, asid: Asid, range: VpnRange) {
        let [fetch, data] = &mut self.stacks;
        self.book.release(asid, range, |i, id| {
            fetch[i].release(id);
            data[i].release(id);
        });
        self.nothing_is_last();
    }

    fn nothing_is_last(&mut self) {
        (self.last_fetch, self.last_data) = (NO_PAGE, [NO_PAGE; 2]);
    }
}

impl Work for PageEngine {
    fn feed(&mut self, batch: &Batch) -> Result<(), Error> {
        let (asid, words) = (batch.asid, &batch.words[..]);
        if self.current != Some(asid) && !batch.is_empty() {
            self.current = Some(asid);
            self.nothing_is_last();
        }
        let broken = |at: usize, what: &str| Error::Trace {
            file: "event stream".into(),
            place: format!("address space {}, word {at}", asid.0),
            what: what.into(),
        };
        let mut at = 0;
        while at < words.len() && !self.done() {
            let word = words[at];
            if word & OP_BIT != 0 {
                let op =
                    batch.ops.get((word & !OP_BIT) as usize).ok_or_else(|| broken(at, "names an event that is not there"))?;
                self.op(asid, op).map_err(|why| broken(at, &why))?;
                at += 1;
                continue;
            }
            let hot = *self.compiled.hot(word).ok_or_else(|| broken(at, "names a block that was never defined"))?;
            let end = at + 1 + self.compiled.words(word, &hot);
            if end > words.len() {
                return Err(broken(at, "is cut in its block"));
            }
            if self.plain || hot.spread() || self.limit - self.tally.units() < u64::from(hot.instrs.max(hot.refs)) {
                // The blocks step aside, so that nothing of them need be copied while the rest changes.
                let blocks = std::mem::take(&mut self.compiled.blocks);
                self.plain_block(asid, blocks.get(word).expect("it is compiled"), &words[at + 1..end]);
                self.compiled.blocks = blocks;
            } else {
                self.hot_block(asid, &hot, at + 1, words);
            }
            at = end;
        }
        Ok(())
    }

    fn done(&self) -> bool {
        self.tally.units() >= self.limit
    }

    fn progress(&self) -> Progress {
        Progress { instructions: self.tally.references.fetch, references: self.tally.references.total() }
    }
}
