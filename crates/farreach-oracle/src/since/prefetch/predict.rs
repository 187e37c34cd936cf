//! Predictors from page numbers and program counters (section 2.2). Page numbers are in units of the instance.

use super::atp::PlainAtp;
use super::config::Kind;
use super::morrigan::Irip;
use super::rows::{Rows, put_first};

/// A row of ASP or MASP. ASP-1.
pub(super) struct Stride {
    prev: i64,
    stride: i64,
    n: u64,
}

/// An instance (PB-8).
pub(super) enum Predictor {
    None,
    Sp(i64),
    Asp { threshold: u64, rows: Rows<Stride> },
    Mp { slots: usize, rows: Rows<Vec<i64>>, last: Option<i64> },
    Dp(Distances),
    H2p { both_signs: bool, last: Vec<i64> },
    Masp(Rows<Stride>),
    Stp,
    Atp(Box<PlainAtp>),
    Morrigan(Box<Irip>),
}

/// DP-1.
pub(super) struct Distances {
    slots: usize,
    train_first: bool,
    allocate_at_lookup: bool,
    pub rows: Rows<Vec<i64>>,
    page: Option<i64>,
    distance: Option<i64>,
}

impl Predictor {
    pub fn new(kind: &Kind) -> Predictor {
        match *kind {
            Kind::None | Kind::Rp { .. } => Predictor::None,
            Kind::Sp { degree } => Predictor::Sp(degree),
            Kind::Asp { threshold, rows, ways } => Predictor::Asp { threshold, rows: Rows::new(rows, ways) },
            Kind::Mp { rows, ways, slots } => Predictor::Mp { slots, rows: Rows::new(rows, ways), last: None },
            Kind::Dp { rows, ways, slots, train_first, allocate_at_lookup } => Predictor::Dp(Distances {
                slots,
                train_first,
                allocate_at_lookup,
                rows: Rows::new(rows, ways),
                page: None,
                distance: None,
            }),
            Kind::H2p { both_signs } => Predictor::H2p { both_signs, last: Vec::new() },
            Kind::Masp { rows, ways } => Predictor::Masp(Rows::new(rows, ways)),
            Kind::Stp => Predictor::Stp,
            Kind::Atp(ref keys) => Predictor::Atp(Box::new(PlainAtp::new(keys))),
            Kind::Morrigan { rows, halve } => Predictor::Morrigan(Box::new(Irip::new(rows, halve))),
        }
    }

    /// PB-5 (6): pages in order, and whether the walk for each also brings free entries.
    pub fn predict(&mut self, v: i64, pc: u64) -> Vec<(i64, bool)> {
        match self {
            Predictor::Atp(atp) => atp.predict(v, pc).into_iter().map(|page| (page, true)).collect(),
            Predictor::Morrigan(irip) => irip.predict(v),
            other => other.pages(v, pc).into_iter().map(|page| (page, true)).collect(),
        }
    }

    /// The same for all but ATP and Morrigan.
    pub fn pages(&mut self, v: i64, pc: u64) -> Vec<i64> {
        match self {
            Predictor::None | Predictor::Atp(_) | Predictor::Morrigan(_) => Vec::new(),
            Predictor::Sp(degree) => (1..=*degree).map(|i| v + i).collect(),
            Predictor::Asp { threshold, rows } => strided(rows, *threshold, v, pc),
            Predictor::Mp { rows, .. } => rows.get(v).cloned().unwrap_or_default(),
            Predictor::Dp(dp) => dp.pages(v),
            Predictor::H2p { both_signs, last } => {
                let [a, b] = last[..] else { return Vec::new() };
                let (near, far) = (v - b, b - a);
                let steps = match both_signs {
                    true => vec![near.abs(), -near.abs(), far.abs(), -far.abs()],
                    false => vec![near, far],
                };
                different(steps.into_iter().map(|step| v + step))
            }
            Predictor::Masp(rows) => {
                let Some(row) = rows.get(pc as i64) else { return Vec::new() };
                let stride = (row.stride != 0).then_some(v + row.stride);
                let step = Some(v + (v - row.prev)).filter(|page| *page != v);
                different([stride, step].into_iter().flatten())
            }
            Predictor::Stp => vec![v - 2, v - 1, v + 1, v + 2],
        }
    }

    /// PB-5 (8).
    pub fn train(&mut self, v: i64, pc: u64) {
        match self {
            Predictor::None | Predictor::Sp(_) | Predictor::Asp { .. } | Predictor::Stp => {}
            Predictor::Mp { slots, rows, last } => {
                if let Some(last) = *last {
                    put_first(rows.begun(last, Vec::new()), v, *slots);
                }
                *last = Some(v);
            }
            Predictor::Dp(dp) if dp.train_first => {}
            Predictor::Dp(dp) => dp.train(v),
            Predictor::H2p { last, .. } => {
                last.push(v);
                if last.len() > 2 {
                    last.remove(0);
                }
            }
            Predictor::Masp(rows) => {
                let row = rows.begun(pc as i64, Stride { prev: v, stride: 0, n: 0 });
                row.stride = v - row.prev;
                row.prev = v;
            }
            Predictor::Atp(atp) => atp.train(v, pc),
            Predictor::Morrigan(irip) => irip.train(v),
        }
    }
}

/// ASP-1, ASP-2: trained before it predicts.
fn strided(rows: &mut Rows<Stride>, threshold: u64, v: i64, pc: u64) -> Vec<i64> {
    let Some(row) = rows.get(pc as i64) else {
        rows.begun(pc as i64, Stride { prev: v, stride: 0, n: 0 });
        return Vec::new();
    };
    let step = v - row.prev;
    if step == row.stride && step != 0 {
        row.n = 3.min(row.n + 1);
    } else {
        (row.stride, row.n) = (step, 0);
    }
    row.prev = v;
    if row.n >= threshold { vec![v + row.stride] } else { Vec::new() }
}

fn different(pages: impl Iterator<Item = i64>) -> Vec<i64> {
    let mut out = Vec::new();
    for page in pages {
        if !out.contains(&page) {
            out.push(page);
        }
    }
    out
}

impl Distances {
    /// DP-2.
    fn pages(&mut self, v: i64) -> Vec<i64> {
        let now = self.page.map(|page| v - page);
        if self.train_first {
            self.train(v);
        }
        let Some(distance) = now else { return Vec::new() };
        if self.allocate_at_lookup {
            self.rows.begun(distance, Vec::new());
        }
        let row = self.rows.get(distance).cloned().unwrap_or_default();
        row.into_iter().map(|step| v + step).collect()
    }

    /// DP-3, DP-4.
    fn train(&mut self, v: i64) {
        if let Some(page) = self.page {
            let distance = v - page;
            if let Some(last) = self.distance {
                put_first(self.rows.begun(last, Vec::new()), distance, self.slots);
            }
            self.distance = Some(distance);
        }
        self.page = Some(v);
    }
}
