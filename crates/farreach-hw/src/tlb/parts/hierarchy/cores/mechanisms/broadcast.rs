//! Arm (OS-SHD-8): the core that changes a mapping tells all others by instruction, and interrupts none. Process ids
//! are given to processes, not to cores: a switch drops nothing, until all ids are in use.

use super::{AtSwitch, BROADCAST_CYCLES, COUNTERS, CoreSet, ENTRY_CYCLES, Listed, Mechanism, Plan, SPACE_CYCLES};
use crate::tlb::contract::FlushRequest;
use farreach_types::addr::Asid;
use farreach_types::params::{Allowed, Key, Params};
use foldhash::fast::FixedState;
use hashbrown::HashSet;

const MOST: Key = Key {
    name: "broadcast_most",
    default: "512",
    allowed: Allowed::Int { min: 1, max: 1 << 40 },
    about: "pages of their size from which on one instruction drops the whole process, without broadcast_ranges",
};
const RANGES: Key = Key {
    name: "broadcast_ranges",
    default: "false",
    allowed: Allowed::Flag,
    about: "instructions that drop ranges of pages (FEAT_TLBIRANGE), up to 2^21 pages",
};
const IDS: Key = Key {
    name: "space_ids",
    default: "65536",
    allowed: Allowed::Int { min: 2, max: 65536 },
    about: "process ids of all cores together; when they are used up, each core drops everything at its next switch",
};

pub const MECHANISM: Listed = Listed {
    name: "broadcast",
    about: "broadcast instructions and process ids of all cores, as on Arm (OS-SHD-8)",
    keys: &[&MOST, &RANGES, &IDS, &ENTRY_CYCLES, &SPACE_CYCLES, &BROADCAST_CYCLES],
    counters: COUNTERS,
    build: |params, cores| {
        Box::new(Broadcast {
            most: if params.flag(RANGES.name) { RANGE_PAGES } else { params.int(MOST.name) },
            ranges: params.flag(RANGES.name),
            ids: params.int(IDS.name),
            given: HashSet::default(),
            used: 0,
            loaded: vec![None; cores],
            must_drop: 0,
        })
    },
};

/// Pages from which on ranges are not used.
const RANGE_PAGES: u64 = 1 << 21;

/// OS-SHD-8: each core may run a process of its own, beside the kernel, when a new generation of ids begins.
pub(super) fn has_enough_ids(params: &Params, cores: u64) -> Result<(), String> {
    match params.has(IDS.name).then(|| params.int(IDS.name)) {
        Some(ids) if ids <= cores => Err(format!(
            "{} = {ids} is not allowed with cores = {cores}: each core may run another process, and id 0 is the \
             kernel's (OS-SHD-8); it must be at least {}",
            IDS.name,
            cores + 1
        )),
        _ => Ok(()),
    }
}

/// Instructions that drop this number of pages by ranges: each covers `(n + 1) << (5 scale + 1)` pages, with n below 32
/// and a scale from 3 to 0; an odd page has one of its own.
fn range_instructions(pages: u64) -> u64 {
    let (mut left, mut instructions) = (pages, 0);
    for scale in (0..4).rev() {
        let unit = 5 * scale + 1;
        let units = (left >> unit).min(32);
        instructions += u64::from(units > 0);
        left -= units << unit;
    }
    instructions + left
}

/// See the module.
struct Broadcast {
    most: u64,
    ranges: bool,
    ids: u64,
    /// Processes with an id of this generation of ids.
    given: HashSet<Asid, FixedState>,
    /// Ids that are used up in this generation, also by processes that have ended.
    used: u64,
    loaded: Vec<Option<Asid>>,
    /// Cores that drop everything at their next switch.
    must_drop: CoreSet,
}

impl Broadcast {
    fn all(&self) -> CoreSet {
        CoreSet::MAX >> (CoreSet::BITS as usize - self.loaded.len())
    }
}

impl Mechanism for Broadcast {
    fn switch(&mut self, core: usize, to: Asid) -> AtSwitch {
        if self.loaded[core].replace(to) == Some(to) {
            return AtSwitch::Nothing; // It runs on, and keeps its id.
        }
        if !self.given.contains(&to) {
            // Id 0 is the kernel's.
            if self.used == self.ids - 1 {
                // Who runs keeps its id.
                self.given = self.loaded.iter().flatten().copied().collect();
                self.must_drop = self.all();
                self.used = self.given.len() as u64 - 1; // `to` is among them.
            }
            self.given.insert(to);
            self.used += 1;
        }
        let drops = self.must_drop >> core & 1 != 0;
        self.must_drop &= !(1 << core);
        if drops { AtSwitch::Everything } else { AtSwitch::Nothing }
    }

    fn request(&mut self, request: &FlushRequest, _from: usize) -> Plan {
        let strides = request.strides();
        if strides >= self.most {
            return Plan { whole: self.all(), broadcasts: 1, ..Plan::default() };
        }
        let broadcasts = if self.ranges { range_instructions(strides) } else { strides };
        Plan { pages: self.all(), broadcasts, ..Plan::default() }
    }

    fn is_behind(&self, _core: usize, _asid: Asid) -> bool {
        false
    }

    fn ended(&mut self, asid: Asid) {
        self.given.remove(&asid);
        self.loaded.iter_mut().filter(|loaded| **loaded == Some(asid)).for_each(|loaded| *loaded = None);
    }
}
