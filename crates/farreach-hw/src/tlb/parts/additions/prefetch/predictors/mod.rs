//! Prefetchers: what they predict at a miss, and what they learn from it. A file each, and a line in the registry at
//! the end of this one.
//!
//! Pages here are numbers of pages of the instance's size (PB-8). A prediction may be negative, too large, or the page
//! of the miss itself; the filter drops those (PB-6).

mod atp;
mod distance;
mod h2p;
mod markov;
mod masp;
mod morrigan;
mod recency;
mod rows;
mod sequential;
mod stp;
mod stride;

pub use recency::RP_REFERENCE;

use super::free::Free;
use super::{CHOSEN, POINTER_WRITES, Victim};
use farreach_types::addr::{Asid, VpnRange};
use farreach_types::counts::OwnCounts;
use farreach_types::params::{Allowed, Key, Params};

/// Section 2.2.
pub const PREFETCHER: Key = Key {
    name: "prefetcher",
    default: "sequential",
    allowed: Allowed::OneOf(&NAMES),
    about: "what predicts the pages to prefetch at a miss: none, next pages (sequential), strides of instructions \
            (stride, masp), successors of pages (markov; morrigan: of fetches) or of distances (distance), pages that \
            left together (recency), the last two distances (h2p), pages around (stp), a choice of h2p, masp and stp \
            (atp)",
};

/// The value of [`PREFETCHER`] without one.
const NONE: &str = "none";

/// A miss that a prefetcher acts on (PB-4).
pub(super) struct Trigger<'a> {
    pub asid: Asid,
    /// Its page.
    pub page: i64,
    /// log2 of the base pages of the pages that the instance counts in.
    pub order: u8,
    /// See [`super::Miss`].
    pub pc: u64,
    /// What the second level evicted for it.
    pub victim: Option<Victim>,
    /// What decides about neighbours.
    pub free: &'a Free,
}

/// A prefetcher.
pub(super) trait Predictor: Send {
    /// Adds the pages that it predicts at this miss, in order.
    fn predict(&mut self, at: &Trigger, into: &mut Vec<i64>, own: &mut OwnCounts);
    /// Learns from the miss, for which [`Predictor::predict`] was called.
    fn train(&mut self, at: &Trigger, own: &mut OwnCounts);
    /// A miss that is no trigger (PB-4), for what follows the second level all the same.
    fn passed(&mut self, _at: &Trigger, _own: &mut OwnCounts) {}
    /// Whether the walk for this prediction, by its place among those of the miss, brings in neighbours, too.
    fn takes_neighbours(&self, _prediction: usize) -> bool {
        true
    }
    /// Forgets what it has learnt on the chip (HW-9).
    fn forget(&mut self);
    /// These pages were unmapped or moved.
    fn unmapped(&mut self, _asid: Asid, _pages: VpnRange) {}
    /// The address space ended.
    fn gone(&mut self, _asid: Asid) {}
}

/// A prefetcher as the registry knows it.
pub struct Listed {
    /// Value of [`PREFETCHER`].
    pub name: &'static str,
    /// The keys it reads.
    pub keys: &'static [&'static Key],
    /// Whether it needs the program counter (HW-6).
    pub needs_pc: bool,
    /// Whether it acts on misses of fetches alone (MOR-1).
    pub for_fetches: bool,
    /// Whether one instance serves pages of all sizes, in base pages.
    pub for_all_sizes: bool,
    /// Builds an instance. The error names key, value and what is allowed.
    pub(super) build: fn(&Params) -> Result<Box<dyn Predictor>, String>,
}

impl Listed {
    /// What entries have if they do not say otherwise.
    const NEW: Listed = Listed {
        name: "",
        keys: &[],
        needs_pc: false,
        for_fetches: false,
        for_all_sizes: false,
        build: |_| Err(String::new()),
    };
}

/// The prefetcher of a machine, if it has one.
pub(super) fn chosen(params: &Params) -> Option<&'static Listed> {
    let name = params.text(PREFETCHER.name);
    PREDICTORS.iter().copied().find(|listed| listed.name == name)
}

/// This many instances of it, or one, or none.
pub(super) fn build(params: &Params, instances: usize) -> Result<Vec<Box<dyn Predictor>>, String> {
    let Some(listed) = chosen(params) else { return Ok(Vec::new()) };
    let instances = if listed.for_all_sizes { 1 } else { instances };
    (0..instances).map(|_| (listed.build)(params)).collect()
}

/// Whether a prefetch is one reference to an entry (RP-5).
pub(super) fn reads_entries(params: &Params) -> bool {
    params.text(PREFETCHER.name) == recency::LISTED.name && params.text(RP_REFERENCE.name) == "pte"
}

/// Makes the registry.
macro_rules! predictors {
    ($($module:ident,)*) => {
        /// All prefetchers. A new one is one file here and one line at the end of `predictors/mod.rs`.
        pub const PREDICTORS: &[&Listed] = &[$(&$module::LISTED),*];
    };
}

/// Values of [`PREFETCHER`].
const NAMES: [&str; PREDICTORS.len() + 1] = {
    let mut names = [NONE; PREDICTORS.len() + 1];
    let mut i = 0;
    while i < PREDICTORS.len() {
        names[i + 1] = PREDICTORS[i].name;
        i += 1;
    }
    names
};

/// The keys of all.
pub(super) const KEYS: &[&Key] = &{
    let mut keys = [&PREFETCHER; 1 + MANY + rows::KEYS.len()];
    let (mut n, mut i) = (1, 0);
    while i < PREDICTORS.len() {
        let mut k = 0;
        while k < PREDICTORS[i].keys.len() {
            keys[n] = PREDICTORS[i].keys[k];
            (n, k) = (n + 1, k + 1);
        }
        i += 1;
    }
    let mut k = 0;
    while k < rows::KEYS.len() {
        keys[n + k] = rows::KEYS[k];
        k += 1;
    }
    keys
};

/// The number of keys that prefetchers have alone.
const MANY: usize = {
    let (mut n, mut i) = (0, 0);
    while i < PREDICTORS.len() {
        n += PREDICTORS[i].keys.len();
        i += 1;
    }
    n
};

/// One miss of process 0 at a time, by one instruction, for a prefetcher alone. Returns what it predicts at each.
#[cfg(test)]
fn drive(predictor: &mut dyn Predictor, misses: &[(i64, Option<u64>)], own: &mut OwnCounts) -> Vec<Vec<i64>> {
    let free = Free::new(&defaults().0).expect("defaults are allowed");
    let each = |&(page, victim): &(i64, Option<u64>)| {
        let victim = victim.map(|vpn| Victim { asid: Asid(0), vpn: farreach_types::addr::Vpn(vpn), order: 0 });
        let at = Trigger { asid: Asid(0), page, order: 0, pc: 64, victim, free: &free };
        let mut into = Vec::new();
        predictor.predict(&at, &mut into, own);
        predictor.train(&at, own);
        into
    };
    misses.iter().map(each).collect()
}

/// The keys at their defaults, and the counters.
#[cfg(test)]
fn defaults() -> (Params, OwnCounts) {
    let params = Params::resolve(super::LISTED.keys, &Default::default()).expect("defaults are allowed");
    let mut own = OwnCounts::default();
    let names: Vec<_> = super::LISTED.counters.iter().map(|counter| counter.name).collect();
    own.reset(&names);
    (params, own)
}

predictors! {
    sequential,
    stride,
    markov,
    distance,
    recency,
    h2p,
    masp,
    stp,
    atp,
    morrigan,
}
