//! The hand cases of section 3 and of WC, laws, and random changes against a map.

mod cuckoo;
mod hand;
mod laws;
mod nested;
mod random;
mod trees;

use super::{Found, PlainTable};

fn map_all(table: &mut dyn PlainTable, pages: impl IntoIterator<Item = u64>) {
    pages.into_iter().for_each(|page| table.map(1, page, 0));
}

/// References of walks of process 1.
fn walks(table: &mut dyn PlainTable, pages: impl IntoIterator<Item = u64>) -> Vec<u64> {
    pages.into_iter().map(|page| table.walk(1, page).references).collect()
}

fn serial(references: u64) -> Found {
    Found { references, steps: references }
}
