//! On which node of memory each frame with contents lies, in systems whose memory has nodes (CLP-1): that of the thread
//! that ran when it got its contents. A frame belongs to no node before, so each node has room as long as memory has.

use super::Memory;
use crate::bits;
use farreach_types::addr::Pfn;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// Frames that are noted together.
const CHUNK: u64 = 64;

/// The nodes of frames.
#[derive(Default)]
pub struct Homes {
    /// The node of the thread that runs.
    pub running: u8,
    /// By chunk. Frames that are free keep what they had.
    of: HashMap<u64, [u8; CHUNK as usize], FixedState>,
}

impl Homes {
    /// The node of a frame.
    pub fn get(&self, pfn: Pfn) -> u8 {
        self.of.get(&(pfn.0 / CHUNK)).map_or(0, |chunk| chunk[(pfn.0 % CHUNK) as usize])
    }

    /// Frames lie on a node from now on.
    pub fn set(&mut self, first: Pfn, frames: u64, node: u8) {
        for (chunk, at, n) in bits::groups(first.0, frames, CHUNK) {
            self.of.entry(chunk).or_insert([0; CHUNK as usize])[at as usize..(at + n) as usize].fill(node);
        }
    }

    /// The node of most of these frames; of equal ones the first, of none that of the thread that runs.
    fn of_most(&self, frames: impl Iterator<Item = Pfn>) -> u8 {
        let mut counts = [0u64; 1 << 8];
        frames.for_each(|pfn| counts[usize::from(self.get(pfn))] += 1);
        let most = counts.iter().copied().max().unwrap_or(0);
        if most == 0 { self.running } else { counts.iter().position(|n| *n == most).unwrap_or(0) as u8 }
    }
}

impl Memory {
    /// Frames got contents.
    pub(super) fn came(&mut self, first: Pfn, frames: u64) {
        if let Some(homes) = &mut self.homes {
            homes.set(first, frames, homes.running);
        }
    }

    /// Contents moved to another frame: within their node, unless the caller says otherwise.
    pub(super) fn home_moved(&mut self, from: Pfn, to: Pfn) {
        if let Some(homes) = &mut self.homes {
            let node = homes.get(from);
            homes.set(to, 1, node);
        }
    }

    /// Contents of two frames changed places.
    pub(super) fn homes_swapped(&mut self, one: Pfn, other: Pfn) {
        if let Some(homes) = &mut self.homes {
            let nodes = [homes.get(one), homes.get(other)];
            homes.set(one, 1, nodes[1]);
            homes.set(other, 1, nodes[0]);
        }
    }

    /// The node on which what is copied out of these frames comes to lie; `None`: memory has no nodes.
    pub fn home_of_most(&self, frames: impl Iterator<Item = Pfn>) -> Option<u8> {
        self.homes.as_ref().map(|homes| homes.of_most(frames))
    }

    /// Frames lie on this node from now on, if memory has nodes.
    pub fn set_home(&mut self, first: Pfn, frames: u64, node: Option<u8>) {
        if let (Some(homes), Some(node)) = (&mut self.homes, node) {
            homes.set(first, frames, node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_frames_decide_and_of_equal_nodes_the_first() {
        let mut homes = Homes { running: 3, ..Homes::default() };
        homes.set(Pfn(60), 10, 2);
        homes.set(Pfn(64), 3, 1);
        let of = |homes: &Homes, frames: std::ops::Range<u64>| homes.of_most(frames.map(Pfn));
        assert_eq!([59, 60, 63, 64, 66, 67, 69, 70].map(|pfn| homes.get(Pfn(pfn))), [0, 2, 2, 1, 1, 2, 2, 0]);
        assert_eq!((of(&homes, 60..70), of(&homes, 61..67), of(&homes, 64..68)), (2, 1, 1));
        assert_eq!(of(&homes, 60..60), 3);
    }
}
