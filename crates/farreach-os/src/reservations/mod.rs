//! Reservations of NAV and FBR: aligned blocks of frames, held back for aligned groups of pages of objects, and the
//! lists from which they are broken up when memory runs short. T94 holds single frames back instead
//! ([`ReservedList`](crate::reserved_list::ReservedList)).
//!
//! They know which of their frames are in use. A freed frame returns to its reservation; one that nothing uses any more
//! is free memory again.

mod record;

use crate::object::ObjectId;
use farreach_types::addr::Pfn;
pub use record::Reservation;
use std::collections::{BTreeMap, BTreeSet};

/// What reservations did.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Made, by size.
    pub made: Vec<u64>,
    /// Superpages made, by size.
    pub promoted: Vec<u64>,
    /// Superpages split, by size.
    pub demoted: Vec<u64>,
    /// Groups that were full and mapped, but not alike (FBR-7).
    pub unlike: u64,
    /// Superpages of full reservations that a fault mapped at once (FBR-8).
    pub at_once: u64,
    /// Broken up because memory ran short.
    pub preempted: u64,
    /// Broken up because their object ended.
    pub ended: u64,
    /// Free memory again because nothing used them any more.
    pub freed: u64,
    /// Nodes of the population map that were visited (NAV-11).
    pub nodes: u64,
    /// Broken up because they were not used any more (QKS-2).
    pub inactive: u64,
    /// Pages that nothing asked for, brought in to make a group full (OS-TPS-2, QKS-1).
    pub filled: u64,
}

impl Tally {
    /// What was made, promoted and split of each size but one page, by name.
    pub fn by_size(&self, orders: &[u32]) -> Vec<(String, u64)> {
        let all = [("reservations", &self.made), ("promotions", &self.promoted), ("demotions", &self.demoted)];
        let of = |(name, counts): (&'static str, &Vec<u64>)| {
            let sizes = orders.iter().zip(counts.clone()).skip(1);
            sizes.map(|(order, count)| (format!("{name}_{}", 1u64 << order), count)).collect::<Vec<_>>()
        };
        all.into_iter().flat_map(of).collect()
    }
}

/// How a system keeps reservations.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// log2 of the pages of each size, ascending from 0.
    pub orders: Vec<u32>,
    /// There is a list for each size of the largest unused extent (NAV-5). Otherwise there is one, for requests of a
    /// page: the extents of a reservation of 1 GB are too many to look at whenever a page comes.
    pub by_extent: bool,
    /// The oldest of all lists that serve is broken up, not the one of the first such list (OAMB-1).
    pub oldest: bool,
    /// A reservation moves in its list when a page comes or goes, once in this number of page faults (FBR-5). 0: it
    /// moves whenever a page comes (NAV-5).
    pub tick: u64,
}

impl Rules {
    /// The list for a reservation; `None`: it is full.
    fn list_of(&self, held: &Reservation) -> Option<usize> {
        if self.by_extent { held.largest_unused(&self.orders) } else { (!held.is_full()).then_some(0) }
    }
}

/// All reservations.
#[derive(Debug, Default)]
pub struct Reservations {
    rules: Rules,
    by_frame: BTreeMap<u64, Reservation>,
    by_page: BTreeMap<(ObjectId, u64), u64>,
    /// By size of the largest unused extent (NAV-5), or one: times and first frames.
    lists: Vec<BTreeSet<(u64, u64)>>,
    time: u64,
    now: u64,
    unused: u64,
    /// Milliseconds, for policies that have a clock (OSC-1).
    ms: u64,
    orphans: Vec<u64>,
    /// What they did.
    pub tally: Tally,
}

impl Reservations {
    /// None yet.
    pub fn new(rules: Rules) -> Reservations {
        let sizes = rules.orders.len();
        let tally =
            Tally { made: vec![0; sizes], promoted: vec![0; sizes], demoted: vec![0; sizes], ..Tally::default() };
        Reservations { lists: vec![BTreeSet::new(); sizes.saturating_sub(1)], rules, tally, ..Reservations::default() }
    }

    /// log2 of the pages of each size, ascending from 0. Empty where the policy makes no such reservations.
    pub fn orders(&self) -> &[u32] {
        &self.rules.orders
    }

    /// A superpage is split: log2 of the pages of its parts.
    pub fn split_from(&mut self, order: u32) -> u32 {
        let size = self.rules.orders.partition_point(|&other| other < order);
        if let Some(split) = self.tally.demoted.get_mut(size) {
            *split += 1;
        }
        size.checked_sub(1).map_or(0, |smaller| self.rules.orders[smaller])
    }

    /// Frames that are held back and not in use.
    pub fn unused(&self) -> u64 {
        self.unused
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_frame.is_empty()
    }

    /// All of them, by first frame.
    pub fn iter(&self) -> impl Iterator<Item = &Reservation> {
        self.by_frame.values()
    }

    /// The one a frame lies in.
    pub fn of_frame(&self, pfn: Pfn) -> Option<&Reservation> {
        let (_, last) = self.by_frame.range(..=pfn.0).next_back()?;
        (pfn.0 - last.base.0 < last.pages()).then_some(last)
    }

    /// The one for a page.
    pub fn of_page(&self, object: ObjectId, page: u64) -> Option<&Reservation> {
        let (_, base) = self.by_page.range((object, 0)..=(object, page)).next_back()?;
        let last = &self.by_frame[base];
        (page - last.first < last.pages()).then_some(last)
    }

    /// Whether there is one for some of the pages `first..first + pages`.
    pub fn overlaps(&self, object: ObjectId, first: u64, pages: u64) -> bool {
        let last = self.by_page.range((object, 0)..(object, first + pages)).next_back();
        last.is_some_and(|((_, from), base)| from + self.by_frame[base].pages() > first)
    }

    /// Time goes on.
    pub fn clock(&mut self, faults: u64) {
        self.now = faults.checked_div(self.rules.tick).unwrap_or(0);
    }

    /// A block that was just allocated is held back.
    pub fn add(&mut self, object: ObjectId, first: u64, size: usize, base: Pfn) {
        let new = Reservation::new(Some(object), first, base, size, self.rules.orders[size]);
        self.unused += new.pages();
        self.tally.made[size] += 1;
        self.by_page.insert((object, first), base.0);
        self.by_frame.insert(base.0, new);
    }

    /// Takes the frame of a page out of its reservation (NAV-4). `None`: there is none, or the frame is in use.
    pub fn take(&mut self, object: ObjectId, page: u64) -> Option<Pfn> {
        self.take_for(object, page, true)
    }

    /// As [`Reservations::take`], for a page that nothing asked for: its group becomes a superpage.
    pub fn fill(&mut self, object: ObjectId, page: u64) -> Option<Pfn> {
        let taken = self.take_for(object, page, false);
        self.tally.filled += u64::from(taken.is_some());
        taken
    }

    fn take_for(&mut self, object: ObjectId, page: u64, asked: bool) -> Option<Pfn> {
        let found = self.of_page(object, page)?;
        let (base, at) = (found.base, page - found.first);
        if found.uses(at) {
            return None;
        }
        let ms = self.ms;
        self.change(base.0, true, |found| {
            found.use_one(at, asked);
            found.last = ms;
        });
        self.unused -= 1;
        self.visit(base.0, at);
        Some(Pfn(base.0 + at))
    }

    /// Frames of one reservation become free. Returns the block, if nothing uses it any more.
    fn leave(&mut self, base: u64, first: u64, frames: u64) -> Option<(u64, u64)> {
        for at in first - base..first - base + frames {
            self.visit(base, at);
            self.by_frame.get_mut(&base).expect("it is listed").leave(at);
        }
        self.change(base, false, |_| {});
        self.unused += frames;
        if self.by_frame[&base].count() > 0 {
            return None;
        }
        self.tally.freed += 1;
        let gone = self.remove(base);
        self.unused -= gone.pages();
        Some((base, gone.pages()))
    }

    /// Frames become free. Returns the runs of them that are free memory, and whole blocks that nothing uses any more.
    pub fn give_back(&mut self, first: u64, frames: u64) -> Vec<(u64, u64)> {
        let (mut at, end, mut free) = (first, first + frames, Vec::new());
        while at < end {
            if let Some(found) = self.of_frame(Pfn(at)) {
                let (base, part) = (found.base.0, (found.base.0 + found.pages()).min(end) - at);
                free.extend(self.leave(base, at, part));
                at += part;
            } else {
                let next = self.by_frame.range(at..end).next().map_or(end, |(base, _)| *base);
                free.push((at, next - at));
                at = next;
            }
        }
        free
    }

    /// Frames were stored to.
    pub fn store(&mut self, first: Pfn, frames: u64) {
        let Some(base) = self.of_frame(first).map(|found| found.base.0) else { return };
        let found = self.by_frame.get_mut(&base).expect("just found");
        let at = first.0 - base;
        found.store(at, frames.min(found.pages() - at));
    }

    /// The reservation to break up for an extent of this size (NAV-3).
    pub fn victim(&self, size: usize) -> Option<u64> {
        let mut heads = self.lists.get(size..)?.iter().filter_map(|list| list.first());
        if self.rules.oldest { heads.min() } else { heads.next() }.map(|(_, base)| *base)
    }

    /// Breaks a reservation up into the next smaller size (NAV-6): returns what becomes free memory. Parts in use stay
    /// as they are; those of more than a page are reservations with the old time (OAMB-2).
    pub fn break_up(&mut self, base: u64) -> Vec<(u64, u64)> {
        let whole = self.remove(base);
        let order = self.rules.orders[whole.size - 1];
        self.tally.preempted += 1;
        self.tally.nodes += 1 + (whole.pages() >> order);
        self.unused -= whole.pages() - whole.count();
        if order == 0 {
            return whole.unused();
        }
        let mut free = Vec::new();
        for at in (0..whole.pages()).step_by(1 << order) {
            let mut piece = whole.piece(at, order);
            if piece.count() == 0 {
                free.push((piece.base.0, piece.pages()));
                continue;
            }
            self.unused += piece.pages() - piece.count();
            if let Some(object) = piece.object {
                self.by_page.insert((object, piece.first), piece.base.0);
            }
            piece.list = self.rules.list_of(&piece);
            if let Some(list) = piece.list {
                self.lists[list].insert((piece.time, piece.base.0));
            }
            self.by_frame.insert(piece.base.0, piece);
        }
        free
    }

    /// It is this late. Breaks up those that are not full, and whose last page came `inactive` ms ago (QKS-2).
    /// Returns what becomes free memory.
    pub fn break_inactive(&mut self, ms: u64, inactive: u64) -> Vec<(u64, u64)> {
        self.ms = ms;
        let idle = |held: &&Reservation| !held.is_full() && ms - held.last >= inactive;
        let bases: Vec<u64> = self.iter().filter(idle).map(|held| held.base.0).collect();
        let mut free = Vec::new();
        for base in bases {
            let gone = self.remove(base);
            self.tally.inactive += 1;
            self.unused -= gone.pages() - gone.count();
            free.extend(gone.unused());
        }
        free
    }

    /// The reservations of an object serve it no more. They last as long as a frame of them is in use.
    pub fn detach(&mut self, object: ObjectId) {
        let mut later = self.by_page.split_off(&(object, 0));
        later.retain(|(of, _), base| {
            if *of == object {
                self.by_frame.get_mut(base).expect("it is listed").object = None;
            }
            *of != object
        });
        self.by_page.append(&mut later);
    }

    /// An object ends. Its reservations last until the frames are freed that it used.
    pub fn end_object(&mut self, object: ObjectId) {
        let all = self.by_page.range((object, 0)..=(object, u64::MAX)).map(|(_, base)| *base);
        self.orphans.extend(all);
        self.detach(object);
    }

    /// Breaks up the rests of the reservations of objects that ended. Returns what becomes free memory; the rest is
    /// in use elsewhere, since a fork.
    pub fn break_ended(&mut self) -> Vec<(u64, u64)> {
        let mut free = Vec::new();
        for base in std::mem::take(&mut self.orphans) {
            if self.by_frame.get(&base).is_some_and(|found| found.object.is_none()) {
                let gone = self.remove(base);
                self.tally.ended += 1;
                self.unused -= gone.pages() - gone.count();
                free.extend(gone.unused());
            }
        }
        free
    }

    fn remove(&mut self, base: u64) -> Reservation {
        let gone = self.by_frame.remove(&base).expect("it is listed");
        if let Some(list) = gone.list {
            self.lists[list].remove(&(gone.time, base));
        }
        if let Some(object) = gone.object {
            self.by_page.remove(&(object, gone.first));
        }
        gone
    }

    /// Changes a reservation because a page came or went, and puts it where it belongs now (NAV-5, FBR-5).
    fn change(&mut self, base: u64, came: bool, change: impl FnOnce(&mut Reservation)) {
        let found = self.by_frame.get_mut(&base).expect("it is listed");
        change(found);
        let (was, to) = ((found.list, found.time), self.rules.list_of(found));
        let moves = match self.rules.tick {
            0 => came,
            _ => found.list.is_none() || found.tick < self.now,
        };
        if moves {
            self.time += 1;
            (found.time, found.tick) = (self.time, self.now);
        }
        found.list = to;
        if (to, found.time) != was {
            if let (Some(list), time) = was {
                self.lists[list].remove(&(time, base));
            }
            if let Some(list) = to {
                self.lists[list].insert((found.time, base));
            }
        }
    }

    /// The nodes of the population map on the way up from a page that came or goes (NAV-11): each size tells the next
    /// larger one if a group of it begins or ends to be populated in part or as a whole. To be called while the page is
    /// in use.
    fn visit(&mut self, base: u64, at: u64) {
        let found = &self.by_frame[&base];
        for order in self.rules.orders[1..=found.size].iter().copied() {
            self.tally.nodes += 1;
            let used = found.used_in(at >> order << order, 1 << order);
            if used != 1 && used != 1 << order {
                break;
            }
        }
    }

    /// Panics unless lists and sums are right. For tests and debug builds.
    pub fn check(&self) {
        let unused: u64 = self.iter().map(|found| found.unused().iter().map(|(_, n)| n).sum::<u64>()).sum();
        assert_eq!(unused, self.unused, "unused frames of reservations");
        for (base, found) in &self.by_frame {
            assert_eq!(found.base.0 % found.pages(), 0, "{found:?}");
            assert_eq!(found.list, self.rules.list_of(found), "{found:?}");
            assert!(found.list.is_none_or(|list| self.lists[list].contains(&(found.time, *base))), "{found:?}");
            assert!(found.object.is_none_or(|of| self.by_page.get(&(of, found.first)) == Some(base)), "{found:?}");
        }
        let listed = self.iter().filter(|found| found.list.is_some()).count();
        assert_eq!(self.lists.iter().map(BTreeSet::len).sum::<usize>(), listed);
        assert_eq!(self.by_page.len(), self.iter().filter(|found| found.object.is_some()).count());
        let ends = self.iter().zip(self.iter().skip(1)).all(|(a, b)| a.base.0 + a.pages() <= b.base.0);
        assert!(ends, "two reservations hold the same frames");
    }
}

#[cfg(test)]
mod tests;
