//! Rarefied gas. Particles fly through a box of cells, and each collides with the particle that entered its cell last.
//! Particles are visited in sequence; their cells are random. All numbers are integers.

use super::kernel::{Kernel, Settings};
use super::memory::{Memory, Native, Site, site};
use super::random::Rng;
use super::traced::{Layout, Traced};

pub(super) const KERNEL: Kernel = Kernel {
    name: "cells",
    class: "particle simulation with a cell table",
    stands_for: "mp3d",
    about: "particles in sequence, a random cell for each, collisions with a random partner",
    default_size: 5_530 << 10,
    small_size: 1 << 20,
    smallest: 64 << 10,
    largest: 4 << 30,
    layout: Layout::Heap,
    text_pages: 1,
    traced: run::<Traced>,
    native: run::<Native>,
};

/// Words of a particle: place and speed in three directions, mass and kind.
const PARTICLE: usize = 8;
/// Words of a cell: 1 + the particle that waits there, the step in which it came, arrivals, collisions, and four unused
/// words.
const CELL: usize = 8;
/// Steps of a place per cell.
const FINE: i32 = 1 << 12;

struct Gas<M: Memory> {
    particles: usize,
    /// Cells in one direction.
    side: i32,
    particle: M::Array<i32>,
    cell: M::Array<u32>,
    step: u32,
}

impl<M: Memory> Gas<M> {
    fn new(m: &mut M, s: &Settings) -> Gas<M> {
        // Three quarters for particles of 32 bytes, one for cells of 32 bytes: a cube of them.
        let particles = s.size as usize / 4 * 3 / 32;
        let side = (1..).take_while(|n| n * n * n <= s.size as usize / 4 / 32).last().unwrap_or(1) as i32;
        let mut rng = Rng::new(s.seed);
        let particle = m.input((0..particles * PARTICLE).map(|word| match word % PARTICLE {
            0..3 => rng.below((side * FINE) as usize) as i32,
            3..6 => rng.below(FINE as usize) as i32 - FINE / 2,
            _ => 1,
        }));
        let cell = m.array((side * side * side) as usize * CELL);
        Gas { particles, side, particle, cell, step: 0 }
    }

    /// Moves every particle once. Ends early when the reference budget is used up.
    fn fly(&mut self, m: &mut M) {
        const PLACE: [Site; 3] = [site(0, 0), site(0, 1), site(0, 2)];
        const SPEED: [Site; 3] = [site(0, 3), site(0, 4), site(0, 5)];
        const TO: [Site; 3] = [site(0, 6), site(0, 7), site(0, 8)];
        const BOUNCE: [Site; 3] = [site(0, 9), site(0, 10), site(0, 11)];
        const CAME: Site = site(0, 12);
        const STAMP: Site = site(0, 13);
        const WAITS: Site = site(0, 14);
        const WAIT: Site = site(0, 15);
        const STAMPED: Site = site(0, 16);
        const WALL: Site = site(0, 17);
        self.step += 1;
        let edge = self.side * FINE;
        for p in 0..self.particles {
            let mut at = [0; 3];
            for d in 0..3 {
                let place = m.load(PLACE[d], &self.particle, p * PARTICLE + d);
                let speed = m.load(SPEED[d], &self.particle, p * PARTICLE + 3 + d);
                let mut to = place + speed;
                if !(0..edge).contains(&to) {
                    // Reflected at the wall: as far inside as it would have been outside.
                    to = if to < 0 { -1 - to } else { 2 * edge - 1 - to };
                    m.work(WALL);
                    m.store(BOUNCE[d], &mut self.particle, p * PARTICLE + 3 + d, -speed);
                }
                m.store(TO[d], &mut self.particle, p * PARTICLE + d, to);
                at[d] = to / FINE;
            }
            let cell = ((at[2] * self.side + at[1]) * self.side + at[0]) as usize * CELL;
            m.update(CAME, &mut self.cell, cell + 2, |n| n.wrapping_add(1));
            let waits = match m.load(STAMP, &self.cell, cell + 1) == self.step {
                true => m.load(WAITS, &self.cell, cell),
                false => 0,
            };
            if waits != 0 {
                self.collide(m, p, waits as usize - 1, cell);
            }
            m.store(WAIT, &mut self.cell, cell, if waits == 0 { p as u32 + 1 } else { 0 });
            m.store(STAMPED, &mut self.cell, cell + 1, self.step);
            if p % 1024 == 0 && !m.budget_left() {
                return;
            }
        }
    }

    /// Two particles of equal mass swap speeds in some directions, which keeps momentum and energy.
    fn collide(&mut self, m: &mut M, a: usize, b: usize, cell: usize) {
        const COUNT: Site = site(0, 20);
        const MINE: [Site; 3] = [site(0, 21), site(0, 22), site(0, 23)];
        const OTHERS: [Site; 3] = [site(0, 24), site(0, 25), site(0, 26)];
        const GIVE: [Site; 3] = [site(0, 27), site(0, 28), site(0, 29)];
        const TAKE: [Site; 3] = [site(0, 30), site(0, 31), site(0, 32)];
        let collisions = m.update(COUNT, &mut self.cell, cell + 3, |n| n.wrapping_add(1));
        for d in 0..3 {
            if collisions >> d & 1 == 1 {
                let mine = m.load(MINE[d], &self.particle, a * PARTICLE + 3 + d);
                let others = m.load(OTHERS[d], &self.particle, b * PARTICLE + 3 + d);
                m.store(GIVE[d], &mut self.particle, b * PARTICLE + 3 + d, mine);
                m.store(TAKE[d], &mut self.particle, a * PARTICLE + 3 + d, others);
            }
        }
    }
}

fn run<M: Memory>(m: &mut M, s: &Settings) -> u64 {
    let mut gas = Gas::new(m, s);
    while m.budget_left() {
        gas.fly(m);
    }
    (0..64).fold(1, |sum: u64, word| sum.rotate_left(3) ^ m.load(site(0, 40), &gas.particle, word) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn energy_stays_and_particles_stay_in_the_box() {
        let mut m = Native::new(u64::MAX);
        let mut gas = Gas::new(&mut m, &Settings { size: 256 << 10, references: 1, seed: 4 });
        let energy = |gas: &Gas<Native>, d: usize| {
            gas.particle.chunks(PARTICLE).map(|p| i64::from(p[3 + d]) * i64::from(p[3 + d])).sum::<i64>()
        };
        let before = [0, 1, 2].map(|d| energy(&gas, d));
        for _ in 0..10 {
            gas.fly(&mut m);
        }
        assert_eq!([0, 1, 2].map(|d| energy(&gas, d)), before);
        let edge = gas.side * FINE;
        assert!(gas.particle.chunks(PARTICLE).all(|p| p[..3].iter().all(|at| (0..edge).contains(at))));
        let sum = |word: usize| gas.cell.chunks(CELL).map(|c| c[word] as usize).sum::<usize>();
        assert_eq!(sum(2), 10 * gas.particles, "each came into one cell each step");
        assert!(sum(3) > gas.particles, "they collide: {}", sum(3));
    }

    #[test]
    fn a_collision_keeps_momentum() {
        let mut m = Native::new(u64::MAX);
        let mut gas = Gas::new(&mut m, &Settings { size: 64 << 10, references: 1, seed: 4 });
        let momentum = |gas: &Gas<Native>| [3, 4, 5].map(|w| gas.particle[w] + gas.particle[PARTICLE + w]);
        let before = momentum(&gas);
        (0..8).for_each(|_| gas.collide(&mut m, 0, 1, 0));
        assert_eq!(momentum(&gas), before);
    }
}
