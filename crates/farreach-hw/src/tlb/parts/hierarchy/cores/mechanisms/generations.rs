//! Linux on x86 (OS-SHD-1 to OS-SHD-4). Each address space has a generation, which every request raises; each core has
//! a few slots with process ids, and remembers for each which generation its entries have reached. A core that does not
//! have the space loaded is not interrupted: it compares generations when it takes the space up again.

use super::{AtSwitch, BROADCAST_CYCLES, COUNTERS, ENTRY_CYCLES, Listed, Mechanism, Plan, SPACE_CYCLES};
use crate::tlb::contract::FlushRequest;
use crate::tlb::keys::PROCESS_IDS;
use farreach_types::addr::Asid;
use farreach_types::params::{Allowed, Key, Params};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// OS-SHD-4.
pub(super) const SLOTS: Key = Key {
    name: "pcid_slots",
    default: "6",
    allowed: Allowed::Int { min: 1, max: 4096 },
    about: "process ids that a core uses in turn; one with process_ids = false",
};
/// OS-SHD-1.
pub(super) const CEILING: Key = Key {
    name: "flush_ceiling",
    default: "33",
    allowed: Allowed::Int { min: 0, max: 1 << 40 },
    about: "most pages of their size that a core drops one by one; of more, it drops the whole process",
};
/// OS-SHD-2, OS-SHD-3. A stream does not tell which other cores are idle.
pub(super) const OTHER_CORES: Key = Key {
    name: "other_cores",
    default: "busy",
    allowed: Allowed::OneOf(&["busy", "idle"]),
    about: "what cores do whose threads do not run in the stream: run on, so that they are interrupted, or nothing, so \
            that they catch up later (lazy TLB)",
};

/// OS-SHD-5.
pub(super) const KPTI: Key = Key {
    name: "kpti",
    default: "false",
    allowed: Allowed::Flag,
    about: "whether a process has two tags on a core, one of which is used in the kernel alone: what is dropped, is \
            dropped for both (KPTI)",
};

pub const MECHANISM: Listed = Listed {
    name: "generations",
    about: "generations and process ids of Linux on x86 (OS-SHD-1 to OS-SHD-4)",
    keys: &[&SLOTS, &CEILING, &OTHER_CORES, &KPTI, &ENTRY_CYCLES, &SPACE_CYCLES, &BROADCAST_CYCLES],
    counters: COUNTERS,
    build: |params, cores| Box::new(Generations::new(params, cores)),
};

/// A process id of a core.
#[derive(Clone, Copy)]
struct Slot {
    asid: Asid,
    /// What its entries have reached.
    generation: u64,
}

#[derive(Clone)]
struct Core {
    slots: Vec<Option<Slot>>,
    /// Which slot is given away next.
    next: usize,
    /// What it has loaded; none: the kernel's own table.
    loaded: Option<Asid>,
}

impl Core {
    fn slot(&mut self, asid: Asid) -> Option<&mut Slot> {
        self.slots.iter_mut().flatten().find(|slot| slot.asid == asid)
    }
}

/// See the module.
pub(super) struct Generations {
    generations: HashMap<Asid, u64, FixedState>,
    cores: Vec<Core>,
    ceiling: u64,
    idle: bool,
    tags: u64,
}

impl Generations {
    pub fn new(params: &Params, cores: usize) -> Generations {
        let slots = if params.flag(PROCESS_IDS.name) { params.int(SLOTS.name) } else { 1 };
        let core = Core { slots: vec![None; slots as usize], next: 0, loaded: None };
        Generations {
            generations: HashMap::default(),
            cores: vec![core; cores],
            ceiling: params.int(CEILING.name),
            idle: params.text(OTHER_CORES.name) == "idle",
            tags: 1 + u64::from(params.flag(KPTI.name)),
        }
    }

    fn generation(&self, asid: Asid) -> u64 {
        self.generations.get(&asid).copied().unwrap_or_default()
    }

    /// The cores that have a space loaded and are not lazy, when this one runs.
    pub fn running(&self, asid: Asid, from: usize) -> usize {
        let runs = |(i, core): &(usize, &Core)| core.loaded == Some(asid) && (!self.idle || *i == from);
        self.cores.iter().enumerate().filter(runs).count()
    }

    /// A core runs a process whose id is not one of its slots.
    pub fn load(&mut self, core: usize, asid: Asid) {
        self.cores[core].loaded = Some(asid);
    }

    /// Whether pages are dropped one by one.
    pub fn one_by_one(&self, request: &FlushRequest) -> bool {
        request.strides() <= self.ceiling
    }

    /// No core has a slot for it any more.
    pub fn give_up_slots(&mut self, asid: Asid) {
        for core in &mut self.cores {
            core.slots
                .iter_mut()
                .filter(|slot| slot.is_some_and(|slot| slot.asid == asid))
                .for_each(|slot| *slot = None);
        }
    }
}

impl Mechanism for Generations {
    fn switch(&mut self, core: usize, to: Asid) -> AtSwitch {
        let generation = self.generation(to);
        let core = &mut self.cores[core];
        core.loaded = Some(to);
        if let Some(slot) = core.slot(to) {
            let is_current = slot.generation == generation;
            slot.generation = generation;
            return if is_current { AtSwitch::Nothing } else { AtSwitch::Space(to) };
        }
        let at = core.next;
        core.next = (at + 1) % core.slots.len();
        let before = core.slots[at].replace(Slot { asid: to, generation });
        // Also a slot that is empty is flushed.
        AtSwitch::Space(before.map_or(to, |slot| slot.asid))
    }

    fn request(&mut self, request: &FlushRequest, from: usize) -> Plan {
        let (idle, asid, one_by_one) = (self.idle, request.asid, self.one_by_one(request));
        let generation = self.generations.entry(asid).or_default();
        *generation += 1;
        let now = *generation;
        let mut plan = Plan::default();
        for (i, core) in self.cores.iter_mut().enumerate().filter(|(_, core)| core.loaded == Some(asid)) {
            let is_lazy = idle && i != from;
            if is_lazy && !request.tables {
                continue;
            }
            if i != from {
                plan.interrupted |= 1 << i;
            }
            if is_lazy {
                // It loads the kernel's own table, and catches up when it comes back (OS-SHD-3).
                core.loaded = None;
                continue;
            }
            let slot = core.slot(asid).expect("what is loaded has a slot");
            if one_by_one && slot.generation + 1 == now {
                plan.pages |= 1 << i;
            } else {
                plan.whole |= 1 << i;
            }
            slot.generation = now;
        }
        plan
    }

    fn is_behind(&self, core: usize, asid: Asid) -> bool {
        let now = self.generation(asid);
        self.cores[core].slots.iter().flatten().any(|slot| slot.asid == asid && slot.generation < now)
    }

    fn tags(&self) -> u64 {
        self.tags
    }

    fn ended(&mut self, asid: Asid) {
        self.generations.remove(&asid);
        self.give_up_slots(asid);
        self.cores.iter_mut().filter(|core| core.loaded == Some(asid)).for_each(|core| core.loaded = None);
    }
}
