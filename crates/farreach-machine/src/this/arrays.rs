//! Arrays of a TLB as CPUID describes them, and as keys of a hierarchy.

use farreach_types::addr::Bytes;

/// What an array translates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Instructions.
    Fetch,
    /// Loads, or loads and stores.
    Data,
    /// Stores alone.
    Store,
    /// All of them.
    Both,
}

/// One array of entries.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Array {
    /// What it translates.
    pub side: Side,
    /// 1 or 2.
    pub level: u8,
    /// Page sizes in bytes, ascending. 4 MB, which 64-bit programs do not have, is left out.
    pub sizes: Vec<u64>,
    /// Entries.
    pub entries: u64,
    /// Entries per set; `None`: fully associative, or not told.
    pub ways: Option<u64>,
    /// The leaf that says so.
    pub leaf: u32,
}

pub(super) const K4: u64 = 4 << 10;
pub(super) const M2: u64 = 2 << 20;
pub(super) const G1: u64 = 1 << 30;

impl Array {
    /// In words: `4K, 2M: 1536 entries, 12-way`.
    pub(super) fn words(&self) -> String {
        let ways = self.ways.map_or("fully associative".to_owned(), |ways| format!("{ways}-way"));
        let sizes: Vec<String> = self.sizes.iter().map(|size| Bytes(*size).to_string()).collect();
        format!("{}: {} entries, {ways}", sizes.join(", "), self.entries)
    }

    /// As an element of a key: `4K|2M:1536/12`.
    fn element(&self) -> String {
        let sizes: Vec<String> = self.sizes.iter().map(|size| Bytes(*size).to_string()).collect();
        let sizes = sizes.join("|");
        // A description needs sets that are whole and a power of two; anything else is taken as fully associative.
        let ways =
            self.ways.filter(|ways| self.entries.is_multiple_of(*ways) && (self.entries / ways).is_power_of_two());
        match ways {
            Some(ways) if ways < self.entries => format!("{sizes}:{}/{ways}", self.entries),
            _ => format!("{sizes}:{}", self.entries),
        }
    }
}

/// Entries for pages of a size, over all arrays; 0: none.
pub(super) fn entries(arrays: &[Array], size: u64) -> u64 {
    arrays.iter().filter(|array| array.sizes.contains(&size)).map(|array| array.entries).sum()
}

/// The value of a key that describes these arrays of a level. As a size may be in one array only, sizes that several
/// arrays hold get one of their own, as large as those together.
pub(super) fn level(arrays: &[Array]) -> Vec<String> {
    let mut sizes: Vec<u64> = arrays.iter().flat_map(|array| array.sizes.iter().copied()).collect();
    sizes.sort_unstable();
    let twice = sizes.windows(2).any(|two| two[0] == two[1]);
    if !twice {
        return arrays.iter().map(Array::element).collect();
    }
    sizes.dedup();
    let own = |size: &u64| {
        let holding: Vec<&Array> = arrays.iter().filter(|array| array.sizes.contains(size)).collect();
        let ways = holding.iter().map(|array| array.ways).sum::<Option<u64>>();
        Array { sizes: vec![*size], entries: entries(arrays, *size), ways, ..holding[0].clone() }.element()
    };
    sizes.iter().map(own).collect()
}
