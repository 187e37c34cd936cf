//! Lifetimes of the program's regions, and the regions into which TLB misses fall (RMM15-42). They follow from the
//! events of the stream alone, so one record serves all machines.
//!
//! Memory is bounded by the regions that exist together. An ended lifetime is remembered only while it may still turn
//! out to be more than 80 % of the time of its process; all such regions existed together, in the middle of that time.

use farreach_types::addr::{Asid, BASE_SHIFT};
use farreach_types::counts::{IdealSegment, LONG_LIVED_PERCENT};
use farreach_types::event::{Backing, Kind, Op, Prot};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::collections::BTreeMap;
use std::ops::Range;

/// A point or a length of time, measured in the program's progress (AMB-92).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Time {
    /// Instructions.
    pub instructions: u64,
    /// Lookups, for streams without instructions.
    pub lookups: u64,
}

impl Time {
    fn since(self, then: Time) -> Time {
        Time { instructions: self.instructions - then.instructions, lookups: self.lookups - then.lookups }
    }
}

/// Identifies a request for memory. Adjacent pieces of one request are one region.
type Request = u64;
const HEAP: Request = 0;
const STACK: Request = 1;

/// A region from one change of its extent to the next.
#[derive(Clone)]
struct Lifetime {
    born: Time,
    pages: u64,
    /// Whether it had another extent before.
    resized: bool,
    /// Walks by design: fetches, and loads and stores.
    walks: Box<[[u64; 2]]>,
}

/// Pages of one request, up to `end`, with their region unless they are inaccessible.
struct Piece {
    end: u64,
    request: Request,
    lifetime: Option<Lifetime>,
}

struct Space {
    born: Time,
    pieces: BTreeMap<u64, Piece>,
    /// Lifetimes that ended and may yet prove long enough, each with its length.
    ended: Vec<(Time, Lifetime)>,
}

/// The region that the latest walk fell into, and walks that are not added to it yet. Most walks fall into the same
/// region as the one before.
struct Latest {
    asid: Asid,
    pages: Range<u64>,
    /// As in [`Lifetime`].
    walks: Box<[[u64; 2]]>,
}

/// Lifetimes of all regions, by address space.
pub(super) struct RegionLifetimes {
    designs: usize,
    latest: Latest,
    spaces: HashMap<Asid, Space, FixedState>,
    next: Request,
    /// Long lifetimes of processes that ended, by design.
    of_ended: Vec<IdealSegment>,
    /// Whether the trace says what is mapped.
    mapped: bool,
}

/// Whether this lifetime is long enough, as a share of the time of its process.
fn long(lifetime: Time, time: Time) -> bool {
    let (lifetime, time) = match time.instructions {
        0 => (lifetime.lookups, time.lookups),
        instructions => (lifetime.instructions, instructions),
    };
    u128::from(lifetime) * 100 > u128::from(time) * u128::from(LONG_LIVED_PERCENT)
}

fn add(to: &mut [IdealSegment], lifetime: &Lifetime) {
    for (sum, &[fetches, data]) in to.iter_mut().zip(&lifetime.walks) {
        sum.regions += 1;
        sum.pages += lifetime.pages;
        sum.walks_inside += fetches + data;
        sum.fetch_walks_inside += fetches;
        if lifetime.resized {
            sum.resized_regions += 1;
            sum.resized_walks_inside += fetches + data;
        }
    }
}

impl Space {
    fn new(born: Time) -> Space {
        Space { born, pieces: BTreeMap::new(), ended: Vec::new() }
    }

    fn end_lifetime(&mut self, lifetime: Option<Lifetime>, now: Time) {
        let Some(lifetime) = lifetime else { return };
        let length = now.since(lifetime.born);
        if !long(length, now.since(self.born)) {
            return;
        }
        self.ended.push((length, lifetime));
        if self.ended.len() > 2 * self.pieces.len() + 64 {
            let time = now.since(self.born);
            self.ended.retain(|&(length, _)| long(length, time));
        }
    }

    /// Removes the pages of a range. Returns the removed pieces: first page, one past the last, request, whether
    /// accessible.
    fn take(&mut self, designs: usize, (start, end): (u64, u64), now: Time) -> Vec<(u64, u64, Request, bool)> {
        let first = self.pieces.range(..=start).next_back().map_or(start, |(&s, _)| s);
        let hit: Vec<u64> =
            self.pieces.range(first..end.max(first)).filter(|(_, p)| p.end > start).map(|(&s, _)| s).collect();
        let mut taken = Vec::new();
        for at in hit {
            let Piece { end: to, request, lifetime } = self.pieces.remove(&at).expect("just listed");
            let open = lifetime.is_some();
            self.end_lifetime(lifetime, now);
            // The remainder begins a new lifetime.
            for (from, to) in [(at, start), (end, to)] {
                if from < to {
                    let lifetime = open.then(|| Lifetime { resized: true, ..Lifetime::new(designs, now, to - from) });
                    self.pieces.insert(from, Piece { end: to, request, lifetime });
                }
            }
            taken.push((at.max(start), to.min(end), request, open));
        }
        taken
    }

    /// Inserts pages into a free range, as one region with adjacent pages of the same request.
    fn put(
        &mut self,
        designs: usize,
        (mut start, mut end): (u64, u64),
        request: Request,
        open: bool,
        resized: bool,
        now: Time,
    ) {
        if start >= end {
            return;
        }
        let mut resized = resized;
        let joins = |p: &Piece| p.request == request && p.lifetime.is_some() == open;
        let before =
            self.pieces.range(..start).next_back().filter(|(_, p)| p.end == start && joins(p)).map(|(&s, _)| s);
        let after = self.pieces.get(&end).filter(|p| joins(p)).map(|_| end);
        for at in before.into_iter().chain(after) {
            let piece = self.pieces.remove(&at).expect("just found");
            (start, end, resized) = (start.min(at), end.max(piece.end), true);
            self.end_lifetime(piece.lifetime, now);
        }
        let lifetime = open.then(|| Lifetime { resized, ..Lifetime::new(designs, now, end - start) });
        self.pieces.insert(start, Piece { end, request, lifetime });
    }

    /// Makes pages accessible, or not.
    fn protect(&mut self, designs: usize, range: (u64, u64), open: bool, now: Time) {
        let within = self.pieces.range(..range.1).rev().take_while(|(_, p)| p.end > range.0);
        if within.clone().all(|(_, p)| p.lifetime.is_some() == open) {
            return;
        }
        let others: Vec<(u64, u64)> = within
            .filter(|(_, p)| p.lifetime.is_some() != open)
            .map(|(&start, p)| (start.max(range.0), p.end.min(range.1)))
            .collect();
        for part in others {
            for (from, to, request, _) in self.take(designs, part, now) {
                self.put(designs, (from, to), request, open, false, now);
            }
        }
    }

    /// Moves pages, or makes a region longer or shorter. `fresh`: the request of pages that are mapped twice from now
    /// on.
    fn remap(&mut self, designs: usize, old: (u64, u64), new: (u64, u64), fresh: Request, now: Time) {
        let source = self.pieces.range(..old.1.max(old.0 + 1)).next_back().filter(|(_, p)| p.end > old.0);
        let Some((request, open)) = source.map(|(_, p)| (p.request, p.lifetime.is_some())) else { return };
        let keep = (old.1 - old.0).min(new.1 - new.0);
        let tail = (new.0 + keep, new.1);
        if old.0 == new.0 {
            self.take(designs, (old.0 + keep, old.1), now);
            self.take(designs, tail, now);
        } else {
            let moved = self.take(designs, old, now);
            self.take(designs, new, now);
            for (from, to, request, open) in moved {
                let place = |page: u64| page - old.0 + new.0;
                self.put(designs, (place(from), place(to.min(old.0 + keep))), request, open, true, now);
            }
        }
        let request = if keep == 0 { fresh } else { request };
        self.put(designs, tail, request, open, false, now);
    }

    /// Adds up the regions with long lifetimes, as of now.
    fn judge(&self, now: Time, into: &mut [IdealSegment]) {
        let time = now.since(self.born);
        let current = self
            .pieces
            .values()
            .filter_map(|p| p.lifetime.as_ref())
            .map(|lifetime| (now.since(lifetime.born), lifetime));
        for (length, lifetime) in current.chain(self.ended.iter().map(|(length, lifetime)| (*length, lifetime))) {
            if long(length, time) {
                add(into, lifetime);
            }
        }
    }
}

impl Lifetime {
    fn new(designs: usize, born: Time, pages: u64) -> Lifetime {
        Lifetime { born, pages, resized: false, walks: vec![[0; 2]; designs].into() }
    }
}

/// Pages of some bytes: the first, and one past the last.
fn pages(start: u64, len: u64) -> (u64, u64) {
    let end = u128::from(start) + u128::from(len);
    (start >> BASE_SHIFT, end.div_ceil(1 << BASE_SHIFT) as u64)
}

impl RegionLifetimes {
    /// An empty record for `designs` designs.
    pub fn new(designs: usize) -> RegionLifetimes {
        let of_ended = vec![IdealSegment::default(); designs];
        let latest = Latest { asid: Asid(0), pages: 0..0, walks: vec![[0; 2]; designs].into() };
        RegionLifetimes { designs, latest, spaces: HashMap::default(), next: STACK + 1, of_ended, mapped: false }
    }

    fn fresh(&mut self) -> Request {
        self.next += 1;
        self.next - 1
    }

    fn space(&mut self, asid: Asid, now: Time) -> &mut Space {
        self.spaces.entry(asid).or_insert_with(|| Space::new(now))
    }

    /// An event.
    pub fn op(&mut self, asid: Asid, op: &Op, now: Time) {
        let designs = self.designs;
        self.settle();
        match op {
            Op::Start { .. } => _ = self.space(asid, now),
            Op::Fork { child } => {
                let copy = |(&start, p): (&u64, &Piece)| {
                    let lifetime = p.lifetime.as_ref().map(|_| Lifetime::new(designs, now, p.end - start));
                    (start, Piece { end: p.end, request: p.request, lifetime })
                };
                let pieces = self.space(asid, now).pieces.iter().map(copy).collect();
                self.spaces.insert(*child, Space { pieces, ..Space::new(now) });
            }
            Op::Map(m) => {
                self.mapped = true;
                let request = match m.backing {
                    Backing::Heap => HEAP,
                    Backing::Stack => STACK,
                    _ => self.fresh(),
                };
                let range = pages(m.start, m.len);
                let space = self.space(asid, now);
                space.take(designs, range, now);
                space.put(designs, range, request, m.prot != Prot::NONE, false, now);
            }
            Op::Unmap { start, len } => _ = self.space(asid, now).take(designs, pages(*start, *len), now),
            Op::Protect { start, len, prot } => {
                self.space(asid, now).protect(designs, pages(*start, *len), *prot != Prot::NONE, now);
            }
            Op::Remap { old_start, old_len, new_start, new_len } => {
                let (old, new) = (pages(*old_start, *old_len), pages(*new_start, *new_len));
                let fresh = self.fresh();
                self.space(asid, now).remap(designs, old, new, fresh, now);
            }
            Op::End(_) => {
                if let Some(space) = self.spaces.remove(&asid) {
                    space.judge(now, &mut self.of_ended);
                }
            }
            Op::Define { .. }
            | Op::Code { .. }
            | Op::Pages
            | Op::Samples
            | Op::Boundary(_)
            | Op::Advise { .. }
            | Op::KernelStore { .. }
            | Op::Thp(_)
            | Op::Guest(_)
            | Op::ThreadStart { .. }
            | Op::ThreadExit { .. }
            | Op::Switch { .. } => {}
        }
    }

    /// A walk of a design for a 4 KB page.
    #[inline]
    pub fn walk(&mut self, asid: Asid, vpn: u64, kind: Kind, design: usize) {
        if (self.latest.asid != asid || !self.latest.pages.contains(&vpn)) && !self.turn_to(asid, vpn) {
            return;
        }
        self.latest.walks[design][usize::from(kind != Kind::Fetch)] += 1;
    }

    /// Makes the region of this page the latest; false if there is none.
    fn turn_to(&mut self, asid: Asid, vpn: u64) -> bool {
        self.settle();
        let Some(space) = self.spaces.get(&asid) else { return false };
        let piece = space.pieces.range(..=vpn).next_back().filter(|(_, p)| vpn < p.end && p.lifetime.is_some());
        let Some((&start, piece)) = piece else { return false };
        (self.latest.asid, self.latest.pages) = (asid, start..piece.end);
        true
    }

    /// Adds the walks of the latest region to it. Then there is none.
    fn settle(&mut self) {
        let Latest { asid, pages, walks } = &mut self.latest;
        let pages = std::mem::take(pages);
        let piece = self.spaces.get_mut(asid).and_then(|space| space.pieces.get_mut(&pages.start));
        let Some(lifetime) = piece.and_then(|piece| piece.lifetime.as_mut()).filter(|_| !pages.is_empty()) else {
            return;
        };
        for (sum, walks) in lifetime.walks.iter_mut().zip(walks) {
            for (sum, walks) in sum.iter_mut().zip(walks) {
                *sum += std::mem::take(walks);
            }
        }
    }

    /// The ideal segment of a design, if the run ended now, without the walks outside, which the caller computes from
    /// all walks. `None` if the trace does not say what is mapped.
    pub fn ideal(&mut self, design: usize, now: Time) -> Option<IdealSegment> {
        self.settle();
        let mut all = self.of_ended.clone();
        self.spaces.values().for_each(|space| space.judge(now, &mut all));
        self.mapped.then(|| all.swap_remove(design))
    }
}

#[cfg(test)]
mod tests;
