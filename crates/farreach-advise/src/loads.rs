//! Loads over base pages against the same loads over as much memory in huge pages: what base pages cost here.

use super::kept::Kept;
use farreach_live::Watch;
use farreach_live::chase::{Backing, Ground, stay};
use farreach_machine::MachineSpec;
use farreach_native::this::measure::{described, gigahertz};
use farreach_types::counts::Interval;
use farreach_types::{Context, Result, ensure};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};

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
/// Ways to measure them, as names for what is kept: in memory that is taken once, or anew for each repetition.
pub const ONCE: &str = "once";
pub const ANEW: &str = "anew";
/// The share of memory that must be in huge pages.
const HELD: f64 = 0.95;

/// The middle value, the upper one of two.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// What base pages add to the same loads in huge pages, in cycles.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Added {
    /// From the cheapest gather to the dearest chain.
    pub all: Interval,
    /// Between the medians of gathers and of chains.
    pub typical: Interval,
}

/// What a load over pages at random costs in cycles.
#[derive(Clone, Serialize, Deserialize)]
pub struct Loads {
    /// In base pages.
    pub base: Added,
    /// In base pages whose frames lie side by side; as in other base pages where there are no huge pages.
    pub contiguous: Added,
    /// All of a load in base pages, to any line of the pages, between medians.
    pub load: Interval,
}

/// Memory in base pages, and as much in huge pages and in base pages with their frames, if the kernel gives them.
struct Memory {
    base: Ground,
    huge: Option<[Ground; 2]>,
}

impl Memory {
    fn new(pages: usize) -> Result<Memory> {
        let mut base = Ground::new(Backing::Base, pages * K4).context("memory for the prices of walks")?;
        touch(&mut base, pages);
        let huge = || {
            let [whole, mut split] = [held(pages)?, held(pages)?];
            split.split().ok()?;
            Some([whole, split])
        };
        Ok(Memory { base, huge: huge() })
    }
}

/// Stores into each page, in order as programs do. A page that was only loaded from would be the one of zeros.
fn touch(ground: &mut Ground, pages: usize) {
    ground.chain(&(0..pages).map(|page| page * K4).collect::<Vec<_>>());
}

/// Memory for this number of base pages, in huge pages.
fn held(pages: usize) -> Option<Ground> {
    let mut ground = Ground::new(Backing::Transparent, (pages * K4).next_multiple_of(M2)).ok()?;
    touch(&mut ground, pages);
    ground.huge_share().is_ok_and(|share| share >= HELD).then_some(ground)
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

fn gather(ground: &Ground, at: &[usize], clock: f64) -> f64 {
    ground.time_per_gathered_load(at, LOADS, TIMES) * clock
}

/// Times of gathers and of chains, of which a repetition adds one each.
#[derive(Default)]
struct Times([Vec<f64>; 2]);

impl Times {
    fn push(&mut self, gathered: f64, chained: f64) {
        self.0[0].push(gathered);
        self.0[1].push(chained);
    }

    fn medians(&self) -> Interval {
        let [low, high] = [0, 1].map(|end| median(self.0[end].clone()).max(0.0));
        Interval { low: low.min(high), high }
    }

    fn added(self) -> Added {
        let least = self.0[0].iter().copied().fold(f64::INFINITY, f64::min).max(0.0);
        let most = self.0[1].iter().copied().fold(0.0, f64::max);
        let typical = self.medians();
        Added { all: Interval { low: least.min(typical.low), high: most.max(typical.high) }, typical }
    }
}

/// Times loads over this number of pages. Memory is taken anew for each repetition that has room in `most` bytes, for
/// it depends on the frames what a walk costs.
///
/// A gather goes to any line of the pages: data that miss hide walks, as they do in programs. A chain goes to one line
/// of each page: where nothing is hidden, misses of data are noise alone.
///
/// # Errors
/// There is not enough memory, or a signal came: the rest may take half a minute.
pub fn loads(pages: usize, most: usize, signals: &Watch) -> Result<Loads> {
    let times = (most / (3 * pages * K4)).clamp(1, REPETITIONS as usize);
    let mut memory = (0..times).map(|_| Memory::new(pages)).collect::<Result<Vec<_>>>()?;
    let (mut base_added, mut contiguous, mut all) = (Times::default(), Times::default(), Times::default());
    for repetition in 0..REPETITIONS {
        ensure!(signals.first().is_none(), "interrupted");
        let Memory { base, huge } = &mut memory[repetition as usize % times];
        let [any, one] = [LOADS / pages, 1].map(|lines| Places::new(pages, lines, repetition));
        let clock = gigahertz();
        let both = |ground: &mut Ground| [gather(ground, &any.apart, clock), chain(ground, &one.apart, clock)];
        let slow = both(base);
        let [fast, split] = match huge {
            Some([whole, split]) => [both(whole), both(split)],
            None => [[gather(base, &any.beside, clock), chain(base, &one.beside, clock)], slow],
        };
        base_added.push(slow[0] - fast[0], slow[1] - fast[1]);
        contiguous.push(split[0] - fast[0], split[1] - fast[1]);
        all.push(slow[0], chain(base, &any.apart, clock));
    }
    Ok(Loads { base: base_added.added(), contiguous: contiguous.added(), load: all.medians() })
}

/// Whether huge pages are in the TLB in pieces of base pages: pages between the reach of the first level and of the
/// second then take as long as base pages, not as long as lines side by side. `None`: there are no huge pages, or these
/// take no less than base pages either.
///
/// # Errors
/// There is not enough memory, or a signal came.
pub fn huge_in_pieces(spec: &MachineSpec, signals: &Watch) -> Result<Option<bool>> {
    let [first, second] = entries(spec);
    let pages = (first * second).isqrt();
    let mut memory = Memory::new(pages)?;
    let Some([huge, _]) = &mut memory.huge else { return Ok(None) };
    let (mut base_added, mut huge_added) = (Vec::new(), Vec::new());
    for repetition in 0..REPETITIONS {
        ensure!(signals.first().is_none(), "interrupted");
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
/// False after a signal, so that what is known by then is printed at once.
///
/// # Errors
/// There is not enough memory.
pub fn coalesces(spec: &MachineSpec, kept: &mut Kept, signals: &Watch) -> Result<bool> {
    let [_, second] = entries(spec);
    let found = pinned(|| {
        let [few, many] =
            [2, 16].map(|times| times * second).map(|pages| kept.loads(ONCE, pages, || loads(pages, 0, signals)));
        Ok(few?.base.typical.high < many?.base.typical.high / 2.0)
    });
    if signals.first().is_some() { Ok(false) } else { found }
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

    #[test]
    fn loads_take_time() {
        let Loads { base, contiguous, load } = loads(1024, 16 << 20, &Watch::begin()).unwrap();
        assert!(load.low > 0.0 && load.high > 0.0);
        for Added { all, typical } in [base, contiguous] {
            assert!(all.low <= typical.low && typical.low <= typical.high && typical.high <= all.high);
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
