//! Prices of today: measured here at the size of the program, or those of a description.

use crate::cmd::this::measure::{described, gigahertz};
use anyhow::{Context, Result};
use farreach_cost::today;
use farreach_live::chase::{Backing, Ground, processor_time, stay};
use farreach_machine::MachineSpec;
use farreach_types::addr::Bytes;
use farreach_types::counts::{Interval, MachineResult, TodayPrices};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

const K4: usize = 4 << 10;
const M2: usize = 2 << 20;
const LINE: usize = 64;
/// Chains are no longer than this number of pages: a gigabyte.
const MOST: usize = 1 << 18;
/// Memory for lines that lie close together, in huge pages: less than first levels reach.
const NEAR: usize = 32 << 20;
/// The same where there are none: 64 base pages.
const NEAR_BASE: usize = 64 * K4;
/// Loads of a timed round, at least; timed rounds, of which the fastest counts; repetitions, of which the median.
const LOADS: usize = 32 << 10;
const TIMES: usize = 3;
const REPETITIONS: u64 = 5;
/// Memory that is touched for the first time.
const TOUCHED: usize = 64 << 20;

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// What translation adds to a load, from a gather to a chain over `pages` base pages at random, one line in each:
/// beyond
/// as many lines in few pages. And all of such a load.
fn added(pages: usize, (near, near_bytes): &mut (Ground, usize)) -> Result<[Interval; 2]> {
    let mut far = Ground::new(Backing::Base, pages * K4).context("memory for the prices of walks")?;
    let (mut gathers, mut chains) = (Vec::new(), Vec::new());
    let (mut gathered, mut chained) = (Vec::new(), Vec::new());
    for repetition in 0..REPETITIONS {
        let mut rng = Pcg64::seed_from_u64(repetition);
        let mut order: Vec<usize> = (0..pages).collect();
        order.shuffle(&mut rng);
        let lines = *near_bytes / LINE;
        let piece = (lines / pages).max(1);
        let slots: Vec<usize> = (0..pages).map(|_| rng.random_range(0..K4 / LINE)).collect();
        let far_at: Vec<usize> = order.iter().map(|&i| i * K4 + slots[i] * LINE).collect();
        let near_at: Vec<usize> =
            order.iter().filter(|&&i| i < lines).map(|&i| (piece * i + slots[i] % piece) * LINE).collect();
        let clock = gigahertz();
        let chain = |ground: &mut Ground, at: &[usize]| ground.chain(at).time_per_load(LOADS, TIMES) * clock;
        let gather = |ground: &Ground, at: &[usize]| ground.time_per_gathered_load(at, LOADS, TIMES) * clock;
        chained.push(chain(&mut far, &far_at));
        gathered.push(gather(&far, &far_at));
        chains.push(chained[chained.len() - 1] - chain(near, &near_at));
        gathers.push(gathered[gathered.len() - 1] - gather(near, &near_at));
    }
    let interval = |gathers, chains| {
        let [low, high] = [gathers, chains].map(|all| median(all).max(0.0));
        Interval { low: low.min(high), high }
    };
    Ok([interval(gathers, chains), interval(gathered, chained)])
}

/// Cycles of the first touch of a page of this kind.
fn first_touch(backing: Backing, page: usize) -> Result<f64> {
    let once = || -> Result<f64> {
        let mut ground = Ground::new(backing, TOUCHED).context("memory for the price of first touches")?;
        let pages: Vec<usize> = (0..TOUCHED / page).map(|i| i * page).collect();
        let clock = gigahertz();
        let began = processor_time();
        ground.chain(&pages);
        Ok((processor_time() - began) as f64 * clock / pages.len() as f64)
    };
    Ok(median((0..REPETITIONS).map(|_| once()).collect::<Result<Vec<_>>>()?))
}

/// Memory for lines close together, and its bytes.
fn near() -> Result<(Ground, usize)> {
    if let Ok(mut ground) = Ground::new(Backing::Transparent, NEAR) {
        ground.chain(&(0..NEAR / K4).map(|page| page * K4).collect::<Vec<_>>());
        if ground.huge_share().is_ok_and(|share| share > 0.95) {
            return Ok((ground, NEAR));
        }
    }
    Ok((Ground::new(Backing::Base, NEAR_BASE).context("memory for the prices of walks")?, NEAR_BASE))
}

/// Prices of this machine for a program that touches this many bytes.
///
/// # Errors
/// There is not enough memory.
pub fn measured(spec: &MachineSpec, touched: u64, available: u64) -> Result<TodayPrices> {
    pinned(|| measure(spec, touched, available))
}

/// Entries for 4 KB pages in the levels of the data TLB, at least as many as any processor has.
fn entries(spec: &MachineSpec) -> [usize; 2] {
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
        let mut near = near()?;
        let [few, many] = [2, 16].map(|times| added(times * second, &mut near));
        Ok(few?[0].high < many?[0].high / 2.0)
    })
}

/// Work on a thread of its own that stays on one processor; programs that are started later may run anywhere.
fn pinned<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    std::thread::scope(|scope| {
        let work = scope.spawn(|| {
            // Where it cannot stay, medians of repetitions remain.
            let _ = stay();
            work()
        });
        work.join().expect("no panics")
    })
}

fn measure(spec: &MachineSpec, touched: u64, available: u64) -> Result<TodayPrices> {
    let [first, second] = entries(spec);
    // Where four pages share an entry, half of them still walk.
    let few = 8 * second;
    let most = MOST.min((available / 4) as usize / K4).max(few);
    let many = ((touched as usize).div_ceil(K4)).clamp(few, most);
    let mut near = near()?;
    let [second_level, _] = added((first * second).isqrt(), &mut near)?;
    let [huge_walk, _] = added(few, &mut near)?;
    let [base_walk, load] = added(many, &mut near)?;
    let base = first_touch(Backing::Base, K4)?;
    let (fault, zero) = today::first_touch_prices(base, first_touch(Backing::Transparent, M2)?);
    let bytes = |pages: usize| Bytes(((pages * K4) as u64).next_multiple_of(1 << 20));
    let source = format!(
        "measured here, from independent loads to loads that depend on each other: a walk over {} of 4 KB pages; \
         to a superpage, over {}, whose page table is in a near cache; first touches of 64 MB",
        bytes(many),
        bytes(few)
    );
    Ok(TodayPrices { second_level, base_walk, huge_walk, load: Some(load), fault, zero, source })
}

/// Prices of a description: each at its figure where all is serial, and divided by the walkers of the widest core where
/// all overlaps. A walk costs the nodes that walks of this run read.
pub fn described_prices(spec: &MachineSpec, today: &MachineResult) -> TodayPrices {
    let number = |key: &str| spec.params.number(key);
    let walks = today.counts.tlb.misses.max(1) as f64;
    let walk = today::overlapped(today.cost.walk_cycles.map_or(number("penalty"), |all| all as f64 / walks));
    let walkers = today::MOST_WALKERS;
    TodayPrices {
        second_level: Interval { low: 0.0, high: number("l2_hit_data_cycles") },
        base_walk: walk,
        huge_walk: walk,
        load: None,
        fault: number("fault_cycles"),
        zero: number("zero_cycles"),
        source: format!(
            "those of {}; overlapped, a walk costs 1/{walkers} of its cycles and a second-level hit nothing",
            spec.name
        ),
    }
}
