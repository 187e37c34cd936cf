//! Two relations of 32-byte tuples. An index join probes a chained hash index on the inner relation at random. After
//! every quarter of the outer relation, one join runs without the index and scans the whole inner relation.

use super::kernel::{Kernel, Settings};
use super::memory::{Memory, Native, Site, site};
use super::random::Rng;
use super::traced::{Layout, Traced};

pub(super) const KERNEL: Kernel = Kernel {
    name: "join",
    class: "database join",
    stands_for: "coral",
    about: "hash probes and full scans of one relation for the tuples of another",
    default_size: 20 << 20,
    small_size: 2 << 20,
    smallest: 64 << 10,
    largest: 4 << 30,
    layout: Layout::Heap,
    text_pages: 3,
    traced: run::<Traced>,
    native: run::<Native>,
};

/// Words of a tuple: key, value, link of the hash chain (1 + number of the next tuple), and padding that is never read.
const TUPLE: usize = 4;
const KEY: usize = 0;
const VALUE: usize = 1;
const LINK: usize = 2;

/// Result pairs that are kept.
const RESULTS: usize = 1 << 13;

struct Relations<M: Memory> {
    tuples: usize,
    outer: M::Array<u64>,
    inner: M::Array<u64>,
    heads: M::Array<u32>,
    results: M::Array<u64>,
    found: usize,
    sum: u64,
}

fn bucket(key: u64, buckets: usize) -> usize {
    ((u128::from(key.wrapping_mul(0x9e37_79b9_7f4a_7c15)) * buckets as u128) >> 64) as usize
}

impl<M: Memory> Relations<M> {
    fn new(m: &mut M, s: &Settings) -> Relations<M> {
        // Two tuples and a head of 4 bytes each.
        let tuples = s.size as usize / (2 * TUPLE * 8 + 4);
        let mut rng = Rng::new(s.seed);
        let mut relation = || {
            let mut word = 0;
            m.input((0..tuples * TUPLE).map(|_| {
                word += 1;
                match (word - 1) % TUPLE {
                    KEY => rng.below(tuples) as u64,
                    VALUE => rng.below(1 << 20) as u64,
                    _ => 0,
                }
            }))
        };
        let (outer, inner) = (relation(), relation());
        let (heads, results) = (m.array(tuples), m.array(2 * RESULTS));
        Relations { tuples, outer, inner, heads, results, found: 0, sum: 0 }
    }

    fn build_index(&mut self, m: &mut M) {
        for i in 0..self.tuples {
            let key = m.load(site(0, 0), &self.inner, i * TUPLE + KEY);
            let at = bucket(key, self.tuples);
            let head = m.load(site(0, 1), &self.heads, at);
            m.store(site(0, 2), &mut self.inner, i * TUPLE + LINK, head.into());
            m.store(site(0, 3), &mut self.heads, at, i as u32 + 1);
        }
    }

    /// Joins one outer tuple by the index.
    fn probe(&mut self, m: &mut M, i: usize) {
        const OUTER_KEY: Site = site(1, 0);
        const HEAD: Site = site(1, 1);
        const INNER_KEY: Site = site(1, 2);
        const INNER_VALUE: Site = site(1, 3);
        const OUTER_VALUE: Site = site(1, 4);
        const RESULT: Site = site(1, 5);
        const LINKED: Site = site(1, 6);
        const HASH: Site = site(1, 7);
        let key = m.load(OUTER_KEY, &self.outer, i * TUPLE + KEY);
        m.work(HASH);
        let mut at = m.load(HEAD, &self.heads, bucket(key, self.tuples)) as usize;
        while at != 0 {
            let tuple = (at - 1) * TUPLE;
            if m.load(INNER_KEY, &self.inner, tuple + KEY) == key {
                let pair = [
                    m.load(OUTER_VALUE, &self.outer, i * TUPLE + VALUE),
                    m.load(INNER_VALUE, &self.inner, tuple + VALUE),
                ];
                let place = 2 * (self.found % RESULTS);
                m.store(RESULT, &mut self.results, place, pair[0]);
                m.store(site(1, 8), &mut self.results, place + 1, pair[1]);
                self.found += 1;
                self.sum = self.sum.wrapping_add(pair[0] * pair[1]);
            }
            at = m.load(LINKED, &self.inner, tuple + LINK) as usize;
        }
    }

    /// Counts the inner tuples with a smaller value than the outer tuple's.
    fn scan(&mut self, m: &mut M, i: usize) {
        const BOUND: Site = site(2, 0);
        const INNER: Site = site(2, 1);
        let bound = m.load(BOUND, &self.outer, i * TUPLE + VALUE);
        for tuple in 0..self.tuples {
            self.sum += u64::from(m.load(INNER, &self.inner, tuple * TUPLE + VALUE) < bound);
        }
    }
}

fn run<M: Memory>(m: &mut M, s: &Settings) -> u64 {
    let mut relations = Relations::new(m, s);
    relations.build_index(m);
    let mut i = 0;
    while m.budget_left() {
        relations.probe(m, i);
        i = (i + 1) % relations.tuples;
        if i % (relations.tuples / 4) == 0 {
            relations.scan(m, i);
        }
    }
    relations.sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_join_is_that_of_two_loops() {
        let mut m = Native::new(u64::MAX);
        let mut r = Relations::new(&mut m, &Settings { size: 64 << 10, references: 1, seed: 2 });
        r.build_index(&mut m);
        (0..r.tuples).for_each(|i| r.probe(&mut m, i));
        let (mut found, mut sum) = (0, 0u64);
        for outer in r.outer.chunks(TUPLE) {
            for inner in r.inner.chunks(TUPLE).filter(|inner| inner[KEY] == outer[KEY]) {
                found += 1;
                sum += outer[VALUE] * inner[VALUE];
            }
        }
        assert!(found > r.tuples / 2);
        assert_eq!((r.found, r.sum), (found, sum));
        r.scan(&mut m, 0);
        let below = r.inner.chunks(TUPLE).filter(|t| t[VALUE] < r.outer[VALUE]).count();
        assert_eq!(r.sum, sum + below as u64);
    }
}
