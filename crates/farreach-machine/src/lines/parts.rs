//! Parts of a run: see [`crate::marks`].

use super::LineEngine;
use crate::marks::{Counted, Moment};
use crate::memory_profile::MemoryProfile;
use crate::profile::{FIRST_SLICE, Profile};
use farreach_types::event::Boundary;

impl LineEngine {
    /// A part of the run ends.
    #[cold]
    pub(super) fn pass(&mut self, boundary: Boundary) -> Result<(), String> {
        if self.guest.is_some() {
            return Err("--warmup and --every are not for whole systems: counts by context would not be divided".into());
        }
        self.flush().map_err(|e| e.to_string())?;
        if boundary == Boundary::Counted {
            let clock = self.tally.lookups().total();
            (self.clock, self.slice, self.slices_from) = (clock, FIRST_SLICE, clock);
            self.slice_end = clock + FIRST_SLICE;
            self.instances.iter_mut().for_each(|instance| instance.profile = Profile::new(clock));
            self.memory_profile = MemoryProfile::new(clock);
        }
        let now = self.moment();
        self.marks.pass(boundary, now)
    }

    /// What was counted so far.
    pub fn moment(&self) -> Moment {
        let all = self
            .instances
            .iter()
            .enumerate()
            .flat_map(|(i, instance)| (0..instance.members.len()).map(move |member| self.counted(i, member)));
        Moment { tally: self.tally, machines: all.collect() }
    }

    /// What a machine of a family and its operating system counted so far.
    pub fn counted(&self, instance: usize, member: usize) -> Counted {
        let instance = &self.instances[instance];
        let accesses = self.accesses(instance.system.line_shift());
        let (tlb, system, caches) = match instance.system.mmu(accesses) {
            Some((tlb, caches)) => (tlb, None, Some(caches)),
            None => {
                let counts = instance.system.counts(member, accesses);
                (instance.translations(&counts), Some(counts), None)
            }
        };
        let resident_bytes = self.os.in_use().resident << self.os.page_shift();
        Counted { tlb, os: self.os.counts(), system, caches, resident_bytes }
    }
}
