//! Who runs where, and what is invalidated: registers, INVLPG, INVPCID, TLBI, SFENCE.VMA, on this processor and on
//! others.

use super::{Due, IDLE, KERNEL, Kernel};
use farreach_types::event::{Arch, Guest, Invalidate, Op, Register};

impl Kernel {
    fn write(&mut self, register: Register, value: u64) {
        self.op(Op::Guest(Guest::Register { register, value }));
    }

    fn say(&mut self, which: Invalidate) {
        self.op(Op::Guest(Guest::Invalidate(which)));
    }

    /// From here on this processor runs. Its registers come before its first reference.
    pub(super) fn resume(&mut self, processor: usize) {
        if self.processors[processor].ready && processor == self.running {
            return;
        }
        if processor != self.running {
            self.op(Op::Switch { thread: processor as u32 });
        }
        self.running = processor;
        let format = self.config.format;
        if !self.processors[processor].ready {
            self.processors[processor].ready = true;
            self.op(Op::Guest(Guest::Privilege { kernel: true }));
            if !self.riscv() {
                self.write_control();
            }
            if !format.one_root() {
                let root = self.config.format.root(self.spaces[&KERNEL].root, 0);
                self.write(Register::Root1, root);
            }
            self.load(IDLE);
        }
        self.turn(self.processors[processor].space);
    }

    fn write_control(&mut self) {
        let global = self.processors[self.running].page_global;
        // A1 decides which register has the tag. It is the same on all processors.
        let value = self.config.format.control(self.config.tags, global, self.tag_in_root1());
        self.write(Register::Control, value);
    }

    fn tag_in_root1(&self) -> bool {
        self.config.tags
    }

    /// The running processor goes to another space.
    pub(super) fn load(&mut self, space: u32) {
        let format = self.config.format;
        let root = self.spaces[&space].root;
        if self.riscv() {
            let tag = self.spaces[&space].tag;
            self.write(Register::Root0, format.root(root, tag));
            self.processors[self.running].tag = tag;
        } else if !self.x86() {
            let tag = self.spaces[&space].tag;
            if self.tag_in_root1() {
                let upper = format.root(self.spaces[&KERNEL].root, tag);
                self.write(Register::Root1, upper);
            }
            let lower = format.root(root, if self.tag_in_root1() { 0 } else { tag });
            // CnP means nothing to a walk.
            let common = u64::from(self.dice.percent(50));
            self.write(Register::Root0, lower | common);
            self.processors[self.running].tag = tag;
        } else if !self.config.tags {
            // PCD and PWT.
            let cached = 8 * self.dice.below(4);
            self.write(Register::Root0, root | cached);
        } else {
            let here = &mut self.processors[self.running];
            let mut keeps = !here.pending.remove(&space);
            let known = here.slots.iter().position(|owner| *owner == space);
            let slot = known.unwrap_or_else(|| {
                keeps = false;
                let slot = here.next_slot;
                here.next_slot = (slot + 1) % here.slots.len();
                here.slots[slot] = space;
                slot
            });
            let tag = slot as u16 + 1;
            here.tag = tag;
            self.write(Register::Root0, format.root(root, tag) | u64::from(keeps) << 63);
        }
        self.processors[self.running].space = space;
        self.turn(space);
        // The kernel goes on in it.
        self.block(false);
    }

    /// A tag that no process has; all entries are dropped before one is used again.
    pub(super) fn fresh_tag(&mut self) -> u16 {
        if !self.x86() && self.retired_tags.len() > 2 {
            self.say_to_all(&[Invalidate { tag: None, bytes: None, global: true, leaves: false, broadcast: true }]);
            return self.retired_tags.remove(0);
        }
        self.next_tag += 1;
        self.next_tag
    }

    /// Something is no longer valid. A right kernel says so now.
    pub(super) fn stale(&mut self, due: Due) {
        if self.late() { self.due.push(due) } else { self.invalidate(due) }
    }

    pub(super) fn invalidate(&mut self, due: Due) {
        if !self.spaces.contains_key(&due.space) {
            return;
        }
        if self.x86() {
            self.shoot_down(due)
        } else {
            let which = if self.riscv() { self.sfence(due) } else { self.tlbi(due) };
            self.say_to_all(&which)
        }
    }

    /// A process that runs nowhere is about to end: no entry of it stays.
    pub(super) fn forget_space(&mut self, space: u32) {
        if !self.x86() {
            let bytes = self.half(KERNEL);
            return self.invalidate(Due { space, address: 0, bytes, tables: true });
        }
        let home = self.running;
        for processor in 0..self.processors.len() {
            let slot = self.processors[processor].slots.iter().position(|owner| *owner == space);
            if let Some(slot) = slot {
                self.resume(processor);
                let tag = Some(slot as u16 + 1);
                self.say(Invalidate { tag, bytes: None, global: false, leaves: false, broadcast: false });
            }
        }
        self.resume(home);
    }

    /// What concerns all processors: broadcast, or on RISC-V executed by each.
    fn say_to_all(&mut self, which: &[Invalidate]) {
        if !self.riscv() {
            return which.iter().for_each(|&which| self.say(which));
        }
        let home = self.running;
        for processor in 0..self.processors.len() {
            if self.processors[processor].ready {
                self.resume(processor);
                which.iter().for_each(|&which| self.say(Invalidate { broadcast: false, ..which }));
            }
        }
        self.resume(home);
    }

    /// SFENCE.VMA: one address or all, one tag or all with what is global.
    fn sfence(&mut self, due: Due) -> Vec<Invalidate> {
        let tagged = due.space != KERNEL && self.dice.percent(80);
        let tag = tagged.then_some(self.spaces[&due.space].tag);
        let pages = due.bytes / 4096;
        let of = |bytes, leaves| Invalidate { tag, bytes, global: !tagged, leaves, broadcast: true };
        if due.tables || pages > 64 || self.dice.percent(10) {
            return vec![of(None, false)];
        }
        // A large leaf goes by any of its addresses.
        vec![of(Some((due.address + self.dice.below(pages) * 4096, 4096)), true)]
    }

    fn tlbi(&mut self, due: Due) -> Vec<Invalidate> {
        let (space, granule) = (due.space, 1u64 << self.config.format.granule);
        let alone = self.config.processors == 1 && self.dice.percent(50);
        let of_address = |bytes, leaves| Invalidate { tag: None, bytes, global: true, leaves, broadcast: !alone };
        let all = of_address(None, false);
        let tag = self.spaces[&space].tag;
        if due.bytes > 16 * granule && self.dice.percent(30) {
            // VMALLE1, or ASIDE1.
            return vec![if space == KERNEL { all } else { Invalidate { tag: Some(tag), global: false, ..all } }];
        }
        let leaves = !due.tables && self.dice.percent(50);
        let tag = if space != KERNEL && self.dice.percent(80) { Some(tag) } else { None };
        let pages = due.bytes / granule;
        if pages > 1 && !due.tables && self.dice.percent(50) {
            // A large leaf goes by any of its addresses.
            let address = due.address + self.dice.below(pages) * granule;
            return vec![Invalidate { tag, ..of_address(Some((address, granule)), leaves) }];
        }
        // By ranges, or page by page.
        if pages > 1 && (pages > 128 || self.dice.percent(50)) {
            return vec![Invalidate { tag, ..of_address(Some((due.address, due.bytes)), leaves) }];
        }
        let page = |page| Some((due.address + page * granule, granule));
        (0..pages).map(|at| Invalidate { tag, ..of_address(page(at), leaves) }).collect()
    }

    /// x86-64: each processor does it for itself.
    fn shoot_down(&mut self, due: Due) {
        let home = self.running;
        let others = (0..self.processors.len()).filter(|other| *other != home && self.processors[*other].ready);
        for processor in [home].into_iter().chain(others.collect::<Vec<_>>()) {
            let there = &mut self.processors[processor];
            if due.space != KERNEL && there.space != due.space {
                let slot = there.slots.iter().position(|owner| *owner == due.space);
                let Some(slot) = slot.filter(|_| self.config.tags) else { continue };
                if self.dice.percent(60) {
                    self.processors[processor].pending.insert(due.space);
                    continue;
                }
                // INVPCID 0 or 1 of a space that does not run there.
                self.resume(processor);
                let bytes = (due.bytes == 4096).then_some((due.address, 4096));
                self.say(Invalidate {
                    tag: Some(slot as u16 + 1),
                    bytes,
                    global: false,
                    leaves: false,
                    broadcast: false,
                });
                continue;
            }
            self.resume(processor);
            self.invalidate_here(due);
            if processor != home && self.dice.percent(50) {
                self.block(false);
            }
        }
        if self.dice.percent(50) {
            self.resume(home);
        }
    }

    /// Of the space that runs here, or of the kernel.
    fn invalidate_here(&mut self, due: Due) {
        let here = Invalidate { tag: None, bytes: None, global: true, leaves: false, broadcast: false };
        let pages = due.bytes / 4096;
        // Pages of the kernel that are not global have an entry with each tag.
        let every_tag = due.space == KERNEL && self.config.local_kernel && self.config.tags;
        if every_tag || (pages > 8 && due.tables) || self.dice.percent(10) {
            match (due.space, self.config.tags) {
                (KERNEL, true) if self.dice.percent(50) => self.say(here),
                (KERNEL, _) => self.all_by_cr4(),
                // INVPCID 1, or CR3 again.
                (_, true) if self.dice.percent(50) => {
                    self.say(Invalidate { tag: Some(self.processors[self.running].tag), global: false, ..here });
                }
                (space, _) => {
                    self.processors[self.running].pending.insert(space);
                    self.load(space);
                    self.processors[self.running].pending.remove(&space);
                }
            }
            return;
        }
        // INVLPG: a large leaf by any of its addresses.
        let tag = Some(if self.config.tags { self.processors[self.running].tag } else { 0 });
        let places = if pages > 8 { vec![self.dice.below(pages)] } else { (0..pages).collect() };
        for place in places {
            let bytes = Some((due.address + place * 4096, 4096));
            self.say(Invalidate { tag, bytes, ..here });
        }
    }

    /// PGE is cleared and set again.
    fn all_by_cr4(&mut self) {
        for global in [false, true] {
            self.processors[self.running].page_global = global;
            self.write_control();
        }
    }

    /// Says more than it must.
    pub(super) fn needless(&mut self) {
        let tagged = self.config.tags || !self.x86();
        let broadcast = self.config.format.arch == Arch::Aarch64;
        let all = Invalidate { tag: None, bytes: None, global: true, leaves: false, broadcast };
        let tag = Some(if tagged { self.processors[self.running].tag } else { 0 });
        let page = 1u64 << self.config.format.granule;
        let half = if self.dice.percent(50) { self.config.format.upper() } else { 0 };
        let address = half + (2 << self.config.format.shift(1)) + page * self.dice.below(8);
        match self.dice.below(5) {
            0 if self.x86() => self.all_by_cr4(),
            0 | 1 => self.say(Invalidate { tag, global: false, ..all }),
            // INVPCID 3; TLBI has no such form.
            2 if self.x86() => self.say(Invalidate { global: false, ..all }),
            2 => self.say(all),
            // With a tag SFENCE.VMA spares what is global.
            3 => self.say(Invalidate { tag, bytes: Some((address, page)), global: !self.riscv(), ..all }),
            _ => self.say(Invalidate { bytes: Some((address, page)), ..all }),
        }
    }
}
