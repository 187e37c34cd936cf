//! What the recorder says: batches, words of tables when they change or are first used, blocks with their references.

use super::{Kernel, Means, tables};
use farreach_types::addr::Asid;
use farreach_types::event::{Batch, Block, DataRef, Guest, Instr, Kind, Op};
use std::sync::Arc;

impl Kernel {
    /// From here on batches are this space's.
    pub(super) fn turn(&mut self, space: u32) {
        let old = std::mem::replace(&mut self.batch, Batch::new(Asid(space)));
        if !old.is_empty() {
            self.out.push(old);
        }
    }

    fn entries(&mut self, address: u64, values: &[u64]) {
        self.told.extend((address..).step_by(8).zip(values.iter().copied()));
        self.op(Op::Guest(Guest::Entries { address, values: Arc::from(values) }));
    }

    /// Writes words. The stream has at once those in watched frames, one by one or together.
    pub(super) fn put(&mut self, address: u64, words: &[u64]) {
        self.memory.extend((address..).step_by(8).zip(words.iter().copied()));
        if words.is_empty() {
            return;
        }
        let room = (4096 - address % 4096) as usize / 8;
        let (here, rest) = words.split_at(words.len().min(room));
        if self.watched.contains(&(address >> 12)) {
            let alone = self.dice.percent(50);
            let parts = here.chunks(if alone { 1 } else { here.len() });
            let places =
                parts.scan(address, |at, part| Some((std::mem::replace(at, *at + 8 * part.len() as u64), part)));
            places.collect::<Vec<_>>().into_iter().for_each(|(at, part)| self.entries(at, part));
        }
        self.put(address + 8 * here.len() as u64, rest);
    }

    /// Clears memory for a table.
    pub(super) fn zero(&mut self, at: u64, bytes: u64) {
        for address in (at..at + bytes).step_by(8) {
            self.put_other(address, 0);
        }
    }

    /// Writes a word, if it is not there already.
    pub(super) fn put_other(&mut self, address: u64, word: u64) {
        if super::super::word(&self.memory, address) != word {
            self.put(address, &[word]);
        }
    }

    /// The recorder may stop watching a table that was unlinked. If it does not, it hears of data in its place.
    pub(super) fn free_table(&mut self, at: u64) {
        if self.dice.percent(50) {
            let frames = at >> 12..(at + (1 << self.config.format.granule)) >> 12;
            frames.for_each(|frame| _ = self.watched.remove(&frame));
        }
        if self.dice.percent(30) {
            let (data, place) = (self.dice.below(u64::MAX), self.dice.below(512));
            self.put(at + 8 * place, &[data | 1]);
        }
        self.frames.free_page(at);
    }

    /// Watches the frame of an entry: the words that the stream does not have come first.
    fn watch(&mut self, entry: u64) {
        if !self.watched.insert(entry >> 12) {
            return;
        }
        let together = self.dice.percent(50);
        let first = entry >> 12 << 12;
        let value = super::super::word;
        let differs = |kernel: &Kernel, at: u64| value(&kernel.memory, at) != value(&kernel.told, at);
        let mut at = first;
        while at < first + 4096 {
            if !differs(self, at) {
                at += 8;
                continue;
            }
            let mut end = at + 8;
            while together && end < first + 4096 && differs(self, end) {
                end += 8;
            }
            let words: Vec<u64> = (at..end).step_by(8).map(|at| value(&self.memory, at)).collect();
            self.entries(at, &words);
            at = end;
        }
    }

    /// What must be said before the first reference to this page.
    fn before_use(&mut self, address: u64) {
        let space = self.processors[self.running].space;
        self.path(space, address).iter().for_each(|entry| self.watch(*entry));
        self.used.insert((self.owner(space, address), address >> 12));
    }

    /// A block of the kernel or of the running program, with references to what is mapped.
    pub(super) fn block(&mut self, user: bool) {
        let (format, space) = (self.config.format, self.processors[self.running].space);
        let half = if user { 0 } else { format.upper() };
        if self.processors[self.running].user != user {
            if !user {
                let vector = 14 + self.dice.below(3) as u32;
                self.op(Op::Guest(Guest::Exception { vector }));
            }
            self.processors[self.running].user = user;
            self.op(Op::Guest(Guest::Privilege { kernel: !user }));
        }
        // A few blocks of a few shapes, so that they come again. The last instruction of some crosses a page.
        let page = 1u64 << format.granule;
        let start = tables::text(format, half)
            + match self.dice.below(4) {
                0 => page - 6,
                at => at * 64,
            };
        let count = 1 + self.dice.below(3) as u32;
        let instrs: Vec<Instr> = (0..u64::from(count)).map(|i| Instr { pc: start + 4 * i, len: 4 }).collect();
        instrs.iter().flat_map(|i| [i.pc, i.pc + 3]).for_each(|address| self.before_use(address));
        let references = self.dice.below(5);
        let (mut refs, mut words) = (Vec::new(), Vec::new());
        for _ in 0..references {
            let Some((address, means)) = self.target(space, user) else { continue };
            let kind = if means.write && self.dice.percent(50) { Kind::Store } else { Kind::Load };
            // Some cross into the next page of the same leaf.
            let word = if self.dice.percent(10) && self.within_leaf(address) { address | 0xffc } else { address };
            self.before_use(word);
            self.before_use(word + 7);
            refs.push((kind, if self.dice.percent(10) { 1 } else { 8 }));
            words.push(word);
        }
        let mut after: Vec<u32> = refs.iter().map(|_| self.dice.below(u64::from(count) + 1) as u32).collect();
        after.sort_unstable();
        let data =
            (0..).zip(refs).zip(after).map(|((word, (kind, size)), after)| DataRef::new(after, kind, size, word));
        let refs: Box<[DataRef]> = data.collect();
        // A long instruction goes on in a block of references alone.
        let goes_on = !refs.is_empty() && self.dice.percent(10);
        let block = Block { instrs: instrs.into(), refs: refs.clone() };
        let id = self.define(block);
        self.batch.push_block(id, &words);
        if goes_on {
            let refs = refs.iter().map(|one| DataRef { after: 0, ..*one }).collect();
            let id = self.define(Block { instrs: Box::default(), refs });
            self.batch.push_block(id, &words);
        }
    }

    /// A load of a page that is mapped or not, by a translation that the processor is said to have still.
    pub(super) fn block_by_stale(&mut self) {
        let (format, processor) = (self.config.format, &self.processors[self.running]);
        let (space, user) = (processor.space, processor.user);
        let (half, granule) = (if user { 0 } else { format.upper() }, format.granule);
        let slot = self.dice.pick(&self.slots[usize::from(!user)]);
        let page = slot.address + (self.dice.below(1 << (format.shift(slot.level) - granule)) << granule);
        let pc = tables::text(format, half);
        [pc, pc + 3].into_iter().for_each(|address| self.before_use(address));
        // The recorder walks to it, as it does to any.
        self.path(space, page).iter().for_each(|entry| self.watch(*entry));
        let address = self.dice.below(1 << 20) << granule;
        self.op(Op::Guest(Guest::Stale { page, address }));
        let load = DataRef::new(1, Kind::Load, 8, 0);
        let id = self.define(Block { instrs: [Instr { pc, len: 4 }].into(), refs: [load].into() });
        (0..1 + self.dice.below(2)).for_each(|_| self.batch.push_block(id, &[page + 8]));
    }

    fn within_leaf(&self, address: u64) -> bool {
        let space = self.owner(self.processors[self.running].space, address);
        let next = (address | 0xfff) + 1;
        self.leaf_at(space, address).zip(self.leaf_at(space, next)).is_some_and(|(one, other)| one.0 == other.0)
    }

    /// An address that is mapped now, of the program or, for the kernel, of either.
    fn target(&mut self, space: u32, user: bool) -> Option<(u64, Means)> {
        let space = if !user && self.dice.percent(70) { super::KERNEL } else { space };
        let leaves = &self.spaces[&space].leaves;
        if leaves.is_empty() {
            return None;
        }
        let (&first, &leaf) = leaves.iter().nth(self.dice.below(leaves.len() as u64) as usize)?;
        let pages = 1u64 << (self.config.format.shift(leaf.level) - 12);
        let page = match self.dice.below(4) {
            0 => pages - 1,
            1 => self.dice.below(pages),
            few => few % pages,
        };
        Some((first + page * 4096 + 8 * self.dice.below(16), leaf.means))
    }
}
