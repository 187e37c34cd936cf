//! One lookup: finds the designs for which it is not filtered, and passes it on to them. In a whole system the page
//! number says whether it belongs to the address space that runs or to the kernel ([`owner`]).

use super::super::filter::NEVER_FILTERED;
use super::super::instance::Group;
use super::super::tally::{alignment, counter_of};
use super::Engine;
use farreach_hw::tlb::{Lookup, Outcome};
use farreach_os::Touched;
use farreach_os::ranges::RangeUse;
use farreach_types::Error;
use farreach_types::addr::{Asid, Vpn, owner};
use farreach_types::event::Kind;
use farreach_types::translation::PageTableView;

impl Engine {
    /// One lookup (XC-1) in the designs that are not `inside`. The operating systems serve the faults; the lookup goes
    /// to the designs for which it is not filtered. Returns whether there was one.
    #[inline(never)]
    pub(super) fn lookup(&mut self, asid: Asid, vpn: u64, kind: Kind, inside: u32) -> Result<bool, Error> {
        if self.skips {
            return self.skip(asid, vpn, kind, inside);
        }
        if self.plain {
            self.access_all(asid, vpn, kind, inside)?;
            return Ok(true);
        }
        self.make_room_for_times();
        let (slot, known) = self.filter.find(vpn, kind);
        let (filtered, served) = known.unwrap_or_default();
        if filtered == self.full {
            self.filter.stamp(slot);
            return Ok(false);
        }
        let of = owner(asid, vpn);
        if known.is_none() {
            self.claim(asid, vpn, slot);
        }
        let designs = self.full & !filtered & !inside;
        if designs & !served != 0 {
            self.serve(of, vpn, kind, slot, designs & !served)?;
        }
        if designs & self.fetches.designs != 0 {
            self.tell_fetch(of, vpn, kind, designs)?;
        }
        // Not before the fault: the faulting reference must not count as a lookup of pages that its fault unmaps. And
        // not after the accesses: then every time of a store would be earlier than that of the table, and each page
        // would seem to have been looked up once more.
        self.filter.stamp(slot);
        let (filtered, missed) = self.access(asid, vpn, kind, slot, designs);
        if designs == self.full {
            // All of them saw it, so there is nothing to tell them later.
            self.filter.forget_lookup(slot);
        }
        self.filter.publish(slot, kind, if vpn == NEVER_FILTERED { 0 } else { filtered });
        if missed & self.readers != 0 {
            self.read_counters(of, Some(vpn), missed & self.readers);
        }
        if designs & self.audit.designs != 0 {
            self.audit(asid)?;
        }
        Ok(true)
    }

    /// A further 4 KB page of one reference. No lookup for designs in whose base page the reference stays.
    #[cold]
    pub(super) fn lookup_further(&mut self, asid: Asid, vpn: u64, kind: Kind) -> Result<bool, Error> {
        *counter_of(&mut self.tally.further, kind) += 1;
        self.tally.crossings[alignment(vpn)] += 1;
        self.lookup(asid, vpn, kind, self.inside[alignment(vpn)])
    }

    /// The number of the lookup under way.
    #[inline]
    fn clock(&self) -> u64 {
        self.tally.passed.unwrap_or_else(|| self.tally.lookups().total() - 1)
    }

    /// A lookup without shortcuts, in the designs that are not `inside`. Returns those for which it may be filtered
    /// now.
    pub(super) fn access_all(&mut self, asid: Asid, vpn: u64, kind: Kind, inside: u32) -> Result<u32, Error> {
        let (running, asid) = (asid, owner(asid, vpn));
        self.footprint.insert(asid, vpn);
        if self.full & !inside & self.fetches.designs != 0 {
            self.tell_fetch(asid, vpn, kind, self.full & !inside)?;
        }
        let (clock, mut filterable) = (self.clock(), 0);
        for g in 0..self.groups.len() {
            if self.groups[g].mask() & inside != 0 {
                continue;
            }
            let at = Lookup { asid, vpn: Vpn(vpn >> self.groups[g].order()), kind };
            let touched = self.touch(g, at)?;
            self.follow(g);
            let mut missed = 0;
            let Group { os, designs, .. } = &self.groups[g];
            let at = Lookup { asid: os.tag_of(running, at.vpn), ..at };
            for design in designs.clone() {
                let instance = &mut self.instances[design];
                self.unfiltered.clear();
                let answer = instance.tlb(kind).0.access(at, touched.pte, os, &mut self.unfiltered);
                filterable |= u32::from(answer.filterable) << design;
                if let Some(mapped) = &mut self.mapped {
                    mapped.unfilter(&self.unfiltered, instance.order);
                }
                if answer.outcome != Outcome::Hit {
                    missed |= 1 << design;
                    if !self.uncounted {
                        instance.profile.miss(clock, kind, touched.label);
                    }
                    if instance.walks
                        && !self.uncounted
                        && let Some(lifetimes) = &mut self.lifetimes
                    {
                        lifetimes.walk(asid, vpn, kind, design);
                    }
                }
            }
            self.read_counters(asid, Some(vpn), missed);
        }
        Ok(filterable)
    }

    /// Operating systems that read the counters of their processors, or want to know of walks, learn of them now and
    /// act on them. The machines of such a group are equal in all keys. `walked`: the page whose walk this follows.
    pub(super) fn read_counters(&mut self, asid: Asid, walked: Option<u64>, designs: u32) {
        for g in 0..self.groups.len() {
            let group = &mut self.groups[g];
            if group.mask() & designs & self.readers != 0 {
                if group.os.reads_counters() {
                    let mut counters = RangeUse::default();
                    self.instances[group.designs.start].each().for_each(|(tlb, _)| counters.count(tlb.counts()));
                    group.os.counted(asid, counters);
                }
                if let Some(vpn) = walked.filter(|_| group.os.counts_walks()) {
                    group.os.note_time(self.tally.limit_count());
                    group.os.walked(asid, Vpn(vpn >> group.order()));
                }
                self.follow(g);
            }
        }
    }

    /// An operating system serves a lookup.
    pub(super) fn touch(&mut self, g: usize, Lookup { asid, vpn, kind }: Lookup) -> Result<Touched, Error> {
        let clock = self.clock();
        let Group { os, designs, memory_profile } = &mut self.groups[g];
        memory_profile.before(clock, os);
        if os.announces_maps() && !os.follows_guest() && os.pte(asid, vpn).is_none() {
            designs.clone().for_each(|design| self.instances[design].tlb(kind).0.faulting(asid, vpn));
        }
        let absent = || os.has_pages_of_zeros() && os.pte(asid, vpn).is_none();
        let kind = if self.changes_there && kind == Kind::Load && absent() { Kind::Store } else { kind };
        let name = &self.instances[designs.start].name;
        os.touch(asid, vpn, kind).map_err(|e| Error::Simulation { machine: name.clone(), what: os.explain(e) })
    }

    /// Gives the page its slot in the filter.
    #[cold]
    pub(super) fn claim(&mut self, asid: Asid, vpn: u64, slot: usize) {
        self.footprint.insert(owner(asid, vpn), vpn);
        if let Some(lookup) = self.filter.claim(slot, vpn) {
            self.note_lookups(asid, &[lookup]);
        }
    }

    /// The operating systems of these designs serve the lookup. The page has its slot.
    #[cold]
    pub(super) fn serve(&mut self, asid: Asid, vpn: u64, kind: Kind, slot: usize, designs: u32) -> Result<(), Error> {
        for g in 0..self.groups.len() {
            let mask = self.groups[g].mask();
            if mask & designs != 0 {
                let touched = self.touch(g, Lookup { asid, vpn: Vpn(vpn >> self.groups[g].order()), kind })?;
                self.follow(g);
                self.filter.set_answer(slot, kind, mask, g, touched);
            }
        }
        Ok(())
    }

    /// Passes a lookup on to these designs. Returns those for which it may be filtered now, and those that missed.
    #[inline(always)]
    fn access(&mut self, asid: Asid, vpn: u64, kind: Kind, slot: usize, designs: u32) -> (u32, u32) {
        let (clock, uncounted) = (self.clock(), self.uncounted);
        let Engine { groups, instances, filter, lifetimes, .. } = self;
        let (mut filterable, mut missed) = (0, 0);
        let of = owner(asid, vpn);
        let mut left = designs;
        while left != 0 {
            let design = left.trailing_zeros() as usize;
            left &= left - 1;
            let instance = &mut instances[design];
            let (os, k) = (&groups[instance.group].os, instance.order);
            let Touched { pte, label } = filter.answer(slot, instance.group);
            let at = Lookup { asid: os.tag_of(asid, Vpn(vpn >> k)), vpn: Vpn(vpn >> k), kind };
            let (tlb, sees) = instance.tlb(kind);
            let unfiltered = filter.report(k);
            unfiltered.clear_for(sees);
            let answer = tlb.access(at, pte, os, unfiltered);
            filter.unfilter(asid, design, k);
            filter.add_candidate(slot, design);
            filterable |= u32::from(answer.filterable) << design;
            if answer.outcome != Outcome::Hit {
                missed |= 1 << design;
                if !uncounted {
                    instance.profile.miss(clock, kind, label);
                }
                if instance.walks
                    && !uncounted
                    && let Some(lifetimes) = lifetimes
                {
                    lifetimes.walk(of, vpn, kind, design);
                }
            }
            if cfg!(debug_assertions) {
                instance.check(os, at);
                assert_eq!(Some(pte), os.pte(of, at.vpn), "XC-3: {at:?} was served otherwise than the page table says");
            }
        }
        (filterable, missed)
    }
}
