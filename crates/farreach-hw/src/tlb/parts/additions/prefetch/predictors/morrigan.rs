//! Morrigan, for misses of fetches (MOR-1): successors of pages in four tables, whose rows have more and more slots. A
//! page moves to a table of larger rows as it gets more successors. Without a row, the next page is predicted.

use super::{Listed, Predictor, Trigger};
use farreach_types::counts::OwnCounts;

/// The prefetcher as the registry knows it. What section 2.5 leaves open is so: tables are fully associative; a row
/// begins when its page has a successor; a slot begins without confidence, and each time its successor comes again adds
/// one; of equal slots or rows the first goes; slots are predicted in the order of their places.
pub const LISTED: Listed =
    Listed { name: "morrigan", for_fetches: true, build: |_| Ok(Box::new(Morrigan::new())), ..Listed::NEW };

/// Rows and slots of the tables (MOR-2).
const TABLES: [(usize, usize); 4] = [(128, 1), (128, 2), (128, 4), (64, 8)];

/// Slots of the largest rows.
const SLOTS: usize = 8;

/// Confidence is two bits.
const SURE: u8 = 3;

/// Misses after which the counts of rows are halved (MOR-3).
const HALVES: u64 = 1 << 16;

#[derive(Clone, Copy)]
struct Row {
    page: i64,
    /// Misses of the page.
    misses: u64,
    many: usize,
    /// Distances to successors, with confidence.
    slots: [(i64, u8); SLOTS],
}

/// See the module.
struct Morrigan {
    tables: [Box<[Option<Row>]>; 4],
    /// The page of the miss before.
    previous: Option<i64>,
    misses: u64,
    /// The prediction whose walk brings in neighbours, too (MOR-4).
    surest: usize,
}

impl Morrigan {
    fn new() -> Morrigan {
        Morrigan { tables: TABLES.map(|(rows, _)| vec![None; rows].into()), previous: None, misses: 0, surest: 0 }
    }

    /// The table and place of a row.
    fn find(&self, page: i64) -> Option<(usize, usize)> {
        let of = |row: &Option<Row>| row.is_some_and(|row| row.page == page);
        (0..TABLES.len()).find_map(|table| Some((table, self.tables[table].iter().position(of)?)))
    }

    /// Puts a row into a table, in the place of the one with the fewest misses if it is full (MOR-3).
    fn put(&mut self, table: usize, row: Row) {
        let rows = &mut self.tables[table];
        let victim = (0..rows.len()).min_by_key(|i| rows[*i].map(|row| row.misses));
        rows[victim.expect("tables have rows")] = Some(row);
    }

    /// MOR-2: a page has this successor.
    fn learn(&mut self, page: i64, distance: i64) {
        let Some((table, place)) = self.find(page) else {
            let mut slots = [(0, 0); SLOTS];
            slots[0] = (distance, 0);
            self.put(0, Row { page, misses: 1, many: 1, slots });
            return;
        };
        let Some(row) = &mut self.tables[table][place] else { return };
        if let Some((_, sure)) = row.slots[..row.many].iter_mut().find(|(other, _)| *other == distance) {
            *sure = SURE.min(*sure + 1);
            return;
        }
        let at = match row.many < TABLES[table].1 || table + 1 < TABLES.len() {
            true => row.many,
            false => (0..row.many).min_by_key(|i| row.slots[*i].1).expect("rows have slots"),
        };
        row.slots[at] = (distance, 0);
        row.many = row.many.max(at + 1);
        if row.many > TABLES[table].1 {
            let row = *row;
            self.tables[table][place] = None;
            self.put(table + 1, row);
        }
    }
}

impl Predictor for Morrigan {
    fn predict(&mut self, at: &Trigger, into: &mut Vec<i64>, _: &mut OwnCounts) {
        self.surest = 0;
        let Some(row) = self.find(at.page).and_then(|(table, place)| self.tables[table][place].as_mut()) else {
            into.push(at.page + 1); // MOR-5
            return;
        };
        row.misses += 1;
        let slots = &row.slots[..row.many];
        into.extend(slots.iter().map(|(distance, _)| at.page + distance));
        self.surest = (0..row.many).rev().max_by_key(|i| slots[*i].1).unwrap_or(0);
    }

    fn train(&mut self, at: &Trigger, _: &mut OwnCounts) {
        if let Some(previous) = self.previous.replace(at.page) {
            self.learn(previous, at.page - previous);
        }
        self.misses += 1;
        if self.misses.is_multiple_of(HALVES) {
            self.tables.iter_mut().flatten().flatten().for_each(|row| row.misses /= 2);
        }
    }

    fn takes_neighbours(&self, prediction: usize) -> bool {
        prediction == self.surest
    }

    fn forget(&mut self) {
        *self = Morrigan::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MOR-2, MOR-4, MOR-5.
    #[test]
    fn mor_2_rows_move_and_the_least_sure_slot_goes() {
        let (_, mut own) = super::super::defaults();
        let mut morrigan = Morrigan::new();
        let mut miss =
            |morrigan: &mut Morrigan, page| super::super::drive(morrigan, &[(page, None)], &mut own).remove(0);
        assert_eq!(miss(&mut morrigan, 100), [101], "MOR-5");
        for next in 1..=8 {
            miss(&mut morrigan, 100 + 10 * next);
            let row = morrigan.find(100).map(|(table, _)| table);
            let tables = [0, 1, 2, 2, 3, 3, 3, 3];
            assert_eq!(row, Some(tables[next as usize - 1]), "{next} successors");
            let expected: Vec<_> = (1..=next).map(|n| 100 + 10 * n).collect();
            assert_eq!(miss(&mut morrigan, 100), expected);
        }
        miss(&mut morrigan, 110);
        miss(&mut morrigan, 100);
        // The ninth successor takes the second slot, since the first came twice.
        miss(&mut morrigan, 900);
        assert_eq!(miss(&mut morrigan, 100)[..3], [110, 900, 130]);
        assert!(morrigan.takes_neighbours(0) && !morrigan.takes_neighbours(1));
    }

    /// MOR-3.
    #[test]
    fn mor_3_rows_with_few_misses_go() {
        let (_, mut own) = super::super::defaults();
        let mut morrigan = Morrigan::new();
        let mut drive = |morrigan: &mut Morrigan, pages: &[i64]| {
            let misses: Vec<_> = pages.iter().map(|page| (page * 10, None)).collect();
            super::super::drive(morrigan, &misses, &mut own);
        };
        let held = |morrigan: &Morrigan| [0, 10, 1280].map(|page| morrigan.find(page));
        // The row of 128 takes the place of 0, the first of equals.
        drive(&mut morrigan, &(0..130).collect::<Vec<_>>());
        assert_eq!(held(&morrigan), [None, Some((0, 1)), Some((0, 0))]);
        // That of 129 takes the first place again. 2 moves on with its second successor.
        drive(&mut morrigan, &[1, 2, 130, 131]);
        assert_eq!(held(&morrigan), [None, Some((0, 1)), None]);
        morrigan.misses = HALVES - 1;
        let misses =
            |morrigan: &Morrigan| morrigan.tables.iter().flatten().flatten().map(|row| row.misses).sum::<u64>();
        let before = misses(&morrigan);
        drive(&mut morrigan, &[7]);
        assert!(misses(&morrigan) < before);
    }
}
