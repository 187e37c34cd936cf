//! AMD with INVLPGB, as Linux uses it (OS-SHD-9): a process that runs on several cores at a flush gets an id that is
//! the same on all cores, and is flushed by broadcast from then on. All others are flushed as in
//! [`super::generations`].

use super::generations::{CEILING, Generations, KPTI, OTHER_CORES, SLOTS};
use super::{AtSwitch, BROADCAST_CYCLES, COUNTERS, CoreSet, ENTRY_CYCLES, Listed, Mechanism, Plan, SPACE_CYCLES};
use crate::tlb::contract::FlushRequest;
use farreach_types::addr::Asid;
use farreach_types::params::{Allowed, Key};
use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashSet};

const CORES: Key = Key {
    name: "global_id_cores",
    default: "4",
    allowed: Allowed::Int { min: 1, max: 64 },
    about: "cores that must have a process loaded for it to get an id of all cores",
};
const CONSIDER: Key = Key {
    name: "shd_consider",
    default: "32",
    allowed: Allowed::Int { min: 1, max: 1 << 40 },
    about: "flushes of a process, of which one looks at the number of its cores",
};
const PAGES: Key = Key {
    name: "broadcast_pages",
    default: "8",
    allowed: Allowed::Int { min: 1, max: 65536 },
    about: "pages of their size that one broadcast instruction drops at most",
};

pub const MECHANISM: Listed = Listed {
    name: "global_ids",
    about: "as generations, and broadcast for processes of many cores, as on AMD (OS-SHD-9)",
    keys: &[
        &SLOTS,
        &CEILING,
        &OTHER_CORES,
        &KPTI,
        &CORES,
        &CONSIDER,
        &PAGES,
        &ENTRY_CYCLES,
        &SPACE_CYCLES,
        &BROADCAST_CYCLES,
    ],
    counters: COUNTERS,
    build: |params, cores| {
        Box::new(GlobalIds {
            others: Generations::new(params, cores),
            all: CoreSet::MAX >> (CoreSet::BITS as usize - cores),
            global: HashSet::default(),
            flushes: HashMap::default(),
            least: params.int(CORES.name),
            consider: params.int(CONSIDER.name),
            pages: params.int(PAGES.name),
        })
    },
};

/// See the module.
struct GlobalIds {
    others: Generations,
    all: CoreSet,
    /// Processes with an id of all cores.
    global: HashSet<Asid, FixedState>,
    /// Flushes of each other process.
    flushes: HashMap<Asid, u64, FixedState>,
    least: u64,
    consider: u64,
    pages: u64,
}

impl Mechanism for GlobalIds {
    fn switch(&mut self, core: usize, to: Asid) -> AtSwitch {
        if self.global.contains(&to) {
            self.others.load(core, to);
            return AtSwitch::Nothing;
        }
        self.others.switch(core, to)
    }

    fn request(&mut self, request: &FlushRequest, from: usize) -> Plan {
        let asid = request.asid;
        if self.global.contains(&asid) {
            return match self.others.one_by_one(request) {
                true => {
                    let broadcasts = request.strides().div_ceil(self.pages);
                    Plan { pages: self.all, broadcasts, ..Plan::default() }
                }
                false => Plan { whole: self.all, broadcasts: 1, ..Plan::default() },
            };
        }
        let running = self.others.running(asid, from);
        let plan = self.others.request(request, from);
        let flushes = self.flushes.entry(asid).or_default();
        *flushes += 1;
        if flushes.is_multiple_of(self.consider) && running as u64 >= self.least {
            self.global.insert(asid);
            self.others.give_up_slots(asid);
            // Entries have the old ids, which are not used any more.
            return Plan { pages: 0, whole: self.all, unreachable: self.all & !(plan.pages | plan.whole), ..plan };
        }
        plan
    }

    fn is_behind(&self, core: usize, asid: Asid) -> bool {
        self.others.is_behind(core, asid)
    }

    fn tags(&self) -> u64 {
        self.others.tags()
    }

    fn ended(&mut self, asid: Asid) {
        self.global.remove(&asid);
        self.flushes.remove(&asid);
        self.others.ended(asid);
    }
}
