//! ASP: the stride of the instruction that missed, if it was the same more than once (ASP-1, ASP-2).

use super::rows::Rows;
use super::{Listed, Predictor, Trigger};
use farreach_types::counts::OwnCounts;
use farreach_types::params::{Allowed, Key, Params};

/// ASP-2.
pub const ASP_THRESHOLD: Key = Key {
    name: "asp_threshold",
    default: "1",
    allowed: Allowed::Int { min: 1, max: 3 },
    about: "prefetcher = stride: times that a stride must have been repeated",
};

/// The prefetcher as the registry knows it.
pub const LISTED: Listed = Listed {
    name: "stride",
    keys: &[&ASP_THRESHOLD],
    needs_pc: true,
    build: |params| Ok(Box::new(Stride::new(params)?)),
    ..Listed::NEW
};

/// The most that a row counts.
const MOST: u8 = 3;

#[derive(Clone, Copy, Default)]
struct Row {
    previous: i64,
    stride: i64,
    repeated: u8,
}

struct Stride {
    rows: Rows<Row>,
    threshold: u8,
    /// What the row of the miss will be.
    next: Row,
}

impl Stride {
    fn new(params: &Params) -> Result<Stride, String> {
        Ok(Stride {
            rows: Rows::new(params, 256, 1)?,
            threshold: params.int(ASP_THRESHOLD.name) as u8,
            next: Row::default(),
        })
    }
}

impl Predictor for Stride {
    fn predict(&mut self, at: &Trigger, into: &mut Vec<i64>, _: &mut OwnCounts) {
        self.next = Row { previous: at.page, ..Row::default() };
        let Some(row) = self.rows.get(at.pc as i64) else { return };
        let stride = at.page - row.previous;
        self.next.stride = stride;
        if stride == row.stride && stride != 0 {
            self.next.repeated = MOST.min(row.repeated + 1);
        }
        if self.next.repeated >= self.threshold {
            into.push(at.page + stride);
        }
    }

    fn train(&mut self, at: &Trigger, _: &mut OwnCounts) {
        self.rows.set_row(at.pc as i64, self.next);
    }

    fn forget(&mut self) {
        self.rows.clear();
    }
}
