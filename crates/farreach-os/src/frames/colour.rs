//! Page colouring, the negative control of T94-61: it gives a page a frame of the page's own colour, and no neighbours.
//!
//! The frames of a colour are drawn in random order, so that frames of neighbouring pages are contiguous by chance
//! only.

use super::allocated::AllocatedFrames;
use super::contract::FrameAllocator;
use super::fragmentation::{below, rng};
use super::pinned::PhysicalMemory;
use farreach_types::addr::{Pfn, Vpn};
use hashbrown::HashMap;
use rand_pcg::Pcg64Mcg;

/// Frames of an unlimited memory among which the draws are made: 4 GB of base pages.
const WINDOW: u64 = 1 << 20;

/// Allocator by colour; colour = number modulo the number of colours.
pub struct Colouring {
    frames: AllocatedFrames,
    pools: Vec<Pool>,
    /// Colour of the next frame that is for no page in particular.
    next: u64,
    rng: Pcg64Mcg,
    steps: u64,
}

/// The free frames of one colour, numbered within the colour, in slots `0..len` from which a random one is drawn.
struct Pool {
    /// Slots that do not hold their own number.
    moved: HashMap<u64, u64>,
    len: u64,
    /// Frames of the colour that ever were in the pool.
    seen: u64,
    /// Frames of the colour.
    end: u64,
    /// Slots that are kept filled from the frames never seen.
    window: u64,
}

impl Pool {
    fn get(&self, slot: u64) -> u64 {
        self.moved.get(&slot).copied().unwrap_or(slot)
    }

    fn put(&mut self, number: u64) {
        self.moved.insert(self.len, number);
        self.len += 1;
    }

    fn draw(&mut self, rng: &mut Pcg64Mcg) -> Option<u64> {
        while self.len < self.window && self.seen < self.end {
            self.put(self.seen);
            self.seen += 1;
        }
        if self.len == 0 {
            return None;
        }
        let slot = below(rng, self.len);
        let (number, last) = (self.get(slot), self.get(self.len - 1));
        self.moved.insert(slot, last);
        self.len -= 1;
        self.moved.remove(&self.len);
        Some(number)
    }
}

impl Colouring {
    /// An allocator over `memory` with `colours` colours, drawing by `seed`.
    pub fn new(memory: PhysicalMemory, colours: u64, seed: u64) -> Colouring {
        assert!(colours > 0, "there is at least one colour");
        let pool = |colour: u64| {
            let end = memory.end().saturating_sub(colour).div_ceil(colours);
            let window = if memory.frames().is_some() { end } else { WINDOW.div_ceil(colours) };
            Pool { moved: HashMap::new(), len: window, seen: window, end, window }
        };
        let pools = (0..colours).map(pool).collect();
        Colouring { frames: AllocatedFrames::new(memory), pools, next: 0, rng: rng(seed, 2), steps: 0 }
    }

    /// A free frame of `colour`, or of the nearest colour after it that has one.
    fn take(&mut self, colour: u64) -> Option<Pfn> {
        let colours = self.pools.len() as u64;
        for colour in (colour..colours).chain(0..colour) {
            self.steps += 1;
            while let Some(number) = self.pools[colour as usize].draw(&mut self.rng) {
                let frame = number * colours + colour;
                // A pinned frame leaves its pool when it is drawn and never returns.
                if !self.frames.memory().pinned().contains(frame) {
                    self.frames.allocate(frame..frame + 1);
                    return Some(Pfn(frame));
                }
                self.steps += 1;
            }
        }
        None
    }
}

impl FrameAllocator for Colouring {
    fn alloc(&mut self) -> Option<Pfn> {
        let colour = self.next;
        self.next = (colour + 1) % self.pools.len() as u64;
        self.take(colour)
    }

    fn alloc_near(&mut self, vpn: Vpn) -> Option<Pfn> {
        self.take(vpn.0 % self.pools.len() as u64)
    }

    /// Always `None`: colouring knows no groups.
    fn alloc_group(&mut self, _order: u32, _covered: &[u64]) -> Option<Pfn> {
        None
    }

    fn free_of(&self, word: u64) -> u64 {
        self.frames.free_of(word)
    }

    fn free(&mut self, pfn: Pfn) {
        self.frames.free(pfn.0..pfn.0 + 1);
        let colours = self.pools.len() as u64;
        self.pools[(pfn.0 % colours) as usize].put(pfn.0 / colours);
    }

    fn memory(&self) -> &PhysicalMemory {
        self.frames.memory()
    }

    fn allocated(&self) -> u64 {
        self.frames.count()
    }

    fn steps(&self) -> u64 {
        self.steps
    }
}
