//! FreeBSD (FBR-1 to FBR-10), with one level of reservations.
//!
//! * OJ-20 The colour is that of the first mapping. "Page 0" of an object is its first page. An object that copies has
//!   the numbers and the colour of what it copies.
//! * OJ-21 Shared memory without a file is anonymous in FBR-4. No page is renamed here, so no slot of FBR-3 is in use.
//! * OJ-22 A new reservation, and a full one that loses a page, enter the queue at its tail at any time, and that is
//!   their last move. Time passes by [`FreeBsd::tick`] alone.
//! * OJ-23 Reservations are broken by shortage only, so `broken` and `reclaimed` are the same. `freed` are those that
//!   became empty. `partpop` and `fullpop` are of now.
//! * OJ-24 FBR-7: an attempt needs a leaf of one page for each page around, and a full reservation around the frame of
//!   the page that was entered; a failure is what does not succeed then. Attributes are rights, write right and D.
//!   Every entry loses its write right before anything is compared ([`Checks::Every`]), or entries are looked at in the
//!   order first, last, …, second until one fails ([`Checks::UntilFailure`]).
//! * OJ-25 FBR-8: the page was in the mapping's own object, and its reservation full, before the fault. A store needs
//!   D of all pages, its own too. The superpage is writable if the mapping is, need not copy, and all pages are dirty;
//!   then it is dirty. Otherwise it is read-only and clean. D of a page is that of any store to it.
//! * OJ-26 An entry that loses its write right loses D (the page keeps it). One whose mapping may be written again
//!   becomes writable by the next store, as a read-only clean one. A store to an entry writable already only sets D.
//! * OJ-27 fork: the child has the parent's entries, base pages without D. Shared mappings stay as they are, private
//!   ones lose the write right in both.
//! * OJ-28 A store to a private mapping that must copy gets an object of its own first, unless what it maps is
//!   anonymous and no other process sees it: then it need not copy any more. A page that is there is copied; one of a
//!   private file mapping is first read into the file. If there is none, the new object has one of its own.
//! * OJ-29 A load of a page that is nowhere takes a frame for the file, if there is one, or else for the first object.
//! * OJ-30 Objects are never collapsed: a page behind a copy keeps its frame while a mapping reaches its object there.
//! * OJ-31 A growing object that another process sees, or that copies, does not grow: a mapping of a new one follows.
//! * OJ-32 Not modelled: smaller groups of arm64 (FBR-1), wiring, advice (FBR-9).

mod frames;
pub mod quicksilver;

use super::*;
use std::collections::VecDeque;

/// How a promotion looks at entries (OJ-24).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Checks {
    /// All, also after one that fails.
    Every,
    /// Until one fails.
    UntilFailure,
}

/// The model.
#[derive(Clone, Debug)]
pub struct FreeBsd {
    n: u64,
    checks: Checks,
    /// Objects, mappings, page tables, frames.
    pub world: World,
    /// FBR-5: objects and first pages of reservations, oldest first.
    queue: VecDeque<(usize, u64)>,
    /// Ticks of 1 ms.
    now: u64,
    /// By name: see [`FreeBsd::count`].
    pub counts: BTreeMap<&'static str, u64>,
}

impl FreeBsd {
    /// With all memory free; reservations of `n` pages, a power of two.
    pub fn new(n: u64, frames: u64) -> FreeBsd {
        assert!(n.is_power_of_two());
        let (world, queue, counts) = (World::new(frames), VecDeque::new(), BTreeMap::new());
        FreeBsd { n, checks: Checks::Every, world, queue, now: 0, counts }
    }

    /// With another reading of FBR-7.
    pub fn checking(self, checks: Checks) -> FreeBsd {
        FreeBsd { checks, ..self }
    }

    /// A counter: `faults`, `write_faults`, `reservations`, `honoured` (frames by FBR-3), `ordinary` (frames without a
    /// reservation), `copied`, `broken`, `reclaimed`, `freed`, `promotions`, `failures`, `demotions`,
    /// `mapped_at_once`.
    pub fn count(&self, name: &'static str) -> u64 {
        self.counts.get(name).copied().unwrap_or(0)
    }

    /// Unused pages of reservations that are partly populated.
    pub fn partpop(&self) -> u64 {
        self.world.shares()[2]
    }

    /// Full reservations.
    pub fn fullpop(&self) -> u64 {
        self.world.reservations.values().filter(|r| r.full()).count() as u64
    }

    /// FBR-5: objects and first pages of partly populated reservations, the next to be broken first.
    pub fn queue(&self) -> Vec<(usize, u64)> {
        self.queue.iter().copied().collect()
    }

    fn add(&mut self, name: &'static str) {
        *self.counts.entry(name).or_default() += 1;
    }

    /// Time passes.
    pub fn tick(&mut self, ms: u64) {
        self.now += ms;
    }

    /// Maps pages of a file, or of shared memory, such that stores copy (FBR-10).
    pub fn map_private(&mut self, process: u32, vpn: u64, object: usize, pages: Range<u64>, rights: u8) {
        self.enter_map(Mapping { process, vpn, object, pages, rights, private: true, copies: true });
    }

    fn enter_map(&mut self, mapping: Mapping) {
        let colour = (mapping.vpn % self.n + self.n - mapping.pages.start % self.n) % self.n;
        self.world.objects[mapping.object].colour.get_or_insert(colour);
        self.world.map(mapping);
        self.verify();
    }

    /// The mapping around a page grows, with its growing object or a new one (OJ-31).
    pub fn grow(&mut self, process: u32, vpn: u64, pages: u64) {
        let mapping = self.world.mapping(process, vpn).expect("a mapping").clone();
        let object = &self.world.objects[mapping.object];
        if object.backing.is_none() && !self.others_see(process, mapping.object) {
            self.world.grow(process, vpn, pages);
            self.verify();
            return;
        }
        let (kind, grows) = (object.kind, object.grows);
        let (vpn, pages) = match grows {
            Grows::No => panic!("object {} has a fixed size", mapping.object),
            Grows::Up => (mapping.vpns().end, mapping.pages.end..mapping.pages.end + pages),
            Grows::Down => (mapping.vpn - pages, mapping.pages.start - pages..mapping.pages.start),
        };
        let object = self.world.object(kind, grows, pages.clone());
        self.enter_map(Mapping { vpn, object, pages, copies: false, ..mapping });
    }

    /// FBR-10: a new process with what the parent has (OJ-27).
    pub fn fork(&mut self, parent: u32, child: u32) {
        let mappings = self.world.mappings.clone();
        assert!(mappings.iter().all(|mapping| mapping.process != child), "{child} is there already");
        for (at, mapping) in mappings.iter().enumerate().filter(|(_, mapping)| mapping.process == parent) {
            self.world.mappings[at].copies |= mapping.private;
            let copies = self.world.mappings[at].copies;
            self.world.mappings.push(Mapping { process: child, copies, ..mapping.clone() });
        }
        self.world.merge();
        for first in self.world.leaves_in(parent, &(0..u64::MAX)) {
            let private = self.world.mapping(parent, first).expect("a leaf has one").private;
            let leaf = self.world.leaves.get_mut(&(parent, first)).expect("a leaf");
            leaf.writable &= !private;
            leaf.dirty &= leaf.writable;
            let copy = Leaf { dirty: leaf.dirty && leaf.order > 0, ..*leaf };
            self.world.leaves.insert((child, first), copy);
        }
        self.verify();
    }

    /// What every event looks at.
    ///
    /// # Errors
    ///
    /// What is broken.
    pub fn check(&self) -> Result<(), String> {
        let partly = self.world.reservations.iter().filter(|(_, r)| !r.full()).map(|(&key, _)| key);
        let mut queue = self.queue();
        queue.sort_unstable();
        if queue != partly.collect::<Vec<_>>() {
            return Err(format!("FBR-5: the queue is {:?}", self.queue));
        }
        self.world.check()
    }

    /// Some mapping of another process reaches an object.
    fn others_see(&self, process: u32, object: usize) -> bool {
        let mut others = self.world.mappings.iter().filter(|mapping| mapping.process != process);
        others.any(|mapping| self.world.chain(mapping.object).contains(&object))
    }

    fn mapping(&self, process: u32, vpn: u64) -> Mapping {
        self.world.mapping(process, vpn).expect("a mapping").clone()
    }

    fn set_dirty(&mut self, process: u32, vpn: u64) {
        let (first, leaf) = self.world.leaf(process, vpn).expect("a leaf");
        self.world.leaves.insert((process, first), Leaf { dirty: true, ..leaf });
        let mapping = self.mapping(process, vpn);
        let (holder, _) = self.world.holder(mapping.object, mapping.page(vpn)).expect("a frame");
        self.world.objects[holder].resident.get_mut(&mapping.page(vpn)).expect("a frame").dirty = true;
    }

    /// A fault, of a missing leaf or of one that is not writable.
    fn fault(&mut self, process: u32, vpn: u64, store: bool) -> Result<(), Failed> {
        if store {
            self.own_object(process, vpn);
        }
        let mapping = self.mapping(process, vpn);
        let (top, page) = (mapping.object, mapping.page(vpn));
        if self.map_at_once(&mapping, vpn, store) {
            return Ok(());
        }
        let last = *self.world.chain(top).last().expect("the first at least");
        let (holder, frame) = match self.world.holder(top, page) {
            Some((holder, resident)) => (holder, resident.frame),
            // OJ-29.
            None if self.world.objects[last].kind == Kind::File => (last, self.allocate(last, page)?),
            None => (top, self.allocate(top, page)?),
        };
        let copied = store && holder != top;
        let frame = if copied { self.allocate(top, page)? } else { frame };
        if copied {
            self.add("copied");
        }
        self.enter(&mapping, vpn, frame, store, copied || holder == top);
        Ok(())
    }

    /// OJ-28, before a store.
    fn own_object(&mut self, process: u32, vpn: u64) {
        let at = self.world.mapping_at(process, vpn).expect("a mapping");
        let mapping = self.world.mappings[at].clone();
        if !mapping.copies {
            return;
        }
        let source = self.world.objects[mapping.object].clone();
        if source.kind != Kind::Anonymous || self.others_see(process, mapping.object) {
            let (backing, resident) = (Some(mapping.object), BTreeMap::new());
            self.world.objects.push(Object { kind: Kind::Anonymous, backing, resident, ..source });
            self.world.mappings[at].object = self.world.objects.len() - 1;
        }
        self.world.mappings[at].copies = false;
    }

    /// FBR-8.
    fn map_at_once(&mut self, mapping: &Mapping, vpn: u64, store: bool) -> bool {
        let Some(resident) = self.world.objects[mapping.object].resident.get(&mapping.page(vpn)) else { return false };
        let (vpns, frames) = (group(vpn, self.n), group(resident.frame, self.n));
        let reserved = self.world.reservation_of(&frames);
        let full = reserved.is_some_and(|r| r.full() && r.object == mapping.object);
        let congruent = vpn % self.n == resident.frame % self.n;
        let covers = inside(&vpns, &mapping.vpns());
        if self.n == 1 || !full || !congruent || !covers || !self.world.leaves_in(mapping.process, &vpns).is_empty() {
            return false;
        }
        let pages = mapping.page(vpns.start)..mapping.page(vpns.start) + self.n;
        let all_dirty = self.world.objects[mapping.object].resident.range(pages).all(|(_, resident)| resident.dirty);
        if store && !all_dirty {
            return false;
        }
        let writable = all_dirty && !mapping.copies && mapping.rights & WRITE != 0;
        let (order, rights) = (self.n.ilog2(), mapping.rights);
        let leaf = Leaf { frame: frames.start, order, rights, writable, dirty: writable };
        self.world.leaves.insert((mapping.process, vpns.start), leaf);
        self.add("mapped_at_once");
        true
    }

    /// A leaf of one page, in a superpage's place, too (FBR-9); then FBR-7.
    fn enter(&mut self, mapping: &Mapping, vpn: u64, frame: u64, store: bool, own: bool) {
        if let Some((first, Leaf { order: 1.., .. })) = self.world.leaf(mapping.process, vpn) {
            self.demote(mapping.process, first);
        }
        let writable = own && !mapping.copies && mapping.rights & WRITE != 0;
        let leaf = Leaf { frame, order: 0, rights: mapping.rights, writable, dirty: false };
        self.world.leaves.insert((mapping.process, vpn), leaf);
        if store {
            self.set_dirty(mapping.process, vpn);
        }
        self.promote(mapping.process, vpn);
    }

    /// FBR-7.
    fn promote(&mut self, process: u32, vpn: u64) {
        let vpns = group(vpn, self.n);
        let entries = self.world.leaves_in(process, &vpns);
        let frame = self.world.frame(process, vpn).expect("it was entered");
        let full = self.world.reservation_of(&(frame..frame + 1)).is_some_and(Reservation::full);
        if self.n == 1 || entries.len() as u64 != self.n || !full {
            return;
        }
        if self.checks == Checks::Every {
            vpns.clone().for_each(|vpn| self.protect_clean(process, vpn));
        }
        if self.same(process, &vpns) {
            self.world.join(process, &vpns);
            self.add("promotions");
        } else {
            self.add("failures");
        }
    }

    /// Entries map an aligned block in order, and have equal attributes.
    fn same(&mut self, process: u32, vpns: &Range<u64>) -> bool {
        let base = self.world.leaves[&(process, vpns.start)].frame;
        if !base.is_multiple_of(self.n) {
            return false;
        }
        self.protect_clean(process, vpns.start);
        let first = self.world.leaves[&(process, vpns.start)];
        for at in (1..self.n).rev() {
            let frame = base + at;
            if self.world.leaves[&(process, vpns.start + at)].frame != frame {
                return false;
            }
            self.protect_clean(process, vpns.start + at);
            if self.world.leaves[&(process, vpns.start + at)] != (Leaf { frame, ..first }) {
                return false;
            }
        }
        true
    }

    /// A writable clean entry loses its write right.
    fn protect_clean(&mut self, process: u32, vpn: u64) {
        let leaf = self.world.leaves.get_mut(&(process, vpn)).expect("an entry");
        leaf.writable &= leaf.dirty;
    }
}

impl Policy for FreeBsd {
    fn world(&mut self) -> &mut World {
        &mut self.world
    }

    /// FBR-9.
    fn demote(&mut self, process: u32, first: u64) {
        self.world.split(process, first, 0);
        self.add("demotions");
    }

    /// The invariants that [`World::check`] says, and FBR-5: the queue has what is partly populated, and once.
    fn verify(&self) {
        if let Err(broken) = self.check() {
            panic!("{broken}");
        }
    }

    /// A page loses its frame (OJ-2, FBR-5).
    fn free(&mut self, object: usize, page: u64) {
        let resident = self.world.objects[object].resident.remove(&page).expect("a page with a frame");
        let Some(key) = self.world.reservation(object, page).map(|r| (r.object, r.first)) else {
            return self.world.buddy.release(resident.frame, 0);
        };
        let r = self.world.reservations.get_mut(&key).expect("a reservation");
        r.used.remove(&page);
        if !r.used.is_empty() {
            return self.move_in_queue(key);
        }
        let frame = r.frame;
        self.world.reservations.remove(&key);
        self.queue.retain(|other| *other != key);
        self.world.buddy.release(frame, self.n.ilog2());
        self.add("freed");
    }

    fn change_rights(&mut self, process: u32, first: u64, rights: u8) {
        let leaf = self.world.leaves.get_mut(&(process, first)).expect("a leaf");
        leaf.rights = rights;
        leaf.writable &= rights & WRITE != 0;
        leaf.dirty &= leaf.writable;
    }

    /// Maps pages of an object, where nothing is mapped: privately if it is anonymous, otherwise shared.
    fn map(&mut self, process: u32, vpn: u64, object: usize, pages: Range<u64>, rights: u8) {
        let private = self.world.objects[object].kind == Kind::Anonymous;
        self.enter_map(Mapping { process, vpn, object, pages, rights, private, copies: false });
    }

    fn touch(&mut self, process: u32, vpn: u64, access: Access) -> Result<Touched, Failed> {
        let mapping = self.world.mapping(process, vpn).ok_or(Failed::Unmapped)?;
        if mapping.rights & access.right() == 0 {
            return Err(Failed::Denied);
        }
        let store = access == Access::Store;
        let fault = match self.world.leaf(process, vpn) {
            None => Fault::Missing,
            Some((_, leaf)) if store && !leaf.writable => Fault::Write,
            Some(_) => Fault::None,
        };
        let done = match fault {
            Fault::None => {
                if store {
                    self.set_dirty(process, vpn);
                }
                Ok(())
            }
            Fault::Missing | Fault::Write => self.fault(process, vpn, store),
        };
        self.verify();
        done?;
        match fault {
            Fault::None => {}
            Fault::Missing => self.add("faults"),
            Fault::Write => self.add("write_faults"),
        }
        let (first, leaf) = self.world.leaf(process, vpn).expect("it was mapped");
        Ok(Touched { frame: leaf.frame + (vpn - first), order: leaf.order, fault })
    }
}
