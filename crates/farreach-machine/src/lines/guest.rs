//! Whole systems in the loop of lines, on one virtual processor: see [`super::super::engine`]'s part of this name.

use super::super::guest::{Effect, GuestRun};
use super::LineEngine;
use farreach_types::addr::Asid;
use farreach_types::event::Op;

impl LineEngine {
    /// A block follows, in this address space.
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
        self.guest.iter_mut().for_each(|guest| _ = guest.begin(asid));
    }

    /// The context that runs ends, if there is one. The span is empty.
    pub fn end_context(&mut self) {
        let LineEngine { guest, tally, instances, span, .. } = self;
        debug_assert!(span.is_empty(), "spans end with contexts");
        let lookups = tally.lookups().total();
        let counts = |instance: &super::SystemInstance| instance.system.context_counts(lookups);
        guest.iter_mut().for_each(|guest| guest.end(tally, instances.iter().map(counts)));
    }

    /// An event, before the operating system gets it. Returns whether the stream is a whole system's.
    pub(super) fn follow_guest(&mut self, asid: Asid, op: &Op) -> Result<bool, String> {
        match Effect::of(op, self.guest.as_deref(), self.tally.references.total() > 0)? {
            Effect::Program => return Ok(false),
            Effect::Nothing => {}
            Effect::Begins { arch, processors, memory } => {
                if processors > 1 {
                    let machine = self.instances.first().map_or("", |instance| &instance.name);
                    return Err(format!(
                        "{machine} cannot run a system with {processors} processors: its caches are those of one"
                    ));
                }
                // No region of a program is known.
                self.lifetimes = None;
                self.guest = Some(Box::new(GuestRun::new(arch, processors, memory, self.instances.len())));
            }
            Effect::Processor(_) => unreachable!("there is one processor"),
            Effect::Privilege(kernel) => {
                self.end_context();
                self.guest.iter_mut().for_each(|guest| guest.set_kernel(kernel));
            }
        }
        self.guest.iter_mut().for_each(|guest| guest.follow(asid, op));
        Ok(true)
    }
}
