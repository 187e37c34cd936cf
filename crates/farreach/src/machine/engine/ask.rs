//! One lookup: who has to be asked, and asking them.

use super::super::quiet::Former;
use super::super::tally::begins;
use super::super::unit::Group;
use super::Engine;
use super::events::{hush, noise};
use crate::Error;
use crate::addr::{Asid, BASE_SHIFT, Vpn};
use crate::event::{Kind, NOT_EXECUTED};
use crate::hw::tlb::{Lookup, Outcome, PageTableView};
use crate::os::Touched;
use crate::os::ranges::RangeUse;

/// The page of [`NOT_EXECUTED`], which no lookup may be counted for: always taken reference by reference.
const NEVER_QUIET: u64 = NOT_EXECUTED >> BASE_SHIFT;

impl Engine {
    /// One lookup (XC-1): each operating system serves the faults, each design that is not quiet is asked.
    /// Says whether anybody had to be asked.
    #[inline(always)]
    pub(super) fn lookup(&mut self, asid: Asid, vpn: u64, kind: Kind) -> Result<bool, Error> {
        if self.plain {
            self.ask_all(asid, vpn, kind, 0)?;
            return Ok(true);
        }
        let (slot, have) = self.quiet.designs(vpn, kind);
        if have == self.full {
            self.quiet.mark(slot);
            return Ok(false);
        }
        self.ask(asid, vpn, kind, slot, have)?;
        Ok(true)
    }

    /// The lookup of a further 4 KB page of one reference: none for the designs in whose base page the reference stays.
    #[cold]
    pub(super) fn lookup_further(&mut self, asid: Asid, vpn: u64, kind: Kind) -> Result<bool, Error> {
        self.tally.crossings[begins(vpn)] += 1;
        let inside = self.inside[begins(vpn)];
        if self.plain {
            self.ask_all(asid, vpn, kind, inside)?;
            return Ok(true);
        }
        let (slot, have) = self.quiet.designs(vpn, kind);
        if have == self.full {
            self.quiet.mark(slot);
            return Ok(false);
        }
        self.ask(asid, vpn, kind, slot, have | inside)?;
        Ok(true)
    }

    /// A lookup without shortcuts, of the designs that are not `inside`.
    fn ask_all(&mut self, asid: Asid, vpn: u64, kind: Kind, inside: u32) -> Result<(), Error> {
        self.footprint.insert(asid, vpn);
        let clock = self.tally.lookups.total() - 1;
        for g in 0..self.groups.len() {
            if self.groups[g].mask() & inside != 0 {
                continue;
            }
            let at = Lookup { asid, vpn: Vpn(vpn >> self.groups[g].order), kind };
            let touched = self.touch(g, at)?;
            self.follow(g);
            let mut walked = 0;
            let Group { os, first, units, .. } = &mut self.groups[g];
            for (design, unit) in (*first..).zip(units) {
                self.noise.clear();
                let answer = unit.tlb(kind).0.access(at, touched.pte, os, &mut self.noise);
                if answer.outcome != Outcome::Hit {
                    walked = 1 << g;
                    unit.profile.miss(clock, kind, touched.label);
                    if let Some(lives) = self.lives.as_mut().filter(|_| unit.walks) {
                        lives.walk(asid, vpn, kind, design);
                    }
                }
            }
            self.read_counters(asid, walked);
        }
        Ok(())
    }

    /// The operating systems of these groups read the counters of their processors, if they want to, and do what they conclude. Machines
    /// of such a group are equal in everything.
    #[inline]
    pub(super) fn read_counters(&mut self, asid: Asid, groups: u32) {
        let mut left = groups & self.readers;
        while left != 0 {
            let g = left.trailing_zeros() as usize;
            left &= left - 1;
            let Group { os, units, .. } = &mut self.groups[g];
            let mut counters = RangeUse::default();
            units[0].each().for_each(|(tlb, _)| counters.count(tlb.counts()));
            os.counted(asid, counters);
            self.follow(g);
        }
    }

    /// An operating system serves a lookup.
    fn touch(&mut self, g: usize, Lookup { asid, vpn, kind }: Lookup) -> Result<Touched, Error> {
        let clock = self.tally.lookups.total() - 1;
        let Group { os, units, growth, .. } = &mut self.groups[g];
        growth.before(clock, os);
        os.touch(asid, vpn, kind).map_err(|e| Error::Simulation { machine: units[0].name.clone(), what: os.explain(e) })
    }

    /// The page takes its slot in the table from another.
    #[cold]
    fn claim(&mut self, asid: Asid, vpn: u64, slot: usize) {
        let Some(Former(former)) = self.quiet.claim(slot, vpn) else { return };
        self.footprint.insert(asid, vpn);
        if let Some(lookup) = former {
            self.groups
                .iter_mut()
                .filter(|g| g.order == 0)
                .flat_map(|g| &mut g.units)
                .for_each(|unit| unit.looked_up(asid, &[lookup]));
        }
    }

    /// An operating system serves a lookup for which it may have something to do. The page has its slot.
    #[cold]
    fn serve(&mut self, g: usize, at: Lookup, slot: usize) -> Result<Touched, Error> {
        let touched = self.touch(g, at)?;
        self.follow(g);
        self.quiet.serve(slot, at.kind, g, touched);
        Ok(touched)
    }

    /// A lookup that some designs, those not in `have`, cannot answer quietly.
    #[inline(never)]
    fn ask(&mut self, asid: Asid, vpn: u64, kind: Kind, slot: usize, have: u32) -> Result<(), Error> {
        if !self.quiet.has(slot, vpn) {
            self.claim(asid, vpn, slot);
        }
        let clock = self.tally.lookups.total() - 1;
        let (mut walked, mut quiet) = (0, 0);
        let mut left = self.full & !have;
        let mut g = 0;
        while left != 0 {
            let mut design = left.trailing_zeros() as usize;
            while design >= self.groups[g].end() {
                g += 1;
            }
            let k = self.groups[g].order;
            let at = Lookup { asid, vpn: Vpn(vpn >> k), kind };
            let touched = match self.quiet.served(slot, kind, g) {
                Some(touched) => touched,
                None => self.serve(g, at, slot)?,
            };
            let group = &mut self.groups[g];
            let end = group.end();
            let Group { os, first, units, .. } = group;
            let os = &*os;
            while design < end {
                let unit = &mut units[design - *first];
                let (tlb, sees) = unit.tlb(kind);
                let noise = noise(k, &mut self.quiet, &mut self.noise);
                noise.clear();
                noise.sees = sees;
                let answer = tlb.access(at, touched.pte, os, noise);
                hush(&mut self.quiet, &self.noise, asid, design, k);
                self.quiet.asked(slot, design);
                quiet |= u32::from(answer.quiet) << design;
                if answer.outcome != Outcome::Hit {
                    walked |= 1 << g;
                    unit.profile.miss(clock, kind, touched.label);
                    if let Some(lives) = self.lives.as_mut().filter(|_| unit.walks) {
                        lives.walk(asid, vpn, kind, design);
                    }
                }
                if cfg!(debug_assertions) {
                    unit.check(os, at);
                    let truth = os.pte(asid, at.vpn);
                    assert_eq!(Some(touched.pte), truth, "XC-3: {at:?} was served otherwise than the page table says");
                }
                left &= left - 1;
                design = left.trailing_zeros() as usize;
            }
        }
        if vpn != NEVER_QUIET {
            self.quiet.publish(slot, kind, quiet);
        }
        // Not before: what a fault takes away was not looked up by the reference that faults.
        self.quiet.mark(slot);
        if walked & self.readers != 0 {
            self.read_counters(asid, walked);
        }
        Ok(())
    }
}
