//! How the entries of an array are arranged.

use farreach_types::params::Params;

/// Entries arranged in sets. Slot numbers are `set * ways + way`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::tlb) struct Geometry {
    /// Number of sets, a power of two; 1 is fully associative.
    pub sets: usize,
    /// Entries per set.
    pub ways: usize,
}

impl Geometry {
    /// `ways` 0 stands for full associativity.
    pub fn new(entries: u64, ways: u64) -> Result<Geometry, String> {
        if ways == 0 {
            return Ok(Geometry { sets: 1, ways: entries as usize });
        }
        if !entries.is_multiple_of(ways) {
            return Err(format!("ways = {ways} is not allowed: entries ({entries}) must be a multiple of ways"));
        }
        let sets = entries / ways;
        if !sets.is_power_of_two() {
            return Err(format!(
                "ways = {ways} is not allowed: entries / ways is {sets} sets, the number of sets must be a power of two"
            ));
        }
        Ok(Geometry { sets: sets as usize, ways: ways as usize })
    }

    /// From the keys `entries` and `ways`.
    pub fn of(params: &Params) -> Result<Geometry, String> {
        Geometry::new(params.int("entries"), params.int("ways"))
    }

    /// All entries.
    pub fn entries(&self) -> usize {
        self.sets * self.ways
    }
}
