//! Programs made by hand, for claims that a paper works out by hand.

pub mod cores;
pub mod few_pages;
pub mod large_memory;
pub mod memory;
mod pages;
pub mod snapshots;

pub use cores::{HALVES, REFILLS, ROUNDS, TURNS_OF, UNMAPS, UNMAPS_APART};
pub use few_pages::{ANOMALY, ATTRIBUTE, HALF_FILE, HOLE, OBJECT_60K, OBJECT_64K, ONE_DIRTY, UNALIGNED};
pub use large_memory::{ARENAS, FORK, PROTECT, RANGES, SCATTERED, SPARSE, TINY, TURNS};
pub use memory::{
    EQUALS, FEW_DIRTY, FILE_IN_ORDER, FILL, GIGABYTE, HOT_HIGH, HOT_LOW, MANY, MOSTLY_ZEROS, SPARSE_GROUPS,
    STREAM_BESIDE, USED_ONCE, WIDE,
};
pub use snapshots::SNAPSHOTS;

use farreach_types::event::Source;

/// The program of this name.
pub fn source(name: &str) -> Option<Box<dyn Source + Send>> {
    few_pages::source(name)
        .or_else(|| large_memory::source(name))
        .or_else(|| snapshots::source(name))
        .or_else(|| cores::source(name))
        .or_else(|| memory::source(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use farreach_trace::check;

    #[test]
    fn they_are_sound() {
        for name in [ANOMALY, ATTRIBUTE, HALF_FILE, HOLE, OBJECT_60K, OBJECT_64K, ONE_DIRTY, UNALIGNED]
            .into_iter()
            .chain([
                ARENAS,
                FORK,
                PROTECT,
                SCATTERED,
                SPARSE,
                TINY,
                TURNS,
                SNAPSHOTS,
                UNMAPS,
                UNMAPS_APART,
                REFILLS,
                HALVES,
            ])
            .chain(TURNS_OF)
            .chain(EQUALS)
            .chain([
                FEW_DIRTY,
                FILE_IN_ORDER,
                FILL,
                GIGABYTE,
                HOT_HIGH,
                HOT_LOW,
                MANY,
                MOSTLY_ZEROS,
                SPARSE_GROUPS,
                STREAM_BESIDE,
                USED_ONCE,
                WIDE,
            ])
        {
            let report = check(&mut source(name).expect(name)).expect("no input, no failure");
            assert_eq!(report.violation, None, "{name}");
        }
        assert!(source("micro/none").is_none());
    }
}
