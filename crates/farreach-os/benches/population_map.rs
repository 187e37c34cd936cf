//! What a node of a population map costs (NAV-11).
//!
//! `cargo bench --profile release -p farreach-os --bench population_map`: a map as the paper describes it, a radix tree
//! for each group of 4 MB that a hash table finds, is told of pages that come one by one and go again, as for a program
//! that uses each page once. The unit is what such a page costs otherwise: 4 KB that are filled with zeros. With each
//! of them caches are as after a fault.

use hashbrown::HashMap;
use std::hint::black_box;
use std::time::Instant;

/// Children of a node.
const FAN: usize = 8;
/// Base pages in the largest group.
const GROUP: u64 = 512;
const PAGE: usize = 4096;
/// Pages of the program: 64 MB.
const PAGES: u64 = 16_384;

/// A node of groups of 512 or 64 pages, or of the eight pages of the smallest group.
#[derive(Clone, Default)]
struct Node {
    /// Children with some pages in use, and with all: of the lowest level both are pages.
    some: u8,
    full: u8,
    /// First frame of a reservation of this size.
    frame: Option<u64>,
    children: [u32; FAN],
}

#[derive(Default)]
struct Map {
    roots: HashMap<(u64, u64), u32>,
    nodes: Vec<Node>,
    free: Vec<u32>,
    /// Nodes as `map_nodes` counts them.
    counted: u64,
}

impl Map {
    fn node(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.nodes.push(Node::default());
            self.nodes.len() as u32 - 1
        })
    }

    /// The nodes of a page, from the root down; absent ones are made.
    fn path(&mut self, object: u64, page: u64) -> [u32; 3] {
        let root = match self.roots.get(&(object, page / GROUP)) {
            Some(root) => *root,
            None => {
                // The sizes that are looked at for a reservation that is not there.
                self.counted += 3;
                let root = self.node();
                self.nodes[root as usize].frame = Some(page / GROUP * GROUP);
                self.roots.insert((object, page / GROUP), root);
                root
            }
        };
        let mut path = [root; 3];
        for (level, shift) in [(1, 6), (2, 3)] {
            let slot = (page >> shift) as usize % FAN;
            let child = match self.nodes[path[level - 1] as usize].children[slot] {
                0 => {
                    let child = self.node();
                    self.nodes[path[level - 1] as usize].children[slot] = child + 1;
                    child
                }
                child => child - 1,
            };
            path[level] = child;
        }
        path
    }

    /// A fault: the reserved frame, then each level that begins to be used or becomes full.
    fn comes(&mut self, object: u64, page: u64) -> u64 {
        let path = self.path(object, page);
        let held = path.iter().rev().find_map(|node| self.nodes[*node as usize].frame).expect("a reservation");
        let (mut begins, mut fills) = (true, true);
        for node in path.into_iter().rev() {
            self.counted += 1;
            let node = &mut self.nodes[node as usize];
            node.some += u8::from(begins);
            node.full += u8::from(fills);
            (begins, fills) = (begins && node.some == 1, fills && usize::from(node.full) == FAN);
            if !begins && !fills {
                break;
            }
        }
        held + page % GROUP
    }

    /// A promotion is considered for each size, until one is not full.
    fn promoted(&mut self, object: u64, page: u64) -> usize {
        let path = self.path(object, page);
        let full = path.iter().rev().take_while(|node| usize::from(self.nodes[**node as usize].full) == FAN).count();
        self.counted += (full + 1).min(3) as u64;
        full
    }

    /// A page goes; nodes that nothing uses any more, too.
    fn goes(&mut self, object: u64, page: u64) {
        let path = self.path(object, page);
        let (mut ends, mut opens) = (true, true);
        for (at, shift) in [(2, 0), (1, 3), (0, 6)] {
            self.counted += 1;
            let node = &mut self.nodes[path[at] as usize];
            let was_full = usize::from(node.full) == FAN;
            node.some -= u8::from(ends);
            node.full -= u8::from(opens);
            (ends, opens) = (ends && node.some == 0, opens && was_full);
            if ends {
                *node = Node::default();
                self.free.push(path[at]);
                match at {
                    0 => drop(self.roots.remove(&(object, page / GROUP))),
                    _ => self.nodes[path[at - 1] as usize].children[(page >> (shift + 3)) as usize % FAN] = 0,
                }
            } else if !opens {
                break;
            }
        }
    }
}

/// Seconds of a program: its pages come and are filled with zeros, then go. With a map it is told of them.
fn seconds(memory: &mut [u8], mut map: Option<&mut Map>) -> f64 {
    let clock = Instant::now();
    for page in 0..PAGES {
        let frame = map.as_mut().map_or(page, |map| map.comes(1, page));
        let at = (frame % PAGES) as usize * PAGE;
        memory[at..at + PAGE].fill(0);
        black_box(&mut memory[at]);
        black_box(map.as_mut().map_or(0, |map| map.promoted(1, page)));
    }
    for page in 0..PAGES {
        if let Some(map) = &mut map {
            map.goes(1, page);
        }
    }
    clock.elapsed().as_secs_f64()
}

fn main() {
    let mut memory = vec![1_u8; PAGES as usize * PAGE];
    let (mut without, mut with, mut counted) = (f64::MAX, f64::MAX, 0);
    for _ in 0..50 {
        let mut map = Map::default();
        without = without.min(seconds(&mut memory, None));
        with = with.min(seconds(&mut memory, Some(&mut map)));
        assert!(map.roots.is_empty() && map.free.len() == map.nodes.len(), "all pages went");
        counted = map.counted;
    }
    let (more, nodes) = ((with - without) / without, counted as f64 / PAGES as f64);
    println!("unit: 4 KB filled with zeros");
    println!("{more:.3} a page that comes and goes");
    println!("{:.4} a node, of which there are {nodes:.2} a page", more / nodes);
}
