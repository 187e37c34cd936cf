//! Quicksilver: FreeBSD with superpages that are prepared early (QKS-1 to QKS-3).
//!
//! * OJ-33 A reservation is prepared after the touch that populated a page of it, if at least the threshold is
//!   populated then. If what follows does not hold, the next page tries again. It is of an object without a file that
//!   hides no other; the mapping covers its group with addresses that are congruent, and need not copy.
//! * OJ-34 What is zeroed counts as stored to, and so do the pages that were only read, as no file has their contents:
//!   the superpage is writable and dirty if the mapping may be written, and read-only and clean otherwise.
//! * OJ-35 Asynchronous: reservations wait, and the next tick prepares them in this order, for the process that
//!   touched, if all of OJ-33 holds then.
//! * OJ-36 Inactive is a reservation that is partly populated, and got no page for this long; freeing pages is no use
//!   of it. A tick breaks inactive ones in the order of the queue, as FBR-6 does. Preparation comes first.
//! * OJ-37 QKS-3 is what FBR-5 and FBR-9 do, until OJ-36 or FBR-6 breaks the block.

use super::*;

/// QKS-1, QKS-2.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Pages populated that are enough.
    pub threshold: u64,
    /// The rest is zeroed by a tick, not by the fault.
    pub asynchronous: bool,
    /// Milliseconds after which a reservation is inactive.
    pub inactive: u64,
}

/// The model.
#[derive(Clone, Debug)]
pub struct Quicksilver {
    config: Config,
    /// FBR.
    pub freebsd: FreeBsd,
    /// When reservations got their last pages.
    last: BTreeMap<(usize, u64), u64>,
    /// Those to prepare, and the touch that asked for it.
    waiting: VecDeque<((usize, u64), u32, u64)>,
}

impl Quicksilver {
    /// With reservations of `n` pages, and all memory free.
    pub fn new(config: Config, n: u64, frames: u64) -> Quicksilver {
        let (freebsd, last, waiting) = (FreeBsd::new(n, frames), BTreeMap::new(), VecDeque::new());
        Quicksilver { config, freebsd, last, waiting }
    }

    /// A counter of FBR, or `qks_prepared`, `qks_inactive`, `zero_pages`, `zero_pages_background`: the last two of
    /// preparation alone. What is broken by inactivity is not counted as `reclaimed`.
    pub fn count(&self, name: &'static str) -> u64 {
        self.freebsd.count(name)
    }

    /// Time passes (QKS-1, QKS-2).
    pub fn tick(&mut self, ms: u64) {
        self.freebsd.tick(ms);
        for (key, process, vpn) in std::mem::take(&mut self.waiting) {
            self.prepare(key, process, vpn, "zero_pages_background");
        }
        for key in self.freebsd.queue() {
            if self.freebsd.now - self.last[&key] >= self.config.inactive {
                self.freebsd.queue.retain(|other| *other != key);
                self.freebsd.break_up(key);
                self.freebsd.add("qks_inactive");
            }
        }
        self.verify();
    }

    /// QKS-1.
    fn prepare(&mut self, key: (usize, u64), process: u32, vpn: u64, zeroed: &'static str) {
        let (n, freebsd) = (self.freebsd.n, &mut self.freebsd);
        let world = &mut freebsd.world;
        let Some(r) = world.reservations.get(&key).filter(|r| !r.full()).cloned() else { return };
        let Some(mapping) = world.mapping(process, vpn).cloned() else { return };
        let (object, vpns) = (&world.objects[key.0], group(vpn, n));
        let there = inside(&vpns, &mapping.vpns()) && mapping.page(vpns.start) == r.first;
        let plain = object.kind != Kind::File && object.backing.is_none() && !mapping.copies;
        if n == 1 || mapping.object != key.0 || !there || !plain || (r.used.len() as u64) < self.config.threshold {
            return;
        }
        for page in r.pages() {
            world.objects[key.0].resident.insert(page, Resident { frame: r.frame_of(page), dirty: true });
        }
        world.reservations.get_mut(&key).expect("it is there").used.extend(r.pages());
        for first in world.leaves_in(process, &vpns) {
            world.leaves.remove(&(process, first));
        }
        let (writable, order) = (mapping.rights & WRITE != 0, n.ilog2());
        let leaf = Leaf { frame: r.frame, order, rights: mapping.rights, writable, dirty: writable };
        world.leaves.insert((process, vpns.start), leaf);
        freebsd.queue.retain(|other| *other != key);
        *freebsd.counts.entry(zeroed).or_default() += n - r.used.len() as u64;
        freebsd.add("qks_prepared");
        freebsd.add("promotions");
    }
}

impl Policy for Quicksilver {
    fn world(&mut self) -> &mut World {
        self.freebsd.world()
    }

    fn demote(&mut self, process: u32, first: u64) {
        self.freebsd.demote(process, first);
    }

    fn free(&mut self, object: usize, page: u64) {
        self.freebsd.free(object, page);
    }

    fn change_rights(&mut self, process: u32, first: u64, rights: u8) {
        self.freebsd.change_rights(process, first, rights);
    }

    fn verify(&self) {
        self.freebsd.verify();
    }

    fn map(&mut self, process: u32, vpn: u64, object: usize, pages: Range<u64>, rights: u8) {
        self.freebsd.map(process, vpn, object, pages, rights);
    }

    fn touch(&mut self, process: u32, vpn: u64, access: Access) -> Result<Touched, Failed> {
        let before = self.freebsd.world.reservations.clone();
        let done = self.freebsd.touch(process, vpn, access);
        let after = &self.freebsd.world.reservations;
        let grew = |(key, r): &(&(usize, u64), &Reservation)| {
            before.get(key).is_none_or(|old| old.frame != r.frame || !old.used.is_superset(&r.used))
        };
        let grown: Vec<(usize, u64)> = after.iter().filter(grew).map(|(key, _)| *key).collect();
        self.last.retain(|key, _| after.contains_key(key));
        for key in grown {
            self.last.insert(key, self.freebsd.now);
            if !self.config.asynchronous {
                self.prepare(key, process, vpn, "zero_pages");
            } else if self.waits_for(key) {
                self.waiting.push_back((key, process, vpn));
            }
        }
        self.verify();
        let fault = done?.fault;
        let (first, leaf) = self.freebsd.world.leaf(process, vpn).expect("it was mapped");
        Ok(Touched { frame: leaf.frame + (vpn - first), order: leaf.order, fault })
    }
}

impl Quicksilver {
    /// OJ-35: whether a reservation has enough pages now, and does not wait yet.
    fn waits_for(&self, key: (usize, u64)) -> bool {
        let populated = self.freebsd.world.reservations[&key].used.len() as u64;
        populated >= self.config.threshold && self.waiting.iter().all(|(waiting, _, _)| *waiting != key)
    }
}
