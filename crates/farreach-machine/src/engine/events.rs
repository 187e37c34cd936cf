//! Events: of the stream, of the operating systems, switches of processes and threads; and how the designs learn them.

use super::super::compiled::Compiled;
use super::super::quiet::{self, Quiet};
use super::super::unit::Group;
use super::Engine;
use farreach_hw::tlb::Noise;
use farreach_os::What;
use farreach_types::addr::{Asid, Vpn};
use farreach_types::event::Op;

impl Engine {
    /// Passes the changes of an operating system on to the designs of its group.
    #[inline]
    pub(super) fn follow(&mut self, g: usize) {
        if self.groups[g].os.has_changes() {
            self.follow_changes(g);
        }
    }

    fn follow_changes(&mut self, g: usize) {
        let group = &mut self.groups[g];
        group.os.take_changes(&mut self.changes);
        let (mask, k) = (group.mask(), group.order());
        for change in &self.changes {
            for design in group.designs.clone() {
                let unit = &mut self.units[design];
                let noise = noise(k, &mut self.quiet, &mut self.noise);
                noise.clear();
                for (tlb, sees) in unit.each() {
                    noise.sees = sees;
                    match change.what {
                        What::Stale => tlb.invalidate(change.asid, change.pages, noise),
                        What::Demoted => tlb.demote(change.asid, change.pages, noise),
                        What::Gone => tlb.invalidate_space(change.asid, noise),
                        What::Segment => tlb.segment_changed(change.asid, noise),
                        What::Writable | What::Promoted => {}
                    }
                }
                if let Some(current) = self.current {
                    hush(&mut self.quiet, &self.noise, current, design, k);
                }
            }
            // Also for designs without these pages: the next reference must reach the operating system.
            if self.current != Some(change.asid) {
                continue;
            }
            if change.pages.pages <= quiet::SLOTS as u64 >> k {
                change.pages.finer(k).iter().for_each(|vpn| self.quiet.clear_page(vpn, mask, mask));
            } else {
                self.quiet.clear();
            }
        }
    }

    pub(super) fn op(&mut self, compiled: &mut Compiled, asid: Asid, op: &Op) -> Result<(), String> {
        if let Op::Define { id, block } = op {
            return compiled.define(*id, block).map_err(|e| format!("block {id}: {e}"));
        }
        self.crowd.follow(asid, op)?;
        if let Some(lives) = &mut self.lives {
            lives.op(asid, op, self.tally.time());
        }
        for g in 0..self.groups.len() {
            let Group { os, growth, .. } = &mut self.groups[g];
            growth.before(self.tally.lookups().total(), os);
            os.apply(asid, op);
            self.follow(g);
        }
        if let Some(thread) = self.running.follow(asid, op) {
            self.run_thread(asid, thread);
        }
        self.ops += 1;
        // The consistency check takes time in proportion to memory: always at first, then now and then.
        if cfg!(debug_assertions) && (self.ops < 1000 || self.ops.is_multiple_of(512)) {
            self.groups.iter().for_each(|g| g.os.check());
        }
        Ok(())
    }

    pub(super) fn switch(&mut self, to: Asid) {
        if let Some(from) = self.current {
            self.read_counters(from, self.readers);
        }
        self.settle(true);
        self.current = Some(to);
        self.quiet.belongs_to(to);
        for unit in &mut self.units {
            self.noise.clear();
            unit.each().for_each(|(tlb, _)| tlb.switch(to, &mut self.noise));
        }
        if let Some(thread) = self.running.of(to) {
            self.run_thread(to, thread);
        }
    }

    /// Another thread of the running address space continues.
    fn run_thread(&mut self, asid: Asid, thread: u32) {
        for (design, unit) in self.units.iter_mut().enumerate() {
            let noise = noise(unit.order, &mut self.quiet, &mut self.noise);
            noise.clear();
            unit.each().for_each(|(tlb, _)| tlb.thread(asid, thread, noise));
            hush(&mut self.quiet, &self.noise, asid, design, unit.order);
        }
    }

    /// Passes the lookups that were only counted on to the designs. `forget`: empties the filter, too.
    pub fn settle(&mut self, forget: bool) {
        let lookups = self.quiet.lookups(forget);
        if let Some(asid) = self.current {
            self.looked_up(asid, &lookups);
        }
    }

    /// Passes these lookups on to the designs. The filter has times of 4 KB pages: larger base pages do without.
    pub fn looked_up(&mut self, asid: Asid, lookups: &[(bool, Vpn, u32)]) {
        self.units.iter_mut().filter(|unit| unit.order == 0).for_each(|unit| unit.looked_up(asid, lookups));
    }
}

/// The report for a design. The filter keeps times of 4 KB pages: larger base pages do without.
#[inline(always)]
pub(super) fn noise<'a>(k: u32, quiet: &'a mut Quiet, plain: &'a mut Noise) -> &'a mut Noise {
    if k == 0 { &mut quiet.noise } else { plain }
}

/// Takes the pages of a report, of 2^k 4 KB pages each, out of the filter.
#[inline(always)]
pub(super) fn hush(quiet: &mut Quiet, plain: &Noise, asid: Asid, design: usize, k: u32) {
    if k == 0 { quiet.hush(asid, design) } else { quiet.hush_runs(plain, asid, design, k) }
}
