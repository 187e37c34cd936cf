//! Whole systems in the loop: virtual processors with TLBs of their own, and contexts.
//!
//! Blocks decide who runs: an address space or context begins with its first block, so that events between two blocks,
//! in whichever batch they are, switch nothing.

use super::super::guest::{Effect, GuestRun};
use super::super::instance::TlbInstance;
use super::Engine;
use farreach_types::addr::{Asid, KERNEL};
use farreach_types::event::Op;

impl Engine {
    /// A block of a whole system follows, in this address space.
    #[inline]
    pub(super) fn enter(&mut self, asid: Asid) {
        let running = self.current == Some(asid);
        if self.guest.as_ref().is_some_and(|guest| !running || !guest.is_open()) {
            self.begin_context(asid);
        }
    }

    #[cold]
    fn begin_context(&mut self, asid: Asid) {
        self.end_context();
        if self.current != Some(asid) {
            self.turn_to(asid);
        }
        if self.guest.as_mut().is_some_and(|guest| guest.begin(asid)) {
            self.tell_switch(asid);
            for g in 0..self.groups.len() {
                self.flushed_space = false;
                self.groups[g].os.run(asid);
                self.follow(g);
                if self.flushed_space {
                    self.count_kept(g);
                }
            }
        }
    }

    /// The context that runs ends, if there is one.
    pub fn end_context(&mut self) {
        let Engine { guest, tally, instances, .. } = self;
        if let Some(guest) = guest {
            guest.end(tally, instances.iter().map(|instance| instance.context_counts(tally)));
        }
    }

    /// An event, before the operating systems get it. Returns whether the stream is a whole system's.
    pub(super) fn follow_guest(&mut self, asid: Asid, op: &Op) -> Result<bool, String> {
        match Effect::of(op, self.guest.as_deref(), self.tally.references.total() > 0)? {
            Effect::Program => return Ok(false),
            Effect::Nothing => {}
            Effect::Begins { arch, processors, memory } => {
                if self.sampling.is_some() {
                    return Err("--sample is not for whole systems: they are simulated as a whole".into());
                }
                self.check_processors(processors)?;
                // No region of a program is known.
                self.lifetimes = None;
                self.guest = Some(Box::new(GuestRun::new(arch, processors, memory, self.instances.len())));
            }
            Effect::Processor(processor) => self.run_processor(processor)?,
            Effect::Privilege(kernel) => {
                self.end_context();
                self.guest.iter_mut().for_each(|guest| guest.set_kernel(kernel));
            }
        }
        self.guest.iter_mut().for_each(|guest| guest.follow(asid, op));
        Ok(true)
    }

    /// Refuses machines that cannot be there once for each of several processors.
    fn check_processors(&mut self, processors: u32) -> Result<(), String> {
        if processors == 1 {
            return Ok(());
        }
        for instance in &mut self.instances {
            if let Some(why) = why_once(instance) {
                return Err(format!("{} cannot run a system with {processors} processors: {why}", instance.name));
            }
        }
        Ok(())
    }

    /// Another virtual processor runs, with its own TLBs.
    fn run_processor(&mut self, processor: usize) -> Result<(), String> {
        self.end_context();
        let Some(before) = self.guest.as_mut().and_then(|guest| guest.run_on(processor)) else { return Ok(()) };
        // The filter holds what the TLBs of the other one reported, and their lookups.
        self.flush_lookups(true);
        self.current = None;
        for instance in &mut self.instances {
            instance.swap(before, processor).map_err(|why| format!("{}: {why}", instance.name))?;
        }
        let thread = |processor: usize| (KERNEL, Some(processor as u32));
        self.fetches.go_on(thread(before), thread(processor));
        Ok(())
    }
}

/// Why a machine cannot be there once for each processor.
fn why_once(instance: &mut TlbInstance) -> Option<&'static str> {
    if instance.each().any(|(tlb, _)| tlb.on_map().is_some()) {
        return Some("it keeps a page table of its own, which is there once and would be once for each of them");
    }
    if instance.each().any(|(tlb, _)| tlb.foresees().is_some()) {
        return Some("a policy that must know what comes knows the lookups of one TLB");
    }
    instance.blueprint.is_none().then_some("it is observed, which is one TLB")
}
