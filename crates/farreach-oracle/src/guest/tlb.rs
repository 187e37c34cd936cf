//! TLBs as hardware keeps them: fully associative, least recently used, one for each virtual processor.
//!
//! What drops an entry: a register ([`Dropped`]); an [`Invalidate`], whose tag an entry must have, or be global and
//! `global` set; whose bytes it must touch; and whose `broadcast` reaches all processors. With `drops`, a change of the
//! tables too: what then translates otherwise goes at once, on all processors.

use super::system::{Heard, System};
use super::{Found, Mistake, Registers, bits, x86};
use farreach_types::addr::{Asid, KERNEL, VpnRange, owner};
use farreach_types::event::{Access, Arch, Guest, Invalidate, Op, Register};

/// What a write of a register drops, on its own processor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dropped {
    Nothing,
    /// Entries of a tag that are not global.
    Tagged(u16),
    NotGlobal,
    All,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TlbConfig {
    pub entries: usize,
    /// An entry has the size of its leaf. Else it has the size of a base page.
    pub mixed: bool,
    /// Log2 of the bytes of a base page: lookups are made by them.
    pub shift: u32,
    /// Entries are dropped when their translation changes, before the guest says so.
    pub drops: bool,
    /// The guest has no PCIDs, and is taken as if Linux dealt them out (OZ-12).
    pub pcid: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// First page of 4 KB.
    pub first: u64,
    /// Log2 of its pages of 4 KB.
    pub order: u32,
    pub tag: u16,
    /// The space in which it was filled; that of the kernel in the upper half.
    pub space: Asid,
    /// What the walk found of its first page.
    pub found: Found,
}

impl Entry {
    fn has(&self, page: u64) -> bool {
        page >> self.order == self.first >> self.order
    }

    /// What it says of one of its pages.
    fn of(&self, page: u64) -> Found {
        Found { frame: self.found.frame + (page - self.first), ..self.found }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TlbCounts {
    pub lookups: u64,
    pub misses: u64,
    /// Hits in entries that no longer translate as the tables do (OZ-8).
    pub stale: u64,
}

/// PCIDs of a processor: the spaces that have them, and which gets the next one. The tag of a space is its number.
#[derive(Clone, Default)]
struct Dealt {
    spaces: Vec<Asid>,
    next: usize,
    /// The space that runs.
    running: Option<Asid>,
}

pub struct Tlbs {
    pub config: TlbConfig,
    /// Of each processor, the entry used longest ago first.
    pub entries: Vec<Vec<Entry>>,
    /// Of each processor: programs, kernel.
    pub counts: Vec<[TlbCounts; 2]>,
    /// Entries that were dropped.
    pub dropped: u64,
    /// Of each processor, with `pcid`.
    dealt: Vec<Dealt>,
    mistake: Option<Mistake>,
}

impl Tlbs {
    pub fn new(config: TlbConfig, mistake: Option<Mistake>) -> Tlbs {
        Tlbs { config, entries: Vec::new(), counts: Vec::new(), dropped: 0, dealt: Vec::new(), mistake }
    }

    /// Programs and kernel, over all processors.
    pub fn sums(&self) -> [TlbCounts; 2] {
        let mut sums = <[TlbCounts; 2]>::default();
        for (sum, one) in self.counts.iter().flat_map(|counts| (0..).zip(counts)) {
            let sum: &mut TlbCounts = &mut sums[sum];
            sum.lookups += one.lookups;
            sum.misses += one.misses;
            sum.stale += one.stale;
        }
        sums
    }

    /// What a system is heard to do.
    pub fn hear(&mut self, system: &System, heard: Heard<'_>) {
        self.entries.resize(system.processors.len(), Vec::new());
        self.counts.resize(system.processors.len(), Default::default());
        self.dealt.resize(system.processors.len(), Dealt::default());
        match heard {
            Heard::Batch(_) => {}
            Heard::Access(access) => self.access(system, access),
            Heard::Unmapped(space, page) => self.unmapped(system, space, page),
            Heard::Register(before, register, value) => self.register(system, &before, register, value),
            Heard::Op(Op::Guest(Guest::Invalidate(which))) => self.invalidate(system, *which),
            Heard::Op(Op::Guest(Guest::Entries { .. })) if self.config.drops => self.drop_changed(system),
            Heard::Op(_) => {}
        }
    }

    fn access(&mut self, system: &System, access: Access) {
        for page in VpnRange::of_bytes(access.addr, access.size.into(), self.config.shift).iter() {
            // Inside a base page, what is translated is the first page of 4 KB that is touched.
            let page = (page.0 << (self.config.shift - 12)).max(access.addr >> 12);
            self.lookup(system, page);
        }
    }

    /// OZ-12: the space that runs has a PCID.
    fn deal(&mut self, system: &System) {
        if !self.config.pcid || system.space == KERNEL {
            return;
        }
        let dealt = &mut self.dealt[system.running];
        dealt.running = Some(system.space);
        if dealt.spaces.contains(&system.space) {
            return;
        }
        if dealt.spaces.len() < 6 {
            return dealt.spaces.push(system.space);
        }
        let lost = std::mem::replace(&mut dealt.spaces[dealt.next], system.space);
        dealt.next = (dealt.next + 1) % 6;
        self.drop_if(system.running, |entry| entry.tag == lost.0 as u16 && !entry.found.global);
    }

    fn lookup(&mut self, system: &System, page: u64) {
        self.deal(system);
        let running = system.running;
        let counts = &mut self.counts[running][usize::from(system.kernel[running])];
        let entries = &mut self.entries[running];
        let tag = if self.config.pcid { system.space.0 as u16 } else { system.tag() };
        let now = system.translate(system.space, page);
        counts.lookups += 1;
        let answers = |entry: &Entry| entry.has(page) && (entry.tag == tag || entry.found.global);
        if let Some(place) = entries.iter().rposition(answers) {
            let entry = entries.remove(place);
            entries.push(entry);
            let says = entry.of(page);
            counts.stale += u64::from(now.is_none_or(|now| (now.frame, now.rights) != (says.frame, says.rights)));
            return;
        }
        counts.misses += 1;
        let Some(found) = now else { return };
        let base = self.config.shift - 12;
        let order = match self.config.mixed {
            // The largest entries have 1 GB.
            true if found.order <= 18 => found.order.max(base),
            true => found.leaf,
            false => base,
        };
        let first = page >> order << order;
        if entries.len() == self.config.entries {
            entries.remove(0);
        }
        let found = Found { frame: found.frame - (page - first), ..found };
        entries.push(Entry { first, order, tag, space: owner(system.space, page), found });
    }

    fn drop_if(&mut self, processor: usize, goes: impl Fn(&Entry) -> bool) {
        let before = self.entries[processor].len();
        self.entries[processor].retain(|entry| !goes(entry));
        self.dropped += (before - self.entries[processor].len()) as u64;
    }

    /// OZ-13. What the tables map is not concerned.
    fn unmapped(&mut self, system: &System, space: Asid, page: u64) {
        if system.translate(space, page).is_none() {
            for processor in 0..self.entries.len() {
                self.drop_if(processor, |entry| entry.space == space && entry.has(page));
            }
        }
    }

    fn register(&mut self, system: &System, before: &Registers, register: Register, value: u64) {
        let again = bits(before.root0 ^ value, 51, 12) == 0;
        let dropped = match system.arch {
            Arch::X86 if self.config.pcid && register == Register::Root0 => match self.dealt[system.running].running {
                Some(space) if again => Dropped::Tagged(space.0 as u16),
                _ => Dropped::Nothing,
            },
            Arch::X86 => x86::written(before, register, value, self.mistake),
            _ => Dropped::Nothing,
        };
        self.drop_if(system.running, |entry| match dropped {
            Dropped::Nothing => false,
            Dropped::Tagged(tag) => entry.tag == tag && !entry.found.global,
            Dropped::NotGlobal => !entry.found.global,
            Dropped::All => true,
        });
    }

    fn invalidate(&mut self, system: &System, which: Invalidate) {
        self.deal(system);
        let mistake = self.mistake;
        let running = self.dealt[system.running].running.filter(|_| self.config.pcid);
        let which = Invalidate { tag: running.map_or(which.tag, |space| which.tag.map(|_| space.0 as u16)), ..which };
        let goes = |entry: &Entry| {
            let spared = mistake == Some(Mistake::SparesGlobal) && which.tag.is_some();
            let tagged = which.tag.is_none_or(|tag| tag == entry.tag || mistake == Some(Mistake::AnyTag));
            let meant = if entry.found.global { which.global && !spared } else { tagged };
            meant && which.bytes.is_none_or(|(start, length)| touches(entry, start, length, mistake))
        };
        let all = which.broadcast && mistake != Some(Mistake::NoBroadcast);
        for processor in 0..self.entries.len() {
            if all || processor == system.running {
                self.drop_if(processor, goes);
            }
        }
    }

    /// Entries whose translation changed. An entry of more pages than its leaf has now is one of them; one of fewer
    /// is as right as before.
    fn drop_changed(&mut self, system: &System) {
        let mixed = self.config.mixed;
        let changed = |entry: &Entry| {
            let now = system.translate(entry.space, entry.first);
            let says = (entry.found.frame, entry.found.rights);
            now.is_none_or(|now| (now.frame, now.rights) != says || mixed && now.order < entry.order)
        };
        for processor in 0..self.entries.len() {
            self.drop_if(processor, changed);
        }
    }
}

fn touches(entry: &Entry, start: u64, length: u64, mistake: Option<Mistake>) -> bool {
    let (from, to) = (start >> 12, (start + length - 1) >> 12);
    // What is concerned of an entry, and of the leaf that it is a part of.
    let order = entry.order.max(entry.found.leaf);
    let first = entry.first >> order << order;
    let last = if mistake == Some(Mistake::FirstPageOnly) { first } else { first + (1 << order) - 1 };
    first <= to && from <= last
}
