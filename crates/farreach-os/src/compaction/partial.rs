//! Compaction in the background (DS13-13): some blocks, those with the fewest pages first.

use super::contract::{CompactionKind, Layout, Survey, Way, When};
use super::direct::fewest;
use super::policy::PAGES;

/// Registry entry.
pub const PARTIAL: CompactionKind = CompactionKind {
    name: "partial",
    when: When::Background,
    allocators: &["buddy"],
    build: |params| Box::new(Partial { budget: params.int(PAGES.name) }),
};

struct Partial {
    budget: u64,
}

impl Way for Partial {
    fn in_background(&mut self, survey: &Survey) -> Layout {
        fewest(survey)
    }

    fn budget(&self) -> u64 {
        self.budget
    }
}
