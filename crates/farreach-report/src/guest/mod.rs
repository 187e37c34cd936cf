//! Whole systems: the sums that every form shows, and the part of the text table about kernel and user. A guest is in
//! its *kernel*, or in *user* mode, in one of its programs.

mod programs;
mod vectors;

pub(super) use programs::programs;
pub(super) use vectors::{kinds, vector};

use super::format::{NONE, bytes, count, counted, rate};
use super::grid::{broken, lines};
use farreach_types::counts::{GuestChecks, GuestCounts, GuestOsCounts, GuestUse, MachineResult, RunResult};
use std::collections::BTreeSet;

/// The two privileges: their names, and whether it is the kernel.
pub(super) const PRIVILEGES: [(&str, bool); 2] = [("kernel", true), ("user", false)];

/// A part in percent of a whole.
pub(super) fn share(part: u64, all: u64) -> Option<f64> {
    (all > 0).then(|| 100.0 * part as f64 / all as f64)
}

/// The kernel's share of the instructions, in percent.
pub(super) fn in_kernel(guest: &GuestUse) -> Option<f64> {
    let [kernel, user] = PRIVILEGES.map(|(_, kernel)| guest.references(kernel).fetch);
    share(kernel, kernel + user)
}

/// Misses per thousand instructions.
fn per_thousand(misses: u64, instructions: u64) -> Option<f64> {
    (instructions > 0).then(|| 1000.0 * misses as f64 / instructions as f64)
}

/// What the guest is.
pub(super) fn about(guest: &GuestUse) -> String {
    let spaces: BTreeSet<u32> = guest.contexts.iter().map(|of| of.context.space).filter(|&space| space > 0).collect();
    let processors = counted(u64::from(guest.processors), "processor");
    let spaces = counted(spaces.len() as u64, "address space");
    format!("{} guest: {processors}, {} of memory, {spaces}", guest.arch.name(), bytes(guest.memory_bytes))
}

/// What it did, apart from references: the noun for one, and how often. Its run, and its page tables.
pub(super) fn facts(guest: &GuestUse) -> [Vec<(&'static str, u64)>; 2] {
    let events = &guest.events;
    let run = vec![
        ("context switch", events.space_switches),
        ("switch of processor", events.processor_switches),
        ("kernel entry", events.kernel_entries),
    ];
    let tables = vec![
        ("write of a page-table root", events.root_writes),
        ("word of page tables", events.table_words),
        ("invalidation", events.invalidations),
        ("broadcast", events.broadcasts),
        ("received shootdown", events.shootdowns_received),
    ];
    [run, tables].map(|facts| facts.into_iter().filter(|(_, n)| *n > 0).collect())
}

/// How far translations were checked, and what was not as it should be.
pub(super) fn checked(checks: &GuestChecks) -> Vec<String> {
    let &GuestChecks { compared, different, unknown_edges, device, early, firmware, stale, .. } = checks;
    let mut out = vec![match (compared, different) {
        (0, _) => "no translation was compared with the emulator's".to_owned(),
        (n, 0) => format!("{} compared with the emulator's: none differs", counted(n, "translation")),
        (n, wrong) => format!(
            "{} of {} compared with the emulator's differ, so figures may be wrong",
            count(wrong),
            counted(n, "translation")
        ),
    }];
    if unknown_edges > 0 {
        out.push(format!("of {} it is not known whether they ran as a whole", counted(unknown_edges, "block")));
    }
    if stale > 0 {
        out.push(format!("{} by translations that another processor had changed", counted(stale, "reference")));
    }
    if device > 0 {
        out.push(format!("{} to memory of devices", counted(device, "reference")));
    }
    if early > 0 {
        out.push(format!("{} left out while paging was off", counted(early, "reference")));
    }
    if firmware > 0 {
        out.push(format!("{} of firmware left out", counted(firmware, "reference")));
    }
    out
}

/// The lines about a guest in the head of a text report.
pub(super) fn header(guest: &GuestUse) -> Vec<String> {
    let side = |(name, kernel): (&str, bool)| {
        let (instructions, lookups) = (guest.references(kernel).fetch, guest.lookups(kernel).total());
        let part = in_kernel(guest).filter(|_| kernel);
        let part = part.map_or_else(String::new, |part| format!(" ({} %)", rate(part)));
        format!("{name}: {}{part}, {}", counted(instructions, "instruction"), counted(lookups, "lookup"))
    };
    let mut out = vec![PRIVILEGES.map(side).join("; ")];
    for facts in facts(guest).into_iter().filter(|facts| !facts.is_empty()) {
        out.push(facts.into_iter().map(|(one, n)| counted(n, one)).collect::<Vec<_>>().join(", "));
    }
    out.extend(vectors::exceptions(guest));
    if guest.by_processor.len() > 1 {
        let received = guest.by_processor.iter().map(|of| count(of.shootdowns_received)).collect::<Vec<_>>();
        out.push(format!("received shootdowns by processor: {}", received.join(", ")));
    }
    out.extend(guest.checks.as_ref().map(|checks| checked(checks).join("; ")));
    out
}

/// What a design counted of the guest, beside what the guest did.
pub(super) struct Sides<'a> {
    guest: &'a GuestUse,
    counts: &'a GuestCounts,
    os: &'a GuestOsCounts,
}

impl<'a> Sides<'a> {
    /// Of a machine; nothing if it was not counted by context.
    pub(super) fn of(result: &'a RunResult, machine: &'a MachineResult) -> Option<Sides<'a>> {
        let (guest, counts) = (result.workload.guest.as_ref()?, machine.guest.as_ref()?);
        Some(Sides { guest, counts, os: &machine.counts.os.guest })
    }

    /// Misses of one privilege.
    pub(super) fn misses(&self, kernel: bool) -> u64 {
        self.counts.of(kernel).misses
    }

    /// Misses of both.
    pub(super) fn all_misses(&self) -> u64 {
        self.misses(true) + self.misses(false)
    }

    /// Misses for a thousand instructions of one privilege.
    pub(super) fn per_thousand(&self, kernel: bool) -> Option<f64> {
        per_thousand(self.misses(kernel), self.guest.references(kernel).fetch)
    }

    /// The same of both.
    pub(super) fn all_per_thousand(&self) -> Option<f64> {
        per_thousand(self.all_misses(), self.guest.references(true).fetch + self.guest.references(false).fetch)
    }

    /// Miss cycles of one privilege, if they are known apart.
    fn cycles(&self, kernel: bool) -> Option<u64> {
        self.counts.cycles(kernel)
    }

    /// Miss cycles of both.
    fn all_cycles(&self) -> Option<u64> {
        Some(self.cycles(true)? + self.cycles(false)?)
    }

    /// The kernel's share of the misses, in percent.
    pub(super) fn kernel_misses(&self) -> Option<f64> {
        share(self.misses(true), self.all_misses())
    }

    /// Its share of the miss cycles.
    fn kernel_cycles(&self) -> Option<f64> {
        share(self.cycles(true)?, self.all_cycles()?)
    }
}

/// A column of the first table: two lines of heading, and the cell; left out if all cells are empty or 0.
type Column = ([&'static str; 2], fn(&Sides) -> Option<String>);

const COLUMNS: [Column; 15] = [
    (["kernel", "misses"], |s| Some(count(s.misses(true)))),
    (["user", "misses"], |s| Some(count(s.misses(false)))),
    (["kernel %", "misses"], |s| s.kernel_misses().map(rate)),
    (["kernel", "per 1000"], |s| s.per_thousand(true).map(rate)),
    (["user", "per 1000"], |s| s.per_thousand(false).map(rate)),
    (["both", "per 1000"], |s| s.all_per_thousand().map(rate)),
    (["kernel", "cycles"], |s| s.cycles(true).map(count)),
    (["user", "cycles"], |s| s.cycles(false).map(count)),
    (["both", "cycles"], |s| s.all_cycles().map(count)),
    (["kernel %", "cycles"], |s| s.kernel_cycles().map(rate)),
    (["", "flushes"], |s| Some(count(s.counts.flushes))),
    (["entries", "flushed"], |s| Some(count(s.counts.flushed))),
    (["global", "kept"], |s| Some(count(s.counts.global_kept))),
    (["tagged", "kept"], |s| Some(count(s.counts.tagged_kept))),
    (["stale", "lookups"], |s| Some(count(s.os.stale_lookups))),
];

/// How to read the first table.
const NOTES: [&str; 5] = [
    "per 1000: misses for 1000 instructions of the kernel, of programs, of both.",
    "cycles: miss cycles. All that a system call does is the kernel's.",
    "flushes: what the guest told its processors to drop, by instructions and writes of registers.",
    "kept: entries of global pages, and with tags of other address spaces, that stayed when those of one were flushed.",
    "lookups: stale ones had a translation that the guest had changed and not invalidated yet.",
];

/// Both tables; nothing if what ran was no whole system.
pub(super) fn render(result: &RunResult, base: usize, width: usize) -> String {
    let sides: Vec<Option<Sides>> = result.machines.iter().map(|m| Sides::of(result, m)).collect();
    if sides.iter().all(Option::is_none) {
        return String::new();
    }
    let cell = |side: &Option<Sides>, (_, of): &Column| side.as_ref().and_then(of);
    let told = |column: &&Column| sides.iter().any(|side| cell(side, column).is_some_and(|text| text != "0"));
    let columns: Vec<&Column> = COLUMNS.iter().filter(told).collect();
    let head = |line: usize, first: &str| {
        std::iter::once(first.to_owned()).chain(columns.iter().map(|(head, _)| head[line].to_owned())).collect()
    };
    let row = |(machine, side): (&MachineResult, &Option<Sides>)| {
        let cells = columns.iter().map(|column| cell(side, column).unwrap_or_else(|| NONE.into()));
        std::iter::once(broken(&machine.name)).chain(cells).collect()
    };
    let rows: Vec<Vec<String>> = result.machines.iter().zip(&sides).map(row).collect();
    let has = |name: &str| columns.iter().any(|(head, _)| head[1] == name);
    let notes = NOTES.iter().filter(|note| has(note.split(':').next().expect("a note begins with what it is about")));
    let notes: String = notes.map(|note| format!("  {note}\n")).collect();
    let table = lines(&[head(0, ""), head(1, "design")], &rows, width);
    format!("\nKernel and user\n\n{table}\n{notes}{}", programs::render(result, base, width))
}
