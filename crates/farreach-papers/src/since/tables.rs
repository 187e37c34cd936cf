//! Page tables: references of walks, steps, memory.

use super::*;

pub(crate) const STUDY: Study = Study {
    id: "since-tables",
    title: "Page tables and walk caches: references and steps of walks, memory of tables, cycles through caches",
    rules: "HW-7, PT-1, FL-6, WC-1 to WC-5",
    plan: |results, set| {
        let mut wanted = grid(programs(set), &[BASE]);
        wanted.extend(grid(walking(results, set), &with_bases(of_kinds(&[Kind::Table, Kind::Cache]))));
        wanted.extend(grid(walking(results, set), &[BASE_PRINTED]));
        wanted.extend(grid(few(set), &[CUCKOO_GROWN, HASHED_CACHES, HTAB_CACHES, CUCKOO_CACHES]));
        wanted.extend(grid(few(set), &CACHES.map(|c| c.1)));
        wanted.extend(grid(few(set), &PRIORITY));
        wanted.extend(grid(few(set), &[LEARNED_CACHES, LEARNED_MAPPED]));
        wanted.extend(grid(few(set), &MAPPED_CACHES));
        wanted.extend(MAPPED.iter().flat_map(|p| IN_A_ROW.map(|m| Request::machine(p, m))));
        wanted.extend(GROWING.iter().flat_map(|p| [BASE, "since/hashed"].map(|m| Request::machine(p, m))));
        wanted
    },
    section,
};

/// Hashed, half full at most, through caches.
pub(crate) const HASHED_CACHES: &str = "since/hashed:ht_load=0.5,walk_cost=caches";
/// PowerPC, through caches.
pub(crate) const HTAB_CACHES: &str = "since/htab:walk_cost=caches";
/// Elastic cuckoo, through caches.
pub(crate) const CUCKOO_CACHES: &str = "since/cuckoo:walk_cost=caches";
/// Flattened, and the radix tree and the flattened table with priority in caches.
pub(crate) const PRIORITY: [&str; 3] = [
    "since/flat:walk_cost=caches",
    "since/base:walk_cost=caches,cache_l2_replacement=pt_priority",
    "since/pt-priority",
];
/// Learned, through caches.
pub(crate) const LEARNED_CACHES: &str = "since/learned:walk_cost=caches";
/// Learned, with memory that is mapped when it is asked for.
pub(crate) const LEARNED_MAPPED: &str = "since/learned:placement=eager";
/// The same through caches, and the radix tree.
pub(crate) const MAPPED_CACHES: [&str; 2] =
    ["since/learned:placement=eager,walk_cost=caches", "since/base:placement=eager,walk_cost=caches"];
/// The five walk caches of Barr et al. with 38 entries: the machine, and the same through caches. Those of translations
/// first.
pub(crate) const CACHES: [(&str, &str, &str); 5] = [
    (BASE, BASE_CACHES, "stc"),
    ("since/utc:pwc_entries=38", "since/utc:pwc_entries=38,walk_cost=caches", "utc"),
    ("since/tpc:pwc_entries=38", "since/tpc:pwc_entries=38,walk_cost=caches", "tpc"),
    ("since/sptc", "since/sptc:walk_cost=caches", "sptc"),
    ("since/uptc:pwc_entries=38", "since/uptc:pwc_entries=38,walk_cost=caches", "uptc"),
];
/// As many of these are caches of translations.
pub(crate) const OF_TRANSLATIONS: usize = 3;
/// Elastic cuckoo, and in pieces that grow in place, with memory that is mapped when it is asked for.
pub(crate) const IN_A_ROW: [&str; 2] = ["since/cuckoo:placement=eager", "since/me-hpt:placement=eager"];
/// Elastic cuckoo, small enough at first that it must grow.
pub(crate) const CUCKOO_GROWN: &str = "since/cuckoo:ec_entries=256";
/// Random updates in more and more memory.
pub(crate) const GROWING: [&str; 4] = [
    "workload:gups:size=16M,references=400000",
    "workload:gups:size=256M,references=400000",
    "workload:gups:size=2G,references=400000",
    "workload:gups:size=16G,references=400000",
];

/// The programs of these that have more pages than a table holds at first.
pub(crate) const MAPPED: [&str; 2] = [GROWING[2], GROWING[3]];

/// A counter of the table.
pub(crate) fn of_table(results: &Results, program: &str, machine: &str, name: &str) -> Option<u64> {
    counted(results, program, machine, "table", name)
}

/// References a walk.
pub(crate) fn each(results: &Results, program: &str, machine: &str) -> Option<f64> {
    Walks::of(results, program, machine)?.each()
}

/// Steps a walk: references made at once are one.
fn steps(results: &Results, program: &str, machine: &str) -> Option<f64> {
    let tlb = &results.machine(program, machine)?.counts.tlb;
    (tlb.misses > 0).then(|| tlb.table_steps() as f64 / tlb.misses as f64)
}

/// Cycles of walks.
pub(crate) fn walk_cycles(results: &Results, program: &str, machine: &str) -> Option<u64> {
    results.machine(program, machine)?.cost.walk_cycles
}

/// References of walks that memory answered.
pub(crate) fn from_memory(results: &Results, program: &str, machine: &str) -> Option<u64> {
    let tlb = &results.machine(program, machine)?.counts.tlb;
    Some(tlb.walk_caches.page_tables().memory + tlb.of_tables(|memory| memory.answered.memory))
}

fn section(results: &Results, set: &Set, section: &mut Section) {
    let shown: Vec<&Program> = walking(results, set).collect();
    let machines = with_bases(of_kinds(&[Kind::Table]));
    for (title, of) in [
        ("References a walk", each as fn(&Results, &str, &str) -> Option<f64>),
        ("Steps a walk: references made at once are one", steps),
    ] {
        let mut table = Table::new(title, "table");
        shown.iter().for_each(|p| table.column(&p.name, Origin::Measured, "a walk"));
        for machine in &machines {
            table.row(*machine, shown.iter().map(|p| of(results, &p.name, machine).into()).collect());
        }
        section.tables.push(table);
    }
    for (title, name) in [
        ("Most memory of all tables", "table_bytes_most"),
        ("The largest piece of memory in a row that a table needs", "table_contiguous"),
    ] {
        let mut table = Table::new(title, "table");
        shown.iter().for_each(|p| table.column(&p.name, Origin::Measured, "KB"));
        for machine in &machines[1..] {
            let cell = |p: &&Program| of_table(results, &p.name, machine, name).map(|bytes| bytes / 1024).into();
            table.row(*machine, shown.iter().map(cell).collect());
        }
        section.tables.push(table);
    }
    let mut caches = Table::new("Through caches: cycles a walk, and references that memory answers, a walk", "table");
    let few: Vec<&Program> = few(set).collect();
    for p in &few {
        caches.column(&p.name, Origin::Measured, "cycles");
        caches.column(&p.name, Origin::Measured, "from memory");
    }
    let shown_here = [BASE_CACHES, HASHED_CACHES, HTAB_CACHES, CUCKOO_CACHES, LEARNED_CACHES];
    for machine in shown_here.into_iter().chain(PRIORITY) {
        let cells = few.iter().flat_map(|p| {
            let per = |n: Option<u64>| Some(n? as f64 / results.misses(&p.name, machine).filter(|&n| n > 0)? as f64);
            [walk_cycles(results, &p.name, machine), from_memory(results, &p.name, machine)].map(|n| Cell::from(per(n)))
        });
        caches.row(machine, cells.collect());
    }
    section.tables.push(caches);
    let mut growing = Table::new("References a walk by footprint of random updates", "footprint");
    growing.column("radix", Origin::Measured, "a walk");
    growing.column("hashed", Origin::Measured, "a walk");
    for p in GROWING {
        growing.row(p, [BASE, "since/hashed"].map(|m| each(results, p, m).into()).into());
    }
    section.tables.push(growing);
    let mut walk_caches = Table::new("Walk caches of 38 entries", "program");
    for (_, _, name) in CACHES {
        walk_caches.column(format!("{name}, references"), Origin::Measured, "a walk");
    }
    for (_, _, name) in CACHES {
        walk_caches.column(format!("{name}, from memory"), Origin::Measured, "references");
    }
    for p in &shown {
        let references = CACHES.map(|c| Cell::from(each(results, &p.name, c.0)));
        let memory = CACHES.map(|c| Cell::from(from_memory(results, &p.name, c.1)));
        walk_caches.row(&p.name, [references, memory].concat());
    }
    section.tables.push(walk_caches);
    let mut row = Table::new("The largest piece of memory in a row, all memory mapped", "program");
    row.column("cuckoo", Origin::Measured, "KB");
    row.column("me-hpt", Origin::Measured, "KB");
    for p in MAPPED {
        let cell = |m| Cell::from(of_table(results, p, m, "table_contiguous").map(|bytes| bytes / 1024));
        row.row(p, IN_A_ROW.map(cell).into());
    }
    section.tables.push(row);
    section.note(
        "The radix tree is the walker's own, and its memory is not counted here. Memory of htab is that of groups for \
         4 GB for every program. Walk caches: stc, utc, tpc hold translations, and the deepest hit ends the search; \
         sptc and uptc hold entries of the page table by their address.",
    );
    section.note(MODEL);
}
