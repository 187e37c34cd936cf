//! Two translations with caches between them, against TLBs, by the size of the last level.

use super::*;
use farreach_types::counts::{Answered, LineCounts};

pub(crate) const STUDY: Study = Study {
    id: "since-midgard",
    title: "Midgard: translation behind the caches, by the size of the last level",
    rules: "MID-1 to MID-4, HW-7",
    plan: |_, set| {
        SIZES.iter().flat_map(|size| grid(few(set), &[MIDGARD, PAGES, LARGE].map(|of| of[size.at]))).collect()
    },
    section,
};

/// A size of the last level, and its place in the lists below.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    pub name: &'static str,
    at: usize,
}

const fn size(name: &'static str, at: usize) -> Size {
    Size { name, at }
}

/// Sizes of the last level.
pub(crate) const SIZES: [Size; 5] = [size("1M", 0), size("4M", 1), size("16M", 2), size("64M", 3), size("256M", 4)];
/// The two that the claim speaks of.
pub(crate) const SMALL: Size = SIZES[2];
pub(crate) const ALL: Size = SIZES[4];

macro_rules! by_size {
    ($machine:literal) => {
        [
            concat!($machine, "cache_slices=1,cache_llc=1M/16"),
            concat!($machine, "cache_slices=1,cache_llc=4M/16"),
            concat!($machine, "cache_slices=1,cache_llc=16M/16"),
            concat!($machine, "cache_slices=1,cache_llc=64M/16"),
            concat!($machine, "cache_slices=1,cache_llc=256M/16"),
        ]
    };
}

/// Machines by size: Midgard, TLBs with pages of 4 KB, TLBs with huge pages.
pub(crate) const MIDGARD: [&str; 5] = by_size!("since/midgard:");
pub(crate) const PAGES: [&str; 5] = by_size!("since/base:walk_cost=caches,");
pub(crate) const LARGE: [&str; 5] = by_size!("since/base:placement=thp,walk_cost=caches,");

/// Cycles of a machine on a program, each reference at the latency of what answered it.
struct Times {
    /// Of translation.
    translation: f64,
    /// Of these, behind the last level.
    back: f64,
    /// Of the program's own references.
    own: f64,
}

impl Times {
    fn of(results: &Results, program: &str, machine: &str) -> Option<Times> {
        let machine = results.machine(program, machine)?;
        let price = |level: &str| machine.config.get(&format!("cache_{level}_cycles"))?.as_f64();
        let prices = [price("l1")?, price("l2")?, price("llc")?, price("memory")?];
        let sum = |counts: [u64; 4]| counts.iter().zip(prices).map(|(n, cycles)| *n as f64 * cycles).sum::<f64>();
        let side = |counts: &LineCounts| {
            let LineCounts { accesses, l1_misses, l2_misses, llc_misses } = *counts;
            sum([accesses - l1_misses, l1_misses - l2_misses, l2_misses - llc_misses, llc_misses])
        };
        let caches = machine.caches.as_ref()?;
        let back = machine.counts.tlb.parts.get("back").map_or(0.0, |part| {
            let Answered { l1, l2, llc, memory } = part.memory.answered;
            sum([l1, l2, llc, memory])
        });
        let own = side(&caches.fetch) + side(&caches.data);
        Some(Times { translation: machine.cost.cycles as f64, back, own })
    }

    fn share(&self) -> f64 {
        100.0 * self.translation / (self.translation + self.own)
    }
}

/// Cycles of translation in percent of those of all references of the program, with it: what the paper has in percent
/// of the average memory access time.
pub(crate) fn of_access_time(results: &Results, program: &str, machines: &[&str; 5], size: Size) -> Option<f64> {
    Some(Times::of(results, program, machines[size.at])?.share())
}

/// The same of Midgard, without the cycles behind the last level that the largest one leaves: those of first
/// references.
fn after_first(results: &Results, program: &str, size: Size) -> Option<f64> {
    let (all, times) = (Times::of(results, program, MIDGARD[ALL.at])?, Times::of(results, program, MIDGARD[size.at])?);
    Some(Times { translation: times.translation - all.back, ..times }.share())
}

fn section(results: &Results, set: &Set, section: &mut Section) {
    for p in few(set) {
        let title = format!("{}: translation in percent of the time of its references", p.name);
        let mut table = Table::new(&title, "last level");
        for name in ["midgard", "midgard, less what 256M leaves behind it", "pages of 4 KB", "huge pages"] {
            table.column(name, Origin::Measured, "%");
        }
        table.column("walks behind the last level", Origin::Measured, "walks");
        table.column("of these, whose leaf is in it", Origin::Measured, "%");
        table.column("walks of VMA tables", Origin::Measured, "walks");
        for size in SIZES {
            let of = |machines| Cell::from(of_access_time(results, &p.name, machines, size));
            let counted = |name| counted(results, &p.name, MIDGARD[size.at], "back", name);
            let (walks, leaves) = (counted("walks"), counted("leaf_hits"));
            let cells = vec![
                of(&MIDGARD),
                after_first(results, &p.name, size).into(),
                of(&PAGES),
                of(&LARGE),
                walks.into(),
                leaves.zip(walks).map(|(leaves, walks)| share(leaves, walks)).into(),
                results.misses(&p.name, MIDGARD[size.at]).into(),
            ];
            table.row(size.name, cells);
        }
        section.tables.push(table);
    }
    section.note(
        "A reference takes the latency of what answered it: 4, 12, 30 or 200 cycles. All walks read through the same \
         caches. Programs here are short: the first reference to each line is a walk behind the last level, of any \
         size. What the largest one leaves behind it are these. The programs of the paper have 200 GB.",
    );
    section.note(MODEL);
}
