//! Page tables in physical memory: tables are made, leaves written, and all is taken down again.

use super::super::word;
use super::format::{Format, Means};
use super::{Due, IDLE, KERNEL, Kernel, Leaf, Slot, Space};
use farreach_types::addr::{GUEST_ADDRESS_BITS, kernel_half};
use farreach_types::event::Arch;

/// First address of the text of a half: a page that is always mapped.
pub fn text(format: Format, half: u64) -> u64 {
    half + (20 << format.shift(1))
}

/// Places in a half: some pages in two neighbouring tables, with the first and the last, runs of pages, the large
/// leaves over them, others beside them and far away, and a run of large leaves.
pub fn slots(format: Format, half: u64) -> Vec<Slot> {
    let (page, large) = (1u64 << format.granule, 1u64 << format.shift(1));
    let last = (1 << format.stride()) - 1;
    let mut slots = Vec::new();
    for span in [2, 3] {
        let base = half + span * large;
        let run = format.run(0);
        for index in [0, 1, 2, 7, run, run + 1, 2 * run - 1, last] {
            slots.push(Slot { address: base + index * page, level: 0, run: false });
        }
        if run > 1 {
            slots.push(Slot { address: base + run * page, level: 0, run: true });
            slots.push(Slot { address: base + 2 * run * page, level: 0, run: true });
        }
        slots.push(Slot { address: base, level: 1, run: false });
    }
    slots.push(Slot { address: half + 5 * large, level: 1, run: false });
    let run = format.run(1);
    if run > 1 {
        slots.push(Slot { address: half + 2 * run * large, level: 1, run: true });
    }
    if format.levels() > 3 {
        let far = half + (3 << format.shift(2));
        slots.push(Slot { address: far + 9 * page, level: 0, run: false });
        if format.top_leaf() == 2 {
            slots.push(Slot { address: far + (1 << format.shift(2)), level: 2, run: false });
        }
    }
    slots
}

impl Kernel {
    pub(super) fn half(&self, space: u32) -> u64 {
        if space == KERNEL { self.config.format.upper() } else { 0 }
    }

    /// The space whose tables an address of `space` is in.
    pub(super) fn owner(&self, space: u32, address: u64) -> u32 {
        debug_assert!(address >> GUEST_ADDRESS_BITS == 0);
        if kernel_half(address >> 12) { KERNEL } else { space }
    }

    /// The table that has the entry of an address at this level, if there is one.
    fn table_at(&self, space: u32, address: u64, level: u32) -> Option<u64> {
        let format = self.config.format;
        let owner = self.owner(space, address);
        if level + 1 == format.levels() {
            return Some(self.spaces[if format.one_root() { &space } else { &owner }].root);
        }
        self.spaces[&owner].tables.get(&(level, address >> format.shift(level + 1))).copied()
    }

    pub(super) fn entry_at(&self, space: u32, address: u64, level: u32) -> Option<u64> {
        Some(self.table_at(space, address, level)? + 8 * self.config.format.index(address, level))
    }

    /// The entries that a walk reads, as far as tables and leaves go.
    pub(super) fn path(&self, space: u32, address: u64) -> Vec<u64> {
        let leaf = self.leaf_at(self.owner(space, address), address).map_or(0, |(_, leaf)| leaf.level);
        (leaf..self.config.format.levels()).rev().map_while(|level| self.entry_at(space, address, level)).collect()
    }

    /// The leaf that has an address, and its first address.
    pub(super) fn leaf_at(&self, space: u32, address: u64) -> Option<(u64, Leaf)> {
        let (&first, &leaf) = self.spaces[&space].leaves.range(..=address).next_back()?;
        (address < first + (1 << self.config.format.shift(leaf.level))).then_some((first, leaf))
    }

    /// Makes the table that has the entries of `level`, and those above.
    pub(super) fn make_table(&mut self, space: u32, address: u64, level: u32) {
        let format = self.config.format;
        for level in (level..format.levels() - 1).rev() {
            if self.table_at(space, address, level).is_some() {
                continue;
            }
            let at = self.frames.page();
            self.zero(at, 1 << format.granule);
            self.spaces.get_mut(&space).expect("alive").tables.insert((level, address >> format.shift(level + 1)), at);
            // Some tables forbid stores to all pages below. Those of RISC-V cannot.
            let read_only = level == 0 && !self.riscv() && self.dice.percent(15);
            if read_only {
                _ = self.read_only.insert(at)
            } else {
                _ = self.read_only.remove(&at)
            }
            let link = self.entry_at(space, address, level + 1).expect("made before");
            self.put(link, &[format.table(at, space != KERNEL, !read_only)]);
        }
    }

    pub(super) fn free_of_leaves(&self, space: u32, address: u64, bytes: u64) -> bool {
        let format = self.config.format;
        let before = self.spaces[&space].leaves.range(..address + bytes).next_back();
        before.is_none_or(|(first, leaf)| first + (1 << format.shift(leaf.level)) <= address)
    }

    /// Maps a slot that has no leaves. A table in the place of a large leaf is taken down first.
    pub(super) fn map(&mut self, space: u32, slot: Slot, means: Means) {
        let format = self.config.format;
        let entries = if slot.run { format.run(slot.level) } else { 1 };
        let bytes = entries << format.shift(slot.level);
        for i in 0..entries {
            self.prune(space, slot.address + (i << format.shift(slot.level)), slot.level);
        }
        let at = self.frames.take(bytes);
        self.map_at(space, slot, means, at);
    }

    pub(super) fn map_at(&mut self, space: u32, slot: Slot, means: Means, at: u64) {
        let format = self.config.format;
        self.make_table(space, slot.address, slot.level);
        let mut extra = self.extra(slot.level, means);
        let allowed = self.limited(space, slot.address, slot.level, means);
        if means.write && !allowed.write {
            // The leaf itself permits stores.
            extra |= if self.x86() { 2 } else { 1 << 7 };
        }
        let means = allowed;
        let entries = if slot.run { format.run(slot.level) } else { 1 };
        let size = 1u64 << format.shift(slot.level);
        let leaf = |i| Leaf { at: at + i * size, level: slot.level, means, run: slot.run, extra };
        for i in 0..entries {
            self.spaces.get_mut(&space).expect("alive").leaves.insert(slot.address + i * size, leaf(i));
        }
        let words: Vec<u64> = (0..entries).map(|i| self.leaf_word(leaf(i))).collect();
        let place = self.entry_at(space, slot.address, slot.level).expect("made");
        self.put(place, &words);
    }

    /// What a leaf can mean below its table.
    pub(super) fn limited(&self, space: u32, address: u64, level: u32, means: Means) -> Means {
        let read_only = self.table_at(space, address, level).is_some_and(|table| self.read_only.contains(&table));
        Means { write: means.write && !read_only, ..means }
    }

    pub(super) fn leaf_word(&self, leaf: Leaf) -> u64 {
        self.config.format.leaf(leaf.at, leaf.level, leaf.means, leaf.run) ^ leaf.extra
    }

    /// Bits that decide nothing: cache types with PAT, dirty, keys, those for software; memory types, shareability.
    fn extra(&mut self, level: u32, means: Means) -> u64 {
        let pat = if level == 0 { 7 } else { 12 };
        let free: &[u32] = match (self.config.format.arch, self.config.format.wide && self.config.format.granule < 16) {
            (Arch::Riscv64, _) => &[6, 7, 8, 9, 61, 62],
            (Arch::X86, _) => &[3, 4, 6, 9, 10, 11, 52, 58, 59, 60, 61, 62, pat],
            (Arch::Aarch64, true) => &[2, 3, 4, 55, 56, 57, 58],
            (Arch::Aarch64, false) => &[2, 3, 4, 8, 9, 55, 56, 57, 58],
        };
        let mut extra = 0;
        for at in free {
            extra |= u64::from(self.dice.percent(30)) << at;
        }
        // The tables above say that it is no program's.
        if self.x86() && !means.user && self.dice.percent(30) {
            extra |= 4;
        }
        if self.config.format.arch == Arch::Aarch64 && !means.write && self.dice.percent(20) {
            extra |= 1 << 51;
        }
        extra
    }

    /// Text pages, which stay.
    pub(super) fn map_text(&mut self, space: u32) {
        let format = self.config.format;
        let address = text(format, self.half(space));
        let user = space != KERNEL;
        let means = Means { user, write: false, exec: true, global: !user };
        for page in [0, 1] {
            let slot = Slot { address: address + (page << format.granule), level: 0, run: false };
            self.map(space, slot, means);
        }
    }

    /// Clears the leaves of these addresses, which are those of whole leaves, and says them.
    pub(super) fn clear(&mut self, space: u32, address: u64, bytes: u64) -> Vec<(u64, Leaf)> {
        let leaves = &mut self.spaces.get_mut(&space).expect("alive").leaves;
        let gone: Vec<(u64, Leaf)> = leaves.range(address..address + bytes).map(|(at, leaf)| (*at, *leaf)).collect();
        for (first, leaf) in &gone {
            self.spaces.get_mut(&space).expect("alive").leaves.remove(first);
            let place = self.entry_at(space, *first, leaf.level).expect("it was mapped");
            // A swapped page has a word that is not zero.
            let word = if self.dice.percent(20) { 0x1234_5600 } else { 0 };
            self.put(place, &[word]);
        }
        gone
    }

    /// Frees the memory of leaves. That of runs is kept whole, so the run goes when its first entry does.
    pub(super) fn release(&mut self, gone: &[(u64, Leaf)]) {
        for (first, leaf) in gone {
            let size = 1u64 << self.config.format.shift(leaf.level);
            let run = self.config.format.run(leaf.level) * size;
            if !leaf.run {
                self.frames.give(leaf.at, size);
            } else if first % run == 0 {
                self.frames.give(leaf.at / run * run, run);
            }
        }
    }

    /// Unlinks an empty table in the place of the entry of this address at this level, with the tables below.
    pub(super) fn prune(&mut self, space: u32, address: u64, level: u32) {
        let format = self.config.format;
        let top = format.one_root() && space == KERNEL && level + 1 == format.levels();
        let first = address >> format.shift(level) << format.shift(level);
        if level == 0 || top || !self.free_of_leaves(space, first, 1 << format.shift(level)) {
            return;
        }
        for below in 1..level {
            let step = 1u64 << format.shift(below);
            let tables = &self.spaces[&space].tables;
            let range = (below - 1, first / step)..(below - 1, (first + (1 << format.shift(level))) / step);
            let found: Vec<u64> = tables.range(range).map(|((_, prefix), _)| prefix * step).collect();
            found.iter().for_each(|address| self.unlink(space, *address, below));
        }
        self.unlink(space, first, level);
    }

    fn unlink(&mut self, space: u32, address: u64, level: u32) {
        let format = self.config.format;
        let key = (level - 1, address >> format.shift(level));
        let Some(at) = self.spaces.get_mut(&space).expect("alive").tables.remove(&key) else { return };
        let link = self.entry_at(space, address, level).expect("it was linked");
        self.put(link, &[0]);
        self.stale(Due { space, address, bytes: 1 << format.shift(level), tables: true });
        self.free_table(at);
    }

    /// Bytes of a root that are of the lower half.
    fn lower_bytes(&self) -> u64 {
        let bytes = self.config.format.table_bytes(self.config.format.levels() - 1);
        if self.config.format.one_root() { bytes / 2 } else { bytes }
    }

    /// A process ends: all that it has is taken down.
    pub(super) fn take_down(&mut self, space: u32) {
        let format = self.config.format;
        let gone = self.clear(space, 0, self.half(KERNEL));
        self.release(&gone);
        let Space { root, tables, tag, .. } = self.spaces.remove(&space).expect("alive");
        self.zero(root, self.lower_bytes());
        for at in tables.into_values() {
            self.zero(at, 1 << format.granule);
            self.free_table(at);
        }
        self.frames.free_root(root);
        self.retired_tags.push(tag);
    }

    /// A new process, with its text.
    pub(super) fn create(&mut self) -> u32 {
        let number = self.next_space;
        self.next_space += 1;
        let (root, tag) = (self.frames.root(), self.fresh_tag());
        let (lower, idle) = (self.lower_bytes(), self.spaces[&IDLE].root);
        self.zero(root, lower);
        if self.config.format.one_root() {
            for at in (lower..2 * lower).step_by(8) {
                self.put_other(root + at, word(&self.memory, idle + at));
            }
        }
        self.spaces.insert(number, Space { root, tables: Default::default(), leaves: Default::default(), tag });
        self.map_text(number);
        number
    }
}
