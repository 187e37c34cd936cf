//! Prices of today: measured here at the size of the program, or those of a description.

use super::kept::Kept;
use super::loads::{ANEW, K4, LINE, Loads, M2, ONCE, REPETITIONS, entries, huge_in_pieces, loads, median};
use farreach_cost::today;
use farreach_live::Watch;
use farreach_live::chase::{Backing, Ground, processor_time};
use farreach_machine::MachineSpec;
use farreach_native::this::measure::gigahertz;
use farreach_types::addr::Bytes;
use farreach_types::counts::{Interval, MachineResult, TodayPrices, WalkDistances, WalkPrice};
use farreach_types::{Context, Result};
use std::thread::sleep;
use std::time::Duration;

/// Base pages whose leaves share a line.
const PAGES_IN_LINE: usize = LINE / 8;
/// Chains are no longer than this number of pages: a gigabyte.
const MOST: usize = 1 << 18;
/// Memory that is touched for the first time.
const TOUCHED: usize = 64 << 20;
/// Free memory goes back to the hypervisor two seconds after it was freed (Linux, `PAGE_REPORTING_DELAY`).
const REPORTED: Duration = Duration::from_secs(4);

/// Touches memory for the first time: cycles for each page of this kind.
fn touch(backing: Backing, page: usize) -> Result<f64> {
    let mut ground = Ground::new(backing, TOUCHED).context("memory for the price of first touches")?;
    let pages: Vec<usize> = (0..TOUCHED / page).map(|i| i * page).collect();
    let clock = gigahertz();
    let began = processor_time();
    ground.chain(&pages);
    Ok((processor_time() - began) as f64 * clock / pages.len() as f64)
}

/// Cycles of the first touch of a page of this kind, in memory that a hypervisor has given.
fn first_touch(backing: Backing, page: usize) -> Result<f64> {
    touch(backing, page)?;
    Ok(median((0..REPETITIONS).map(|_| touch(backing, page)).collect::<Result<Vec<_>>>()?))
}

/// Cycles of the first touch of a huge page in memory that has gone back to the hypervisor.
fn returned_touch() -> Result<f64> {
    touch(Backing::Transparent, M2)?;
    sleep(REPORTED);
    touch(Backing::Transparent, M2)
}

/// What decides over how many pages walks are measured.
pub struct Footprint<'a> {
    pub touched_bytes: u64,
    pub walks: &'a WalkDistances,
}

/// What of this machine decides about prices.
pub struct Machine {
    /// Entries of the TLB hold several base pages.
    pub coalesces: bool,
    pub available_bytes: u64,
    /// Free memory goes back to the hypervisor.
    pub reports_free_pages: bool,
}

/// Pages at which walks are measured, with the lines of the page table that they are the price for: those at the ends
/// of the classes of distances, from `few`, where all loads walk, to `many`, the last for all distances beyond.
fn sizes(few: usize, many: usize) -> Vec<(usize, Option<u32>)> {
    let ends = WalkDistances::ENDS.map(|lines| (PAGES_IN_LINE * lines as usize, Some(lines)));
    let within: Vec<_> = ends.into_iter().filter(|(pages, _)| *pages < many).collect();
    within.into_iter().map(|(pages, lines)| (pages.max(few), lines)).chain([(many, None)]).collect()
}

/// Prices by distance, from means over all distances.
fn by_distance(few: usize, many: usize, mut mean: impl FnMut(usize) -> Result<Loads>) -> Result<Vec<WalkPrice>> {
    let mut prices: Vec<WalkPrice> = Vec::new();
    let mut before: Option<(usize, Loads)> = None;
    for (pages, lines) in sizes(few, many) {
        match &before {
            Some((fewer, _)) if *fewer == pages => {
                let same = prices[prices.len() - 1].clone();
                prices.push(WalkPrice { lines, ..same });
            }
            _ => {
                let now = mean(pages)?;
                let price = |of: fn(&Loads) -> Interval| {
                    let Some((fewer, its)) = &before else { return of(&now) };
                    let [low, high] = [|i: Interval| i.low, |i: Interval| i.high]
                        .map(|end| today::marginal((*fewer, end(of(its))), (pages, end(of(&now)))));
                    Interval { low: low.min(high), high }
                };
                prices.push(WalkPrice {
                    lines,
                    walk: price(|loads| loads.base.all),
                    typical: price(|loads| loads.base.typical),
                    contiguous: price(|loads| loads.contiguous.all),
                    contiguous_typical: price(|loads| loads.contiguous.typical),
                    load: price(|loads| loads.load),
                });
                before = Some((pages, now));
            }
        }
    }
    Ok(prices)
}

/// Prices of this machine for a program. The thread is to stay on one processor ([`pinned`](super::loads::pinned)).
///
/// # Errors
/// There is not enough memory, or a signal came.
pub fn measured(
    spec: &MachineSpec,
    machine: &Machine,
    program: &Footprint,
    kept: &mut Kept,
    signals: &Watch,
) -> Result<TodayPrices> {
    let available = machine.available_bytes as usize;
    let [first, second] = entries(spec);
    // Where four pages share an entry, half of eight times as many still walk.
    let few = if machine.coalesces { 8 } else { 4 } * second;
    let most = MOST.min(available / 4 / K4).max(few);
    let many = (program.touched_bytes as usize).div_ceil(K4).clamp(few, most);
    let middle = (first * second).isqrt();
    let between = kept.loads(ONCE, middle, || loads(middle, 0, signals))?;
    let walks = by_distance(few, many, |pages| kept.loads(ANEW, pages, || loads(pages, available / 2, signals)))?;
    let base = kept.value("first touch of 4 KB", || first_touch(Backing::Base, K4))?;
    let huge = kept.value("first touch of 2 MB", || first_touch(Backing::Transparent, M2))?;
    let (fault, zero) = today::first_touch_prices(base, huge);
    let returned = machine.reports_free_pages;
    let returned = returned.then(|| kept.value("first touch of 2 MB given back", returned_touch)).transpose()?;
    let huge_in_pieces = kept.value(&format!("huge pages in pieces of {middle}"), || huge_in_pieces(spec, signals))?;
    let bytes = |pages: usize| Bytes(((pages * K4) as u64).next_multiple_of(1 << 20));
    let from = if few < many { format!("{} to ", bytes(few)) } else { String::new() };
    let when = kept.oldest().map_or_else(String::new, |oldest| format!(" since {oldest}"));
    let source = format!(
        "measured here{when}, against huge pages, from independent loads to loads that depend on each other: walks to \
         4 KB pages at random in {from}{}, by the lines of the page table that walks read since they read the same; a \
         walk to a superpage as the nearest of those; first touches of {}",
        bytes(many),
        Bytes(TOUCHED as u64)
    );
    Ok(TodayPrices {
        second_level: between.base.typical,
        base_walk: today::mean(program.walks, &walks, |price| price.walk),
        huge_walk: walks[0].walk,
        load: Some(today::mean(program.walks, &walks, |price| price.load)),
        walks,
        fault,
        zero,
        huge_in_pieces,
        returned_touch: returned.map(|returned| (returned - huge).max(0.0)),
        source,
    })
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
        fault: number("fault_cycles"),
        zero: number("zero_cycles"),
        source: format!(
            "those of {}; overlapped, a walk costs 1/{walkers} of its cycles and a second-level hit nothing",
            spec.name
        ),
        ..TodayPrices::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::loads::Added;
    use super::*;

    #[test]
    fn sizes_end_with_the_program() {
        let all = sizes(6_144, 48_000);
        let lines = [Some(256), Some(1 << 10), Some(4 << 10), None];
        assert_eq!(all.iter().map(|s| s.1).collect::<Vec<_>>(), lines);
        assert_eq!(all.iter().map(|s| s.0).collect::<Vec<_>>(), [6_144, 8_192, 32_768, 48_000]);
        assert_eq!(sizes(8_192, 8_192), [(8_192, Some(256)), (8_192, None)]);
        assert_eq!(sizes(2_048, 1 << 18).len(), 6 - 1);
    }

    /// Walks of 10 cycles up to 8192 pages, of 50 beyond.
    #[test]
    fn prices_by_distance_from_means() {
        let mean = |pages: usize| {
            let (near, far) = (pages.min(8_192), pages.saturating_sub(8_192));
            let cycles = (10 * near + 50 * far) as f64 / pages as f64;
            let interval = Interval { low: cycles / 2.0, high: cycles };
            let added = Added { all: interval, typical: interval };
            Ok(Loads { base: added, contiguous: added, load: interval })
        };
        let prices = by_distance(4_096, 1 << 18, mean).unwrap();
        let found: Vec<_> = prices.iter().map(|p| (p.lines, p.walk.high)).collect();
        let expected =
            [(Some(256), 10.0), (Some(1 << 10), 10.0), (Some(4 << 10), 50.0), (Some(16 << 10), 50.0), (None, 50.0)];
        assert_eq!(found, expected);
        assert!(prices.iter().all(|p| p.walk.low == p.walk.high / 2.0 && p.load == p.walk));
    }
}
