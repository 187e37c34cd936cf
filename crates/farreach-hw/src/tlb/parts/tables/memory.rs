//! What tables have in common: the names of their counters, and the bytes of their memory.

use farreach_types::counts::OwnCounts;

/// Places of the counters that all tables have (PT-2), in the order of `counted!`.
pub(super) const BYTES: usize = 0;
pub(super) const BYTES_MOST: usize = 1;
pub(super) const CONTIGUOUS: usize = 2;
pub(super) const RESIZES: usize = 3;
pub(super) const MOVES: usize = 4;
pub(super) const COLLISIONS: usize = 5;
pub(super) const WRITES: usize = 6;
/// The place of the first counter of a table's own.
pub(super) const OWN: usize = 7;

/// Bytes of a line, with the entries of eight pages.
pub(super) const LINE: u64 = 64;

/// Bytes of an entry of one page.
pub(super) const PTE: u64 = 8;

/// The orders of base pages and superpages, smallest first.
pub(super) const ORDERS: [u8; 3] = [0, 9, 18];

/// The counters of a table: those that all have, what they count here, and its own behind them.
macro_rules! counted {
    (moves: $moves:literal, collisions: $collisions:literal, $($own:expr),* $(,)?) => {
        &[
            $crate::tlb::parts::additions::Counter::new("table_bytes", "bytes of all tables now"),
            $crate::tlb::parts::additions::Counter::new("table_bytes_most", "most bytes of all tables at any time"),
            $crate::tlb::parts::additions::Counter::new(
                "table_contiguous",
                "bytes of the largest piece of memory in a row that a table needed",
            ),
            $crate::tlb::parts::additions::Counter::new("resizes", "times that a table began to change its size"),
            $crate::tlb::parts::additions::Counter::new("moves", $moves),
            $crate::tlb::parts::additions::Counter::new("collisions", $collisions),
            $crate::tlb::parts::additions::Counter::new("table_writes", "entries that the system wrote"),
            $($own,)*
        ]
    };
}
pub(super) use counted;

/// Memory was taken in one piece.
pub(super) fn took(own: &mut OwnCounts, bytes: u64) {
    *own.at(CONTIGUOUS) = (*own.at(CONTIGUOUS)).max(bytes);
    *own.at(BYTES) += bytes;
    *own.at(BYTES_MOST) = (*own.at(BYTES_MOST)).max(*own.at(BYTES));
}

/// Memory was given back.
pub(super) fn gave(own: &mut OwnCounts, bytes: u64) {
    *own.at(BYTES) -= bytes;
}
