//! Memory-efficient hashed page tables (ME; Stojkovic and others, HPCA 2023): elastic cuckoo tables whose ways are made
//! of pieces of memory, grow in place, and grow one by one. Everything else is as in `cuckoo`.

use super::{ListedTable, TABLE_SCOPE};
#[cfg(test)]
use super::cuckoo::EC_HASH;
use super::cuckoo::{
    COUNTERS, CWC_CYCLES, CWC_PMD, CWC_PUD, Chunked, Cuckoo, EC_CHUNK, EC_ENTRIES, EC_MOVES, EC_RETRIES,
    EC_THRESHOLD, EC_WAYS, LAWS,
};

/// The table as the registry knows it.
pub const LISTED: ListedTable = ListedTable {
    name: "me-hpt",
    about: "cuckoo tables whose ways are made of pieces of memory and grow in place, one by one (ME)",
    keys: &[
        &EC_WAYS,
        &EC_ENTRIES,
        &EC_THRESHOLD,
        &EC_MOVES,
        &EC_RETRIES,
        &EC_CHUNK,
        &CWC_PMD,
        &CWC_PUD,
        &CWC_CYCLES,
        &TABLE_SCOPE,
        #[cfg(test)]
        &EC_HASH,
    ],
    counters: COUNTERS,
    laws: LAWS,
    in_guests: true,
    build: |params, _| Ok(Box::new(Cuckoo::<Chunked>::new(params))),
    ..ListedTable::NEW
};
