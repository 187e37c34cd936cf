//! Use by address and time, in few enough rows and columns to draw.

use super::bounds::Known;
use super::page_set::{BLOCK, PageSet};
use farreach_types::counts::{Heat, HeatRow};
use std::collections::BTreeMap;
use std::ops::Range;

const BLOCK_BYTES: u64 = 4096 << BLOCK;
/// Most rows. Holes in the address space may add some.
const ROWS: usize = 96;
/// Most columns; twice as many are joined in pairs.
const COLUMNS: usize = 120;
/// Blocks without memory that end a row: 64 MB.
const HOLE: u64 = 32;

/// Present pages of a block, and the share of them that was used, added up over intervals.
#[derive(Clone, Copy, Default)]
struct Cell {
    present: f64,
    used: f64,
}

/// Collects interval by interval.
#[derive(Default)]
pub struct Heater {
    columns: Vec<(f64, BTreeMap<u64, Cell>)>,
    /// Intervals of a column, log2.
    joined: u32,
    intervals: usize,
}

impl Heater {
    /// Adds an interval that ended `seconds` after the beginning. Of a sample only the watched blocks are drawn; where
    /// only a count is known, it is spread evenly over the mapping.
    pub fn add(&mut self, seconds: f64, present: &PageSet, known: Known) {
        let mut cells: BTreeMap<u64, Cell> = BTreeMap::new();
        let mut pages = |present: &PageSet, used: &PageSet| {
            for (block, pages) in present.blocks() {
                cells.entry(block).or_default().present += pages as f64;
            }
            for (block, pages) in used.blocks() {
                if let Some(cell) = cells.get_mut(&block) {
                    cell.used += (pages as f64).min(cell.present);
                }
            }
        };
        match known {
            Known::Pages(used) => pages(present, used),
            Known::Sample { watched, used } => pages(watched, used),
            Known::Counts(counts) => {
                for (mapping, used) in counts {
                    let all = present.count(mapping).max(1);
                    let share = (*used as f64 / all as f64).min(1.0);
                    for (block, pages) in present.blocks_in(mapping) {
                        let cell = cells.entry(block).or_default();
                        cell.present += pages as f64;
                        cell.used += pages as f64 * share;
                    }
                }
            }
        }
        if self.intervals.is_multiple_of(1 << self.joined) {
            self.columns.push((seconds, cells));
        } else if let Some((end, last)) = self.columns.last_mut() {
            *end = seconds;
            join(last, cells);
        }
        self.intervals += 1;
        if self.columns.len() == 2 * COLUMNS {
            let mut pairs = std::mem::take(&mut self.columns).into_iter();
            while let (Some((_, mut one)), Some((end, two))) = (pairs.next(), pairs.next()) {
                join(&mut one, two);
                self.columns.push((end, one));
            }
            self.joined += 1;
        }
    }

    /// The drawing. `mappings`: name and pages of each, ascending.
    pub fn heat(&self, mappings: &[(String, Range<u64>)]) -> Heat {
        let mut blocks: BTreeMap<u64, f64> = BTreeMap::new();
        for (_, cells) in &self.columns {
            for (block, cell) in cells {
                *blocks.entry(*block).or_default() += cell.present;
            }
        }
        let per_row = blocks.len().div_ceil(ROWS).max(1);
        let mut rows: Vec<Vec<u64>> = Vec::new();
        for block in blocks.keys() {
            match rows.last_mut() {
                Some(row) if row.len() < per_row && block - row[row.len() - 1] <= HOLE => row.push(*block),
                _ => rows.push(vec![*block]),
            }
        }
        let row = |row: &Vec<u64>| {
            let (first, end) = (row[0], row[row.len() - 1] + 1);
            let used = self.columns.iter().map(|(_, cells)| {
                let sum = cells.range(first..end).fold(Cell::default(), |sum, (_, cell)| sum + *cell);
                (sum.present > 0.0).then(|| (sum.used / sum.present) as f32)
            });
            HeatRow {
                start: first * BLOCK_BYTES,
                end: end * BLOCK_BYTES,
                mapping: largest(mappings, &(first << BLOCK..end << BLOCK)),
                used: used.collect(),
            }
        };
        Heat { rows: rows.iter().map(row).collect(), seconds: self.columns.iter().map(|(end, _)| *end).collect() }
    }
}

impl std::ops::Add for Cell {
    type Output = Cell;
    fn add(self, other: Cell) -> Cell {
        Cell { present: self.present + other.present, used: self.used + other.used }
    }
}

fn join(into: &mut BTreeMap<u64, Cell>, from: BTreeMap<u64, Cell>) {
    for (block, cell) in from {
        let here = into.entry(block).or_default();
        *here = *here + cell;
    }
}

/// The name of the mapping that has most of these pages.
fn largest(mappings: &[(String, Range<u64>)], pages: &Range<u64>) -> String {
    let overlap = |of: &Range<u64>| of.end.min(pages.end).saturating_sub(of.start.max(pages.start));
    let most = mappings.iter().max_by_key(|(_, of)| overlap(of));
    most.filter(|(_, of)| overlap(of) > 0).map_or_else(|| "gone".to_owned(), |(name, _)| name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(ranges: &[Range<u64>]) -> PageSet {
        ranges.iter().cloned().collect()
    }

    #[test]
    fn rows_by_hand() {
        // Two blocks side by side and one far away. In the first interval half of block 1 was used, then nothing; block
        // 1000 is there in the second interval only.
        let mut heater = Heater::default();
        heater.add(1.0, &set(&[512..1536]), Known::Pages(&set(&[512..768])));
        heater.add(2.0, &set(&[512..1536, 512_000..512_100]), Known::Pages(&set(&[512_000..512_100])));
        let heat = heater.heat(&[("heap".into(), 512..1536), ("lib".into(), 512_000..512_200)]);
        assert_eq!(heat.seconds, [1.0, 2.0]);
        let rows: Vec<_> = heat.rows.iter().map(|row| (row.start >> 21, row.end >> 21, row.mapping.as_str())).collect();
        assert_eq!(rows, [(1, 2, "heap"), (2, 3, "heap"), (1000, 1001, "lib")]);
        let used: Vec<_> = heat.rows.iter().map(|row| row.used.clone()).collect();
        assert_eq!(used, [[Some(0.5), Some(0.0)], [Some(0.0), Some(0.0)], [None, Some(1.0)]]);
    }

    #[test]
    fn counts_are_spread_over_their_mapping_and_samples_show_what_was_watched() {
        let mut heater = Heater::default();
        heater.add(1.0, &set(&[0..1024]), Known::Counts(&[(0..1024, 256)]));
        let (watched, used) = (set(&[512..1024]), set(&[512..640]));
        heater.add(2.0, &set(&[0..1024]), Known::Sample { watched: &watched, used: &used });
        let heat = heater.heat(&[]);
        assert_eq!(
            heat.rows.iter().map(|row| &row.used[..]).collect::<Vec<_>>(),
            [[Some(0.25), None], [Some(0.25), Some(0.25)]]
        );
        assert_eq!(heat.rows[0].mapping, "gone");
    }

    #[test]
    fn many_intervals_and_blocks_are_joined() {
        let mut heater = Heater::default();
        let present = set(&[0..512 * 1000]);
        for i in 0..1000 {
            let used = if i < 500 { 0..512 * 1000 } else { 0..0 };
            heater.add(f64::from(i + 1), &present, Known::Pages(&set(&[used])));
        }
        let heat = heater.heat(&[("heap".into(), 0..512 * 1000)]);
        assert!((COLUMNS..2 * COLUMNS).contains(&heat.seconds.len()), "{}", heat.seconds.len());
        assert_eq!(*heat.seconds.last().unwrap(), 1000.0);
        assert!(heat.rows.len() <= ROWS, "{}", heat.rows.len());
        assert!(heat.rows.iter().all(|row| row.used[0] == Some(1.0) && row.used.last() == Some(&Some(0.0))));
    }
}
