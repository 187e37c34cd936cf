//! Knees in a curve of time over pages: up to how many pages a level of a TLB answers, and what the next level costs.

use farreach_types::counts::TlbPoint;

/// A step of the curve.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Step {
    /// Index of the last point before the step.
    pub last: usize,
    /// Index of the first point that has climbed half of it.
    pub half: usize,
    /// Cycles before it.
    pub below: f64,
    /// Cycles on the plateau behind it.
    pub above: f64,
}

/// Points with at most this many pages are before every step.
const FEW: u64 = 16;
/// A step is at least this high, in cycles. No second level is that fast, and no base line that wrong.
const LEAST: f64 = 2.0;
/// A step is at least this part of what was there before it.
const LEAST_PART: f64 = 0.5;
/// The knee is where this part of the step is climbed: a level that chooses victims at random fails gradually.
const CLIMBED: f64 = 0.15;
/// The plateau behind a knee at n pages is looked for from this on, times n: before it the level still answers some.
const PLATEAU: [f64; 2] = [1.5, 3.0];

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// The steps of a curve, `most` of them at most. Points ascend in pages.
///
/// Each is found from the plateau before it: it begins before three points in a row that are higher by more than the
/// spread explains. The last plateau need not be flat, as walks become dearer with the size of the page table.
pub fn steps(points: &[TlbPoint], most: usize) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let few = || points.iter().take_while(|p| p.pages <= FEW).map(|p| p.cycles);
    let Some(mut below) = median(few()) else { return steps };
    let mut from = few().count();
    while steps.len() < most {
        let noise = median(points.iter().map(|p| (p.high - p.low) / 2.0)).unwrap_or(0.0);
        let rise = LEAST.max(4.0 * noise).max(LEAST_PART * below);
        let is_high = |p: &TlbPoint| p.cycles - below > rise;
        let first = (from..points.len()).find(|&i| {
            let after = &points[i..points.len().min(i + 3)];
            after.len() == 3 && after.iter().all(is_high)
        });
        let Some(first) = first else { return steps };
        // Points on the way up belong to neither plateau.
        let [start, end] = PLATEAU.map(|times| points[first].pages as f64 * times);
        let plateau = |p: &&TlbPoint| (start..=end).contains(&(p.pages as f64));
        let Some(above) = median(points.iter().filter(plateau).map(|p| p.cycles)) else { return steps };
        let climbed = (CLIMBED * (above - below)).max(2.0 * noise);
        let last = (0..first).rev().find(|&i| points[i].cycles - below <= climbed).unwrap_or(0);
        let half = (last..points.len()).find(|&i| points[i].cycles >= (below + above) / 2.0).unwrap_or(last);
        steps.push(Step { last, half, below, above });
        from = points.iter().position(|p| p.pages as f64 > start).unwrap_or(points.len());
        below = above;
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Eight points per octave.
    fn pages() -> impl Iterator<Item = u64> {
        (3..=16).flat_map(|octave| (8..16).map(move |eighth| (1u64 << octave) * eighth / 8))
    }

    /// A machine of two levels and a walk, with a planted spread; `random`: levels choose victims at random.
    fn curve(entries: [u64; 2], cycles: [f64; 2], noise: f64, random: bool) -> Vec<TlbPoint> {
        let mut state = 1u64;
        let mut jitter = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            noise * ((state >> 40) as f64 / f64::from(1 << 24) * 2.0 - 1.0)
        };
        // In a loop over n pages LRU with e < n entries misses always; random choice misses m of them, where a page
        // stays through the m n fills of a round: m = 1 - (1 - 1/e)^(m n) read backwards.
        let missed = |n: u64, e: u64| match random {
            _ if n <= e => 0.0,
            false => 1.0,
            true => (0..200).fold(1.0, |m: f64, _| 1.0 - (1.0 - 1.0 / e as f64).powf(m * n as f64)),
        };
        let point = |pages| {
            let walk = cycles[1] + 3.0 * (pages as f64 / entries[1] as f64).max(1.0).log2();
            let mean = missed(pages, entries[0]) * cycles[0] + missed(pages, entries[1]) * walk;
            let cycles = mean + jitter();
            TlbPoint { pages, cycles, low: cycles - noise / 2.0, high: cycles + noise / 2.0, load_cycles: 0.0 }
        };
        pages().map(point).collect()
    }

    fn found(points: &[TlbPoint]) -> Vec<u64> {
        steps(points, 2).iter().map(|step| points[step.last].pages).collect()
    }

    #[test]
    fn entries_of_both_levels_are_found() {
        for entries in [[64, 2048], [48, 1280], [96, 4096], [64, 1536], [72, 3072], [256, 8192], [32, 1024]] {
            for noise in [0.0, 0.3, 1.0] {
                let points = curve(entries, [7.0, 30.0], noise, false);
                assert_eq!(found(&points), entries, "{noise}");
                assert!(steps(&points, 2).iter().all(|step| step.half == step.last + 1), "LRU fails at once");
                let [first, second] = steps(&points, 2)[..] else { panic!("two steps") };
                assert!((first.above - 7.0).abs() <= 1.0 && (second.above - 41.0).abs() < 5.0, "{first:?} {second:?}");
            }
        }
    }

    /// Where victims are chosen at random, a level that is slightly too small still answers most.
    #[test]
    fn random_replacement_moves_a_knee_by_a_point_or_two() {
        for entries in [[64, 2048], [48, 1280], [96, 4096]] {
            let points = curve(entries, [7.0, 30.0], 0.2, true);
            for (found, entries) in found(&points).into_iter().zip(entries) {
                assert!((entries..=entries * 5 / 4).contains(&found), "{found} for {entries}");
            }
            assert!(steps(&points, 2).iter().all(|step| step.half > step.last + 1), "it fails gradually");
        }
    }

    #[test]
    fn a_flat_curve_has_no_steps() {
        assert!(found(&curve([1 << 20, 1 << 21], [7.0, 30.0], 1.0, false)).is_empty());
        assert!(steps(&[], 2).is_empty());
    }

    #[test]
    fn spread_is_no_step() {
        // Seven cycles cannot be told from a spread of six.
        let points = curve([64, 2048], [7.0, 60.0], 6.0, false);
        assert_eq!(found(&points).last(), Some(&2048));
    }

    /// One disturbed point is no knee.
    #[test]
    fn a_disturbance_is_not_believed() {
        let mut points = curve([64, 2048], [7.0, 30.0], 0.3, false);
        let at = points.iter().position(|p| p.pages == 40).unwrap();
        points[at].cycles += 50.0;
        assert_eq!(found(&points), [64, 2048]);
    }
}
