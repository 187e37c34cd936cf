//! What is mapped where in an address space of a program.

use std::collections::BTreeMap;
use std::ops::Range;

/// What stands behind a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Memory {
    /// The space's own memory; at first it has no contents.
    Own,
    /// The space's own memory; a page without contents has those of a file, as the monitor numbers it, from this
    /// offset on.
    File { file: u32, offset: u64 },
    /// Memory that the program shares with others, observed.
    Shared,
    /// Memory that is always mapped, so that nothing is seen of it.
    Unseen,
}

impl Memory {
    /// The memory of an address that lies this many bytes further.
    pub fn behind(self, bytes: u64) -> Memory {
        match self {
            Memory::File { file, offset } => Memory::File { file, offset: offset + bytes },
            other => other,
        }
    }

    /// Whether it is the space's own, so that its contents go when it does.
    pub fn is_own(self) -> bool {
        matches!(self, Memory::Own | Memory::File { .. })
    }
}

/// What a child gets of a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnFork {
    #[default]
    Copy,
    /// Nothing (`MADV_DONTFORK`).
    Leave,
    /// Zeros (`MADV_WIPEONFORK`).
    Wipe,
}

/// Bytes with one protection and one memory behind them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Region {
    pub end: u64,
    /// As for mmap.
    pub prot: i32,
    pub memory: Memory,
    pub on_fork: OnFork,
}

/// All of an address space, by first byte; they do not overlap.
#[derive(Clone, Default)]
pub struct Regions(BTreeMap<u64, Region>);

impl Regions {
    /// The region with this byte, and its first byte.
    pub fn find(&self, address: u64) -> Option<(u64, &Region)> {
        let (start, region) = self.0.range(..=address).next_back()?;
        (address < region.end).then_some((*start, region))
    }

    /// All, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (Range<u64>, &Region)> {
        self.0.iter().map(|(start, region)| (*start..region.end, region))
    }

    /// The parts of regions in these bytes, ascending.
    pub fn within(&self, bytes: Range<u64>) -> Vec<(Range<u64>, Region)> {
        let first = self.find(bytes.start).map_or(bytes.start, |(start, _)| start);
        let part = |(&start, region): (&u64, &Region)| {
            let (from, end) = (start.max(bytes.start), region.end.min(bytes.end));
            (from..end, Region { end, memory: region.memory.behind(from - start), ..*region })
        };
        self.0.range(first..bytes.end).map(part).filter(|(part, _)| !part.is_empty()).collect()
    }

    /// The end of the first bytes that are mapped without a hole.
    pub fn covered(&self, bytes: Range<u64>) -> u64 {
        self.within(bytes.clone())
            .iter()
            .fold(bytes.start, |at, (part, _)| if part.start == at { part.end } else { at })
    }

    /// Takes these bytes out.
    pub fn remove(&mut self, bytes: Range<u64>) {
        self.cut(bytes.start);
        self.cut(bytes.end);
        let gone: Vec<u64> = self.0.range(bytes).map(|(start, _)| *start).collect();
        gone.iter().for_each(|start| _ = self.0.remove(start));
    }

    /// Puts a region in the place of any that were there, and joins it to neighbours that it continues.
    pub fn insert(&mut self, start: u64, region: Region) {
        if start >= region.end {
            return;
        }
        self.remove(start..region.end);
        self.0.insert(start, region);
        self.join(region.end);
        self.join(start);
    }

    /// Changes what lies in these bytes.
    pub fn change(&mut self, bytes: Range<u64>, change: impl Fn(&mut Region)) {
        self.cut(bytes.start);
        self.cut(bytes.end);
        self.0.range_mut(bytes.clone()).for_each(|(_, region)| change(region));
        let starts: Vec<u64> = self.0.range(bytes.clone()).map(|(start, _)| *start).collect();
        starts.into_iter().chain([bytes.end]).for_each(|start| self.join(start));
    }

    /// Splits the region that has this byte inside.
    fn cut(&mut self, at: u64) {
        let Some((start, region)) = self.0.range_mut(..at).next_back().filter(|(_, region)| at < region.end) else {
            return;
        };
        let behind = Region { memory: region.memory.behind(at - start), ..*region };
        region.end = at;
        self.0.insert(at, behind);
    }

    /// Joins the region that begins here to the one that ends here, if they are one.
    fn join(&mut self, at: u64) {
        let Some(&second) = self.0.get(&at) else { return };
        let Some((start, first)) = self.0.range_mut(..at).next_back().filter(|(_, first)| first.end == at) else {
            return;
        };
        let continued = Region { end: at, memory: first.memory.behind(at - start), ..*first };
        if continued == (Region { end: at, ..second }) {
            first.end = second.end;
            self.0.remove(&at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Memory = Memory::Own;

    fn region(end: u64, prot: i32, memory: Memory) -> Region {
        Region { end, prot, memory, on_fork: OnFork::Copy }
    }

    /// Against a list of bytes.
    #[test]
    fn regions_are_what_each_byte_was_given_last() {
        let mut state = 88_172_645_463_325_252u64;
        let mut below = |n: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % n
        };
        let mut regions = Regions::default();
        let mut bytes: Vec<Option<(i32, Memory)>> = vec![None; 64];
        for step in 0..20_000 {
            let start = below(60);
            let end = start + 1 + below(64 - start);
            let (prot, file) = (below(2) as i32, below(2) as u32);
            let memory = if below(2) == 0 { OWN } else { Memory::File { file, offset: start } };
            match below(4) {
                0 | 1 => {
                    regions.insert(start, region(end, prot, memory));
                    for at in start..end {
                        bytes[at as usize] = Some((prot, memory.behind(at - start)));
                    }
                }
                2 => {
                    regions.remove(start..end);
                    bytes[start as usize..end as usize].fill(None);
                }
                _ => {
                    regions.change(start..end, |region| region.prot = prot);
                    bytes[start as usize..end as usize].iter_mut().flatten().for_each(|byte| byte.0 = prot);
                }
            }
            for at in 0..64 {
                let found = regions.find(at).map(|(start, r)| (r.prot, r.memory.behind(at - start)));
                assert_eq!(found, bytes[at as usize], "step {step}, byte {at}");
            }
            let hole = (start..end).find(|at| bytes[*at as usize].is_none()).unwrap_or(end);
            assert_eq!(regions.covered(start..end), hole, "step {step}");
            let mut parts = vec![None; 64];
            for (part, r) in regions.within(start..end) {
                assert_eq!(part.end, r.end);
                for at in part.clone() {
                    parts[at as usize] = Some((r.prot, r.memory.behind(at - part.start)));
                }
            }
            let inside = |at: &usize| (start as usize..end as usize).contains(at);
            let expected: Vec<_> = (0..64).map(|at| bytes[at].filter(|_| inside(&at))).collect();
            assert_eq!(parts, expected, "step {step}");
            let all: Vec<_> = regions.iter().map(|(bytes, r)| (bytes, *r)).collect();
            let joinable = |a: &(Range<u64>, Region), b: &(Range<u64>, Region)| {
                a.0.end == b.0.start && a.1.prot == b.1.prot && a.1.memory.behind(a.0.end - a.0.start) == b.1.memory
            };
            assert!(all.windows(2).all(|two| !joinable(&two[0], &two[1])), "neighbours are joined");
        }
    }
}
