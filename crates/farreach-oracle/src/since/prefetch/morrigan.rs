//! Morrigan's tables of successors for fetches (MOR-2 to MOR-5).

const SLOTS: [usize; 4] = [1, 2, 4, 8];

struct Slot {
    distance: i64,
    confidence: u64,
}

struct Row {
    page: i64,
    /// MOR-3: misses of the page, halved now and then.
    misses: u64,
    /// By place.
    slots: Vec<Slot>,
}

pub(super) struct Irip {
    rows: [usize; 4],
    halve: u64,
    /// Rows by table, oldest first.
    tables: [Vec<Row>; 4],
    last: Option<i64>,
    misses: u64,
}

impl Irip {
    pub fn new(rows: [usize; 4], halve: u64) -> Irip {
        Irip { rows, halve, tables: Default::default(), last: None, misses: 0 }
    }

    fn find(&self, page: i64) -> Option<(usize, usize)> {
        { 0..4 }.find_map(|t| Some((t, self.tables[t].iter().position(|row| row.page == page)?)))
    }

    /// MOR-4, MOR-5: all slots; the most confident with free entries.
    pub fn predict(&mut self, v: i64) -> Vec<(i64, bool)> {
        let Some((table, at)) = self.find(v) else { return vec![(v + 1, true)] };
        let slots = &self.tables[table][at].slots;
        let most = slots.iter().map(|slot| slot.confidence).max();
        let first = slots.iter().position(|slot| Some(slot.confidence) == most);
        slots.iter().enumerate().map(|(i, slot)| (v + slot.distance, Some(i) == first)).collect()
    }

    /// MOR-3: the row of least misses leaves a full table.
    fn place(&mut self, table: usize, row: Row) {
        let rows = &mut self.tables[table];
        if rows.len() == self.rows[table] {
            let (victim, _) = rows.iter().enumerate().min_by_key(|(_, row)| row.misses).expect("tables have rows");
            rows.remove(victim);
        }
        rows.push(row);
    }

    /// MOR-2.
    pub fn train(&mut self, v: i64) {
        self.misses += 1;
        if self.misses.is_multiple_of(self.halve) {
            self.tables.iter_mut().flatten().for_each(|row| row.misses /= 2);
        }
        if let Some((table, at)) = self.find(v) {
            self.tables[table][at].misses += 1;
        }
        let Some(last) = self.last.replace(v) else { return };
        let new = Slot { distance: v - last, confidence: 0 };
        let Some((table, at)) = self.find(last) else {
            return self.place(0, Row { page: last, misses: 1, slots: vec![new] });
        };
        let row = &mut self.tables[table][at];
        if let Some(slot) = row.slots.iter_mut().find(|slot| slot.distance == new.distance) {
            slot.confidence = 3.min(slot.confidence + 1);
        } else if row.slots.len() < SLOTS[table] {
            row.slots.push(new);
        } else if table == 3 {
            let (least, _) = row.slots.iter().enumerate().min_by_key(|(_, s)| s.confidence).expect("rows have slots");
            row.slots[least] = new;
        } else {
            let mut row = self.tables[table].remove(at);
            row.slots.push(new);
            self.place(table + 1, row);
        }
    }
}
