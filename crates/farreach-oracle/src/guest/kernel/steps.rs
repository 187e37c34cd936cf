//! What the kernel does next.

use super::{Due, IDLE, KERNEL, Kernel, Leaf, Means, Slot};
use farreach_types::event::Arch;

impl Kernel {
    pub(super) fn step(&mut self) {
        for _ in 0..self.dice.below(4) {
            let user = self.processors[self.running].space != IDLE && self.dice.percent(60);
            self.block(user);
        }
        if self.late() && self.dice.percent(15) {
            self.block_by_stale();
        }
        if !self.due.is_empty() && self.dice.percent(30) {
            let due = self.due.remove(0);
            self.invalidate(due);
        }
        if self.dice.percent(5) {
            self.turn(self.batch.asid.0);
        }
        let what = self.dice.below(100);
        if what < 8 {
            let processor = self.dice.below(self.processors.len() as u64) as usize;
            return self.resume(processor);
        }
        // The kernel does it.
        if self.processors[self.running].user {
            self.block(false);
        }
        match what {
            8..20 => self.switch_space(),
            20..23 => self.begin(),
            23..25 => self.end(),
            25..28 => self.needless(),
            _ => {
                let space = if self.dice.percent(25) { KERNEL } else { self.any_space() };
                if space != IDLE {
                    self.change(space);
                }
            }
        }
    }

    /// Mostly the space that runs.
    fn any_space(&mut self) -> u32 {
        if self.dice.percent(70) {
            return self.processors[self.running].space;
        }
        let spaces: Vec<u32> = self.spaces.keys().copied().filter(|space| *space != KERNEL).collect();
        self.dice.pick(&spaces)
    }

    fn switch_space(&mut self) {
        let lowest = if self.dice.percent(15) { IDLE } else { IDLE + 1 };
        let spaces: Vec<u32> = self.spaces.keys().copied().filter(|space| *space >= lowest).collect();
        if spaces.is_empty() {
            return self.begin();
        }
        let space = self.dice.pick(&spaces);
        self.load(space);
    }

    fn begin(&mut self) {
        if self.spaces.len() < self.config.processes + 2 {
            let space = self.create();
            self.load(space);
        }
    }

    /// A process that runs nowhere ends.
    fn end(&mut self) {
        let runs = |space: u32| self.processors.iter().any(|processor| processor.ready && processor.space == space);
        let spaces: Vec<u32> = self.spaces.keys().copied().filter(|space| *space > IDLE && !runs(*space)).collect();
        if spaces.is_empty() {
            return;
        }
        let space = self.dice.pick(&spaces);
        if !self.late() || self.dice.percent(50) {
            self.forget_space(space);
        }
        self.take_down(space);
        self.processors.iter_mut().for_each(|processor| _ = processor.pending.remove(&space));
    }

    fn means(&mut self, space: u32) -> Means {
        let user = space != KERNEL;
        let local = user || self.config.local_kernel && self.dice.percent(40);
        Means { user, write: self.dice.percent(60), exec: self.dice.percent(30), global: !local }
    }

    fn change(&mut self, space: u32) {
        let slot = self.dice.pick(&self.slots[usize::from(space == KERNEL)]);
        let format = self.config.format;
        let size = 1u64 << format.shift(slot.level);
        let bytes = if slot.run { format.run(slot.level) * size } else { size };
        let whole = slot.address..slot.address + bytes;
        if self.free_of_leaves(space, slot.address, bytes) {
            let means = self.means(space);
            self.map(space, slot, means);
            return;
        }
        // Leaves that reach out of the slot: the large leaf that has it, or the run.
        let Some((first, leaf)) = self.leaf_at(space, slot.address) else {
            return self.replace(space, slot, bytes);
        };
        if leaf.level > slot.level {
            return self.split(space, first, leaf);
        }
        if leaf.run && !slot.run && leaf.level == slot.level {
            let run = format.run(leaf.level) * size;
            // A late kernel may forget that the page is one of a run.
            if !self.late() || self.dice.percent(70) {
                return self.unfold(space, first / run * run, leaf, self.dice_keeps());
            }
        }
        debug_assert!(whole.contains(&first));
        match self.dice.below(6) {
            0 | 1 => self.unmap(space, slot.address, bytes),
            2 if slot.level == leaf.level => self.protect(space, slot, leaf),
            3 if slot.level == leaf.level => self.forget_use(space, slot.address),
            _ => self.replace(space, slot, bytes),
        }
    }

    fn dice_keeps(&self) -> bool {
        self.used.len().is_multiple_of(2)
    }

    fn due(&mut self, space: u32, address: u64, bytes: u64) {
        self.stale(Due { space, address, bytes, tables: false });
    }

    /// Invalidates the bytes of leaves: of a large one at once, of those in tables one by one.
    fn due_all(&mut self, space: u32, gone: &[(u64, Leaf)], address: u64, bytes: u64) {
        let small = gone.len() <= 4 || gone.iter().any(|(_, leaf)| leaf.level > 0);
        if small && gone.iter().all(|(_, leaf)| !leaf.run) {
            for (first, leaf) in gone {
                self.due(space, *first, 1 << self.config.format.shift(leaf.level));
            }
        } else if !gone.is_empty() {
            self.stale(Due { space, address, bytes, tables: true });
        }
    }

    fn unmap(&mut self, space: u32, address: u64, bytes: u64) {
        let gone = self.clear(space, address, bytes);
        self.due_all(space, &gone, address, bytes);
        self.release(&gone);
        if self.dice.percent(50) {
            self.prune(space, address, 1);
        }
    }

    /// Other memory in the place of what is there: a page remapped, pages collapsed into a large leaf or a run.
    fn replace(&mut self, space: u32, slot: Slot, bytes: u64) {
        let gone = self.clear(space, slot.address, bytes);
        self.due_all(space, &gone, slot.address, bytes);
        let means = self.means(space);
        self.map(space, slot, means);
        self.release(&gone);
    }

    /// Other rights for a leaf or a run.
    fn protect(&mut self, space: u32, slot: Slot, leaf: Leaf) {
        let means = Means { global: leaf.means.global, ..self.means(space) };
        let means = self.limited(space, slot.address, slot.level, means);
        let size = 1u64 << self.config.format.shift(slot.level);
        let pages = if slot.run { self.config.format.run(slot.level) } else { 1 };
        for i in 0..pages {
            let address = slot.address + i * size;
            let Some((first, old)) = self.leaf_at(space, address) else { continue };
            if first == address {
                self.rewrite(space, address, Leaf { means: Means { global: old.means.global, ..means }, ..old });
            }
        }
        self.stale(Due { space, address: slot.address, bytes: pages * size, tables: slot.run });
    }

    fn rewrite(&mut self, space: u32, address: u64, leaf: Leaf) {
        self.spaces.get_mut(&space).expect("alive").leaves.insert(address, leaf);
        let place = self.entry_at(space, address, leaf.level).expect("mapped");
        self.put(place, &[self.leaf_word(leaf)]);
    }

    /// A and D are cleared, or set: no translation changes. On AArch64, a bit for software.
    fn forget_use(&mut self, space: u32, address: u64) {
        let Some((first, leaf)) = self.leaf_at(space, address) else { return };
        if !leaf.run {
            let bits = match self.config.format.arch {
                Arch::X86 => 0x60,
                Arch::Riscv64 => 0xc0,
                Arch::Aarch64 => 1 << 55,
            };
            self.rewrite(space, first, Leaf { extra: leaf.extra ^ bits, ..leaf });
        }
    }

    /// A large leaf becomes leaves of the level below, in the same memory or with some of them.
    fn split(&mut self, space: u32, first: u64, leaf: Leaf) {
        let format = self.config.format;
        let size = 1u64 << format.shift(leaf.level);
        if leaf.run {
            let run = format.run(leaf.level) * size;
            return self.unfold(space, first / run * run, leaf, false);
        }
        self.clear(space, first, size);
        self.due(space, first, size);
        let step = 1u64 << format.shift(leaf.level - 1);
        for i in (0..size / step).filter(|i| *i < 20 || i % 97 == 0 || (i + 1) * step == size) {
            let slot = Slot { address: first + i * step, level: leaf.level - 1, run: false };
            self.map_at(space, slot, leaf.means, leaf.at + i * step);
        }
    }

    /// A contiguous run is given up: all its entries are written again, or go.
    fn unfold(&mut self, space: u32, first: u64, leaf: Leaf, stays: bool) {
        let format = self.config.format;
        let size = 1u64 << format.shift(leaf.level);
        let bytes = format.run(leaf.level) * size;
        let gone = self.clear(space, first, bytes);
        self.stale(Due { space, address: first, bytes, tables: true });
        if stays {
            for (address, leaf) in gone {
                let slot = Slot { address, level: leaf.level, run: false };
                self.map_at(space, slot, leaf.means, leaf.at);
            }
        } else {
            self.release(&gone);
        }
    }
}
