//! LATR (OS-SHD-10): after an munmap no core is interrupted. The one that made it drops the pages and leaves a record;
//! each other core that has the process loaded serves all records at its next tick, or switch to another process.
//! Meanwhile its entries are wrong, but no program may use the pages, and the system keeps their frames (`unmap_hold`).
//! All other changes are as in [`super::generations`], by interrupt.
//!
//! The kernel would not give the addresses out again before the tick, either. Here they are those of the recorded
//! program, which may use them at once: then the cores of the record are interrupted.

use super::generations::{CEILING, Generations, KPTI, OTHER_CORES, SLOTS};
use super::{
    AtSwitch, BROADCAST_CYCLES, COUNTERS, CoreSet, Deferring, ENTRY_CYCLES, Late, Listed, Mechanism, Plan, SPACE_CYCLES,
};
use crate::tlb::contract::FlushRequest;
use crate::tlb::parts::additions::Counter;
use farreach_types::addr::{Asid, VpnRange};
use farreach_types::params::{Allowed, Key};

/// 64 in the paper, 256 in its source.
const RECORDS: Key = Key {
    name: "latr_records",
    default: "64",
    allowed: Allowed::Int { min: 1, max: 1 << 20 },
    about: "records of munmap that a core may have at a time; if there is no room, cores are interrupted",
};
/// A millisecond of a processor of 3 GHz with one instruction a cycle.
const TICK: Key = Key {
    name: "latr_tick",
    default: "3000000",
    allowed: Allowed::Int { min: 1, max: 1 << 60 },
    about: "instructions of all programs from one tick of the scheduler to the next, at which cores serve records",
};
/// Assumed: some hundred cycles, as the paper's 132 ns.
const RECORD_CYCLES: Key = Key {
    name: "latr_record_cycles",
    default: "400",
    allowed: Allowed::Number { min: 0.0, max: 1e12 },
    about: "cycles to leave a record for other cores",
};

/// Places among the counters.
pub(in super::super) const LATE: usize = COUNTERS.len();
pub(in super::super) const CROWDED: usize = LATE + 1;
pub(in super::super) const REUSED: usize = LATE + 2;

const ALL: [Counter; COUNTERS.len() + 3] = {
    let [requests, entry, space, broadcast, at_switch] = *COUNTERS else { panic!("five are common") };
    [
        requests,
        entry,
        space,
        broadcast,
        at_switch,
        Counter { price: Some(&RECORD_CYCLES), ..Counter::new("records", "requests that other cores serve later") },
        Counter::new("records_refused", "requests that found no room for a record"),
        Counter::new("records_forced", "records that were served at once, since a page was mapped anew"),
    ]
};

pub const MECHANISM: Listed = Listed {
    name: "latr",
    about: "as generations, but munmap leaves a record that cores serve at their tick (LATR, OS-SHD-10)",
    keys: &[
        &SLOTS,
        &CEILING,
        &OTHER_CORES,
        &KPTI,
        &RECORDS,
        &TICK,
        &ENTRY_CYCLES,
        &SPACE_CYCLES,
        &BROADCAST_CYCLES,
        &RECORD_CYCLES,
    ],
    counters: &ALL,
    build: |params, cores| {
        let tick = params.int(TICK.name);
        Box::new(Latr {
            others: Generations::new(params, cores),
            rings: vec![Vec::new(); cores],
            room: params.int(RECORDS.name) as usize,
            tick,
            due: tick,
        })
    },
};

/// What cores have to drop.
#[derive(Clone, Copy)]
struct Record {
    request: FlushRequest,
    /// Those that have not yet, as bits; and of these, those that drop all of the process.
    cores: CoreSet,
    whole: CoreSet,
}

impl Record {
    /// What some of its cores drop now.
    fn serve(&mut self, cores: CoreSet) -> impl Iterator<Item = Late> + use<> {
        let now = self.cores & cores;
        self.cores &= !cores;
        let request = self.request;
        let all = FlushRequest { pages: VpnRange::ALL, ..request };
        let parts = [Late { request, cores: now & !self.whole }, Late { request: all, cores: now & self.whole }];
        parts.into_iter().filter(|late| late.cores != 0)
    }
}

/// See the module.
struct Latr {
    others: Generations,
    /// The records that each core has left.
    rings: Vec<Vec<Record>>,
    room: usize,
    tick: u64,
    due: u64,
}

impl Latr {
    /// Some cores serve some records. Those that all have served are gone.
    fn serve(&mut self, cores: CoreSet, which: impl Fn(&Record) -> bool) -> Vec<Late> {
        let mut late = Vec::new();
        for ring in &mut self.rings {
            for record in ring.iter_mut().filter(|record| which(record)) {
                late.extend(record.serve(cores));
            }
            ring.retain(|record| record.cores != 0);
        }
        late
    }
}

impl Mechanism for Latr {
    fn switch(&mut self, core: usize, to: Asid) -> AtSwitch {
        self.others.switch(core, to)
    }

    fn request(&mut self, request: &FlushRequest, from: usize) -> Plan {
        let plan = self.others.request(request, from);
        let others = !(1 << from);
        let deferred = (plan.pages | plan.whole) & others;
        // Cores that do nothing drop nothing now: they catch up when they come back. Those that are interrupted all the
        // same, since tables were freed, load the kernel's table (OS-SHD-3), for which no record can wait.
        if !request.unmapped || deferred == 0 {
            return plan;
        }
        if self.rings[from].len() == self.room {
            return Plan { is_crowded: true, ..plan };
        }
        self.rings[from].push(Record { request: *request, cores: deferred, whole: plan.whole & others });
        Plan { pages: plan.pages & !others, whole: plan.whole & !others, interrupted: 0, deferred, ..plan }
    }

    fn is_behind(&self, core: usize, asid: Asid) -> bool {
        self.others.is_behind(core, asid)
    }

    fn ended(&mut self, asid: Asid) {
        self.others.ended(asid);
        self.rings.iter_mut().for_each(|ring| ring.retain(|record| record.request.asid != asid));
    }

    fn tags(&self) -> u64 {
        self.others.tags()
    }

    fn deferring(&mut self) -> Option<&mut dyn Deferring> {
        Some(self)
    }

    fn next_tick(&self) -> u64 {
        self.due
    }

    fn is_late(&self, core: usize, asid: Asid, pages: VpnRange) -> bool {
        self.rings.iter().flatten().any(|record| {
            record.cores >> core & 1 != 0 && record.request.asid == asid && record.request.pages.overlaps(&pages)
        })
    }
}

impl Deferring for Latr {
    fn ticked(&mut self, now: u64) {
        self.due = (now / self.tick + 1).saturating_mul(self.tick);
    }

    fn serve(&mut self, core: usize) -> Vec<Late> {
        Latr::serve(self, 1 << core, |_| true)
    }

    fn reused(&mut self, asid: Asid, pages: VpnRange) -> Vec<Late> {
        Latr::serve(self, CoreSet::MAX, |record| record.request.asid == asid && record.request.pages.overlaps(&pages))
    }
}
