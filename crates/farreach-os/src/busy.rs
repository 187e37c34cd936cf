//! The frames with contents: which are mapped, cached, touched. A few bits for each, in chunks that exist while they
//! have a busy frame.

use super::bits;
use farreach_types::addr::Pfn;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// Frames of a chunk: one word of bits.
const CHUNK: u64 = 64;

/// By bit, the frames of a chunk.
#[derive(Clone, Copy, Debug, Default)]
struct Chunk {
    /// With contents.
    busy: u64,
    /// Some page table entry names it.
    mapped: u64,
    /// The page index of an object holds the frame even without a mapping (file pages).
    cached: u64,
    /// Some page that was mapped to it was referenced.
    touched: u64,
    /// It holds more than zeros, as far as is known, in systems that ask (OSC-3).
    written: u64,
}

/// All busy frames.
#[derive(Debug, Default)]
pub struct BusyFrames {
    chunks: HashMap<u64, Chunk, FixedState>,
    /// For frames with more than one mapping, the number of further mappings.
    extra_mappings: HashMap<Pfn, u32, FixedState>,
    len: u64,
    touched: u64,
}

impl BusyFrames {
    /// The number of busy frames.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// The number of busy frames that were referenced.
    pub fn touched(&self) -> u64 {
        self.touched
    }

    /// The number of cached frames without a mapping.
    pub fn unmapped_cached(&self) -> u64 {
        self.chunks.values().map(|c| u64::from((c.cached & !c.mapped).count_ones())).sum()
    }

    /// All of them, in no order.
    pub fn iter(&self) -> impl Iterator<Item = Pfn> + '_ {
        let each = |(&chunk, c): (&u64, &Chunk)| {
            let busy = c.busy;
            (0..CHUNK).filter(move |at| busy >> at & 1 == 1).map(move |at| Pfn(chunk * CHUNK + at))
        };
        self.chunks.iter().flat_map(each)
    }

    fn at(&self, pfn: Pfn) -> (Chunk, u64) {
        (self.chunks.get(&(pfn.0 / CHUNK)).copied().unwrap_or_default(), 1 << (pfn.0 % CHUNK))
    }

    /// Whether a frame is busy.
    pub fn has(&self, pfn: Pfn) -> bool {
        let (chunk, bit) = self.at(pfn);
        chunk.busy & bit != 0
    }

    /// The chunk and the bit of a busy frame.
    fn at_mut(&mut self, pfn: Pfn) -> (&mut Chunk, u64) {
        let bit = 1 << (pfn.0 % CHUNK);
        let chunk = self.chunks.get_mut(&(pfn.0 / CHUNK)).filter(|c| c.busy & bit != 0);
        (chunk.expect("only busy frames are mapped, touched and moved"), bit)
    }

    /// Frames become busy.
    pub fn insert(&mut self, first: Pfn, frames: u64, cached: bool) {
        self.len += frames;
        for (chunk, at, n) in bits::groups(first.0, frames, CHUNK) {
            let c = self.chunks.entry(chunk).or_default();
            let bits = bits::mask(at, n);
            debug_assert_eq!(c.busy & bits, 0, "a frame was busy");
            c.busy |= bits;
            c.cached |= if cached { bits } else { 0 };
        }
    }

    /// Page table entries that name the frame.
    pub fn mappings(&self, pfn: Pfn) -> u32 {
        let (chunk, bit) = self.at(pfn);
        u32::from(chunk.mapped & bit != 0) + self.extra_mappings.get(&pfn).copied().unwrap_or(0)
    }

    /// One more page table entry names each of the frames.
    pub fn map(&mut self, first: Pfn, frames: u64) {
        for (chunk, at, n) in bits::groups(first.0, frames, CHUNK) {
            let c = self.chunks.get_mut(&chunk).expect("mapped frames are busy");
            let bits = bits::mask(at, n);
            debug_assert_eq!(c.busy & bits, bits, "mapped frames are busy");
            let twice = c.mapped & bits;
            c.mapped |= bits;
            for (at, n) in bits::runs(&[twice]) {
                (at..at + n).for_each(|at| *self.extra_mappings.entry(Pfn(chunk * CHUNK + at)).or_insert(0) += 1);
            }
        }
    }

    /// One page table entry fewer names the frame.
    pub fn unmap(&mut self, pfn: Pfn) {
        if let Some(more) = self.extra_mappings.get_mut(&pfn) {
            *more -= 1;
            if *more == 0 {
                self.extra_mappings.remove(&pfn);
            }
        } else {
            let (chunk, bit) = self.at_mut(pfn);
            debug_assert!(chunk.mapped & bit != 0);
            chunk.mapped &= !bit;
        }
    }

    /// One page table entry fewer names each of the frames. Frames that are then neither mapped nor cached become free:
    /// they go to `freed`, in runs.
    pub fn unmap_run(&mut self, first: Pfn, frames: u64, freed: &mut Vec<(u64, u64)>) {
        for (chunk, at, n) in bits::groups(first.0, frames, CHUNK) {
            let mut bits = bits::mask(at, n);
            if !self.extra_mappings.is_empty() {
                for at in at..at + n {
                    let pfn = Pfn(chunk * CHUNK + at);
                    if self.extra_mappings.contains_key(&pfn) {
                        self.unmap(pfn);
                        bits &= !(1 << at);
                    }
                }
            }
            let c = self.chunks.get_mut(&chunk).expect("mapped frames are busy");
            debug_assert_eq!(c.mapped & bits, bits, "only what is mapped is unmapped");
            c.mapped &= !bits;
            self.release(chunk, bits, freed);
        }
    }

    /// No page index holds these frames any more. Those that are not busy are skipped.
    pub fn disown_run(&mut self, first: Pfn, frames: u64, freed: &mut Vec<(u64, u64)>) {
        for (chunk, at, n) in bits::groups(first.0, frames, CHUNK) {
            let Some(c) = self.chunks.get_mut(&chunk) else { continue };
            let bits = bits::mask(at, n) & c.busy;
            c.cached &= !bits;
            self.release(chunk, bits, freed);
        }
    }

    /// Frees the frames of a chunk that are neither mapped nor cached.
    fn release(&mut self, chunk: u64, bits: u64, freed: &mut Vec<(u64, u64)>) {
        let c = self.chunks.get_mut(&chunk).expect("it was just found");
        let gone = bits & c.busy & !c.mapped & !c.cached;
        self.len -= u64::from(gone.count_ones());
        self.touched -= u64::from((c.touched & gone).count_ones());
        (c.busy, c.touched, c.written) = (c.busy & !gone, c.touched & !gone, c.written & !gone);
        if c.busy == 0 {
            self.chunks.remove(&chunk);
        }
        for (at, n) in bits::runs(&[gone]) {
            let first = chunk * CHUNK + at;
            match freed.last_mut() {
                Some((from, frames)) if *from + *frames == first => *frames += n,
                _ => freed.push((first, n)),
            }
        }
    }

    /// A page that is mapped to the frame was referenced. Returns whether it was the first time.
    pub fn touch(&mut self, pfn: Pfn) -> bool {
        let (chunk, bit) = self.at_mut(pfn);
        let first = chunk.touched & bit == 0;
        chunk.touched |= bit;
        self.touched += u64::from(first);
        first
    }

    /// Says whether a busy frame holds more than zeros.
    pub fn set_written(&mut self, pfn: Pfn, written: bool) {
        let (chunk, bit) = self.at_mut(pfn);
        chunk.written = chunk.written & !bit | if written { bit } else { 0 };
    }

    /// Whether a frame is busy and holds zeros.
    pub fn is_zero(&self, pfn: Pfn) -> bool {
        let (chunk, bit) = self.at(pfn);
        chunk.busy & !chunk.written & bit != 0
    }

    /// Moves contents and state of a frame to one that was not busy.
    pub fn move_to(&mut self, from: Pfn, to: Pfn) {
        let (chunk, bit) = self.at_mut(from);
        let was = *chunk;
        for word in [&mut chunk.busy, &mut chunk.mapped, &mut chunk.cached, &mut chunk.touched, &mut chunk.written] {
            *word &= !bit;
        }
        if chunk.busy == 0 {
            self.chunks.remove(&(from.0 / CHUNK));
        }
        let new = 1 << (to.0 % CHUNK);
        let chunk = self.chunks.entry(to.0 / CHUNK).or_default();
        debug_assert_eq!(chunk.busy & new, 0, "{to:?} was busy");
        let copy = |on: u64| if on & bit != 0 { new } else { 0 };
        chunk.busy |= new;
        chunk.mapped |= copy(was.mapped);
        chunk.cached |= copy(was.cached);
        chunk.touched |= copy(was.touched);
        chunk.written |= copy(was.written);
        if let Some(more) = self.extra_mappings.remove(&from) {
            self.extra_mappings.insert(to, more);
        }
    }

    /// Contents and state of two busy frames change places.
    pub fn swap(&mut self, one: Pfn, other: Pfn) {
        let states = [one, other].map(|pfn| {
            let (chunk, bit) = self.at_mut(pfn);
            [chunk.mapped & bit != 0, chunk.cached & bit != 0, chunk.touched & bit != 0]
        });
        for (pfn, state) in [other, one].into_iter().zip(states) {
            let (chunk, bit) = self.at_mut(pfn);
            for (word, on) in [&mut chunk.mapped, &mut chunk.cached, &mut chunk.touched].into_iter().zip(state) {
                *word = *word & !bit | if on { bit } else { 0 };
            }
        }
        let more = [one, other].map(|pfn| self.extra_mappings.remove(&pfn));
        for (pfn, more) in [other, one].into_iter().zip(more) {
            if let Some(more) = more {
                self.extra_mappings.insert(pfn, more);
            }
        }
    }

    /// Panics unless the sums are right. For tests and debug builds.
    pub fn check(&self) {
        let sum = |word: fn(&Chunk) -> u64| self.chunks.values().map(|c| u64::from(word(c).count_ones())).sum::<u64>();
        assert_eq!((sum(|c| c.busy), sum(|c| c.touched)), (self.len, self.touched));
        assert!(
            self.chunks.values().all(|c| c.busy != 0 && (c.mapped | c.cached | c.touched | c.written) & !c.busy == 0)
        );
        assert!(self.extra_mappings.iter().all(|(pfn, n)| *n > 0 && self.mappings(*pfn) == n + 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn behaves_as_a_table_of_counters() {
        // Mappings, cached, touched.
        let (mut busy, mut plain, mut x) = (BusyFrames::default(), BTreeMap::<u64, (u32, bool, bool)>::new(), 7u64);
        let mut below = |n: u64| {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (x >> 33) % n
        };
        for _ in 0..30_000 {
            let first = below(300);
            let most = if below(3) == 0 { 100 } else { 3 };
            let n = 1 + below(most);
            let run = first..first + n;
            let mut freed = Vec::new();
            let before: Vec<u64> = plain.keys().copied().collect();
            match below(7) {
                0 if plain.range(run.clone()).next().is_none() => {
                    let cached = below(3) == 0;
                    busy.insert(Pfn(first), n, cached);
                    plain.extend(run.map(|f| (f, (0, cached, false))));
                }
                1 if run.clone().all(|f| plain.contains_key(&f)) => {
                    busy.map(Pfn(first), n);
                    run.for_each(|f| plain.get_mut(&f).unwrap().0 += 1);
                }
                2 if run.clone().all(|f| plain.get(&f).is_some_and(|p| p.0 > 0)) => {
                    busy.unmap_run(Pfn(first), n, &mut freed);
                    run.clone().for_each(|f| plain.get_mut(&f).unwrap().0 -= 1);
                    plain.retain(|f, p| !run.contains(f) || p.0 > 0 || p.1);
                }
                3 => {
                    busy.disown_run(Pfn(first), n, &mut freed);
                    plain.range_mut(run.clone()).for_each(|(_, p)| p.1 = false);
                    plain.retain(|f, p| !run.contains(f) || p.0 > 0);
                }
                4 if plain.contains_key(&first) => {
                    let p = plain.get_mut(&first).unwrap();
                    assert_eq!(busy.touch(Pfn(first)), !std::mem::replace(&mut p.2, true));
                }
                5 if plain.contains_key(&first) && !plain.contains_key(&(first + n)) => {
                    busy.move_to(Pfn(first), Pfn(first + n));
                    let p = plain.remove(&first).unwrap();
                    plain.insert(first + n, p);
                    continue;
                }
                6 if plain.contains_key(&first) && plain.contains_key(&(first + n)) => {
                    busy.swap(Pfn(first), Pfn(first + n));
                    let (a, b) = (plain[&first], plain[&(first + n)]);
                    plain.insert(first, b);
                    plain.insert(first + n, a);
                }
                _ => {}
            }
            busy.check();
            let gone: Vec<u64> = before.into_iter().filter(|f| !plain.contains_key(f)).collect();
            assert_eq!(freed.into_iter().flat_map(|(f, n)| f..f + n).collect::<Vec<_>>(), gone);
            assert_eq!(
                (busy.len(), busy.touched()),
                (plain.len() as u64, plain.values().filter(|p| p.2).count() as u64)
            );
            assert_eq!(busy.mappings(Pfn(first)), plain.get(&first).map_or(0, |p| p.0));
            let mut all: Vec<u64> = busy.iter().map(|pfn| pfn.0).collect();
            all.sort_unstable();
            assert!(all.iter().eq(plain.keys()));
        }
    }
}
