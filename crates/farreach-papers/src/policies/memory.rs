//! What policies do with memory: sizes of reservations, zeros, files, hot groups, shares, contiguity, few places.

use super::price::Work;
use crate::micro::{
    EQUALS, FEW_DIRTY, FILL, GIGABYTE, HALVES, HOT_HIGH, HOT_LOW, MANY, MOSTLY_ZEROS, SPARSE_GROUPS, STREAM_BESIDE,
    USED_ONCE, WIDE,
};
use crate::results::{Request, Results, Set, grid};
use crate::since::{few, share};
use crate::study::Study;
use farreach_types::counts::MachineResult;
use farreach_types::papers::{Cell, Origin, Section, Table};

pub(crate) const STUDY: Study = Study {
    id: "os-memory",
    title: "What policies do with memory: sizes, zeros, files, hot groups, shares, contiguity, few places, nodes",
    rules: "NAV-1 to NAV-9, LNX-22, ING-4, HWE-2, HWE-7, CAP-3, RNG-3, TRI-3, UTO-2, OS-MOS-2, PRF-1, OS-TPS-2, \
            PGC-1 to PGC-6, CLP-1",
    plan: |_, set| {
        let mut wanted = grid(few(set), &[RESERVED.as_slice(), &FOLIOS].concat());
        let machines = FOLIOS.iter().chain(&CONTIGUOUS).chain(&USED).chain(&RESTRICTED).chain(&HASHED);
        let machines = machines.chain(HOLES.as_flattened()).chain(&SIZES).chain(&[NESTED]);
        wanted.extend(machines.flat_map(|machine| PROGRAMS.map(|program| Request::machine(program, *machine))));
        wanted.extend(super::files::plan(set));
        wanted.extend(by_hand().map(|(program, machine)| Request::machine(program, machine)));
        wanted
    },
    section,
};

/// 128 entries, fully associative, for pages of 4 KB, 32 KB, 256 KB and 2 MB, with these reservations.
macro_rules! reserved {
    ($keys:literal) => {
        concat!("t94/superpage:sizes=4K+32K+256K+2M,entries=128,replacement=lru,promote=none,placement=", $keys)
    };
}
/// None, one size beside base pages, all, and all where others have three frames of ten, everywhere.
pub(crate) const RESERVED: [&str; 6] = [
    reserved!("demand"),
    reserved!("navarro,nav_sizes=1+8"),
    reserved!("navarro,nav_sizes=1+64"),
    reserved!("navarro,nav_sizes=1+512"),
    reserved!("navarro,nav_sizes=1+8+64+512"),
    reserved!("navarro,nav_sizes=1+8+64+512,memory=16G,fragmentation=0.3"),
];
/// Places of the last two.
pub(crate) const ALL: usize = 4;
pub(crate) const IN_USE: usize = 5;

/// Short runs of the same kinds of program, for all else.
pub(crate) const PROGRAMS: [&str; 3] =
    ["workload:kv:references=500K", "workload:spmv:references=500K", "workload:gups:references=500K"];

/// Without and with superpages of 64 KB, on a TLB that has entries of this size.
pub(crate) const FOLIOS: [&str; 2] = [
    "today/neoverse-n1:placement=linux,thp=never",
    "today/neoverse-n1:placement=linux,thp=never,mthp_always=64K,contpte=64K",
];
/// Linux and contiguity-aware paging.
pub(crate) const CONTIGUOUS: [&str; 2] =
    ["today/skylake:placement=thp,ranges=true", "today/skylake:placement=cap,ranges=true"];
/// Linux and Translation Ranger in memory that others use, too. The daemon runs several times in a short program.
pub(crate) const USED: [&str; 2] = [
    "today/skylake:placement=thp,ranges=true,memory=16G,fragmentation=0.3,movable=1",
    "today/skylake:placement=ranger,ranges=true,memory=16G,fragmentation=0.3,movable=1,ranger_period_ms=1,\
     ticks_per_ms=500000",
];
/// Pages of restricted places, and pages that a walk must find.
pub(crate) const RESTRICTED: [&str; 2] = ["since/base:placement=utopia,thp=never", "since/utopia"];
/// Entries for one page, and mosaic entries for four pages whose places a hash gives, as many.
pub(crate) const HASHED: [&str; 2] = ["since/base:l2=4K|2M:1024/8", "since-os/mosaic"];
/// Pages of 2 MB, of 1 GB as well, and of every power of two.
pub(crate) const SIZES: [&str; 3] = ["today/skylake:placement=thp", "since-os/trident", "since-os/tps"];
/// Predicted frames in a virtual machine, with contiguity-aware paging.
pub(crate) const NESTED: &str = "since/spot:guest=walk,placement=cap";
/// Percent of the frames that others have.
pub(crate) const TAKEN: [u64; 3] = [0, 2, 5];
/// By what others have, without holes, and with up to 64 in 2 MB.
pub(crate) const HOLES: [[&str; 2]; 3] = [
    ["since/perforated:memory=16G,perforated_free=1", "since/perforated:memory=16G,perforated_free=0.875"],
    [
        "since/perforated:memory=16G,fragmentation=0.02,perforated_free=1",
        "since/perforated:memory=16G,fragmentation=0.02,perforated_free=0.875",
    ],
    [
        "since/perforated:memory=16G,fragmentation=0.05,perforated_free=1",
        "since/perforated:memory=16G,fragmentation=0.05,perforated_free=0.875",
    ],
];

/// Base pages, and reservations of four sizes, which a population map keeps.
pub(crate) const KEPT: [&str; 2] = [RESERVED[0], RESERVED[ALL]];
/// Stores to clean superpages of files: they modify all of it, or split it.
pub(crate) const DIRTY: [&str; 2] = [
    reserved!("navarro,nav_sizes=1+8+64+512,nav_dirty_rule=off"),
    reserved!("navarro,nav_sizes=1+8+64+512,nav_dirty_rule=file"),
];
/// At 511 pages of zeros, and at 400.
pub(crate) const SHRINKERS: [&str; 2] =
    ["today/skylake:placement=linux,memory=64M", "today/skylake:placement=linux,memory=64M,max_ptes_none=400"];
/// khugepaged and HawkEye at their own periods, on a clock of five instructions a millisecond.
pub(crate) const FINDERS: [&str; 2] =
    ["today/skylake:placement=linux,ticks_per_ms=5", "today/skylake:placement=hawkeye,ticks_per_ms=5"];
/// HawkEye's choice between processes by coverage, and by what they spend on walks, on the same clock.
pub(crate) const PICKERS: [&str; 2] =
    [FINDERS[1], "today/skylake:placement=hawkeye,process_choice=overhead,ticks_per_ms=5"];
/// HawkEye with superpages at faults, without and with recovery of zeros.
pub(crate) const RECOVERING: [&str; 2] = [
    "today/skylake:placement=hawkeye,memory=64M,prezero_rate=1,recovery_start=0",
    "today/skylake:placement=hawkeye,memory=64M,prezero_rate=1",
];
/// Ingens without and with fairness, on a clock of one instruction a millisecond.
macro_rules! shared {
    ($memory:literal) => {{
        const FIRST: &str =
            concat!("today/skylake:placement=ingens,ticks_per_ms=1,promoter_defrag=false,memory=", $memory);
        const FAIR: &str = concat!(
            "today/skylake:placement=ingens,ticks_per_ms=1,promoter_defrag=false,fairness=true,memory=",
            $memory
        );
        [FIRST, FAIR]
    }};
}
/// Two equal programs and the memory that each has: that of the third process, and 1 MB.
pub(crate) const SHARING: [(&str, [&str; 2]); 9] = [
    (EQUALS[0], shared!("73M")),
    (EQUALS[1], shared!("81M")),
    (EQUALS[2], shared!("89M")),
    (EQUALS[3], shared!("145M")),
    (EQUALS[4], shared!("161M")),
    (EQUALS[5], shared!("177M")),
    (EQUALS[6], shared!("289M")),
    (EQUALS[7], shared!("321M")),
    (EQUALS[8], shared!("353M")),
];
/// Trident with compaction by address, which looks at memory once, when pages were dropped; and its own.
pub(crate) const COMPACTING: [&str; 2] = [
    "today/skylake:placement=trident,memory=4G,ticks_per_ms=1,compaction=full,compaction_block=1G,\
     compaction_every=30000",
    "today/skylake:placement=trident,memory=4G,ticks_per_ms=1",
];
/// Mosaic allocation in 256 MB, by seed.
pub(crate) const SEEDS: [&str; 3] = [
    "today/skylake:placement=mosaic,memory=256M,seed=1",
    "today/skylake:placement=mosaic,memory=256M,seed=2",
    "today/skylake:placement=mosaic,memory=256M,seed=3",
];

/// Two nodes of memory: base pages and superpages that stay where they are, and Carrefour-LP, each 100,000 references.
pub(crate) const ON_NODES: [&str; 3] = [
    "since-os/carrefour:ticks_per_ms=100,carrefour_least_samples=1000000000,thp=never",
    "since-os/carrefour:ticks_per_ms=100,carrefour_least_samples=1000000000",
    "since-os/carrefour:ticks_per_ms=100",
];

/// Programs made by hand, and what each runs on.
const BY_HAND: [(&str, &[&str]); 12] = [
    (FEW_DIRTY, &DIRTY),
    (USED_ONCE, &KEPT),
    (MOSTLY_ZEROS, &SHRINKERS),
    (HOT_HIGH, &FINDERS),
    (HOT_LOW, &FINDERS),
    (STREAM_BESIDE, &PICKERS),
    (SPARSE_GROUPS, &RECOVERING),
    (GIGABYTE, &COMPACTING),
    (FILL, &SEEDS),
    (WIDE, &SIZES),
    (MANY, &SIZES),
    (HALVES, &ON_NODES),
];

fn by_hand() -> impl Iterator<Item = (&'static str, &'static str)> {
    let shared = SHARING.iter().flat_map(|(p, all)| all.iter().map(move |machine| (*p, *machine)));
    BY_HAND.iter().flat_map(|(p, all)| all.iter().map(move |machine| (*p, *machine))).chain(shared)
}

/// Cycles of a program, of translation, and of the system while the program waits.
pub(crate) fn time(results: &Results, program: &str, machine: &str) -> Option<u64> {
    let measured = results.measured(program, machine)?;
    let (os, cost) = (&measured.machine.counts.os, &measured.machine.cost);
    Some(measured.workload.instructions + cost.cycles + Work::of(os).waited())
}

/// A counter of a policy.
pub(crate) fn own(machine: &MachineResult, name: &str) -> u64 {
    machine.counts.os.policy.get(name)
}

/// Misses of a region of a program.
pub(crate) fn misses_of(machine: &MachineResult, region: &str) -> u64 {
    let all = machine.regions.iter().filter(|own| own.region == region);
    all.map(|own| own.fetch_misses + own.data_misses).sum()
}

/// Runs of frames that hold 99 % of the pages. Where those of eight pages and more do not, the others are taken to have
/// seven each: fewer cannot be.
pub(crate) fn runs(results: &Results, program: &str, machine: &str) -> Option<u64> {
    let found = results.machine(program, machine)?.contiguity.as_ref()?;
    Some(found.cover_99.unwrap_or(found.ranges + (found.mapped_pages - found.range_pages) / 7))
}

/// Walks for pages on the node of the thread that walks, in percent of all.
pub(crate) fn local_walks(machine: &MachineResult) -> f64 {
    let of = |name| own(machine, name);
    share(of("walk_samples_local"), of("walk_samples_local") + of("walk_samples_remote"))
}

/// Pages that compaction copied, and blocks of 1 GB that came of it.
pub(crate) fn compacted(machine: &MachineResult) -> Option<[u64; 2]> {
    let used = machine.compaction.as_ref()?;
    let [before, after] = [&used.before, &used.after].map(|free| free.blocks_of(18));
    Some([used.moved_pages, after.saturating_sub(before)])
}

fn section(results: &Results, set: &Set, section: &mut Section) {
    let mut table = Table::new("Misses and time in percent of base pages, by sizes of reservations", "program");
    for sizes in ["1, 8", "1, 64", "1, 512", "all", "all, memory in use"] {
        table.column(format!("{sizes}: misses"), Origin::Measured, "%");
        table.column(format!("{sizes}: time"), Origin::Measured, "%");
    }
    for p in few(set) {
        let cells = RESERVED[1..].iter().flat_map(|machine| {
            let of = |machine| time(results, &p.name, machine);
            let time = of(machine).zip(of(RESERVED[0])).map(|(own, base)| share(own, base));
            [Cell::from(results.percent(&p.name, machine, RESERVED[0])), Cell::from(time)]
        });
        table.row(&p.name, cells.collect());
    }
    section.tables.push(table);

    let mut table = Table::new("Runs of frames that hold 99 % of the pages, walks in percent", "program");
    for name in ["Linux", "contiguity-aware", "Linux, memory in use", "Ranger, memory in use"] {
        table.column(format!("{name}: runs"), Origin::Measured, "");
    }
    for name in ["64 KB", "mosaic"] {
        table.column(format!("{name}: walks"), Origin::Measured, "%");
    }
    for p in PROGRAMS {
        let machines = CONTIGUOUS.iter().chain(&USED);
        let mut cells: Vec<Cell> = machines.map(|machine| Cell::from(runs(results, p, machine))).collect();
        cells.extend([FOLIOS, HASHED].map(|[base, own]| Cell::from(results.percent(p, own, base))));
        table.row(p, cells);
    }
    section.tables.push(table);

    let mut table = Table::new("Walks with superpages that may have 64 holes, in percent of without", "program");
    TAKEN.iter().for_each(|taken| table.column(format!("{taken} % of the frames taken"), Origin::Measured, "%"));
    for p in PROGRAMS {
        table.row(p, HOLES.map(|[none, some]| Cell::from(results.percent(p, some, none))).to_vec());
    }
    section.tables.push(table);

    let mut table = Table::new("Programs made by hand", "program, machine");
    table.column("walks", Origin::Measured, "");
    table.column("pages modified", Origin::Measured, "");
    table.column("superpages made in the background", Origin::Measured, "");
    table.column("pages of zeros freed", Origin::Measured, "");
    table.column("pages copied by compaction", Origin::Measured, "");
    table.column("in use at the first conflict", Origin::Measured, "ppm");
    for (program, machine) in by_hand() {
        let result = results.machine(program, machine);
        let of = |what: fn(&MachineResult) -> u64| Cell::from(result.map(what));
        let cells = vec![
            of(|m| m.counts.tlb.misses),
            of(|m| m.counts.os.dirty_pages),
            of(|m| m.counts.os.collapses),
            of(|m| own(m, "underused_pages") + own(m, "recovered_pages")),
            of(|m| m.compaction.as_ref().map_or(0, |used| used.moved_pages)),
            of(|m| own(m, "first_conflict_ppm")),
        ];
        table.row(format!("{program}, {machine}"), cells);
    }
    section.tables.push(table);
    section.tables.push(super::files::table(results, set));
    let mut table = Table::new("Four threads on two nodes, of which each uses half of each superpage", "pages");
    for (name, unit) in [("local walks", "%"), ("local in the last period", "%")] {
        table.column(name, Origin::Measured, unit);
    }
    for name in ["superpages split", "pages copied", "walks"] {
        table.column(name, Origin::Measured, "");
    }
    for (name, machine) in ["base pages", "superpages", "Carrefour-LP"].into_iter().zip(ON_NODES) {
        let result = results.machine(HALVES, machine);
        let of = |what: fn(&MachineResult) -> u64| Cell::from(result.map(what));
        let decides = |m: &&MachineResult| own(m, "carrefour_decisions") > 0;
        let last = result.filter(decides).map(|m| own(m, "last_local_ppm_at_end") as f64 / 10_000.0);
        let cells = vec![
            Cell::from(result.map(local_walks)),
            Cell::from(last),
            of(|m| own(m, "carrefour_splits") + own(m, "carrefour_hot_splits")),
            of(|m| own(m, "carrefour_copied_pages")),
            of(|m| m.counts.tlb.misses),
        ];
        table.row(name, cells);
    }
    section.tables.push(table);
    section.note(super::price::WORDS);
    section.note(
        "Memory in use: others have three of ten frames, everywhere; where Ranger works, they can be moved. Pages of \
         zeros are those that were zeroed and never stored to. Periods of khugepaged, HawkEye and Ingens are their \
         own, on a clock that is faster in programs made by hand: a millisecond is five instructions, with Ingens one. \
         Ranger works each 500,000 instructions, Carrefour-LP each 100,000. On which node data lie has no price: what \
         is counted are walks.",
    );
}
