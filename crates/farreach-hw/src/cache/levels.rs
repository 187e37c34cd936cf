//! Physical caches as current processors have them: split first level, a second level for both sides, a last level in
//! slices. Several cores have first and second levels of their own, and share the last.

use super::replacement::{CACHE_L2_REPLACEMENT, Keeper};
use super::second::Second;
use super::{Cache, Shape};
use crate::tlb::cores::CORES;
use farreach_types::addr::Bytes;
use farreach_types::params::{Allowed, Key, Params};
use farreach_types::translation::Attr;
use std::ops::Range;

/// log2 of the bytes of a line: 64 in all processors that presets describe. Eight page table entries lie in one.
pub const LINE_SHIFT: u32 = 6;

/// First level, fetches. The defaults of these keys are the Sandy Bridge of DS13 and RMM15, a Xeon E5-2430: 32 KB, 8
/// ways, and 256 KB, 8 ways (AnandTech 14664, "Core Cache Comparison"); 15 MB for six cores (Intel's data sheet), that
/// is 2.5 MB a slice, of which 20 ways are assumed: they make 2048 sets, as in slices of 2 MB with 16.
pub const CACHE_L1I: Key = Key {
    name: "cache_l1i",
    default: "32K/8",
    allowed: Allowed::Text,
    about: "first-level instruction cache: SIZE/WAYS, lines of 64 bytes",
};
/// First level, loads and stores.
pub const CACHE_L1D: Key =
    Key { name: "cache_l1d", default: "32K/8", allowed: Allowed::Text, about: "first-level data cache, as cache_l1i" };
/// Second level.
pub const CACHE_L2: Key = Key {
    name: "cache_l2",
    default: "256K/8",
    allowed: Allowed::Text,
    about: "second-level cache of both sides, as cache_l1i",
};
/// Last level.
pub const CACHE_LLC: Key = Key {
    name: "cache_llc",
    default: "2560K/20",
    allowed: Allowed::Text,
    about: "one slice of the last-level cache, which holds all that the others do, as cache_l1i; or none",
};
/// Slices of the last level.
pub const CACHE_SLICES: Key = Key {
    name: "cache_slices",
    default: "6",
    allowed: Allowed::Int { min: 1, max: 256 },
    about: "slices of the last-level cache; a hash of the line says which",
};
/// Where walkers read.
pub const WALKER_READS: Key = Key {
    name: "walker_reads",
    default: "l1d",
    allowed: Allowed::OneOf(&["l1d", "l2"]),
    about: "the cache that page-table walkers ask first",
};

const fn latency(name: &'static str, default: &'static str, about: &'static str) -> Key {
    Key { name, default, allowed: Allowed::Number { min: 0.0, max: 1e12 }, about }
}

/// Measured on a Sandy Bridge-E (Core i7-3960X) by The Tech Report, techreport.com/articles.x/21987/5: 4 cycles.
pub const L1_CYCLES: Key =
    latency("cache_l1_cycles", "4", "cycles of a walker's reference that the first-level cache answers");
/// As before: 12 cycles.
pub const L2_CYCLES: Key =
    latency("cache_l2_cycles", "12", "cycles of a walker's reference that the second-level cache answers");
/// As before: 30 cycles.
pub const LLC_CYCLES: Key =
    latency("cache_llc_cycles", "30", "cycles of a walker's reference that the last-level cache answers");
/// Assumed: 90 ns at 2.2 GHz.
pub const MEMORY_CYCLES: Key =
    latency("cache_memory_cycles", "200", "cycles of a walker's reference that memory answers");

/// The keys of [`Levels`], with the latencies of its levels.
pub const LEVEL_KEYS: [&Key; 11] = [
    &CACHE_L1I,
    &CACHE_L1D,
    &CACHE_L2,
    &CACHE_L2_REPLACEMENT,
    &CACHE_LLC,
    &CACHE_SLICES,
    &WALKER_READS,
    &L1_CYCLES,
    &L2_CYCLES,
    &LLC_CYCLES,
    &MEMORY_CYCLES,
];

/// The level that answered a reference.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum At {
    /// First level.
    L1,
    /// Second level.
    L2,
    /// Last level.
    Llc,
    /// Memory.
    Memory,
}

/// The levels that a core has for itself.
#[derive(Clone, Debug)]
struct Private {
    /// Instructions, data.
    l1: [Cache; 2],
    l2: Second,
}

impl Private {
    /// Caches of one line each.
    fn smallest() -> Private {
        let line = || Cache::new(Shape { size: 1 << LINE_SHIFT, line: 1 << LINE_SHIFT, ways: 1 }).expect("one line");
        Private { l1: [line(), line()], l2: Second::plain(line()) }
    }

    /// A line leaves all of them; whether it was modified.
    fn remove(&mut self, line: u64) -> bool {
        let second = self.l2.remove(line);
        let first = self.l1.iter_mut().filter_map(|cache| cache.remove(line));
        first.chain(second).fold(false, |dirty, line| dirty | line.dirty())
    }
}

/// The caches. All are write-back, with LRU replacement unless a key says otherwise. A miss brings the line into every
/// level on its way. The last level is inclusive: a line evicted from it leaves the others, as in Sandy Bridge, those
/// of all cores; first and second level neither include nor exclude each other. Nothing is prefetched.
///
/// Coherence is not modelled: a store of one core leaves copies of the line in the caches of the others.
#[derive(Clone, Debug)]
pub struct Levels {
    /// Those of the core that runs.
    own: Private,
    /// Those of each core while it does not run. Empty, if there is one core.
    parked: Vec<Private>,
    /// The core that runs.
    core: usize,
    /// None: there is no last level.
    llc: Vec<Cache>,
    /// FL-6, in the last level.
    llc_keeper: Option<Keeper>,
    walker_l1: bool,
    memory_writes: u64,
}

fn read(params: &Params, key: &Key) -> Result<Cache, String> {
    let text = params.text(key.name);
    let refuse = |why: &str| {
        format!("{} = {text} is not allowed: {why}; {} must be SIZE/WAYS, such as {}", key.name, key.name, key.default)
    };
    let (size, ways) = text.split_once('/').ok_or_else(|| refuse("it has no ways"))?;
    let size = size.trim().parse::<Bytes>().map_err(|why| refuse(&why))?.0;
    let ways =
        ways.trim().parse().ok().filter(|w| (1..=1024).contains(w)).ok_or_else(|| refuse("ways are 1 to 1024"))?;
    if size > 1 << 32 {
        return Err(refuse("it is larger than 4G"));
    }
    Cache::new(Shape { size, line: 1 << LINE_SHIFT, ways }).map_err(|why| refuse(&why))
}

impl Levels {
    /// Empty caches, from the keys.
    pub fn new(params: &Params) -> Result<Levels, String> {
        let llc = match params.text(CACHE_LLC.name) {
            "none" => Vec::new(),
            _ => vec![read(params, &CACHE_LLC)?; params.int(CACHE_SLICES.name) as usize],
        };
        let own = Private {
            l1: [read(params, &CACHE_L1I)?, read(params, &CACHE_L1D)?],
            l2: Second::new(read(params, &CACHE_L2)?, params),
        };
        let mut parked = Vec::new();
        if params.has(CORES.name) && params.int(CORES.name) > 1 {
            parked = vec![own.clone(); params.int(CORES.name) as usize];
            parked[0] = Private::smallest();
        }
        Ok(Levels {
            own,
            parked,
            core: 0,
            llc,
            llc_keeper: Keeper::new(params, 25).filter(Keeper::is_everywhere),
            walker_l1: params.text(WALKER_READS.name) == "l1d",
            memory_writes: 0,
        })
    }

    /// This core runs: the references that follow are its own.
    pub(super) fn run_on(&mut self, core: usize) {
        if core != self.core {
            std::mem::swap(&mut self.own, &mut self.parked[self.core]);
            std::mem::swap(&mut self.own, &mut self.parked[core]);
            self.core = core;
        }
    }

    /// Caches of one line each, which stand in the place of those that are lent (see [`Port`](super::Port)).
    pub(super) fn smallest() -> Levels {
        Levels {
            own: Private::smallest(),
            parked: Vec::new(),
            core: 0,
            llc: Vec::new(),
            llc_keeper: None,
            walker_l1: false,
            memory_writes: 0,
        }
    }

    /// A reference of the program to a line; `side` 0: fetch, 1: load or store.
    #[inline]
    pub fn reference(&mut self, side: usize, line: u64, store: bool) -> At {
        self.reference_by(side, line, store, |_| {})
    }

    /// As [`Levels::reference`], where lines have other addresses than memory: `translate` is called before memory is
    /// asked, and may refer to the last level itself.
    #[inline]
    pub(crate) fn reference_by(
        &mut self,
        side: usize,
        line: u64,
        store: bool,
        translate: impl FnOnce(&mut Levels),
    ) -> At {
        if let Some(found) = self.own.l1[side].find(line) {
            if store {
                found.set_dirty();
            }
            return At::L1;
        }
        let at = self.beyond(line, translate);
        if let Some(victim) = self.own.l1[side].insert(line, Attr(0), store).filter(|v| v.dirty()) {
            self.write_second(victim.number());
        }
        at
    }

    /// A reference of a walker.
    pub fn walker(&mut self, line: u64) -> At {
        self.walker_by(line, |_| {})
    }

    /// As [`Levels::walker`], with `translate` as in [`Levels::reference_by`].
    pub(crate) fn walker_by(&mut self, line: u64, translate: impl FnOnce(&mut Levels)) -> At {
        if self.walker_l1 { self.reference_by(1, line, false, translate) } else { self.beyond(line, translate) }
    }

    /// A walker has read a leaf of a data page in this line (ITP-2).
    #[inline]
    pub(super) fn mark_leaf(&mut self, line: u64) {
        self.own.l2.mark_leaf(line);
    }

    /// Lines of tables are kept from now on, or are not, by a policy that does so (FL-6, ITP-2).
    pub(crate) fn keep(&mut self, on: bool) {
        let cores = std::iter::once(&mut self.own).chain(&mut self.parked);
        cores.for_each(|private| private.l2.keep(on));
        self.llc_keeper.iter_mut().for_each(|keeper| keeper.set(on));
    }

    /// A reference that begins at the second level.
    pub fn second(&mut self, line: u64) -> At {
        self.beyond(line, |_| {})
    }

    /// A reference that begins and ends at the last level; whether the line is there.
    pub(crate) fn probe_last(&mut self, line: u64) -> bool {
        self.slice(line).is_some_and(|slice| slice.find(line).is_some())
    }

    /// A line that is not there comes from memory into the last level alone.
    pub(crate) fn bring_last(&mut self, line: u64) {
        self.bring(line);
    }

    /// Removes lines from all levels: those of these ranges, ascending and without overlaps. Returns how many there
    /// were, and how many of these were modified and went to memory.
    pub(crate) fn flush(&mut self, ranges: &[Range<u64>]) -> [u64; 2] {
        // All that is in a cache is in the last level. To look at all its places is faster than to ask for many lines.
        let slots: usize = self.llc.iter().map(Cache::slots).sum();
        let asked: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        let lines: Vec<u64> = if asked > slots as u64 / 16 {
            let flushed = |line: &u64| {
                let at = ranges.partition_point(|range| range.end <= *line);
                ranges.get(at).is_some_and(|range| range.contains(line))
            };
            self.llc.iter().flat_map(Cache::lines).map(|line| line.number()).filter(flushed).collect()
        } else {
            ranges.iter().cloned().flatten().collect()
        };
        let mut flushed = [0; 2];
        for line in lines {
            if let Some(gone) = self.slice(line).and_then(|slice| slice.remove(line)) {
                let modified = self.left_last(gone);
                flushed = [flushed[0] + 1, flushed[1] + u64::from(modified)];
            }
        }
        flushed
    }

    /// Lines that the second level can hold, by the keys.
    pub(crate) fn second_lines(params: &Params) -> Result<usize, String> {
        Ok(read(params, &CACHE_L2)?.slots())
    }

    /// A reference of a part to a line of its own in the second level (VIC-1); whether it is there.
    pub(crate) fn find_part(&mut self, number: u64) -> bool {
        self.own.l2.find(number)
    }

    /// A line of a part enters the second level. Where this line of memory is there, it gives its place up (VIC-3).
    pub(crate) fn insert_part(&mut self, number: u64, turned: u64) {
        if let Some(gone) = self.own.l2.turn(number, turned) {
            return self.l2_lost(Some(gone));
        }
        let gone = self.own.l2.remove(turned);
        self.l2_lost(gone);
        let victim = self.own.l2.insert(number, false);
        self.l2_lost(victim);
    }

    /// A line of a part leaves the second level.
    pub(crate) fn remove_part(&mut self, number: u64) {
        self.own.l2.remove(number);
    }

    /// A line of a part that the second level evicted, one of those since the last calls; the oldest last.
    pub(crate) fn lost_part(&mut self) -> Option<u64> {
        self.own.l2.lost()
    }

    /// Whether [`Levels::lost_part`] has something to say.
    #[inline]
    pub(crate) fn has_lost_parts(&self) -> bool {
        self.own.l2.has_lost()
    }

    /// Modified lines that went to memory.
    pub fn memory_writes(&self) -> u64 {
        self.memory_writes
    }

    fn slice(&mut self, line: u64) -> Option<&mut Cache> {
        slice_of(&mut self.llc, line)
    }

    /// A reference to the second level, which has the line afterwards.
    #[inline(never)]
    fn beyond(&mut self, line: u64, translate: impl FnOnce(&mut Levels)) -> At {
        if self.own.l2.find(line) {
            return At::L2;
        }
        let at = match self.slice(line).map(|slice| slice.find(line).is_some()) {
            Some(true) => At::Llc,
            Some(false) => {
                translate(self);
                self.bring(line);
                At::Memory
            }
            None => {
                translate(self);
                At::Memory
            }
        };
        self.fill_second(line, false);
        at
    }

    /// From memory into the last level.
    fn bring(&mut self, line: u64) {
        let Levels { llc, llc_keeper, .. } = self;
        let victim = slice_of(llc, line).and_then(|slice| match llc_keeper {
            Some(keeper) => keeper.insert(slice, line, false),
            None => slice.insert(line, Attr(0), false),
        });
        if let Some(victim) = victim {
            self.left_last(victim);
        }
    }

    /// A line that left the last level leaves the others, those of all cores. Returns whether it was modified, and so
    /// goes to memory.
    fn left_last(&mut self, victim: super::Line) -> bool {
        let mut dirty = victim.dirty() | self.own.remove(victim.number());
        for other in &mut self.parked {
            dirty |= other.remove(victim.number());
        }
        self.memory_writes += u64::from(dirty);
        dirty
    }

    fn fill_second(&mut self, line: u64, dirty: bool) {
        let victim = self.own.l2.insert(line, dirty);
        self.l2_lost(victim);
    }

    /// A line left the second level. One that was modified is written to the next.
    #[inline]
    fn l2_lost(&mut self, victim: Option<super::Line>) {
        let Some(victim) = victim.filter(|victim| victim.dirty()) else { return };
        match self.slice(victim.number()) {
            Some(slice) => slice.peek_mut(victim.number()).expect("the last level is inclusive").set_dirty(),
            None => self.memory_writes += 1,
        }
    }

    /// A modified line leaves the first level.
    fn write_second(&mut self, line: u64) {
        match self.own.l2.peek_mut(line) {
            Some(found) => found.set_dirty(),
            None => self.fill_second(line, true),
        }
    }
}

/// The slice of the last level that a line belongs to.
fn slice_of(llc: &mut [Cache], line: u64) -> Option<&mut Cache> {
    let slices = llc.len() as u64;
    // The processors' own hashes are not public; this one spreads evenly (Fibonacci hashing).
    let hash = line.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    llc.get_mut((hash % slices.max(1)) as usize)
}
