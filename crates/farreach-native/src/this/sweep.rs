//! Curves of time over pages: chains of loads, one in each page, against chains of as many lines in few pages.

use farreach_live::chase::{Backing, Ground, ticks_per_cycle};
use farreach_types::counts::{TlbCurve, TlbPoint};
use farreach_types::{Error, Result};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

const LINE: usize = 64;
/// Loads of one timed walk through a chain, at least.
const LOADS: usize = 16 << 10;
/// Timed walks of one chain; the fastest counts.
const TIMES: usize = 3;
/// The near chain has a line in each piece of this many lines: its places are spread over the sets of caches at random,
/// as those of the far chain are, and it takes 1/8 of the pages. A far chain has its lines at the same places in pages.
const SPREAD: usize = 8;
/// Points in an octave up to this number of pages, beyond which no TLB reaches, and above it.
const FINE: [usize; 2] = [8, 2];
const FINE_UP_TO: usize = 16 << 10;

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kind {
    pub backing: Backing,
    pub page_size: usize,
    /// In pages.
    pub stride: usize,
    /// Most pages.
    pub most: usize,
}

/// How often and from which seed.
#[derive(Clone, Copy)]
pub struct Plan {
    pub repetitions: u64,
    pub seed: u64,
}

/// Numbers of pages: eighths of an octave, which all usual numbers of entries are, then halves.
fn numbers(most: usize) -> Vec<usize> {
    let octave = |power: usize| {
        let parts = if 1 << power < FINE_UP_TO { FINE[0] } else { FINE[1] };
        (0..parts).map(move |part| (1usize << power) + (part << power) / parts)
    };
    let mut all: Vec<usize> = (0..usize::BITS as usize - 4).flat_map(octave).take_while(|n| *n <= most).collect();
    all.dedup();
    all
}

fn median(values: &mut [f64]) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    let at = |part: usize| values[(values.len() - 1) * part / 4];
    [at(2), at(1), at(3)]
}

/// A curve, and the median of ticks in a cycle of the core while it was measured.
///
/// # Errors
/// There is no such memory.
pub fn curve(kind: Kind, near: &mut Ground, near_bytes: usize, plan: Plan) -> Result<(TlbCurve, f64)> {
    let mut far = Ground::new(kind.backing, kind.most * kind.stride * kind.page_size).map_err(Error::System)?;
    let sizes = numbers(kind.most);
    let mut found = vec![[Vec::new(), Vec::new()]; sizes.len()];
    let mut clocks = Vec::new();
    for repetition in 0..plan.repetitions {
        let mut rng = Pcg64::seed_from_u64(plan.seed.wrapping_add(repetition));
        for (&pages, found) in sizes.iter().zip(&mut found) {
            let clock = ticks_per_cycle();
            let slots: Vec<usize> = (0..pages).map(|i| SPREAD * i + rng.random_range(0..SPREAD)).collect();
            let mut order: Vec<usize> = (0..pages).collect();
            order.shuffle(&mut rng);
            let place = |i: &usize| i * kind.stride * kind.page_size + slots[*i] * LINE % kind.page_size;
            let offsets: Vec<usize> = order.iter().map(place).collect();
            let slow = far.chain(&offsets).ticks_per_load(LOADS, TIMES) / clock;
            // Where the near memory is too small, lines lie closer; then there are fewer.
            let lines = near_bytes / LINE;
            let piece = (lines / pages).clamp(1, SPREAD);
            let near_place = |i: &usize| (piece * i + slots[*i] % piece) * LINE;
            let offsets: Vec<usize> = order.iter().filter(|i| **i < lines).map(near_place).collect();
            let fast = near.chain(&offsets).ticks_per_load(LOADS, TIMES) / clock;
            found[0].push(slow - fast);
            found[1].push(slow);
            clocks.push(clock);
        }
    }
    let point = |(pages, [more, loads]): (&usize, &mut [Vec<f64>; 2])| {
        let [cycles, low, high] = median(more);
        TlbPoint { pages: *pages as u64, cycles, low, high, load_cycles: median(loads)[0] }
    };
    let points = sizes.iter().zip(&mut found).map(point).collect();
    let curve = TlbCurve { page_size: kind.page_size as u64, stride_pages: kind.stride as u64, points };
    Ok((curve, median(&mut clocks)[0]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_numbers_of_entries_are_points() {
        let all = numbers(1 << 18);
        for entries in [8, 16, 32, 40, 48, 64, 72, 96, 512, 1024, 1280, 1536, 2048, 3072, 4096] {
            assert!(all.contains(&entries), "{entries}");
        }
        assert!(all.is_sorted() && all.windows(2).all(|two| two[0] < two[1]) && all[0] == 1);
        assert_eq!(numbers(3), [1, 2, 3]);
    }

    /// Also with room for 8 near lines alone.
    #[test]
    fn a_curve_has_a_point_for_each_number() {
        [1 << 20, 8 * LINE].into_iter().for_each(has_points);
    }

    fn has_points(near_bytes: usize) {
        let kind = Kind { backing: Backing::Base, page_size: 4096, stride: 1, most: 24 };
        let mut near = Ground::new(Backing::Base, near_bytes).unwrap();
        let (curve, clock) = curve(kind, &mut near, near_bytes, Plan { repetitions: 2, seed: 1 }).unwrap();
        assert_eq!(curve.points.len(), numbers(24).len());
        assert!(clock > 0.0 && curve.points.iter().all(|p| p.low <= p.cycles && p.cycles <= p.high));
        assert!(curve.points.iter().all(|p| p.load_cycles > 0.0));
    }
}
