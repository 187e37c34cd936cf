//! Costs on a processor of today, for `farreach advise`: time that a change of page sizes saves, as an interval.
//!
//! The base is the program's own time, measured without the simulator. A walk that overlaps others costs little, one
//! that an address waits for costs all of its cycles; counts cannot tell which, so every price is an interval.

use farreach_types::counts::{Interval, TlbCounts, TodayPrices, WalkDistances, WalkPrice};

/// Page-table walks that a core of today has under way at once, at most: AMD, Hot Chips 33 (2021), "six table walkers"
/// in Zen 3. Others that published a number have fewer, so this is the wider interval.
pub const MOST_WALKERS: f64 = 6.0;

/// Base pages in a huge page of 2 MB.
const PAGES: f64 = 512.0;

/// The price of an event that waits for nothing, from that of one which all that follows waits for.
pub fn overlapped(serial: f64) -> Interval {
    Interval { low: serial / MOST_WALKERS, high: serial }
}

/// Cycles of a fault without its contents, and of zeros for 4 KB, from the first touch of a base page and that of a
/// huge
/// page of 2 MB: `base = fault + zero`, `huge = fault + 512 zero`.
///
/// ```
/// assert_eq!(farreach_cost::today::first_touch_prices(2_000.0, 104_200.0), (1_800.0, 200.0));
/// ```
pub fn first_touch_prices(base: f64, huge: f64) -> (f64, f64) {
    let zero = ((huge - base) / (PAGES - 1.0)).clamp(0.0, base);
    (base - zero, zero)
}

/// Cycles of address translation.
///
/// ```text
/// second-level hits x second_level + walks to base pages x base_walk + walks to superpages x huge_walk
/// ```
///
/// Where walks have prices by distance, and are counted so, each class has its own instead of `base_walk`.
pub fn translation(tlb: &TlbCounts, prices: &TodayPrices) -> Interval {
    priced(tlb, prices, |price| [price.walk, price.contiguous])
}

/// The same at the typical prices of walks, where they have some.
pub fn typical_translation(tlb: &TlbCounts, prices: &TodayPrices) -> Interval {
    priced(tlb, prices, |price| [price.typical, price.contiguous_typical])
}

fn priced(tlb: &TlbCounts, prices: &TodayPrices, of: fn(&WalkPrice) -> [Interval; 2]) -> Interval {
    let second = (tlb.second_level_fetch_hits + tlb.second_level_data_hits) as f64;
    let by_distance = !prices.walks.is_empty() && !tlb.walk_distances.is_empty();
    let base = if by_distance { tlb.walk_distances.total() } else { tlb.misses - tlb.superpage_misses };
    let huge = (tlb.misses - base) as f64;
    let walks = if by_distance {
        // Superpages of base page leaves: multi-size THP.
        let several = tlb.superpage_misses.saturating_sub(tlb.misses - base) as f64 / base.max(1) as f64;
        sum_by_distance(&tlb.walk_distances, &prices.walks, |price| {
            let [own, contiguous] = of(price);
            let mixed = |own: f64, contiguous: f64| own + several * (contiguous - own);
            Interval { low: mixed(own.low, contiguous.low), high: mixed(own.high, contiguous.high) }
        })
    } else {
        scaled(&prices.base_walk, base as f64)
    };
    let sum = |of: fn(&Interval) -> f64| second * of(&prices.second_level) + of(&walks) + huge * of(&prices.huge_walk);
    Interval { low: sum(|p| p.low), high: sum(|p| p.high) }
}

fn scaled(interval: &Interval, by: f64) -> Interval {
    Interval { low: interval.low * by, high: interval.high * by }
}

/// The last price counts for all walks beyond it.
fn sum_by_distance(walks: &WalkDistances, prices: &[WalkPrice], of: impl Fn(&WalkPrice) -> Interval) -> Interval {
    let mut sum = Interval::default();
    for (at, count) in walks.classes().into_iter().enumerate() {
        let price = scaled(&of(&prices[at.min(prices.len() - 1)]), count as f64);
        sum = Interval { low: sum.low + price.low, high: sum.high + price.high };
    }
    sum
}

/// The mean of these walks; that of the first class where there are none.
///
/// # Panics
/// There are no prices.
pub fn mean(walks: &WalkDistances, prices: &[WalkPrice], of: fn(&WalkPrice) -> Interval) -> Interval {
    match walks.total() {
        0 => of(&prices[0]),
        total => scaled(&sum_by_distance(walks, prices, of), 1.0 / total as f64),
    }
}

/// The price of the walks that are added when loads go to more pages at random: all distances up to the number of lines
/// are then equally frequent, so `price = (pages x mean - fewer x their mean) / (pages - fewer)`. It is no less than
/// the mean, which noise could say.
///
/// ```
/// assert_eq!(farreach_cost::today::marginal((1_000, 10.0), (4_000, 40.0)), 50.0);
/// assert_eq!(farreach_cost::today::marginal((1_000, 10.0), (4_000, 9.0)), 9.0);
/// ```
pub fn marginal((fewer, its_mean): (usize, f64), (pages, mean): (usize, f64)) -> f64 {
    mean + (mean - its_mean).max(0.0) * fewer as f64 / (pages - fewer) as f64
}

/// Cycles of first touches: faults, and pages of 4 KB that are filled with zeros.
pub fn first_touch(faults: u64, zeroed: u64, prices: &TodayPrices) -> f64 {
    faults as f64 * prices.fault + zeroed as f64 * prices.zero
}

/// What part of the low and of the high price is possible: translation does not take longer than the program does
/// without its first touches.
pub fn possible(today: &Interval, run_cycles: Option<f64>) -> Interval {
    let part = |price: f64| run_cycles.map_or(1.0, |run| if price > run { run / price } else { 1.0 });
    Interval { low: part(today.low), high: part(today.high) }
}

/// Cycles that a change saves: those of translation, at either end of all prices, less what its first touches take
/// more.
/// `possible`: see [`possible`].
pub fn saved(today: (&Interval, f64), changed: (&Interval, f64), possible: Interval) -> Interval {
    let more = changed.1 - today.1;
    let ends =
        [possible.low * (today.0.low - changed.0.low) - more, possible.high * (today.0.high - changed.0.high) - more];
    Interval { low: ends[0].min(ends[1]), high: ends[0].max(ends[1]) }
}

/// The share of walks that a program can have waited for. A run that takes `cycles` for each of its walks has room for
/// one load after the other where that is as long as a load of a chain (`load.high`), and for none where it is no
/// longer
/// than a load of a gather (`load.low`), both measured over as much memory.
///
/// A program that does other work between its walks has room too, so this is the most; but then walks are rare, and the
/// interval is small.
pub fn serial_share(cycles: f64, walks: u64, load: &Interval) -> f64 {
    let each = cycles / walks.max(1) as f64;
    if each >= load.high { 1.0 } else { ((each - load.low) / (load.high - load.low)).max(0.0) }
}

/// The point of an interval at this share of the way.
pub fn at_share(interval: &Interval, share: f64) -> f64 {
    interval.low + share * (interval.high - interval.low)
}

/// The same in percent of the run.
pub fn percent(saved: &Interval, run_cycles: f64) -> Interval {
    Interval { low: 100.0 * saved.low / run_cycles, high: 100.0 * saved.high / run_cycles }
}

/// The usual noise in percent: half of the distance between the least and the most of several times, over their median.
///
/// ```
/// assert_eq!(farreach_cost::today::noise(&[2.0, 1.5, 2.5]), 25.0);
/// ```
pub fn noise(times: &[f64]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted[..] {
        [] => 0.0,
        [least, .., most] => 100.0 * (most - least) / 2.0 / sorted[sorted.len() / 2],
        [_] => 0.0,
    }
}

/// The noise of the difference of two medians of as many times each: independent spreads add as squares.
pub fn joint(one: f64, other: f64) -> f64 {
    one.hypot(other)
}

/// Huge pages that a pool needs for this many bytes, with one to spare in 16.
///
/// ```
/// assert_eq!(farreach_cost::today::pool_pages(64 << 20, 2 << 20), 34);
/// ```
pub fn pool_pages(bytes: u64, page: u64) -> u64 {
    let pages = bytes.div_ceil(page);
    pages + pages.div_ceil(16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prices() -> TodayPrices {
        TodayPrices {
            second_level: Interval { low: 0.0, high: 7.0 },
            base_walk: Interval { low: 20.0, high: 120.0 },
            huge_walk: Interval { low: 10.0, high: 60.0 },
            fault: 1_000.0,
            zero: 200.0,
            ..TodayPrices::default()
        }
    }

    /// Worked by hand: 1000 hits, 90 walks to base pages, 10 to superpages.
    #[test]
    fn cycles_of_translation() {
        let tlb = TlbCounts {
            misses: 100,
            superpage_misses: 10,
            second_level_fetch_hits: 400,
            second_level_data_hits: 600,
            ..TlbCounts::default()
        };
        assert_eq!(translation(&tlb, &prices()), Interval { low: 1_900.0, high: 18_400.0 });
    }

    /// Worked by hand: three walks nearby, two far and one farther than all prices, one to a superpage.
    #[test]
    fn walks_cost_what_their_distance_costs() {
        let price = |lines, cycles: f64| WalkPrice {
            lines,
            walk: Interval { low: cycles / 2.0, high: 3.0 * cycles },
            typical: Interval { low: cycles, high: 2.0 * cycles },
            contiguous: Interval { low: 0.0, high: cycles },
            contiguous_typical: Interval { low: 1.0, high: 2.0 },
            load: Interval { low: 10.0 * cycles, high: 20.0 * cycles },
        };
        let prices = TodayPrices { walks: vec![price(Some(256), 4.0), price(None, 100.0)], ..prices() };
        let walk_distances = WalkDistances { lines_256: 3, lines_1k: 2, beyond: 1, ..WalkDistances::default() };
        let tlb = TlbCounts { misses: 7, superpage_misses: 1, walk_distances, ..TlbCounts::default() };
        assert_eq!(translation(&tlb, &prices), Interval { low: 156.0 + 10.0, high: 936.0 + 60.0 });
        assert_eq!(typical_translation(&tlb, &prices), Interval { low: 312.0 + 10.0, high: 624.0 + 60.0 });
        assert_eq!(mean(&tlb.walk_distances, &prices.walks, |p| p.typical), Interval { low: 52.0, high: 104.0 });
        assert_eq!(mean(&WalkDistances::default(), &prices.walks, |p| p.load).low, 40.0);
        // Two of the six walks to base page leaves are to superpages of several of them: a third of each class.
        let mixed = TlbCounts { superpage_misses: 3, ..tlb.clone() };
        let typical = typical_translation(&mixed, &prices);
        assert!((typical.low - (312.0 * 2.0 / 3.0 + 2.0 + 10.0)).abs() < 1e-9, "{typical:?}");
        // Not counted by distance: one price for all.
        let tlb = TlbCounts { walk_distances: WalkDistances::default(), ..tlb };
        assert_eq!(translation(&tlb, &prices), Interval { low: 6.0 * 20.0 + 10.0, high: 6.0 * 120.0 + 60.0 });
    }

    /// A superpage instead of 512 pages saves 511 faults and no zeros; one that is used for 10 pages costs 502 more
    /// pages of zeros and saves 9 faults.
    #[test]
    fn cycles_of_first_touches() {
        let touch = |faults, pages| first_touch(faults, pages, &prices());
        assert_eq!(touch(512, 512) - touch(1, 512), 511_000.0);
        assert_eq!(touch(10, 10) - touch(1, 512), 9_000.0 - 100_400.0);
    }

    #[test]
    fn what_is_saved_is_an_interval_in_order() {
        let (today, changed) = (Interval { low: 100.0, high: 900.0 }, Interval { low: 10.0, high: 100.0 });
        let all = Interval { low: 1.0, high: 1.0 };
        assert_eq!(saved((&today, 50.0), (&changed, 20.0), all), Interval { low: 120.0, high: 830.0 });
        // A change for the worse.
        assert_eq!(saved((&changed, 0.0), (&today, 0.0), all), Interval { low: -800.0, high: -90.0 });
        // 900 cycles of translation in a run of 450: at most half of that price.
        let half = possible(&today, Some(450.0));
        assert_eq!(half, Interval { low: 1.0, high: 0.5 });
        assert_eq!(saved((&today, 0.0), (&changed, 0.0), half), Interval { low: 90.0, high: 400.0 });
        // In one of 50 also at the low end: no change saves more than the run.
        let both = possible(&today, Some(50.0));
        let small = saved((&today, 0.0), (&changed, 0.0), both);
        assert!((small.low - 44.4).abs() < 0.1 && small.high == 45.0, "{small:?}");
        assert_eq!(percent(&Interval { low: 90.0, high: 400.0 }, 450.0).low, 20.0);
    }

    /// 100 walks, whose loads take from 20 to 220 cycles.
    #[test]
    fn time_for_each_walk_tells_how_serial_they_are() {
        let load = Interval { low: 20.0, high: 220.0 };
        let share = |cycles| serial_share(cycles, 100, &load);
        assert_eq!(
            [share(1_000.0), share(2_000.0), share(12_000.0), share(22_000.0), share(1e9)],
            [0.0, 0.0, 0.5, 1.0, 1.0]
        );
        assert_eq!(serial_share(10.0, 0, &load), 0.0);
        assert_eq!(serial_share(10.0, 1, &Interval { low: 5.0, high: 5.0 }), 1.0);
        assert_eq!(at_share(&Interval { low: 4.0, high: 24.0 }, 0.25), 9.0);
    }

    #[test]
    fn noise_of_few_times() {
        assert_eq!((noise(&[]), noise(&[3.0]), joint(3.0, 4.0)), (0.0, 0.0, 5.0));
    }

    #[test]
    fn first_touches_are_not_cheaper_than_nothing() {
        assert_eq!(first_touch_prices(500.0, 400.0), (500.0, 0.0));
        assert_eq!(first_touch_prices(500.0, 1e9), (0.0, 500.0));
    }
}
