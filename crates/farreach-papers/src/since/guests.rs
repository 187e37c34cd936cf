//! Virtual machines: walks in two dimensions, a merged table, and both; and other page tables in both dimensions.

use super::*;

pub(crate) const STUDY: Study = Study {
    id: "since-guests",
    title: "Virtual machines: nested, shadow and agile paging: walks, traps, cycles",
    rules: "SHD-1, SHD-2, AGI-1 to AGI-3, DM-2, FL-1, POM-6, SPO-4",
    plan: |_, set| {
        let mut wanted = grid(few(set), &[BASE, NESTED, SHADOW, AGILE]);
        wanted.extend(grid(few(set), &NESTED_TABLES.map(|t| t.1)));
        wanted.extend(grid(few(set), &[TREES_CACHES, HASHED_CACHES, FLAT_CACHES, CUCKOO_CACHES, DMT_CACHES]));
        wanted.extend(grid(few(set), &[TREES_HUGE, CUCKOO_HUGE, POM, SPOT]));
        wanted
    },
    section,
};

/// Radix trees in both dimensions, with the walk caches of the presets in both.
pub(crate) const TREES: &str = "since/nested-flat:flatten=none,host_flatten=none";
/// The same through caches.
pub(crate) const TREES_CACHES: &str = "since/nested-flat:flatten=none,host_flatten=none,walk_cost=caches";
/// With superpages in both dimensions.
pub(crate) const TREES_HUGE: &str =
    "since/nested-flat:flatten=none,host_flatten=none,walk_cost=caches,placement=thp,host_page=2M";
/// Flattened in both dimensions.
pub(crate) const FLAT: &str = "since/nested-flat";
/// Through caches.
pub(crate) const FLAT_CACHES: &str = "since/nested-flat:walk_cost=caches";
/// Elastic cuckoo tables in both dimensions.
pub(crate) const CUCKOO: &str = "since/nested-cuckoo";
/// Through caches.
pub(crate) const CUCKOO_CACHES: &str = "since/nested-cuckoo:walk_cost=caches";
/// With superpages in both dimensions.
pub(crate) const CUCKOO_HUGE: &str = "since/nested-cuckoo:walk_cost=caches,placement=thp,host_page=2M";
/// Hashed tables in both dimensions, half full at most, through caches.
pub(crate) const HASHED_CACHES: &str = "since/nested-hashed:ht_load=0.5,host_ht_load=0.5,walk_cost=caches";
/// DMT in both dimensions.
pub(crate) const DMT: &str = "since/nested-dmt";
/// Through caches.
pub(crate) const DMT_CACHES: &str = "since/nested-dmt:walk_cost=caches";
/// Without the paravirtual arrays: three references, as two levels of virtual machines have.
pub(crate) const DMT_PAGED: &str = "since/nested-dmt:dmt_guest_arrays=paged";

/// A TLB in memory, whose entries have what both dimensions make together (POM-6).
pub(crate) const POM: &str = "since/pom:guest=walk";
/// Predicted frames, while both dimensions are walked (SPO-4).
pub(crate) const SPOT: &str = "since/spot:guest=walk";

/// Tables in both dimensions.
pub(crate) const NESTED_TABLES: [(&str, &str); 6] = [
    ("radix", TREES),
    ("hashed", "since/nested-hashed"),
    ("cuckoo", CUCKOO),
    ("flattened", FLAT),
    ("dmt", DMT),
    ("dmt, arrays in pages", DMT_PAGED),
];

/// References and steps a walk, in both dimensions.
pub(crate) fn nested(results: &Results, program: &str, machine: &str) -> Option<[f64; 2]> {
    let tlb = &results.machine(program, machine)?.counts.tlb;
    let per = |n: u64| n as f64 / tlb.misses as f64;
    (tlb.misses > 0).then(|| [per(tlb.table_references()), per(tlb.table_steps())])
}

/// A merged table.
pub(crate) const SHADOW: &str = "since/shadow";
/// A merged table above, walks in two dimensions below, where the guest writes.
pub(crate) const AGILE: &str = "since/agile";
/// Instructions after which a node that the guest did not write is merged again (AGI-2).
pub(crate) const EPOCH: u64 = 100_000_000;

/// A machine on a program: cycles of translation with traps, and time, an instruction a cycle.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Paid {
    pub cycles: u64,
    pub instructions: u64,
}

impl Paid {
    pub fn of(results: &Results, program: &str, machine: &str) -> Option<Paid> {
        let measured = results.measured(program, machine)?;
        Some(Paid { cycles: measured.machine.cost.cycles, instructions: measured.workload.instructions })
    }

    /// Instructions at a cycle each, and the cycles.
    pub fn time(&self) -> u64 {
        self.instructions + self.cycles
    }
}

/// Traps into the hypervisor.
pub(crate) fn traps(results: &Results, program: &str, machine: &str) -> Option<u64> {
    let part = results.machine(program, machine)?.counts.tlb.parts.get("host")?;
    Some(["changes", "faults", "switches", "fills", "dirty"].iter().map(|name| part.counters.get(name)).sum())
}

fn section(results: &Results, set: &Set, section: &mut Section) {
    let mut table = Table::new("Nested, shadow and agile paging", "program");
    for name in ["native", "nested", "shadow", "agile"] {
        table.column(format!("{name}, references"), Origin::Measured, "a walk");
    }
    for name in ["shadow", "agile"] {
        table.column(format!("{name}, traps"), Origin::Measured, "traps");
    }
    for name in ["nested", "shadow", "agile"] {
        table.column(format!("{name}, cycles"), Origin::Measured, "% of native");
    }
    table.column("instructions", Origin::Measured, "% of an epoch");
    for p in few(set) {
        let each = |machine| Cell::from(Walks::of(results, &p.name, machine).and_then(|w| w.each()));
        let paid = |machine| Paid::of(results, &p.name, machine);
        let of_native = |machine| Cell::from(paid(machine).zip(paid(BASE)).map(|(a, b)| share(a.cycles, b.cycles)));
        let mut cells: Vec<Cell> = [BASE, NESTED, SHADOW, AGILE].map(each).into();
        cells.extend([SHADOW, AGILE].map(|m| Cell::from(traps(results, &p.name, m))));
        cells.extend([NESTED, SHADOW, AGILE].map(of_native));
        cells.push(paid(BASE).map(|b| share(b.instructions, EPOCH)).into());
        table.row(&p.name, cells);
    }
    section.tables.push(table);
    for (title, which) in [
        ("Tables in both dimensions: references a walk", 0),
        ("Tables in both dimensions: steps a walk, references made at once being one", 1),
    ] {
        let mut table = Table::new(title, "program");
        for (name, _) in NESTED_TABLES {
            table.column(name, Origin::Measured, "a walk");
        }
        for p in few(set) {
            let cell = |(_, m): (_, &str)| Cell::from(nested(results, &p.name, m).map(|both| both[which]));
            table.row(&p.name, NESTED_TABLES.map(cell).into());
        }
        section.tables.push(table);
    }
    section.note(
        "Tables in both dimensions have walk caches of 32, 4 and 2 entries in each, or cached rows of walk tables, and \
         no nested TLB. Hashed tables have none. Where arrays of DMT lie in pages of the host, a walk makes three \
         references; so does a guest of a guest, which is not built.",
    );
    section.note(
        "A trap costs 2000 cycles, in cycles of translation. Agile paging walks a node in two dimensions once the \
         guest wrote it twice within an epoch of 10^8 instructions, and merges it again after an epoch without \
         (AGI-2). A program that is shorter than an epoch has no node that rests: its first touches are such writes.",
    );
    section.note(MODEL);
}
