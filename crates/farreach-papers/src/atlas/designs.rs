//! The designs of the atlas, and what makes them comparable: equal entries, equal bits, equal area.

use crate::since::{BASE, DESIGNS, NESTED};
use farreach_cost::hardware::{LIBRARY, figures, find};
use farreach_machine::MachineSpec;

/// What all designs of a comparison have as much of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Budget {
    /// Entries of the last level, or of the only one.
    Entries,
    /// Bits of tags, data and states (AREA-2).
    Bits,
    /// Square micrometres of the structures that were synthesised (RMM15-46).
    Area,
}

impl Budget {
    pub const ALL: [Budget; 3] = [Budget::Entries, Budget::Bits, Budget::Area];

    /// In tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Budget::Entries => "entries",
            Budget::Bits => "bits",
            Budget::Area => "area",
        }
    }
}

/// A design within a budget.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Entry {
    pub budget: Budget,
    /// In tables.
    pub name: String,
    /// The paper, or the year from which on.
    pub paper: &'static str,
    /// As `--machine` takes it.
    pub machine: String,
    /// What it is compared with.
    pub base: String,
    /// Entries of the structure that was scaled.
    pub entries: u64,
    /// Square micrometres of what was scaled, if known.
    pub area_um2: Option<f64>,
}

impl Entry {
    /// One array alone, without a second level or a walker: its cycles are those of its paper's model.
    pub fn is_alone(&self) -> bool {
        ["T94", "PS", "S04"].contains(&self.paper)
    }

    /// The operating system is as it was: base pages of 4 KB on demand, wherever they lie.
    pub fn system_as_it_was(&self) -> bool {
        let spec = MachineSpec::parse(&self.machine, 0);
        let needs_allocator = self.name == "mosaic";
        self.paper != "PS" && !needs_allocator && spec.is_ok_and(|spec| spec.params.text("placement") == "demand")
    }

    /// In a virtual machine, where walks are longer: its numbers and those of native designs are not compared.
    pub fn is_guest(&self) -> bool {
        self.base == NESTED
    }
}

/// Entries of the second level of the base.
pub(crate) const ENTRIES: u64 = 1536;
/// All behind and in front of the second level that the base has, and presets of DS13 and RMM15 have not.
const LEVELS: &str = "l1i=4K:128/8+2M:8,pwc_pd=32,pwc_pdpt=4,pwc_pml4=2,l2_hit_fetch_cycles=9,l2_hit_data_cycles=9";
/// The second level of the base.
const SECOND: &str = "l2=4K|2M:1536/12+1G:16/4";

/// Arrays that stand alone, by paper, with their keys beside the number of entries.
const ARRAYS: [(&str, &str, &str, u64); 8] = [
    ("T94", "single", "t94/single", ENTRIES),
    ("T94", "superpage", "t94/superpage", ENTRIES),
    ("T94", "partial", "t94/partial", ENTRIES),
    ("T94", "complete", "t94/complete", ENTRIES),
    ("T94", "integrated", "t94/integrated", ENTRIES),
    ("T94", "set-associative", "t94/set-associative", ENTRIES),
    // Two sides with half of them each.
    ("PS", "pages of 16 KB", "ps/16k", ENTRIES / 2),
    ("PS", "16 and 256 KB", "ps/two-size", ENTRIES / 2),
];

/// Hierarchies of the papers, in that of the base: name, preset, and the keys of what takes the place of the second
/// level or stands beside it.
const HIERARCHIES: [(&str, &str, &str, &str); 8] = [
    ("DS13", "segment", "ds13/segment", SECOND),
    ("DS13", "2 MB from a pool", "ds13/2m", "l2=4K|2M:1536/12+1G:16/4,pool=32G"),
    ("RMM15", "4 KB, eager", "rmm15/4k", "l2=4K|2M:1536/12+1G:16/4,placement=eager,max_order=20"),
    ("RMM15", "thp", "rmm15/thp", SECOND),
    ("RMM15", "ranges", "rmm15/range", SECOND),
    ("RMM15", "clustered", "rmm15/clustered", "cluster_entries=1536"),
    ("CoLT", "colt", "rmm15/colt", "cluster_entries=1536,cluster_ways=12"),
    ("CoLT", "colt-fa", "rmm15/colt-fa", SECOND),
];

/// Every design within every budget that it can be scaled to, each budget with its base first.
pub(crate) fn entries() -> Vec<Entry> {
    let mut all = Vec::new();
    let mut add = |budget, paper, name: &str, machine: String, base: &str, entries, area_um2| {
        all.push(Entry { budget, name: name.into(), paper, machine, base: base.into(), entries, area_um2 });
    };
    add(Budget::Entries, "since", "base", BASE.into(), BASE, ENTRIES, None);
    for (paper, name, preset, entries) in ARRAYS {
        let machine = match name {
            "set-associative" => format!("{preset}:entries={entries},ways=12"),
            _ => format!("{preset}:entries={entries}"),
        };
        add(Budget::Entries, paper, name, machine, BASE, ENTRIES, None);
    }
    add(Budget::Entries, "S04", "skewed", format!("s04/skewed:entries={ENTRIES},ways=12"), BASE, ENTRIES, None);
    for (paper, name, preset, keys) in HIERARCHIES {
        add(Budget::Entries, paper, name, format!("{preset}:{LEVELS},{keys}"), BASE, ENTRIES, None);
    }
    add(Budget::Entries, "since", "base, thp", format!("{BASE}:placement=thp"), BASE, ENTRIES, None);
    for d in DESIGNS {
        add(Budget::Entries, "since", d.name, d.machine.into(), d.base, ENTRIES, None);
    }
    let base = format!("t94/single:entries={ENTRIES}");
    for (paper, name, preset, _) in &ARRAYS[..5] {
        let Some(entries) = equal_bits(preset) else { continue };
        add(Budget::Bits, paper, name, format!("{preset}:entries={entries}"), &base, entries, None);
    }
    for (paper, name, preset, _) in &ARRAYS[..4] {
        let Some(entries) = equal_area(name) else { continue };
        let machine = if entries == 64 { (*preset).to_owned() } else { format!("{preset}:entries={entries}") };
        add(Budget::Area, paper, name, machine, "t94/single", entries, area("single-64"));
    }
    let sum = |all: &[&str]| all.iter().map(|name| area(name)).sum::<Option<f64>>();
    let second = "rmm15/4k:placement=eager,max_order=20";
    for (paper, name, machine, entries, structures) in [
        ("RMM15", "512 in the second level", second, 512, &["l2-512"][..]),
        ("RMM15", "256, and 128 ranges", "rmm15/range:l2=4K:256/4,range_entries=128", 256, &["l2-256", "range-128"]),
        ("DS13", "512, and a segment", "ds13/segment", 512, &["l2-512", "segment"]),
    ] {
        add(Budget::Area, paper, name, machine.into(), second, entries, sum(structures));
    }
    all
}

/// Square micrometres of a structure.
fn area(configuration: &str) -> Option<f64> {
    Some(find(figures(), configuration, LIBRARY)?.area_um2)
}

/// Bits of an entry of a preset.
fn bits(preset: &str) -> Option<u64> {
    let spec = MachineSpec::parse(preset, 0).ok()?;
    let bits = (spec.hardware.tlb()?.bits)(&spec.params)?;
    Some(bits.tag + bits.data + bits.status)
}

/// Entries with as many bits as the single-page-size TLB of [`ENTRIES`].
fn equal_bits(preset: &str) -> Option<u64> {
    Some(ENTRIES * bits("t94/single")? / bits(preset)?)
}

/// Entries with the area of the single-page-size TLB of 64, on the line through the two sizes around it.
fn equal_area(name: &str) -> Option<u64> {
    let budget = area("single-64")?;
    let sizes: Vec<(f64, f64)> =
        [8, 16, 32, 64].iter().filter_map(|&n| Some((f64::from(n), area(&format!("{name}-{n}"))?))).collect();
    let upper = sizes.iter().position(|&(_, a)| a >= budget)?.max(1);
    let ((n0, a0), (n1, a1)) = (sizes[upper - 1], sizes[upper]);
    Some((n0 + (n1 - n0) * (budget - a0) / (a1 - a0)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_design_of_every_budget_is_a_machine() {
        let all = entries();
        for entry in &all {
            for machine in [&entry.machine, &entry.base] {
                MachineSpec::parse(machine, 0).unwrap_or_else(|e| panic!("{e}"));
            }
        }
        let of = |budget| all.iter().filter(|e| e.budget == budget).count();
        assert_eq!(Budget::ALL.map(of), [1 + 8 + 1 + 8 + 1 + DESIGNS.len(), 5, 7]);
    }

    /// AREA-2: an entry of a complete subblock has more than six times the bits of one page's.
    #[test]
    fn larger_entries_are_fewer() {
        let entries = |preset| equal_bits(preset).unwrap();
        assert_eq!(entries("t94/single"), ENTRIES);
        assert!(entries("t94/partial") < ENTRIES && entries("t94/complete") * 6 < ENTRIES);
        let [single, superpage, partial, complete] = ["single", "superpage", "partial", "complete"].map(equal_area);
        assert_eq!(single, Some(64));
        assert!(superpage > partial && partial > complete, "{superpage:?} {partial:?} {complete:?}");
    }
}
