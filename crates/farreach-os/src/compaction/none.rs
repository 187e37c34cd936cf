//! No compaction, but for policies that ask for a block themselves (LNX-5).

use super::contract::{CompactionKind, Way, When};

/// Registry entry.
pub const NONE: CompactionKind = CompactionKind {
    name: "none",
    when: When::Never,
    allocators: &["fifo", "buddy", "colouring"],
    build: |_| Box::new(None),
};

struct None;

impl Way for None {}
