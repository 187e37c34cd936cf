//! Figures 1 to 3: the fields of an entry, and the entries for four mappings, computed and compared with the drawing.

use super::*;
use crate::printed;
use crate::study::Study;
use farreach_hw::tlb::EntryView;
use farreach_machine::{MachineSpec, entries_after_loads};
use farreach_types::addr::{Asid, Pfn, Vpn};
use farreach_types::papers::{Origin, Section, Table};
use farreach_types::translation::{Attr, PageTableView, Pte};
use std::collections::BTreeMap;

pub(crate) const FIGURE_1: Study = Study {
    id: "t94-fig1",
    title: "What an entry of each design consists of",
    rules: "T94-3 to T94-6, AREA-2",
    plan: |_, _| Vec::new(),
    section: |_, _, section| layouts(section),
};

pub(crate) const FIGURE_2: Study = Study {
    id: "t94-fig2",
    title: "Four mappings in four designs",
    rules: "T94-7 to T94-13, AMB-1, AMB-14",
    plan: |_, _| Vec::new(),
    section: |_, _, section| four_designs(section),
};

pub(crate) const FIGURE_3: Study = Study {
    id: "t94-fig3",
    title: "Partial-subblock entries: a page elsewhere, a small object, an unaligned start, other attributes",
    rules: "T94-7, T94-8, T94-20, AMB-1, AMB-14",
    plan: |_, _| Vec::new(),
    section: |_, _, section| examples(section),
};

/// Row of Figure 1, machine.
const LAYOUTS: [(&str, &str); 4] = [
    ("single", "t94/single"),
    ("superpage", "t94/superpage"),
    ("complete f=4", "t94/complete:factor=4"),
    ("partial f=4", "t94/partial:factor=4"),
];

fn spec(machine: &str) -> MachineSpec {
    MachineSpec::parse(machine, 0).expect("machines of this file are descriptions")
}

fn layouts(section: &mut Section) {
    let paper = printed::table("t94_fig1_entry_layout");
    let mut table = Table::new("Fields and bits of one entry", "design");
    for name in ["tag", "data", "status"] {
        table.column(name, Origin::Computed, "bits");
    }
    table.column("tag fields", Origin::Printed, "");
    table.column("data fields", Origin::Printed, "");
    for (row, machine) in LAYOUTS {
        let spec = spec(machine);
        let bits = (spec.hardware.tlb().expect("a TLB design").bits)(&spec.params)
            .expect("fully associative designs have an area");
        let fields = ["tag_fields", "data_fields"].map(|c| Cell::Text(paper.text(row, c).replace('|', ", ")));
        table.row(row, [bits.tag, bits.data, bits.status].map(Cell::Count).into_iter().chain(fields).collect());
    }
    section.tables.push(table);
    section.note(
        "Bits include 12 of the process id in the tag and count valid bits of partial subblocks with the tag; status \
         is the used bit.",
    );
}

/// A page table as it is drawn.
#[derive(Default)]
struct Drawn(BTreeMap<u64, Pte>);

impl PageTableView for Drawn {
    fn pte(&self, asid: Asid, vpn: Vpn) -> Option<Pte> {
        self.0.get(&vpn.0).copied().filter(|_| asid == Asid(0))
    }
}

impl Drawn {
    fn map(&mut self, vpn: &str, pfn: &str, attr: &str) -> Vpn {
        let number = |bits: &str| u64::from_str_radix(bits, 2).expect("the figures are binary");
        let vpn = number(vpn);
        self.0.insert(vpn, Pte { pfn: Pfn(number(pfn)), attr: Attr(attr.as_bytes()[0]), order: 0 });
        Vpn(vpn)
    }
}

/// Tag, size or valid bits, frames, attributes, SB as drawn, which is the inverse of its meaning (AMB-1). Low frame
/// bits of an entry for several pages are drawn as zeros (AMB-14).
fn drawn(e: &EntryView, kind: &str, frame_bits: usize) -> [String; 5] {
    let letters = |a: Attr| char::from(a.0).to_string();
    let bits = |frame: u64| format!("{frame:0frame_bits$b}");
    if kind == "single" || kind == "superpage" {
        let (_, t, _) = e.pages[0];
        return [
            format!("{:06b}", e.base.0 >> e.order),
            format!("{}KB", 4 << e.order),
            bits(t.pfn.0),
            letters(t.attr),
            String::new(),
        ];
    }
    let valid: String = (0..4).map(|o| if e.pages.iter().any(|p| p.0 == o) { '1' } else { '0' }).collect();
    let tag = format!("{:04b}", e.base.0 >> 2);
    if kind == "complete" {
        let join = |of: &dyn Fn(&(u64, farreach_types::translation::Translation, bool)) -> String| {
            e.pages.iter().map(of).collect::<Vec<_>>().join("|")
        };
        return [tag, valid, join(&|p| bits(p.1.pfn.0)), join(&|p| letters(p.1.attr)), String::new()];
    }
    let enabled = e.sb_enabled == Some(true);
    let first = e.pages[0].1;
    let frame = if enabled { first.pfn.0 >> 2 << 2 } else { first.pfn.0 };
    [tag, valid, bits(frame), letters(first.attr), if enabled { "0" } else { "1" }.into()]
}

fn heads(title: &str, rows_are: &str) -> Table {
    let mut table = Table::new(title, rows_are);
    for name in ["tag", "size or valid", "frame", "attributes", "SB as drawn"] {
        table.column(name, Origin::Measured, "");
    }
    table.column("as in the figure", Origin::Measured, "");
    table
}

/// Adds the entries that were found, each compared with the drawn ones in any order.
fn compare(table: &mut Table, name: &str, found: Vec<[String; 5]>, mut figure: Vec<[String; 5]>) -> bool {
    let mut all = true;
    for entry in found {
        let at = figure.iter().position(|drawn| *drawn == entry);
        at.map(|i| figure.remove(i));
        all &= at.is_some();
        let same = Cell::from(if at.is_some() { "yes" } else { "no" });
        table.row(name, entry.iter().map(|c| Cell::from(c.as_str())).chain([same]).collect());
    }
    all && figure.is_empty()
}

fn four_designs(section: &mut Section) {
    let mut mapped = Drawn::default();
    let pages: Vec<Vpn> = [("110100", "10000"), ("110101", "11011"), ("110111", "00011"), ("110110", "00010")]
        .map(|(vpn, pfn)| mapped.map(vpn, pfn, "a"))
        .into();
    let mut table = heads("Entries after a load from each page", "design");
    let mut same = true;
    for (name, kind, machine) in [
        ("single", "single", "t94/single:entries=4"),
        ("superpage 4K/16K", "superpage", "t94/superpage:entries=4,sizes=4K+16K,promote=none"),
        ("complete f=4", "complete", "t94/complete:entries=4,factor=4"),
        ("partial f=4", "partial", "t94/partial:entries=4,factor=4"),
    ] {
        let found = entries_after_loads(&spec(machine), &mapped, &pages).expect("all pages are mapped");
        let figure = printed::table("fig2_vectors");
        let figure = figure.records().filter(|r| r[0] == name).map(|r| [2, 3, 4, 5, 6].map(|i| r[i].clone())).collect();
        same &= compare(&mut table, name, found.iter().map(|e| drawn(e, kind, 5)).collect(), figure);
    }
    section.tables.push(table);
    verdict(section, same);
}

fn examples(section: &mut Section) {
    let figure = printed::table("fig3_vectors");
    let mut table = heads("Entries of a partial-subblock TLB of factor 4 after a load from each page", "example");
    let mut same = true;
    for example in figure.records().filter(|r| r[1] != "(same)") {
        let mut mapped = Drawn::default();
        let pages: Vec<Vpn> = example[1]
            .split(' ')
            .filter_map(|m| m.split_once('>').and_then(|(vpn, rest)| Some((vpn, rest.split_once(':')?))))
            .map(|(vpn, (pfn, attr))| mapped.map(vpn, pfn, attr))
            .collect();
        let found = entries_after_loads(&spec("t94/partial:entries=8,factor=4"), &mapped, &pages)
            .expect("all pages are mapped");
        let drawn_there =
            figure.records().filter(|r| r[0] == example[0]).map(|r| [3, 4, 5, 6, 7].map(|i| r[i].clone())).collect();
        same &= compare(&mut table, &example[0], found.iter().map(|e| drawn(e, "partial", 6)).collect(), drawn_there);
    }
    section.tables.push(table);
    verdict(section, same);
}

fn verdict(section: &mut Section, same: bool) {
    section.note(if same { "Entry by entry as in the figure." } else { "This differs from the figure." });
    section.note(
        "The text calls SB = 0 disabled; every drawn entry shows 0 where several pages may share it. Here as drawn \
         (AMB-1).",
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::shown;

    #[test]
    fn ca_3_entries_are_those_of_the_figures() {
        for (study, entries) in [(FIGURE_2, 4 + 4 + 1 + 3), (FIGURE_3, 2 + 1 + 1 + 2)] {
            let section = shown(&study, &Results::default(), &Set::default());
            assert_eq!(section.tables[0].rows.len(), entries);
            assert!(section.notes[0].starts_with("Entry by entry"), "{section:?}");
        }
    }
}
