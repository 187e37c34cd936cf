//! What a watched process uses of its memory: pure functions of its pages, interval by interval.

mod advice;
mod bounds;
mod fullness;
mod heat;
mod page_set;

pub use advice::{Facts, recommend};
pub use bounds::{Bounds, Known, used_units};
pub use fullness::fullness;
pub use heat::Heater;
pub use page_set::PageSet;

use farreach_types::counts::{ByteBounds, EntryBounds, WorkingSet};

/// Sizes of pages that working sets are counted in, as log2 of 4 KB pages: 4 KB, the sizes of multi-size huge pages up
/// to 1 MB, 2 MB, 32 MB (Arm with 16 KB pages) and 1 GB.
pub const ORDERS: [u32; 8] = [0, 2, 4, 6, 8, 9, 13, 18];

/// The working set of one interval, in pages of each of [`ORDERS`].
pub type Counted = [Bounds; ORDERS.len()];

/// Counts the pages of each size that were used in an interval.
pub fn counted(present: &PageSet, known: Known) -> Counted {
    ORDERS.map(|order| used_units(present, known, order))
}

/// The median of some numbers; of an even number of them, the lower of the middle two. `None` of none.
pub fn median(values: impl IntoIterator<Item = u64>) -> Option<u64> {
    let mut values: Vec<u64> = values.into_iter().collect();
    values.sort_unstable();
    values.get(values.len().checked_sub(1)? / 2).copied()
}

/// Bounds of the median, or of the largest: each bound by itself.
fn of(intervals: &[Bounds], pick: impl Fn(&mut dyn Iterator<Item = u64>) -> Option<u64>) -> Option<Bounds> {
    let low = pick(&mut intervals.iter().map(|bounds| bounds.low))?;
    let high = pick(&mut intervals.iter().map(|bounds| bounds.high))?;
    Some(Bounds { low, high })
}

/// Bytes of units of `2^order` pages.
pub fn bytes(units: Bounds, order: u32) -> ByteBounds {
    ByteBounds { low: (units.low << order) * 4096, high: (units.high << order) * 4096 }
}

/// The rows of the table of working sets. `intervals`: empty if use is not known. `whole`: of all together, if the
/// pages are known. `present`: what is there at the end.
pub fn working_sets(intervals: &[Counted], whole: Option<Counted>, present: &PageSet) -> Vec<WorkingSet> {
    let row = |(i, order): (usize, &u32)| {
        let here: Vec<Bounds> = intervals.iter().map(|counted| counted[i]).collect();
        let bytes = |bounds| bytes(bounds, *order);
        WorkingSet {
            page_bytes: 4096 << order,
            median_bytes: of(&here, |values| median(values)).map(bytes),
            most_bytes: of(&here, |values| values.max()).map(bytes),
            whole_bytes: whole.map(|counted| bytes(counted[i])),
            present_bytes: (present.units(*order) << order) * 4096,
        }
    };
    ORDERS.iter().enumerate().map(row).collect()
}

/// Entries for the median working set in pages of a size that [`working_sets`] has.
pub fn entries(sets: &[WorkingSet], page_bytes: u64) -> Option<EntryBounds> {
    let set = sets.iter().find(|set| set.page_bytes == page_bytes)?;
    set.median_bytes.map(|bytes| EntryBounds { low: bytes.low / page_bytes, high: bytes.high / page_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_most_by_hand() {
        let present: PageSet = [0..2048].into_iter().collect();
        let used = |pages: u64| -> Counted {
            let set: PageSet = [0..pages].into_iter().collect();
            counted(&present, Known::Pages(&set))
        };
        let intervals = [used(1), used(600), used(100), used(0)];
        let sets = working_sets(&intervals, Some(used(600)), &present);
        let row = |size: u64| sets.iter().find(|set| set.page_bytes == size).unwrap();
        let exactly = |bytes| Some(ByteBounds { low: bytes, high: bytes });
        let (small, huge) = (row(4096), row(2 << 20));
        assert_eq!((small.median_bytes, small.most_bytes), (exactly(4096), exactly(600 * 4096)));
        assert_eq!((huge.median_bytes, huge.most_bytes), (exactly(2 << 20), exactly(4 << 20)));
        assert_eq!((huge.whole_bytes, huge.present_bytes), (exactly(4 << 20), 8 << 20));
        assert_eq!(
            (row(1 << 30).present_bytes, entries(&sets, 2 << 20)),
            (1 << 30, Some(EntryBounds { low: 1, high: 1 }))
        );
        let nothing = working_sets(&[], None, &present);
        assert_eq!((nothing[0].median_bytes, nothing[0].most_bytes, entries(&nothing, 4096)), (None, None, None));
        assert_eq!((median([3, 1, 2]), median([4, 1, 2, 3]), median([])), (Some(2), Some(2), None));
    }
}
