//! Two translations with caches between them, against TLBs, by the size of the last level.

use super::*;
use farreach_types::counts::LineCounts;

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

/// Cycles of translation in percent of those of all references of the program, with it: what the paper has in percent
/// of the average memory access time. Each reference takes the latency of what answered it.
pub(crate) fn of_access_time(results: &Results, program: &str, machines: &[&str; 5], size: Size) -> Option<f64> {
    let machine = results.machine(program, machines[size.at])?;
    let price = |key: &str| machine.config.get(key).and_then(|value| value.as_f64());
    let [l1, l2, llc, memory] = ["l1", "l2", "llc", "memory"].map(|level| price(&format!("cache_{level}_cycles")));
    let (l1, l2, llc, memory) = (l1?, l2?, llc?, memory?);
    let side = |counts: &LineCounts| {
        let LineCounts { accesses, l1_misses, l2_misses, llc_misses } = *counts;
        let at = [accesses - l1_misses, l1_misses - l2_misses, l2_misses - llc_misses, llc_misses];
        at.iter().zip([l1, l2, llc, memory]).map(|(count, cycles)| *count as f64 * cycles).sum::<f64>()
    };
    let caches = machine.caches.as_ref()?;
    let (own, translation) = (side(&caches.fetch) + side(&caches.data), machine.cost.cycles as f64);
    Some(100.0 * translation / (translation + own))
}

fn section(results: &Results, set: &Set, section: &mut Section) {
    for p in few(set) {
        let title = format!("{}: translation in percent of the time of its references", p.name);
        let mut table = Table::new(&title, "last level");
        for name in ["midgard", "pages of 4 KB", "huge pages"] {
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
         size. The programs of the paper have 200 GB.",
    );
    section.note(MODEL);
}
