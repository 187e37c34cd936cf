//! Compaction in the background (DS13-13): everything movable goes up, so that memory below becomes free.

use super::contract::{CompactionKind, Layout, Survey, Way, When};

/// Registry entry.
pub const FULL: CompactionKind =
    CompactionKind { name: "full", when: When::Background, allocators: &["buddy"], build: |_| Box::new(Full) };

struct Full;

impl Way for Full {
    fn in_background(&mut self, survey: &Survey) -> Layout {
        let empty = (0..survey.blocks()).filter(|&b| survey.movable_in(b) > 0).collect();
        let fill = (0..survey.pieces()).rev().filter(|&p| survey.has_room(p)).collect();
        Layout { empty, fill }
    }

    fn sweeps(&self) -> bool {
        true
    }
}
