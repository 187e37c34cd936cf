//! Navarro et al. (NAV-1 to NAV-9, NAV-11). NAV-10 and NAV-12 are off: there is no reclaim.
//!
//! * OJ-10 Groups are aligned in the object's pages. The caller of `map` numbers them; a mapping that does not fit
//!   has no superpages (NAV-2 c). A growing group may reach beyond the end at which the object grows, no other.
//! * OJ-11 A page for which only one page was obtained has no reservation, and is in no list. Frames of S0 that a
//!   preemption finds populated are such pages, too.
//! * OJ-12 Wholly populated pieces of a preemption stay reservations, which are full: pages in them can be promoted
//!   again, and one that loses a page comes back into a list with its old time. Of equal times, which only pieces of
//!   one reservation have, the lower page is first.
//! * OJ-13 A page that is freed leaves its frame to its reservation, whose time stays. An empty one goes to the buddy.
//! * OJ-14 A preemption counts by the size of what is broken. If it frees no extent of the size that is wanted, NAV-3
//!   starts again. So does it after each, because pieces may join others.
//! * OJ-15 `refused`: for each size above the one that is taken, by the first reason in the order `overlap` (a),
//!   `bounds` (b), `alignment` (c); `memory` if nothing could be obtained (NAV-3).
//! * OJ-16 With NAV-9, clean base pages are not writable either: the first store to each faults. D is of a leaf, so of
//!   a space. It is an attribute (NAV-7). Without NAV-9 it is none, and a superpage is dirty if one of its pages was.
//! * OJ-17 After the first store to a page NAV-7 is tried, as after a page was mapped. A size that is mapped already
//!   does not fail, and does not count.
//! * OJ-18 `honoured` are faults whose frame was reserved before, by the size of the reservation.
//! * OJ-19 No fork: the rules do not say what becomes of private pages. Processes may map the same object. NAV-11 is
//!   free in its form; here all is looked for, so no nodes are counted.

use super::*;

/// `dirty_rule` (NAV-9): whose superpages are read-only until dirty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DirtyRule {
    /// Those of objects with a backing file.
    File,
    /// All.
    All,
    /// None.
    Off,
}

/// `nav_preempt` (OAMB-1): which of several reservations is broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Preempt {
    /// The head of the first list that has one.
    Nearest,
    /// The oldest head of all these lists.
    Oldest,
}

/// The model.
#[derive(Clone, Debug)]
pub struct Navarro {
    sizes: Vec<u64>,
    dirty_rule: DirtyRule,
    preempt: Preempt,
    /// Objects, mappings, page tables, frames.
    pub world: World,
    /// Allocations so far: the time of NAV-1.
    clock: u64,
    /// By name and size in pages (0: of no size): see [`Navarro::count`].
    pub counts: BTreeMap<(&'static str, u64), u64>,
}

impl Navarro {
    /// With all memory free; `sizes` in pages, ascending, from 1.
    pub fn new(sizes: &[u64], frames: u64, dirty_rule: DirtyRule) -> Navarro {
        assert!(sizes[0] == 1 && sizes.is_sorted_by(|a, b| a < b) && sizes.iter().all(|size| size.is_power_of_two()));
        let world = World::new(frames);
        let (sizes, preempt, counts) = (sizes.to_vec(), Preempt::Nearest, BTreeMap::new());
        Navarro { sizes, dirty_rule, preempt, world, clock: 0, counts }
    }

    /// With another choice of OAMB-1.
    pub fn preempting(self, preempt: Preempt) -> Navarro {
        Navarro { preempt, ..self }
    }

    /// A counter. By size: `reservations`, `honoured`, `preempted`, `promotions`, `demotions` (steps, NAV-8),
    /// `overlap`, `bounds`, `alignment`, `memory` (OJ-15). By size 0: `faults`, `write_faults`, `ordinary` (OJ-11).
    pub fn count(&self, name: &'static str, size: u64) -> u64 {
        self.counts.get(&(name, size)).copied().unwrap_or(0)
    }

    fn add(&mut self, name: &'static str, size: u64) {
        *self.counts.entry((name, size)).or_default() += 1;
    }

    /// A growing object grows at its end, as far as a process maps it: with the mapping around a page.
    pub fn grow(&mut self, process: u32, vpn: u64, pages: u64) {
        self.world.grow(process, vpn, pages);
        self.verify();
    }

    /// L0 to L(m-1), each in order: objects and first pages of reservations (NAV-5).
    pub fn lists(&self) -> Vec<Vec<(usize, u64)>> {
        let mut by_time: Vec<&Reservation> = self.world.reservations.values().filter(|r| !r.full()).collect();
        by_time.sort_by_key(|r| (r.time, r.first));
        let list = |k| by_time.iter().filter(|r| self.largest_free(r) == k).map(|r| (r.object, r.first)).collect();
        (0..self.sizes.len() - 1).map(list).collect()
    }

    fn ruled(&self, object: usize) -> bool {
        match self.dirty_rule {
            DirtyRule::File => self.world.objects[object].kind == Kind::File,
            DirtyRule::All => true,
            DirtyRule::Off => false,
        }
    }

    /// NAV-5: the largest k such that an aligned extent of Sk has no page.
    fn largest_free(&self, r: &Reservation) -> usize {
        let free = |first: u64, size: u64| r.used.range(first..first + size).next().is_none();
        let has = |size: u64| r.pages().step_by(size as usize).any(|first| free(first, size));
        self.sizes.iter().rposition(|&size| size < r.size && has(size)).expect("a free page")
    }

    fn missing(&mut self, mapping: &Mapping, vpn: u64, store: bool) -> Result<(), Failed> {
        let (object, page) = (mapping.object, mapping.page(vpn));
        if !self.world.objects[object].resident.contains_key(&page) {
            let frame = self.allocate(mapping, vpn)?;
            self.world.objects[object].resident.insert(page, Resident { frame, dirty: false });
        }
        self.add("faults", 0);
        let frame = self.world.objects[object].resident[&page].frame;
        let writable = mapping.rights & WRITE != 0 && (store || !self.ruled(object));
        let leaf = Leaf { frame, order: 0, rights: mapping.rights, writable, dirty: store };
        self.world.leaves.insert((mapping.process, vpn), leaf);
        self.promote(mapping.process, vpn);
        Ok(())
    }

    /// A frame for a page that has none.
    fn allocate(&mut self, mapping: &Mapping, vpn: u64) -> Result<u64, Failed> {
        let (object, page) = (mapping.object, mapping.page(vpn));
        self.clock += 1;
        let key = self.world.reservation(object, page).map(|r| (r.object, r.first));
        if let Some(r) = key.and_then(|key| self.world.reservations.get_mut(&key)) {
            // NAV-4.
            r.used.insert(page);
            r.time = self.clock;
            let (frame, size) = (r.frame_of(page), r.size);
            self.add("honoured", size);
            return Ok(frame);
        }
        for k in (0..=self.preferred(mapping, vpn)).rev() {
            let size = self.sizes[k];
            match self.extent(k) {
                Some(frame) if k == 0 => {
                    self.add("ordinary", 0);
                    return Ok(frame);
                }
                Some(frame) => {
                    let (first, used) = (group(page, size).start, BTreeSet::from([page]));
                    let made = Reservation { object, first, size, frame, used, time: self.clock };
                    self.world.reservations.insert((object, first), made);
                    self.add("reservations", size);
                    return Ok(frame + (page - first));
                }
                None => self.add("memory", size),
            }
        }
        Err(Failed::Full)
    }

    /// NAV-2: the number of the preferred size.
    fn preferred(&mut self, mapping: &Mapping, vpn: u64) -> usize {
        for k in (1..self.sizes.len()).rev() {
            match self.refusal(mapping, vpn, self.sizes[k]) {
                Some(reason) => self.add(reason, self.sizes[k]),
                None => return k,
            }
        }
        0
    }

    /// Why a group of this size may not be reserved (OJ-15).
    fn refusal(&self, mapping: &Mapping, vpn: u64, size: u64) -> Option<&'static str> {
        let page = mapping.page(vpn);
        let pages = group(page, size);
        let object = &self.world.objects[mapping.object];
        let mut reserved = self.world.reservations.values().filter(|r| r.object == mapping.object);
        let overlaps = reserved.any(|r| overlap(&r.pages(), &pages));
        if overlaps || object.resident.range(pages.clone()).next().is_some() {
            return Some("overlap");
        }
        let (from, to) = (object.pages.start <= pages.start, pages.end <= object.pages.end);
        let small = size <= object.pages.end - object.pages.start;
        let fits = match object.grows {
            Grows::No => from && to,
            Grows::Up => from && small,
            Grows::Down => to && small,
        };
        if !fits {
            return Some("bounds");
        }
        (vpn % size != page % size).then_some("alignment")
    }

    /// NAV-3: an extent of Sk, however many reservations it takes.
    fn extent(&mut self, k: usize) -> Option<u64> {
        loop {
            if let Some(frame) = self.world.buddy.alloc(self.sizes[k].ilog2()) {
                return Some(frame);
            }
            let mut heads = self.lists().into_iter().skip(k).filter_map(|list| list.first().copied());
            let victim = match self.preempt {
                Preempt::Nearest => heads.next(),
                Preempt::Oldest => heads.min_by_key(|key| (self.world.reservations[key].time, key.1)),
            };
            self.break_up(victim?);
        }
    }

    /// NAV-6.
    fn break_up(&mut self, key: (usize, u64)) {
        let broken = self.world.reservations.remove(&key).expect("a reservation");
        self.add("preempted", broken.size);
        let k = self.sizes.iter().position(|&size| size == broken.size).expect("a size");
        let size = self.sizes[k - 1];
        for first in broken.pages().step_by(size as usize) {
            let used: BTreeSet<u64> = broken.used.range(first..first + size).copied().collect();
            let frame = broken.frame_of(first);
            if used.is_empty() {
                self.world.buddy.release(frame, size.ilog2());
            } else if size > 1 {
                let piece = Reservation { first, size, frame, used, ..broken };
                self.world.reservations.insert((broken.object, first), piece);
            }
        }
    }

    /// NAV-7.
    fn promote(&mut self, process: u32, vpn: u64) {
        for k in 1..self.sizes.len() {
            let size = self.sizes[k];
            let vpns = group(vpn, size);
            if self.world.order(process, vpn) >= Some(size.ilog2()) {
                continue;
            }
            if !self.promotable(process, &vpns) {
                break;
            }
            self.world.join(process, &vpns);
            self.add("promotions", size);
        }
    }

    fn promotable(&self, process: u32, vpns: &Range<u64>) -> bool {
        let Some((_, leaf)) = self.world.leaf(process, vpns.start) else { return false };
        let size = vpns.end - vpns.start;
        let attributes = |vpn: u64, leaf: Leaf| {
            let object = self.world.mapping(process, vpn).expect("a leaf has one").object;
            (leaf.rights, leaf.writable, leaf.dirty && self.ruled(object))
        };
        let like = |at: u64| {
            let found = self.world.leaf(process, vpns.start + at);
            found.is_some_and(|(_, other)| attributes(vpns.start + at, other) == attributes(vpns.start, leaf))
                && self.world.frame(process, vpns.start + at) == Some(leaf.frame + at)
        };
        leaf.frame.is_multiple_of(size)
            && self.world.reservation_of(&(leaf.frame..leaf.frame + size)).is_some()
            && (0..size).all(like)
    }

    /// NAV-9: a store through a clean leaf.
    fn first_store(&mut self, process: u32, vpn: u64) {
        self.add("write_faults", 0);
        while let Some((first, Leaf { order: 1.., .. })) = self.world.leaf(process, vpn) {
            self.demote(process, first);
        }
        let leaf = self.world.leaves.get_mut(&(process, vpn)).expect("a base page");
        (leaf.writable, leaf.dirty) = (true, true);
        self.promote(process, vpn);
    }
}

impl Policy for Navarro {
    fn world(&mut self) -> &mut World {
        &mut self.world
    }

    /// NAV-8, one step.
    fn demote(&mut self, process: u32, first: u64) {
        let size = 1 << self.world.leaves[&(process, first)].order;
        let k = self.sizes.iter().position(|&other| other == size).expect("a size");
        self.world.split(process, first, self.sizes[k - 1].ilog2());
        self.add("demotions", size);
    }

    /// OJ-2, OJ-13.
    fn free(&mut self, object: usize, page: u64) {
        let resident = self.world.objects[object].resident.remove(&page).expect("a page with a frame");
        let Some(key) = self.world.reservation(object, page).map(|r| (r.object, r.first)) else {
            return self.world.buddy.release(resident.frame, 0);
        };
        let r = self.world.reservations.get_mut(&key).expect("a reservation");
        r.used.remove(&page);
        if r.used.is_empty() {
            let (frame, size) = (r.frame, r.size);
            self.world.reservations.remove(&key);
            self.world.buddy.release(frame, size.ilog2());
        }
    }

    /// The invariants that [`World::check`] says.
    fn verify(&self) {
        if let Err(broken) = self.world.check() {
            panic!("{broken}");
        }
    }

    fn change_rights(&mut self, process: u32, first: u64, rights: u8) {
        let ruled = self.ruled(self.world.mapping(process, first).expect("a leaf has one").object);
        let leaf = self.world.leaves.get_mut(&(process, first)).expect("a leaf");
        if leaf.rights != rights {
            leaf.rights = rights;
            leaf.writable = rights & WRITE != 0 && (!ruled || leaf.dirty);
        }
    }

    fn map(&mut self, process: u32, vpn: u64, object: usize, pages: Range<u64>, rights: u8) {
        self.world.map(Mapping { process, vpn, object, pages, rights, private: false, copies: false });
        self.verify();
    }

    fn touch(&mut self, process: u32, vpn: u64, access: Access) -> Result<Touched, Failed> {
        let mapping = self.world.mapping(process, vpn).ok_or(Failed::Unmapped)?.clone();
        if mapping.rights & access.right() == 0 {
            return Err(Failed::Denied);
        }
        let store = access == Access::Store;
        let fault = match self.world.leaf(process, vpn) {
            None => {
                let missing = self.missing(&mapping, vpn, store);
                self.verify();
                missing?;
                Fault::Missing
            }
            Some((_, leaf)) if store && !leaf.writable => {
                self.first_store(process, vpn);
                Fault::Write
            }
            Some((first, leaf)) => {
                self.world.leaves.insert((process, first), Leaf { dirty: leaf.dirty || store, ..leaf });
                Fault::None
            }
        };
        self.verify();
        let (first, leaf) = self.world.leaf(process, vpn).expect("it was mapped");
        Ok(Touched { frame: leaf.frame + (vpn - first), order: leaf.order, fault })
    }
}
