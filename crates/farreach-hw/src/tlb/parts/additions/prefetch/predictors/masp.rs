//! MASP: the stride of the instruction that missed, and its distance now (MASP-1).

use super::rows::Rows;
use super::{Listed, Predictor, Trigger};
use farreach_types::counts::OwnCounts;
use farreach_types::params::Params;

/// The prefetcher as the registry knows it.
pub const LISTED: Listed =
    Listed { name: "masp", needs_pc: true, build: |params| Ok(Box::new(Masp::new(params)?)), ..Listed::NEW };

#[derive(Clone, Copy, Default)]
struct Row {
    previous: i64,
    stride: i64,
}

pub(super) struct Masp {
    rows: Rows<Row>,
    /// What the row of the miss will be.
    next: Row,
}

impl Masp {
    pub fn new(params: &Params) -> Result<Masp, String> {
        Ok(Masp { rows: Rows::new(params, 64, 4)?, next: Row::default() })
    }
}

impl Predictor for Masp {
    fn predict(&mut self, at: &Trigger, into: &mut Vec<i64>, _: &mut OwnCounts) {
        self.next = Row { previous: at.page, stride: 0 };
        let Some(row) = self.rows.get(at.pc as i64) else { return };
        self.next.stride = at.page - row.previous;
        if row.stride != 0 {
            into.push(at.page + row.stride);
        }
        if self.next.stride != row.stride && self.next.stride != 0 {
            into.push(at.page + self.next.stride);
        }
    }

    fn train(&mut self, at: &Trigger, _: &mut OwnCounts) {
        self.rows.set_row(at.pc as i64, self.next);
    }

    fn forget(&mut self) {
        self.rows.clear();
    }
}
