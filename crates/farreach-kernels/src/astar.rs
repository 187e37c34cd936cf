//! Shortest paths over a grid of terrain with walls: A* with a binary heap. Each search has another start and goal and
//! touches the region of the grid between them.

use super::heap::{Heap, PopSites, PushSites};
use super::kernel::{Kernel, Settings};
use super::memory::{Memory, Native, Site, site};
use super::random::Rng;
use super::traced::{Layout, Traced};

pub(super) const KERNEL: Kernel = Kernel {
    name: "astar",
    class: "path finding",
    stands_for: "astar",
    about: "A* over a grid of terrain, a heap of open cells",
    default_size: 64 << 20,
    small_size: 4 << 20,
    smallest: 64 << 10,
    largest: 4 << 30,
    layout: Layout::Mapped,
    text_pages: 2,
    traced: run::<Traced>,
    native: run::<Native>,
};

const WALL: u8 = 255;

struct Map<M: Memory> {
    side: usize,
    /// Cost to enter a cell.
    terrain: M::Array<u8>,
    /// The search that reached the cell in the upper half, the distance from its start in the lower.
    best: M::Array<u64>,
    /// Open cells: estimate in the upper half, cell in the lower. A cell may be in it more than once.
    open: Heap<M, u64>,
    room: usize,
    search: u64,
}

impl<M: Memory> Map<M> {
    fn new(m: &mut M, s: &Settings) -> Map<M> {
        // A cell has 1 byte of terrain and 8 of distance, and there is room for one of four to be open.
        let side = (s.size as usize / (1 + 8 + 2)).isqrt();
        let cells = side * side;
        let mut rng = Rng::new(s.seed);
        let mut terrain: Vec<u8> = (0..cells).map(|_| 1 + rng.below(8) as u8).collect();
        // Walls of up to a sixteenth of the side, horizontal or vertical.
        for _ in 0..side {
            let (len, across) = (1 + rng.below(side / 16), rng.below(2) == 0);
            let (x, y) = (rng.below(side - len), rng.below(side - len));
            (0..len).for_each(|k| terrain[if across { y * side + x + k } else { (y + k) * side + x }] = WALL);
        }
        let room = cells / 4;
        Map {
            side,
            terrain: m.input(terrain.into_iter()),
            best: m.array(cells),
            open: Heap::new(m, room),
            room,
            search: 0,
        }
    }

    fn put(&mut self, m: &mut M, entry: u64) {
        const SITES: PushSites = PushSites { parent: site(0, 0), down: site(0, 1), placed: site(0, 2) };
        // When the heap is full the cell is dropped; the path found may then not be the shortest.
        if self.open.len() < self.room {
            self.open.push(m, &SITES, entry, entry, |_, _, other| other);
        }
    }

    fn take(&mut self, m: &mut M) -> Option<u64> {
        const SITES: PopSites = PopSites {
            first: site(0, 3),
            last: site(0, 4),
            left: site(0, 5),
            right: site(0, 6),
            up: site(0, 7),
            placed: site(0, 8),
        };
        self.open.pop(m, &SITES, |_, _, entry| entry)
    }

    /// The cost of the shortest path. `None` if there is none, or the reference budget is used up.
    fn find(&mut self, m: &mut M, start: usize, goal: usize) -> Option<u64> {
        const START: Site = site(1, 0);
        const BEST: Site = site(1, 1);
        const TERRAIN: Site = site(1, 2);
        const KNOWN: Site = site(1, 3);
        const BETTER: Site = site(1, 4);
        const WORK: Site = site(1, 5);
        let side = self.side;
        let far = |cell: usize| (cell % side).abs_diff(goal % side) + (cell / side).abs_diff(goal / side);
        self.open.clear();
        self.search += 1;
        m.store(START, &mut self.best, start, self.search << 32);
        self.put(m, (far(start) as u64) << 32 | start as u64);
        while m.budget_left() {
            let entry = self.take(m)?;
            let cell = entry as u32 as usize;
            let distance = m.load(BEST, &self.best, cell) & u64::from(u32::MAX);
            if cell == goal {
                return Some(distance);
            }
            if distance + far(cell) as u64 != entry >> 32 {
                continue; // A shorter path to it was found since.
            }
            m.work(WORK);
            let (x, y) = (cell % side, cell / side);
            let neighbours = [
                (x > 0, cell.wrapping_sub(1)),
                (x + 1 < side, cell + 1),
                (y > 0, cell.wrapping_sub(side)),
                (y + 1 < side, cell + side),
            ];
            for (_, next) in neighbours.into_iter().filter(|n| n.0) {
                let cost = m.load(TERRAIN, &self.terrain, next);
                if cost == WALL {
                    continue;
                }
                let through = distance + u64::from(cost);
                let known = m.load(KNOWN, &self.best, next);
                if known >> 32 != self.search || through < known & u64::from(u32::MAX) {
                    m.store(BETTER, &mut self.best, next, self.search << 32 | through);
                    self.put(m, (through + far(next) as u64) << 32 | next as u64);
                }
            }
        }
        None
    }
}

fn run<M: Memory>(m: &mut M, s: &Settings) -> u64 {
    let mut map = Map::new(m, s);
    let mut rng = Rng::new(s.seed ^ 1);
    let mut sum = 1u64;
    while m.budget_left() {
        let [start, goal] = [0, 1].map(|_| rng.below(map.side * map.side));
        sum = sum.rotate_left(7) ^ map.find(m, start, goal).unwrap_or(start as u64);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_are_the_shortest() {
        let mut m = Native::new(u64::MAX);
        let mut map = Map::new(&mut m, &Settings { size: 64 << 10, references: 1, seed: 2 });
        let (side, mut rng, mut found) = (map.side, Rng::new(9), 0);
        for _ in 0..10 {
            let [start, goal] = [0, 1].map(|_| rng.below(side * side));
            // Relax until nothing changes.
            let mut distance = vec![u64::MAX; side * side];
            distance[start] = 0;
            let mut changed = true;
            while std::mem::take(&mut changed) {
                for cell in 0..side * side {
                    let (x, y) = (cell % side, cell / side);
                    let near = [
                        (x > 0).then(|| cell - 1),
                        (x + 1 < side).then(|| cell + 1),
                        (y > 0).then(|| cell - side),
                        (y + 1 < side).then(|| cell + side),
                    ];
                    for from in near.into_iter().flatten() {
                        let through = distance[from].saturating_add(map.terrain[cell].into());
                        if map.terrain[cell] != WALL && through < distance[cell] {
                            (distance[cell], changed) = (through, true);
                        }
                    }
                }
            }
            let expected = Some(distance[goal]).filter(|d| *d != u64::MAX);
            assert_eq!(map.find(&mut m, start, goal), expected);
            found += usize::from(expected.is_some());
        }
        assert!(found > 4);
    }
}
