//! How long the regions of the program live, and which of them TLB misses fall into (RMM15-42): the events of the stream alone say it, so
//! one book serves all machines.
//!
//! Memory is bounded by the regions that exist together. A region that is gone is remembered only while it may still turn out to have lived
//! for more than 80 % of the time; all such regions were there together, in the middle of it.

use crate::addr::{Asid, BASE_SHIFT};
use crate::counts::{IdealSegment, LONG_LIVED_PERCENT};
use crate::event::{Backing, Kind, Op, Prot};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::collections::BTreeMap;

/// A point or a length of time, as it passes for a program (AMB-92).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Time {
    /// Instructions.
    pub instructions: u64,
    /// Lookups: what there is to count where a stream has no instructions.
    pub lookups: u64,
}

impl Time {
    fn since(self, then: Time) -> Time {
        Time { instructions: self.instructions - then.instructions, lookups: self.lookups - then.lookups }
    }
}

/// What memory was asked for together; pieces of one request that touch are one region.
type Request = u64;
const HEAP: Request = 0;
const STACK: Request = 1;

/// A region from one change of its extent to the next.
#[derive(Clone)]
struct Life {
    born: Time,
    pages: u64,
    /// It had another extent before.
    resized: bool,
    /// Walks by design: fetches, and loads and stores.
    walks: Box<[[u64; 2]]>,
}

/// Pages of one request, up to `end`, with their region unless nobody may access them.
struct Piece {
    end: u64,
    request: Request,
    life: Option<Life>,
}

struct Space {
    born: Time,
    pieces: BTreeMap<u64, Piece>,
    /// Lives that ended and may yet be long enough, each with its length.
    ended: Vec<(Time, Life)>,
}

/// The book.
pub(super) struct Lives {
    designs: usize,
    spaces: HashMap<Asid, Space, FixedState>,
    next: Request,
    /// Long lives of processes that ended, by design.
    settled: Vec<IdealSegment>,
    /// The trace says what is mapped.
    mapped: bool,
}

/// Whether a life of this length lasted for long enough of the time of its process.
fn long(life: Time, time: Time) -> bool {
    let (life, time) = match time.instructions {
        0 => (life.lookups, time.lookups),
        instructions => (life.instructions, instructions),
    };
    u128::from(life) * 100 > u128::from(time) * u128::from(LONG_LIVED_PERCENT)
}

fn add(to: &mut [IdealSegment], life: &Life) {
    for (sum, &[fetches, data]) in to.iter_mut().zip(&life.walks) {
        sum.regions += 1;
        sum.pages += life.pages;
        sum.walks_inside += fetches + data;
        sum.fetch_walks_inside += fetches;
        if life.resized {
            sum.resized_regions += 1;
            sum.resized_walks_inside += fetches + data;
        }
    }
}

impl Space {
    fn new(born: Time) -> Space {
        Space { born, pieces: BTreeMap::new(), ended: Vec::new() }
    }

    fn end_life(&mut self, life: Option<Life>, now: Time) {
        let Some(life) = life else { return };
        let length = now.since(life.born);
        if !long(length, now.since(self.born)) {
            return;
        }
        self.ended.push((length, life));
        if self.ended.len() > 2 * self.pieces.len() + 64 {
            let time = now.since(self.born);
            self.ended.retain(|&(length, _)| long(length, time));
        }
    }

    /// Takes the pages of a range out and says which there were: first page, one past the last, request, accessible.
    fn take(&mut self, designs: usize, (start, end): (u64, u64), now: Time) -> Vec<(u64, u64, Request, bool)> {
        let first = self.pieces.range(..=start).next_back().map_or(start, |(&s, _)| s);
        let hit: Vec<u64> = self.pieces.range(first..end.max(first)).filter(|(_, p)| p.end > start).map(|(&s, _)| s).collect();
        let mut taken = Vec::new();
        for at in hit {
            let Piece { end: to, request, life } = self.pieces.remove(&at).expect("just listed");
            let open = life.is_some();
            self.end_life(life, now);
            // What is left begins a new life.
            for (from, to) in [(at, start), (end, to)] {
                if from < to {
                    let life = open.then(|| Life { resized: true, ..Life::new(designs, now, to - from) });
                    self.pieces.insert(from, Piece { end: to, request, life });
                }
            }
            taken.push((at.max(start), to.min(end), request, open));
        }
        taken
    }

    /// Puts pages in where none are, as one region with those of the same request on either side.
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
        let joins = |p: &Piece| p.request == request && p.life.is_some() == open;
        let before = self.pieces.range(..start).next_back().filter(|(_, p)| p.end == start && joins(p)).map(|(&s, _)| s);
        let after = self.pieces.get(&end).filter(|p| joins(p)).map(|_| end);
        for at in before.into_iter().chain(after) {
            let piece = self.pieces.remove(&at).expect("just found");
            (start, end, resized) = (start.min(at), end.max(piece.end), true);
            self.end_life(piece.life, now);
        }
        let life = open.then(|| Life { resized, ..Life::new(designs, now, end - start) });
        self.pieces.insert(start, Piece { end, request, life });
    }

    /// Makes pages accessible, or not.
    fn protect(&mut self, designs: usize, range: (u64, u64), open: bool, now: Time) {
        let within = self.pieces.range(..range.1).rev().take_while(|(_, p)| p.end > range.0);
        if within.clone().all(|(_, p)| p.life.is_some() == open) {
            return;
        }
        let others: Vec<(u64, u64)> = within
            .filter(|(_, p)| p.life.is_some() != open)
            .map(|(&start, p)| (start.max(range.0), p.end.min(range.1)))
            .collect();
        for part in others {
            for (from, to, request, _) in self.take(designs, part, now) {
                self.put(designs, (from, to), request, open, false, now);
            }
        }
    }

    /// Moves pages, or makes a region longer or shorter. `fresh`: the request of what is there twice from now on.
    fn remap(&mut self, designs: usize, old: (u64, u64), new: (u64, u64), fresh: Request, now: Time) {
        let source = self.pieces.range(..old.1.max(old.0 + 1)).next_back().filter(|(_, p)| p.end > old.0);
        let Some((request, open)) = source.map(|(_, p)| (p.request, p.life.is_some())) else { return };
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

    /// Adds up what lived long until now.
    fn judge(&self, now: Time, into: &mut [IdealSegment]) {
        let time = now.since(self.born);
        let living = self.pieces.values().filter_map(|p| p.life.as_ref()).map(|life| (now.since(life.born), life));
        for (length, life) in living.chain(self.ended.iter().map(|(length, life)| (*length, life))) {
            if long(length, time) {
                add(into, life);
            }
        }
    }
}

impl Life {
    fn new(designs: usize, born: Time, pages: u64) -> Life {
        Life { born, pages, resized: false, walks: vec![[0; 2]; designs].into() }
    }
}

/// Pages of some bytes: the first, and one past the last.
fn pages(start: u64, len: u64) -> (u64, u64) {
    let end = u128::from(start) + u128::from(len);
    (start >> BASE_SHIFT, end.div_ceil(1 << BASE_SHIFT) as u64)
}

impl Lives {
    /// A book for so many designs.
    pub fn new(designs: usize) -> Lives {
        let settled = vec![IdealSegment::default(); designs];
        Lives { designs, spaces: HashMap::default(), next: STACK + 1, settled, mapped: false }
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
        match op {
            Op::Start { .. } => _ = self.space(asid, now),
            Op::Fork { child } => {
                let copy = |(&start, p): (&u64, &Piece)| {
                    let life = p.life.as_ref().map(|_| Life::new(designs, now, p.end - start));
                    (start, Piece { end: p.end, request: p.request, life })
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
                    space.judge(now, &mut self.settled);
                }
            }
            Op::Define { .. } | Op::Advise { .. } | Op::ThreadStart { .. } | Op::ThreadExit { .. } | Op::Switch { .. } => {}
        }
    }

    /// A walk of a design for a 4 KB page.
    pub fn walk(&mut self, asid: Asid, vpn: u64, kind: Kind, design: usize) {
        let Some(space) = self.spaces.get_mut(&asid) else { return };
        let piece = space.pieces.range_mut(..=vpn).next_back().filter(|(_, p)| vpn < p.end);
        if let Some(life) = piece.and_then(|(_, p)| p.life.as_mut()) {
            life.walks[design][usize::from(kind != Kind::Fetch)] += 1;
        }
    }

    /// The ideal segment of a design, if the run ended now; walks outside are left to those who know all walks. `None` if
    /// the trace does not say what is mapped.
    pub fn ideal(&self, design: usize, now: Time) -> Option<IdealSegment> {
        let mut all = self.settled.clone();
        self.spaces.values().for_each(|space| space.judge(now, &mut all));
        self.mapped.then(|| all.swap_remove(design))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{End, Mapping};

    const A: Asid = Asid(0);

    /// Three lookups to an instruction.
    fn at(instructions: u64) -> Time {
        Time { instructions, lookups: 3 * instructions }
    }

    fn map(start: u64, pages: u64, backing: Backing) -> Op {
        Op::Map(Mapping { start: start << 12, len: pages << 12, prot: Prot::RW, shared: false, backing })
    }

    /// Regions, pages, walks inside, and of those resized: regions and walks.
    fn numbers(lives: &Lives, now: u64) -> [u64; 5] {
        let i = lives.ideal(0, at(now)).unwrap();
        [i.regions, i.pages, i.walks_inside, i.resized_regions, i.resized_walks_inside]
    }

    fn walks(lives: &mut Lives, page: u64, n: u64) {
        (0..n).for_each(|_| lives.walk(A, page, Kind::Load, 0));
    }

    #[test]
    fn rmm15_42_more_than_eighty_percent_with_one_size() {
        let mut lives = Lives::new(1);
        lives.op(A, &map(0x10, 4, Backing::Anonymous), at(0));
        assert_eq!(lives.ideal(0, at(0)), Some(IdealSegment::default()), "nothing has happened");
        lives.op(A, &map(0x20, 8, Backing::Anonymous), at(19));
        lives.op(A, &map(0x30, 16, Backing::Anonymous), at(20));
        for (page, n) in [(0x13, 1), (0x14, 10), (0x27, 100), (0x30, 1000), (0x3f, 10000)] {
            walks(&mut lives, page, n);
        }
        lives.walk(A, 0x20, Kind::Fetch, 0);
        // 81 of 100 is more than 80 %, 80 is not; page 0x14 is in no region.
        assert_eq!(numbers(&lives, 100), [2, 12, 102, 0, 0]);
        assert_eq!(lives.ideal(0, at(100)).unwrap().fetch_walks_inside, 1);
        assert_eq!(numbers(&lives, 101), [3, 28, 11102, 0, 0]);
        // A region that ends early enough is out, later it is in.
        lives.op(A, &Op::Unmap { start: 0x10 << 12, len: 4 << 12 }, at(120));
        assert_eq!(numbers(&lives, 140), [3, 28, 11102, 0, 0]);
        assert_eq!(numbers(&lives, 150), [2, 24, 11101, 0, 0], "120 of 150 is not more than 80 %");
    }

    #[test]
    fn rmm15_42_whoever_changes_size_begins_anew() {
        let mut lives = Lives::new(1);
        lives.op(A, &map(0x10, 4, Backing::Heap), at(0));
        lives.op(A, &map(0x50, 8, Backing::Anonymous), at(0));
        lives.op(A, &map(0x80, 4, Backing::Stack), at(0));
        walks(&mut lives, 0x11, 7);
        lives.op(A, &map(0x14, 4, Backing::Heap), at(10));
        walks(&mut lives, 0x11, 1);
        walks(&mut lives, 0x17, 2);
        // The hole in the middle leaves two regions, and what is mapped there is a third.
        lives.op(A, &map(0x52, 2, Backing::Anonymous), at(15));
        walks(&mut lives, 0x57, 30);
        assert_eq!(numbers(&lives, 100), [5, 20, 33, 3, 33]);
        // A stack that grows late.
        lives.op(A, &map(0x7e, 2, Backing::Stack), at(60));
        assert_eq!(numbers(&lives, 100), [4, 16, 33, 3, 33]);
        // mremap: in place, then elsewhere.
        let bytes = |page: u64| page << 12;
        lives.op(
            A,
            &Op::Remap { old_start: bytes(0x54), old_len: bytes(4), new_start: bytes(0x54), new_len: bytes(6) },
            at(100),
        );
        assert_eq!(numbers(&lives, 101), [4, 16, 33, 3, 33], "what it was lived for 85 of 101");
        assert_eq!(numbers(&lives, 120), [3, 12, 3, 2, 3]);
        lives.op(
            A,
            &Op::Remap { old_start: bytes(0x54), old_len: bytes(6), new_start: bytes(0x90), new_len: bytes(5) },
            at(102),
        );
        walks(&mut lives, 0x54, 1000);
        walks(&mut lives, 0x94, 5);
        // Heap of 8, 0x50 of 2, 0x52 of 2, the stack of 6, 0x90 of 5: only 0x52 has always been as it is.
        assert_eq!(numbers(&lives, 10_000), [5, 23, 8, 4, 8]);
    }

    #[test]
    fn rmm15_42_what_nobody_may_access_is_no_memory() {
        let mut lives = Lives::new(1);
        let guard = Mapping { start: 0x10 << 12, len: 64 << 12, prot: Prot::NONE, shared: false, backing: Backing::Anonymous };
        lives.op(A, &Op::Map(guard), at(0));
        assert_eq!(numbers(&lives, 100), [0; 5]);
        let open = |start: u64, pages: u64, prot| Op::Protect { start: start << 12, len: pages << 12, prot };
        lives.op(A, &open(0x10, 4, Prot::RW), at(1));
        walks(&mut lives, 0x10, 3);
        walks(&mut lives, 0x14, 3);
        assert_eq!(numbers(&lives, 100), [1, 4, 3, 0, 0]);
        lives.op(A, &open(0x14, 4, Prot::RW), at(2));
        assert_eq!(numbers(&lives, 100), [1, 8, 0, 1, 0], "grown");
        lives.op(A, &open(0x10, 8, Prot::RWX), at(50));
        assert_eq!(numbers(&lives, 100), [1, 8, 0, 1, 0], "only that it may be accessed counts");
        lives.op(A, &open(0x16, 8, Prot::NONE), at(50));
        assert_eq!(numbers(&lives, 300), [1, 6, 0, 1, 0]);
    }

    #[test]
    fn a_process_has_a_time_of_its_own() {
        let mut lives = Lives::new(1);
        lives.op(A, &map(0x10, 4, Backing::Anonymous), at(0));
        lives.op(A, &Op::Fork { child: Asid(1) }, at(1000));
        lives.walk(Asid(1), 0x12, Kind::Store, 0);
        lives.op(Asid(1), &map(0x20, 1, Backing::Anonymous), at(1050));
        lives.op(Asid(1), &Op::End(End::Exit(0)), at(1100));
        assert_eq!(numbers(&lives, 2000), [2, 8, 1, 0, 0]);
    }

    /// Lookups come unevenly, instructions do not. Only a stream without any is measured by its lookups.
    #[test]
    fn amb_92_lives_are_measured_in_instructions() {
        let regions = |late: Time, end: Time| {
            let mut lives = Lives::new(1);
            lives.op(A, &map(0x10, 4, Backing::Anonymous), Time::default());
            lives.op(A, &map(0x20, 8, Backing::Anonymous), late);
            lives.ideal(0, end).unwrap().regions
        };
        let time = |instructions, lookups| Time { instructions, lookups };
        assert_eq!(regions(time(10, 900), time(100, 1000)), 2, "there for 90 of 100 instructions, 100 of 1000 lookups");
        assert_eq!(regions(time(90, 100), time(100, 1000)), 1);
        assert_eq!([regions(time(0, 100), time(0, 1000)), regions(time(0, 900), time(0, 1000))], [2, 1]);
    }

    /// A plain model: every page with its region, every region that ever was.
    #[test]
    fn the_book_forgets_nothing_that_counts_and_stays_small() {
        let mut lives = Lives::new(1);
        let mut all: Vec<(u64, u64, u64, u64)> = Vec::new(); // born, died, pages, walks
        let mut live: Vec<(usize, u64)> = Vec::new(); // index, slot of 16 pages
        let mut state = 5u64;
        let mut random = move |n: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % n
        };
        for now in 0..20_000u64 {
            let slot = random(40);
            // Few slots live long.
            if random(if slot < 8 { 4000 } else { 3 }) == 0 || !live.iter().any(|l| l.1 == slot) {
                if let Some(at) = live.iter().position(|l| l.1 == slot) {
                    all[live.swap_remove(at).0].1 = now;
                }
                let len = 1 + random(15);
                lives.op(A, &Op::Unmap { start: slot << 16, len: 16 << 12 }, at(now));
                lives.op(A, &map(slot << 4, len, Backing::Anonymous), at(now));
                all.push((now, u64::MAX, len, 0));
                live.push((all.len() - 1, slot));
            }
            let (slot, page) = (random(40), random(16));
            lives.walk(A, slot * 16 + page, Kind::Load, 0);
            if let Some(l) = live.iter().find(|l| l.1 == slot).filter(|l| page < all[l.0].2) {
                all[l.0].3 += 1;
            }
            if now % 500 == 499 {
                let inside = all.iter().filter(|r| 100 * (r.1.min(now) - r.0) > 80 * now);
                let sums = inside.fold([0; 3], |s, r| [s[0] + 1, s[1] + r.2, s[2] + r.3]);
                assert_eq!(numbers(&lives, now)[..3], sums, "at {now}");
                assert!(lives.spaces[&A].ended.len() <= 2 * 40 + 65, "at {now}");
            }
        }
        assert!(numbers(&lives, 20_000)[0] > 0, "some lived long");
    }
}
