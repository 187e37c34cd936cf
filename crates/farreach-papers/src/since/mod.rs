//! Translation hardware since 2000: designs that are added to a hierarchy, beside the machine without them. Claims of
//! speed are tested as walks, references and cycles by the model, because there is no pipeline (HW-7).

pub(super) mod cores;
pub(super) mod designs;
pub(super) mod guests;
pub(super) mod identities;
pub(super) mod midgard;
pub(super) mod open;
pub(super) mod prefetch;
pub(super) mod reach;
pub(super) mod replacement;
pub(super) mod tables;
pub(super) mod walks;

use super::printed;
use crate::results::{Request, Results, Set, grid};
use crate::study::Study;
use farreach_types::counts::{MachineResult, MemoryCounts};
use farreach_types::papers::{Cell, Origin, Program, Section, Table};

/// The machine that the others add to.
pub(crate) const BASE: &str = "since/base";
/// With the walk caches that HW-1 prints.
pub(crate) const BASE_PRINTED: &str = "since/base:pwc_pdpt=16,pwc_pml4=16";
/// With reservations of 2 MB, as SpecTLB needs them.
pub(crate) const BASE_RESERVED: &str = "since/base:placement=reservation,region=2M";
/// With memory in one piece, as SpOT needs it.
pub(crate) const BASE_EAGER: &str = "since/base:placement=eager";
/// With the placement of Utopia, whose tags no hardware reads.
pub(crate) const BASE_RESTRICTED: &str = "since/base:placement=utopia,thp=never";
/// With the caches of `since/victima`.
pub(crate) const BASE_VICTIMA: &str = "since/base:walk_cost=caches,cache_l2=2M/16,cache_llc=2M/16,cache_slices=8,\
                                       cache_l2_cycles=16,cache_llc_cycles=40,cache_l2_replacement=srrip";
/// With caches that walks read through.
pub(crate) const BASE_CACHES: &str = "since/base:walk_cost=caches";
/// In a virtual machine, with walks in two dimensions.
pub(crate) const NESTED: &str = "since/base:guest=walk";
/// Morrigan alone: a prefetcher for fetches.
pub(crate) const MORRIGAN: &str = "since/base:behind=prefetch,prefetcher=morrigan,pb_for=fetch,pb_entries=64";

/// What a design changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// It brings translations in before they are asked for.
    Prefetch,
    /// Another page table.
    Table,
    /// A further TLB, in memory or in caches.
    Large,
    /// It predicts frames, or reads walks ahead.
    Speculate,
    /// Another victim in the second level, or pages that are kept out of it.
    Replace,
    /// Another second level, or other page sizes.
    Reach,
    /// Another walk cache, with as many entries.
    Cache,
    /// Another second dimension in a virtual machine.
    Guest,
}

impl Kind {
    /// Misses and sole answers together are the misses of the base (HW-L1).
    pub fn keeps_misses(self) -> bool {
        !matches!(self, Kind::Replace | Kind::Reach)
    }
}

/// A design, and the machine from which it differs in itself alone.
pub(crate) struct Design {
    /// In tables.
    pub name: &'static str,
    /// As `--machine` takes it.
    pub machine: &'static str,
    /// As before.
    pub base: &'static str,
    pub kind: Kind,
}

const fn design(name: &'static str, machine: &'static str, base: &'static str, kind: Kind) -> Design {
    Design { name, machine, base, kind }
}

/// All designs that are built, in the order of tables.
pub(crate) const DESIGNS: &[Design] = &[
    design("sp", "since/sp", BASE, Kind::Prefetch),
    design("asp", "since/asp", BASE, Kind::Prefetch),
    design("mp", "since/mp", BASE, Kind::Prefetch),
    design("dp", "since/dp", BASE, Kind::Prefetch),
    design("rp", "since/rp", BASE, Kind::Prefetch),
    design("stp", "since/stp", BASE, Kind::Prefetch),
    design("h2p", "since/h2p", BASE, Kind::Prefetch),
    design("masp", "since/masp", BASE, Kind::Prefetch),
    design("atp", "since/atp", BASE, Kind::Prefetch),
    design("sbfp-only", "since/sbfp-only", BASE, Kind::Prefetch),
    design("atp-sbfp", "since/atp-sbfp", BASE, Kind::Prefetch),
    design("morrigan", MORRIGAN, BASE, Kind::Prefetch),
    design("pom", "since/pom", BASE, Kind::Large),
    design("victima", "since/victima", BASE_VICTIMA, Kind::Large),
    design("utopia", "since/utopia", BASE_RESTRICTED, Kind::Large),
    design("spectlb", "since/spectlb", BASE_RESERVED, Kind::Speculate),
    design("spot", "since/spot", BASE_EAGER, Kind::Speculate),
    design("asap", "since/asap", BASE, Kind::Speculate),
    design("hashed", "since/hashed", BASE, Kind::Table),
    design("htab", "since/htab", BASE, Kind::Table),
    design("clustered-table", "since/clustered-table", BASE, Kind::Table),
    design("cuckoo", "since/cuckoo", BASE, Kind::Table),
    design("me-hpt", "since/me-hpt", BASE, Kind::Table),
    design("flat", "since/flat", BASE, Kind::Table),
    design("dmt", "since/dmt", BASE, Kind::Table),
    design("learned", "since/learned", BASE, Kind::Table),
    // 38 entries, as the base has in three arrays.
    design("utc", "since/utc:pwc_entries=38", BASE, Kind::Cache),
    design("uptc", "since/uptc:pwc_entries=38", BASE, Kind::Cache),
    design("sptc", "since/sptc", BASE, Kind::Cache),
    design("tpc", "since/tpc:pwc_entries=38", BASE, Kind::Cache),
    design("srrip", "since/srrip", BASE, Kind::Replace),
    design("chirp", "since/chirp", BASE, Kind::Replace),
    design("itp", "since/itp", BASE, Kind::Replace),
    design("dppred", "since/dppred", BASE, Kind::Replace),
    // 1536 entries in all. Those that join frames in a row have memory in one piece, and so has their base.
    design("mix", "since/mix", BASE, Kind::Reach),
    design("skewed", "since/skewed:skew_entries=1536,skew_ways=12", BASE, Kind::Reach),
    design("mosaic", "since/mosaic:mosaic_entries=1536,mosaic_ways=12", BASE, Kind::Reach),
    design("clustered", reach::CLUSTERED[1], BASE_EAGER, Kind::Reach),
    design("colt-all", reach::COLT_ALL[1], BASE_EAGER, Kind::Reach),
    design("anchor", reach::ANCHORS[1][1], BASE_EAGER, Kind::Reach),
    design("tps", "since/tps", BASE, Kind::Reach),
    design("perforated", reach::FRAGMENTED[0], reach::FRAGMENTED[1], Kind::Reach),
    design("shadow", "since/shadow", NESTED, Kind::Guest),
    design("agile", "since/agile", NESTED, Kind::Guest),
];

/// Those of these kinds.
pub(crate) fn of_kinds(kinds: &[Kind]) -> impl Iterator<Item = &'static Design> + Clone {
    DESIGNS.iter().filter(move |d| kinds.contains(&d.kind))
}

/// Machines with their bases, each once.
pub(crate) fn with_bases(designs: impl Iterator<Item = &'static Design>) -> Vec<&'static str> {
    let mut all = Vec::new();
    for machine in designs.flat_map(|d| [d.base, d.machine]) {
        if !all.contains(&machine) {
            all.push(machine);
        }
    }
    all
}

/// The programs: updates at random, keys and values, sparse matrices, a simplex, a queue of events, a compiler. The
/// full set has a graph besides, which takes a third of the time, and all that were named.
pub(crate) fn programs(set: &Set) -> impl Iterator<Item = &Program> + Clone {
    const SMALL: [&str; 6] = ["GUPS", "memcached", "NPB:CG", "mcf", "omnetpp", "gcc"];
    set.all().filter(|p| match set.name.as_str() {
        "chosen" => true,
        "full" => p.is_like(&SMALL) || p.is_like(&["graph500"]),
        _ => p.is_like(&SMALL),
    })
}

/// Programs that designs are run on: those that walk often enough on the base, which runs first. All that were named.
pub(crate) fn walking<'a>(results: &'a Results, set: &'a Set) -> impl Iterator<Item = &'a Program> + Clone {
    programs(set).filter(move |p| set.name == "chosen" || walks_enough(results, &p.name, BASE) == Some(true))
}

/// The compiler, whose code is the largest.
pub(crate) fn compilers(set: &Set) -> impl Iterator<Item = &Program> + Clone {
    programs(set).filter(|p| p.is_like(&["gcc"]))
}

/// Programs for machines that only one claim asks for: of random updates, keys and values, sparse matrices one. All
/// that were named.
pub(crate) fn few(set: &Set) -> impl Iterator<Item = &Program> + Clone {
    const FEW: [&str; 4] = ["memcached", "NPB:CG", "GUPS", "graph500"];
    programs(set).filter(|p| set.name == "chosen" || p.is_like(&FEW))
}

/// What a machine did for the lookups that its TLBs did not answer.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Walks {
    /// Lookups that nothing but a walk answered.
    pub walks: u64,
    /// Lookups that an addition answered alone.
    pub sole: u64,
    /// References that the program waits for: of walks, of tables in memory.
    pub demand: u64,
    /// Of these, those whose time is hidden.
    pub hidden: u64,
    /// References while the program runs on.
    pub background: u64,
    /// Cycles by the model.
    pub cycles: u64,
    /// Pages of 4 KB that were touched: each must be walked to once.
    pub pages: u64,
}

impl Walks {
    /// Of a machine on a program.
    pub fn of(results: &Results, program: &str, machine: &str) -> Option<Walks> {
        let measured = results.measured(program, machine)?;
        let tlb = &measured.machine.counts.tlb;
        let memory = |of: fn(&MemoryCounts) -> u64| tlb.parts.iter().map(|(_, part)| of(&part.memory)).sum::<u64>();
        let answers = [("prefetch", "hits"), ("pom", "hits"), ("victima", "hits"), ("utopia", "rsw_hits")]
            .map(|(part, name)| tlb.parts.count(part, name));
        Some(Walks {
            walks: tlb.misses,
            sole: answers.iter().sum::<u64>() + tlb.range.sole_hits,
            demand: tlb.walk_references() + memory(|m| m.made.references),
            hidden: memory(|m| m.hidden_references),
            background: memory(|m| m.made.background_references),
            cycles: measured.machine.cost.cycles,
            pages: measured.workload.touched_bytes / 4096,
        })
    }

    /// All references.
    pub fn references(&self) -> u64 {
        self.demand + self.background
    }

    /// Share of the misses of the TLBs that an addition answered, in percent (PB-10).
    pub fn coverage(&self) -> f64 {
        share(self.sole, self.walks + self.sole)
    }

    /// References that the program waits for, for each walk.
    pub fn each(&self) -> Option<f64> {
        (self.walks > 0).then(|| self.demand as f64 / self.walks as f64)
    }

    /// References that the program waits for, for each miss of the TLBs, answered by a walk or not.
    pub fn each_miss(&self) -> Option<f64> {
        let misses = self.walks + self.sole;
        (misses > 0).then(|| self.demand as f64 / misses as f64)
    }

    /// Walks beyond the first to each page.
    pub fn warm(&self) -> u64 {
        self.walks.saturating_sub(self.pages)
    }
}

/// In percent.
pub(crate) fn share(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { 100.0 * part as f64 / all as f64 }
}

/// A counter of a part.
pub(crate) fn counter(machine: &MachineResult, part: &str, name: &str) -> u64 {
    machine.counts.tlb.parts.count(part, name)
}

/// As before, of a machine on a program.
pub(crate) fn counted(results: &Results, program: &str, machine: &str, part: &str, name: &str) -> Option<u64> {
    Some(counter(results.machine(program, machine)?, part, name))
}

/// Geometric mean of ratios in percent; a count of 0 is taken as 1. `None` without any.
pub(crate) fn geomean(ratios: impl Iterator<Item = (u64, u64)>) -> Option<f64> {
    let logs: Vec<f64> = ratios.map(|(a, b)| (a.max(1) as f64 / b.max(1) as f64).ln()).collect();
    (!logs.is_empty()).then(|| 100.0 * (logs.iter().sum::<f64>() / logs.len() as f64).exp())
}

/// Walks of the base beyond first touches below which a program says nothing of what a design saves: an L2 TLB that
/// holds all pages has none.
pub(crate) const LEAST_WALKS: u64 = 1000;

/// The program walks often enough on this machine.
pub(crate) fn walks_enough(results: &Results, program: &str, base: &str) -> Option<bool> {
    Some(Walks::of(results, program, base)?.warm() >= LEAST_WALKS)
}

/// What every study says of its numbers.
pub(crate) const MODEL: &str = "No pipeline and no speed: a claim of speed is tested as walks, as references, or as \
                                cycles by the model, 12 for each reference that the program waits for unless walks \
                                read through caches. References in the background cost nothing here; they are shown. \
                                Programs are seeded kernels, not those of the papers.";
