//! Several cores: second levels of their own, and one that they share.

use super::*;

pub(crate) const STUDY: Study = Study {
    id: "since-cores",
    title: "Four cores: private second levels against a shared one: walks, removed misses",
    rules: "SLL-1 to SLL-3, XC-7",
    plan: |_, _| PROGRAMS.iter().flat_map(|p| [ALONE, PRIVATE, SHARED].map(|m| Request::machine(p, m))).collect(),
    section,
};

/// First levels alone.
pub(crate) const ALONE: &str = "since/private:l2=none";
/// A second level for each core.
pub(crate) const PRIVATE: &str = "since/private";
/// As many entries in one, for all.
pub(crate) const SHARED: &str = "since/sll";

/// Loops whose rounds are independent, dealt out to four threads: random updates, requests to a key-value store, rows
/// of a sparse matrix, points of a grid, points that look for their cluster, vertices of a level of a search. Each has
/// its usual size.
pub(crate) const PROGRAMS: [&str; 6] = [
    "workload:gups:references=4M,threads=4",
    "workload:kv:references=4M,threads=4",
    "workload:spmv:references=4M,threads=4",
    "workload:stencil:references=4M,threads=4",
    "workload:cluster:references=4M,threads=4",
    "workload:bfs:references=4M,threads=4",
];

/// Walks on the three machines, and the pages that were touched.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Removed {
    pub alone: u64,
    pub private: u64,
    pub shared: u64,
    pub pages: u64,
}

impl Removed {
    pub fn of(results: &Results, program: &str) -> Option<Removed> {
        let [alone, private, shared] = [ALONE, PRIVATE, SHARED].map(|m| Walks::of(results, program, m));
        let alone = alone?;
        Some(Removed { alone: alone.walks, private: private?.walks, shared: shared?.walks, pages: alone.pages })
    }

    /// Share of the misses of first levels that a second level with this number of walks removes, in percent.
    fn removed(self, walks: u64) -> f64 {
        100.0 - share(walks, self.alone)
    }

    pub fn by_private(self) -> f64 {
        self.removed(self.private)
    }

    pub fn by_shared(self) -> f64 {
        self.removed(self.shared)
    }

    /// Percent of the misses that the shared level removes and private ones do not.
    pub fn more(self) -> f64 {
        self.by_shared() - self.by_private()
    }
}

fn section(results: &Results, _: &Set, section: &mut Section) {
    let mut table = Table::new("Four cores", "program");
    table.column("pages", Origin::Measured, "pages");
    for name in ["first levels alone", "private second levels", "shared second level"] {
        table.column(format!("{name}, walks"), Origin::Measured, "walks");
    }
    table.column("removed by private ones", Origin::Measured, "% of the first");
    table.column("removed by the shared one", Origin::Measured, "% of the first");
    table.column("shared more than private", Origin::Measured, "points");
    for p in PROGRAMS {
        let Some(r) = Removed::of(results, p) else { continue };
        let counts = [r.pages, r.alone, r.private, r.shared].map(|n| Cell::from(Some(n)));
        let shares = [r.by_private(), r.by_shared(), r.more()].map(|n| Cell::from(Some(n)));
        table.row(p, [counts.to_vec(), shares.to_vec()].concat());
    }
    section.tables.push(table);
    section.note(
        "A kernel for threads is its own loop in pieces of 1024 blocks of code, dealt out in turn, in one order: \
         threads do not run at once. All share all memory. Programs of several processes on several cores are not run.",
    );
    section.note(MODEL);
}
