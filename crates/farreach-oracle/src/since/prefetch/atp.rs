//! ATP: three predictors, fake queues, and counters that choose (ATP-1 to ATP-6).

use super::config::{Atp, Kind};
use super::predict::Predictor;
use std::collections::VecDeque;

pub(super) struct PlainAtp {
    children: [Predictor; 3],
    /// Oldest page first.
    pub queues: [VecDeque<i64>; 3],
    pub counters: [u64; 3],
    keys: Atp,
    /// What each child predicted for the page of this trigger.
    predicted: [Vec<i64>; 3],
    /// Of this trigger.
    pub chosen: Option<usize>,
}

impl PlainAtp {
    pub fn new(keys: &Atp) -> PlainAtp {
        let children =
            [Kind::H2p { both_signs: keys.both_signs }, Kind::Masp { rows: keys.masp.0, ways: keys.masp.1 }, Kind::Stp];
        PlainAtp {
            children: children.map(|kind| Predictor::new(&kind)),
            queues: Default::default(),
            counters: keys.initial,
            keys: keys.clone(),
            predicted: Default::default(),
            chosen: None,
        }
    }

    /// ATP-2: the table of the rule, row by row.
    pub fn vote(&mut self, v: i64) {
        let steps: [i64; 3] = match [0, 1, 2].map(|child| self.queues[child].contains(&v)) {
            [false, false, false] => [-1, 0, 0],
            [false, false, true] => [1, -1, 1],
            [false, true, false] => [1, -1, -1],
            [false, true, true] => [1, -1, 0],
            [true, false, false] => [1, 1, 0],
            [true, false, true] => [1, 0, 1],
            [true, true, false] => [1, 0, -1],
            [true, true, true] => [1, 0, 0],
        };
        for ((counter, step), most) in self.counters.iter_mut().zip(steps).zip([255, 63, 3]) {
            *counter = (*counter as i64 + step).clamp(0, most) as u64;
        }
    }

    /// ATP-3.
    pub fn choice(&self) -> Option<usize> {
        let [c0, c1, c2] = self.counters;
        match (c0 >= 128, c1 >= 32, c2 >= 2) {
            _ if self.keys.only.is_some() => self.keys.only,
            (false, _, _) => None,
            (true, true, _) => Some(0),
            (true, false, true) => Some(2),
            (true, false, false) => Some(1),
        }
    }

    pub fn predict(&mut self, v: i64, pc: u64) -> Vec<i64> {
        self.vote(v);
        self.chosen = self.choice();
        for (child, predicted) in self.children.iter_mut().zip(&mut self.predicted) {
            *predicted = child.pages(v, pc);
        }
        self.chosen.map(|child| self.predicted[child].clone()).unwrap_or_default()
    }

    /// ATP-4: predictions go into the queues, each followed by its free pages.
    pub fn remember(&mut self, free: impl Fn(i64) -> Vec<i64>, mapped: impl Fn(i64) -> bool) {
        for (queue, predicted) in self.queues.iter_mut().zip(&self.predicted) {
            for page in predicted {
                let more = if self.keys.fpq_free { free(*page) } else { Vec::new() };
                for page in [*page].into_iter().chain(more) {
                    if queue.contains(&page) || self.keys.fpq_mapped && !mapped(page) {
                        continue;
                    }
                    if queue.len() == self.keys.fpq {
                        queue.pop_front();
                    }
                    queue.push_back(page);
                }
            }
        }
    }

    pub fn train(&mut self, v: i64, pc: u64) {
        self.children.iter_mut().for_each(|child| child.train(v, pc));
    }
}
