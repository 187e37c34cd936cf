//! Tables of rows in sets, found by a number: its low bits choose the set, and a row has it as tag.

use crate::tlb::parts::store::geometry::Geometry;
use farreach_types::params::{Allowed, Key, Params};

/// Section 2.2.
pub const PREFETCH_ROWS: Key = Key {
    name: "prefetch_rows",
    default: "0",
    allowed: Allowed::Int { min: 0, max: 65536 },
    about: "rows of the prefetcher's table; 0: 256, or 64 of masp, alone or in atp",
};
/// Section 2.2.
pub const PREFETCH_ROW_WAYS: Key = Key {
    name: "prefetch_row_ways",
    default: "0",
    allowed: Allowed::Int { min: 0, max: 65536 },
    about: "rows in a set of the prefetcher's table; 0: 1, or 4 of masp, alone or in atp",
};
/// Section 2.2.
pub const PREFETCH_SLOTS: Key = Key {
    name: "prefetch_slots",
    default: "2",
    allowed: Allowed::Int { min: 1, max: 64 },
    about: "prefetcher = markov or distance: successors in a row",
};

/// The keys that several prefetchers read.
pub const KEYS: &[&Key] = &[&PREFETCH_ROWS, &PREFETCH_ROW_WAYS, &PREFETCH_SLOTS];

#[derive(Clone, Copy, Default)]
struct Tag {
    /// `None`: the row is invalid.
    number: Option<i64>,
    /// When it was used last.
    last: u64,
}

/// Rows with contents. In a set the row used longest ago goes.
pub(super) struct Rows<T> {
    sets: usize,
    ways: usize,
    tags: Box<[Tag]>,
    contents: Box<[T]>,
    now: u64,
}

impl<T: Copy + Default> Rows<T> {
    /// From the keys, or this many rows and ways where they leave it open.
    pub fn new(params: &Params, rows: u64, ways: u64) -> Result<Rows<T>, String> {
        Rows::with(params, rows, ways, 1)
    }

    /// With this many contents in a row.
    fn with(params: &Params, rows: u64, ways: u64, each: usize) -> Result<Rows<T>, String> {
        let or = |key: &Key, other| Some(params.int(key.name)).filter(|n| *n > 0).unwrap_or(other);
        let (rows, ways) = (or(&PREFETCH_ROWS, rows), or(&PREFETCH_ROW_WAYS, ways));
        let refuse = |why| format!("{} = {rows}, {} = {ways}: {why}", PREFETCH_ROWS.name, PREFETCH_ROW_WAYS.name);
        let Geometry { sets, ways, .. } = Geometry::new(rows, ways).map_err(refuse)?;
        Ok(Rows {
            sets,
            ways,
            tags: vec![Tag::default(); sets * ways].into(),
            contents: vec![T::default(); sets * ways * each].into(),
            now: 0,
        })
    }

    fn set(&self, number: i64) -> std::ops::Range<usize> {
        let set = number as usize & (self.sets - 1);
        set * self.ways..(set + 1) * self.ways
    }

    fn touch(&mut self, row: usize) -> usize {
        self.now += 1;
        self.tags[row].last = self.now;
        row
    }

    /// The row of a number, which is used now.
    fn find(&mut self, number: i64) -> Option<usize> {
        let row = self.set(number).find(|row| self.tags[*row].number == Some(number))?;
        Some(self.touch(row))
    }

    /// The row of a number, and whether it is begun now, with what was in it before.
    fn begin(&mut self, number: i64) -> (usize, bool) {
        if let Some(row) = self.find(number) {
            return (row, false);
        }
        let victim = self.set(number).min_by_key(|row| (self.tags[*row].number.is_some(), self.tags[*row].last));
        let row = victim.expect("sets have rows");
        self.tags[row].number = Some(number);
        (self.touch(row), true)
    }

    /// What the row of a number holds.
    pub fn get(&mut self, number: i64) -> Option<&mut T> {
        let row = self.find(number)?;
        Some(&mut self.contents[row])
    }

    /// Begins a row of a number, or overwrites it.
    pub fn set_row(&mut self, number: i64, contents: T) {
        let (row, _) = self.begin(number);
        self.contents[row] = contents;
    }

    pub fn clear(&mut self) {
        self.tags.fill(Tag::default());
    }
}

/// Rows of successors, newest first (MP-1, DP-3).
pub(super) struct Successors {
    rows: Rows<i64>,
    /// Successors in each row.
    many: Box<[u8]>,
    slots: usize,
}

impl Successors {
    pub fn new(params: &Params) -> Result<Successors, String> {
        let slots = params.int(PREFETCH_SLOTS.name) as usize;
        let rows = Rows::with(params, 256, 1, slots)?;
        Ok(Successors { many: vec![0; rows.tags.len()].into(), rows, slots })
    }

    /// The successors of a number.
    pub fn of(&mut self, number: i64) -> &[i64] {
        let Some(row) = self.rows.find(number) else { return &[] };
        let first = row * self.slots;
        &self.rows.contents[first..first + usize::from(self.many[row])]
    }

    /// Begins a row, if there is none. Returns its place.
    pub fn begin(&mut self, number: i64) -> usize {
        let (row, is_new) = self.rows.begin(number);
        if is_new {
            self.many[row] = 0;
        }
        row
    }

    /// Puts a successor first in the row of a number; the last one leaves if the row is full.
    pub fn put_first(&mut self, number: i64, successor: i64) {
        let row = self.begin(number);
        let (first, many) = (row * self.slots, usize::from(self.many[row]));
        let list = &mut self.rows.contents[first..first + self.slots];
        let at = list[..many].iter().position(|other| *other == successor).unwrap_or(many.min(self.slots - 1));
        list.copy_within(..at, 1);
        list[0] = successor;
        self.many[row] = many.max(at + 1) as u8;
    }

    pub fn clear(&mut self) {
        self.rows.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn successors(rows: u64, ways: u64, slots: u64) -> Successors {
        let given = serde_json::json!({"prefetch_rows": rows, "prefetch_row_ways": ways, "prefetch_slots": slots});
        Successors::new(&Params::resolve(KEYS, given.as_object().unwrap()).unwrap()).unwrap()
    }

    /// MP-1.
    #[test]
    fn successors_move_to_the_front_and_the_last_leaves() {
        let mut table = successors(4, 1, 3);
        for successor in [1, 2, 3, 1, 4] {
            table.put_first(-1, successor);
        }
        assert_eq!(table.of(-1), [4, 1, 3]);
        table.put_first(-1, 3);
        assert_eq!(table.of(-1), [3, 4, 1]);
        assert!(table.of(3).is_empty(), "3 is in the same set, with another tag");
        table.put_first(3, 9);
        assert_eq!([3, -1].map(|row| table.of(row).to_vec()), [vec![9], vec![]]);
        table.clear();
        assert!(table.of(3).is_empty());
    }

    #[test]
    fn in_a_set_the_row_used_longest_ago_goes() {
        let mut table = successors(4, 2, 1);
        table.put_first(0, 1);
        table.put_first(2, 1);
        assert_eq!(table.of(0), [1]);
        table.put_first(4, 1);
        assert_eq!([0, 2, 4].map(|row| table.of(row).to_vec()), [vec![1], vec![], vec![1]]);
    }
}
