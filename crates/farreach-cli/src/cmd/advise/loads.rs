//! Loads over base pages against the same loads over as much memory in huge pages: what base pages cost here.

use crate::cmd::this::measure::{described, gigahertz};
use anyhow::{Context, Result};
use farreach_live::chase::{Backing, Ground, stay};
use farreach_machine::MachineSpec;
use farreach_types::counts::Interval;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

pub const K4: usize = 4 << 10;
pub const M2: usize = 2 << 20;
pub const LINE: usize = 64;
const LINES: usize = K4 / LINE;
/// A hit of the second level takes at least this number of cycles longer than one of the first.
const SECOND_LEVEL: f64 = 2.0;
pub const REPETITIONS: u64 = 7;
/// Loads of a timed round, at least, and lines of a chain: 8 MB, more than second-level caches have.
const LOADS: usize = 128 << 10;
/// Timed rounds, of which the fastest counts.
const TIMES: usize = 3;
/// The share of memory that must be in huge pages.
const HELD: f64 = 0.95;

/// The middle value, the upper one of two.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// What a load costs in cycles that goes to any line of any page.
pub struct Loads {
    /// What base pages add to the same loads in huge pages: from the cheapest gather to the dearest chain.
    pub added: Interval,
    /// The same between the medians of gathers and of chains.
    pub typical: Interval,
    /// All of a load in base pages, between medians.
    pub all: Interval,
}

/// Memory in base pages, and as much in huge pages, if the kernel gives them.
struct Memory {
    base: Ground,
    huge: Option<Ground>,
}

impl Memory {
    fn new(pages: usize) -> Result<Memory> {
        let bytes = pages * K4;
        let base = Ground::new(Backing::Base, bytes).context("memory for the prices of walks")?;
        let huge = Ground::new(Backing::Transparent, bytes.next_multiple_of(M2)).ok().filter(|_| pages * K4 >= M2 / 2);
        let held = |mut ground: Ground| {
            ground.chain(&(0..pages).map(|page| page * K4).collect::<Vec<_>>());
            ground.huge_share().is_ok_and(|share| share >= HELD).then_some(ground)
        };
        Ok(Memory { base, huge: huge.and_then(held) })
    }
}

/// Places of loads in pages, and as many side by side.
struct Places {
    apart: Vec<usize>,
    beside: Vec<usize>,
}

impl Places {
    /// `times` lines of each page, at most all. Each round goes through all pages in the same random order, so that as
    /// many pages lie between two loads from a page.
    fn new(pages: usize, times: usize, seed: u64) -> Places {
        let mut rng = Pcg64::seed_from_u64(seed);
        let mut order: Vec<usize> = (0..pages).collect();
        order.shuffle(&mut rng);
        let first: Vec<usize> = (0..pages).map(|_| rng.random_range(0..LINES)).collect();
        // Odd, so that a page's lines differ; no neighbours, which caches may fetch together.
        let slot = |page: usize, round: usize| (first[page] + round * 27) % LINES;
        let rounds = 0..times.clamp(1, LINES);
        let apart = rounds.flat_map(|round| order.iter().map(move |&page| (page, round)));
        let apart: Vec<usize> = apart.map(|(page, round)| page * K4 + slot(page, round) * LINE).collect();
        let mut beside: Vec<usize> = (0..apart.len()).map(|line| line * LINE).collect();
        beside.shuffle(&mut rng);
        Places { apart, beside }
    }
}

fn chain(ground: &mut Ground, at: &[usize], clock: f64) -> f64 {
    ground.chain(at).time_per_load(LOADS, TIMES) * clock
}

/// From a gather to a chain.
fn both(ground: &mut Ground, at: &[usize], clock: f64) -> [f64; 2] {
    let chained = chain(ground, at, clock);
    [ground.time_per_gathered_load(at, LOADS, TIMES) * clock, chained]
}

/// Times loads over this number of pages. Memory is taken anew for each repetition that has room in `most` bytes, for
/// it depends on the frames what a walk costs.
///
/// # Errors
/// There is not enough memory.
pub fn loads(pages: usize, most: usize) -> Result<Loads> {
    let times = (most / (2 * pages * K4)).clamp(1, REPETITIONS as usize);
    let mut memory = (0..times).map(|_| Memory::new(pages)).collect::<Result<Vec<_>>>()?;
    let (mut added, mut all) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for repetition in 0..REPETITIONS {
        let Memory { base, huge } = &mut memory[repetition as usize % times];
        let Places { apart, beside } = Places::new(pages, LOADS / pages, repetition);
        let clock = gigahertz();
        let slow = both(base, &apart, clock);
        let fast = huge.as_mut().map_or_else(|| both(base, &beside, clock), |huge| both(huge, &apart, clock));
        for end in 0..2 {
            added[end].push(slow[end] - fast[end]);
            all[end].push(slow[end]);
        }
    }
    let least = added[0].iter().copied().fold(f64::INFINITY, f64::min).max(0.0);
    let most = added[1].iter().copied().fold(0.0, f64::max);
    let medians = |ends: [Vec<f64>; 2]| {
        let [low, high] = ends.map(|all| median(all).max(0.0));
        Interval { low: low.min(high), high }
    };
    Ok(Loads { added: Interval { low: least.min(most), high: most }, typical: medians(added), all: medians(all) })
}

/// Whether huge pages are in the TLB in pieces of base pages: pages between the reach of the first level and of the
/// second then take as long as base pages, not as long as lines side by side. `None`: there are no huge pages, or these
/// take no less than base pages either.
///
/// # Errors
/// There is not enough memory.
pub fn huge_in_pieces(spec: &MachineSpec) -> Result<Option<bool>> {
    let [first, second] = entries(spec);
    let pages = (first * second).isqrt();
    let mut memory = Memory::new(pages)?;
    let Some(huge) = &mut memory.huge else { return Ok(None) };
    let (mut base_added, mut huge_added) = (Vec::new(), Vec::new());
    for repetition in 0..REPETITIONS {
        let Places { apart, beside } = Places::new(pages, 1, repetition);
        let clock = gigahertz();
        let near = chain(&mut memory.base, &beside, clock);
        base_added.push(chain(&mut memory.base, &apart, clock) - near);
        huge_added.push(chain(huge, &apart, clock) - near);
    }
    let [base, huge] = [median(base_added), median(huge_added)];
    Ok((base >= SECOND_LEVEL).then_some(huge > base / 2.0))
}

/// Entries for 4 KB pages in the levels of the data TLB, at least as many as any processor has.
pub fn entries(spec: &MachineSpec) -> [usize; 2] {
    let of = |key: &str| described(&spec.params.texts(key), K4 as u64).unwrap_or(0) as usize;
    [of("l1d").max(32), of("l2").max(512)]
}

/// Whether entries of this processor hold several base pages side by side, as far as it shows here: twice as many pages
/// as the second level has entries then take no walks. Under a hypervisor whose pages lie apart they do.
///
/// # Errors
/// There is not enough memory.
pub fn coalesces(spec: &MachineSpec) -> Result<bool> {
    let [_, second] = entries(spec);
    pinned(|| {
        let [few, many] = [2, 16].map(|times| loads(times * second, 0));
        Ok(few?.added.high < many?.added.high / 2.0)
    })
}

/// Work on a thread of its own that stays on one processor; programs that are started later may run anywhere.
pub fn pinned<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    std::thread::scope(|scope| {
        let work = scope.spawn(|| {
            // Where it cannot stay, medians of repetitions remain.
            let _ = stay();
            work()
        });
        work.join().expect("no panics")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With huge pages and, below a megabyte, without.
    #[test]
    fn loads_take_time() {
        for pages in [64, 1024] {
            let found = loads(pages, 16 << 20).unwrap();
            assert!(found.all.low > 0.0 && found.all.high > 0.0, "{pages}");
            let Loads { added, typical, .. } = found;
            assert!(added.low <= typical.low && typical.low <= typical.high && typical.high <= added.high, "{pages}");
        }
    }

    #[test]
    fn every_round_goes_through_all_pages_in_one_order() {
        let Places { apart, beside } = Places::new(100, 7, 1);
        assert_eq!((apart.len(), beside.len()), (700, 700));
        let pages: Vec<usize> = apart.iter().map(|at| at / K4).collect();
        assert!((100..700).all(|i| pages[i] == pages[i - 100]));
        let distinct: std::collections::HashSet<&usize> = apart.iter().collect();
        assert_eq!(distinct.len(), 700);
        assert_eq!(Places::new(10, 1_000, 1).apart.len(), 10 * LINES);
        assert!(beside.iter().all(|at| *at < 700 * LINE));
    }
}
