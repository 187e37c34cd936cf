//! Clustering of a stream of points. A random point is tried as a further centre: all points are read to see which
//! would move to it and whether that saves more than a centre costs. Memory is read from one end to the other, again
//! and again.

use super::kernel::{Kernel, Settings};
use super::memory::{Memory, Native, Site, site};
use super::random::Rng;
use super::traced::{Layout, Traced};

pub(super) const KERNEL: Kernel = Kernel {
    name: "cluster",
    class: "clustering",
    stands_for: "streamcluster",
    about: "local search for centres among points in 32 dimensions",
    default_size: 64 << 20,
    small_size: 4 << 20,
    smallest: 64 << 10,
    largest: 4 << 30,
    layout: Layout::Mapped,
    text_pages: 1,
    traced: run::<Traced>,
    native: run::<Native>,
};

const DIMENSIONS: usize = 32;
/// Cost of a centre, in units of the distance between two random points.
const OPENING: f32 = 200.0;

struct Points<M: Memory> {
    count: usize,
    coordinate: M::Array<f32>,
    /// For each point, its centre and the distance to it.
    centre: M::Array<u32>,
    cost: M::Array<f32>,
    /// For each point, whether it would move to the centre that is tried.
    changes: M::Array<u8>,
}

impl<M: Memory> Points<M> {
    /// The first point is the centre of all.
    fn new(m: &mut M, s: &Settings) -> Points<M> {
        let count = s.size as usize / (4 * DIMENSIONS + 4 + 4 + 1);
        let mut rng = Rng::new(s.seed);
        // Sixteen clouds.
        let middle: Vec<f32> = (0..16 * DIMENSIONS).map(|_| rng.below(1 << 16) as f32 / 65536.0).collect();
        let values: Vec<f32> = (0..count)
            .flat_map(|_| {
                let cloud = rng.below(16);
                let near: Vec<f32> = (0..DIMENSIONS)
                    .map(|d| middle[cloud * DIMENSIONS + d] + rng.below(1 << 12) as f32 / 65536.0)
                    .collect();
                near
            })
            .collect();
        let far: Vec<f32> = values.chunks_exact(DIMENSIONS).map(|p| distance(p, &values[..DIMENSIONS])).collect();
        Points {
            count,
            coordinate: m.input(values.into_iter()),
            centre: m.array(count),
            cost: m.input(far.into_iter()),
            changes: m.array(count),
        }
    }

    /// Tries a point as a centre. Returns what it saved if it became one. `None`: the reference budget is used up.
    fn attempt(&mut self, m: &mut M, candidate: usize) -> Option<f32> {
        const THERE: Site = site(0, 0);
        const HERE: Site = site(0, 1);
        const COST: Site = site(0, 2);
        const MARK: Site = site(0, 3);
        const MARKED: Site = site(0, 4);
        const CENTRE: Site = site(0, 5);
        const NEW: [Site; 3] = [site(0, 6), site(0, 7), site(0, 8)];
        let mut saved = -OPENING;
        let mut to = [0.0; DIMENSIONS];
        for (d, x) in to.iter_mut().enumerate() {
            *x = m.load(HERE, &self.coordinate, candidate * DIMENSIONS + d);
        }
        for point in 0..self.count {
            let mut sum = 0.0;
            for (d, x) in to.iter().enumerate() {
                let difference = m.load(THERE, &self.coordinate, point * DIMENSIONS + d) - x;
                sum += difference * difference;
            }
            let cost = m.load(COST, &self.cost, point);
            m.store(MARK, &mut self.changes, point, u8::from(sum < cost));
            saved += (cost - sum).max(0.0);
            if point % 64 == 0 && !m.budget_left() {
                return None;
            }
        }
        if saved <= 0.0 {
            return Some(0.0);
        }
        for point in 0..self.count {
            if m.load(MARKED, &self.changes, point) == 1 {
                m.store(CENTRE, &mut self.centre, point, candidate as u32);
                let mut sum = 0.0;
                for (d, x) in to.iter().enumerate() {
                    let difference = m.load(NEW[0], &self.coordinate, point * DIMENSIONS + d) - x;
                    sum += difference * difference;
                }
                m.store(NEW[1], &mut self.cost, point, sum);
            }
        }
        Some(saved)
    }
}

fn distance(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).fold(0.0, |sum, (a, b)| sum + (a - b) * (a - b))
}

fn run<M: Memory>(m: &mut M, s: &Settings) -> u64 {
    const RESULT: Site = site(0, 9);
    let mut points = Points::new(m, s);
    let mut rng = Rng::new(s.seed ^ 1);
    let mut sum = 1u64;
    while m.budget_left() {
        let candidate = rng.below(points.count);
        let Some(saved) = points.attempt(m, candidate) else { break };
        sum = sum.rotate_left(5) ^ u64::from(saved.to_bits());
    }
    sum ^ u64::from(m.load(RESULT, &points.centre, points.count / 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After any number of attempts every point belongs to its nearest centre, and each centre saved what `attempt`
    /// reported.
    #[test]
    fn every_point_has_the_nearest_centre() {
        let mut m = Native::new(u64::MAX);
        let mut points = Points::new(&mut m, &Settings { size: 256 << 10, references: 1, seed: 5 });
        let at = |p: &Points<Native>, i: usize| p.coordinate[i * DIMENSIONS..][..DIMENSIONS].to_vec();
        let total = |p: &Points<Native>| p.cost.iter().map(|c| f64::from(*c)).sum::<f64>();
        let mut rng = Rng::new(9);
        let mut centres = vec![0];
        for _ in 0..60 {
            let (candidate, before) = (rng.below(points.count), total(&points));
            let saved = points.attempt(&mut m, candidate).unwrap();
            if saved > 0.0 {
                centres.push(candidate);
                let difference = before - total(&points) - f64::from(OPENING);
                assert!(
                    (difference - f64::from(saved)).abs() < 0.01 * f64::from(saved).max(1.0),
                    "{saved} {difference}"
                );
            }
        }
        assert!(centres.len() > 4, "{} centres", centres.len());
        for point in 0..points.count {
            let nearest =
                centres.iter().map(|&c| distance(&at(&points, point), &at(&points, c))).fold(f32::MAX, f32::min);
            assert_eq!(points.cost[point], nearest);
            let own = points.centre[point] as usize;
            assert_eq!(distance(&at(&points, point), &at(&points, own)), nearest);
        }
    }
}
