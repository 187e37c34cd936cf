//! One lookup: finds the designs for which it is not filtered, and passes it on to them.

use super::super::quiet::NEVER_QUIET;
use super::super::tally::{begins, of};
use super::super::unit::Group;
use super::Engine;
use super::events::{hush, noise};
use farreach_hw::tlb::{Lookup, Outcome};
use farreach_os::Touched;
use farreach_os::ranges::RangeUse;
use farreach_types::Error;
use farreach_types::addr::{Asid, Vpn};
use farreach_types::event::Kind;
use farreach_types::translation::PageTableView;

impl Engine {
    /// One lookup (XC-1) in the designs that are not `inside`. The operating systems serve the faults; the lookup goes
    /// to the designs for which it is not filtered. Returns whether there was one.
    #[inline(never)]
    pub(super) fn lookup(&mut self, asid: Asid, vpn: u64, kind: Kind, inside: u32) -> Result<bool, Error> {
        if self.plain {
            self.ask_all(asid, vpn, kind, inside)?;
            return Ok(true);
        }
        let (slot, known) = self.quiet.known(vpn, kind);
        let (quiet, served) = known.unwrap_or_default();
        if quiet == self.full {
            self.quiet.mark(slot);
            return Ok(false);
        }
        if known.is_none() {
            self.claim(asid, vpn, slot);
        }
        let designs = self.full & !quiet & !inside;
        if designs & !served != 0 {
            self.serve(asid, vpn, kind, slot, designs & !served)?;
        }
        let (quiet, missed) = self.ask(asid, vpn, kind, slot, designs);
        self.quiet.publish(slot, kind, if vpn == NEVER_QUIET { 0 } else { quiet });
        // Not before: the reference that faults did not look up what its fault takes away.
        self.quiet.mark(slot);
        if missed & self.readers != 0 {
            self.read_counters(asid, missed & self.readers);
        }
        Ok(true)
    }

    /// A further 4 KB page of one reference. No lookup for designs in whose base page the reference stays.
    #[cold]
    pub(super) fn lookup_further(&mut self, asid: Asid, vpn: u64, kind: Kind) -> Result<bool, Error> {
        *of(&mut self.tally.further, kind) += 1;
        self.tally.crossings[begins(vpn)] += 1;
        self.lookup(asid, vpn, kind, self.inside[begins(vpn)])
    }

    /// The number of the lookup under way.
    #[inline]
    fn clock(&self) -> u64 {
        self.tally.lookups().total() - 1
    }

    /// A lookup without shortcuts, in the designs that are not `inside`.
    fn ask_all(&mut self, asid: Asid, vpn: u64, kind: Kind, inside: u32) -> Result<(), Error> {
        self.footprint.insert(asid, vpn);
        let clock = self.clock();
        for g in 0..self.groups.len() {
            if self.groups[g].mask() & inside != 0 {
                continue;
            }
            let at = Lookup { asid, vpn: Vpn(vpn >> self.groups[g].order()), kind };
            let touched = self.touch(g, at)?;
            self.follow(g);
            let mut missed = 0;
            let Group { os, designs, .. } = &self.groups[g];
            for design in designs.clone() {
                let unit = &mut self.units[design];
                self.noise.clear();
                let answer = unit.tlb(kind).0.access(at, touched.pte, os, &mut self.noise);
                if answer.outcome != Outcome::Hit {
                    missed |= 1 << design;
                    unit.profile.miss(clock, kind, touched.label);
                    if unit.walks
                        && let Some(lives) = &mut self.lives
                    {
                        lives.walk(asid, vpn, kind, design);
                    }
                }
            }
            self.read_counters(asid, missed);
        }
        Ok(())
    }

    /// Operating systems that read the counters of their processors do so now, and act on them. The machines of such a
    /// group are equal in everything.
    pub(super) fn read_counters(&mut self, asid: Asid, designs: u32) {
        for g in 0..self.groups.len() {
            let group = &mut self.groups[g];
            if group.mask() & designs & self.readers != 0 {
                let mut counters = RangeUse::default();
                self.units[group.designs.start].each().for_each(|(tlb, _)| counters.count(tlb.counts()));
                group.os.counted(asid, counters);
                self.follow(g);
            }
        }
    }

    /// An operating system serves a lookup.
    fn touch(&mut self, g: usize, Lookup { asid, vpn, kind }: Lookup) -> Result<Touched, Error> {
        let clock = self.clock();
        let Group { os, designs, growth } = &mut self.groups[g];
        growth.before(clock, os);
        let name = &self.units[designs.start].name;
        os.touch(asid, vpn, kind).map_err(|e| Error::Simulation { machine: name.clone(), what: os.explain(e) })
    }

    /// Gives the page its slot in the filter.
    #[cold]
    fn claim(&mut self, asid: Asid, vpn: u64, slot: usize) {
        self.footprint.insert(asid, vpn);
        if let Some(lookup) = self.quiet.claim(slot, vpn) {
            self.looked_up(asid, &[lookup]);
        }
    }

    /// The operating systems of these designs serve the lookup. The page has its slot.
    #[cold]
    fn serve(&mut self, asid: Asid, vpn: u64, kind: Kind, slot: usize, designs: u32) -> Result<(), Error> {
        for g in 0..self.groups.len() {
            let mask = self.groups[g].mask();
            if mask & designs != 0 {
                let touched = self.touch(g, Lookup { asid, vpn: Vpn(vpn >> self.groups[g].order()), kind })?;
                self.follow(g);
                self.quiet.serve(slot, kind, mask, g, touched);
            }
        }
        Ok(())
    }

    /// Passes a lookup on to these designs. Returns those for which it may be filtered now, and those that missed.
    #[inline(always)]
    fn ask(&mut self, asid: Asid, vpn: u64, kind: Kind, slot: usize, designs: u32) -> (u32, u32) {
        let clock = self.clock();
        let Engine { groups, units, quiet, noise: plain, lives, .. } = self;
        let (mut calm, mut missed) = (0, 0);
        let mut left = designs;
        while left != 0 {
            let design = left.trailing_zeros() as usize;
            left &= left - 1;
            let unit = &mut units[design];
            let (os, k) = (&groups[unit.group].os, unit.order);
            let Touched { pte, label } = quiet.answer(slot, unit.group);
            let at = Lookup { asid, vpn: Vpn(vpn >> k), kind };
            let (tlb, sees) = unit.tlb(kind);
            let noise = noise(k, quiet, plain);
            noise.clear();
            noise.sees = sees;
            let answer = tlb.access(at, pte, os, noise);
            hush(quiet, plain, asid, design, k);
            quiet.asked(slot, design);
            calm |= u32::from(answer.quiet) << design;
            if answer.outcome != Outcome::Hit {
                missed |= 1 << design;
                unit.profile.miss(clock, kind, label);
                if unit.walks
                    && let Some(lives) = lives
                {
                    lives.walk(asid, vpn, kind, design);
                }
            }
            if cfg!(debug_assertions) {
                unit.check(os, at);
                assert_eq!(Some(pte), os.pte(asid, at.vpn), "XC-3: {at:?} was served otherwise than the page table says");
            }
        }
        (calm, missed)
    }
}
