//! Changes and switches (PB-9, HW-9), and what tests see.

use super::*;

impl PlainPrefetch {
    /// PB-9: superpages in these base pages were split. What holds page numbers only keeps them (HW-9, RP-4).
    pub fn split(&mut self, asid: u32, first: u64, pages: u64) {
        let dropped = self.buffer.drop(|held| held.meets(asid, first, pages));
        self.add("invalidated", dropped);
    }

    /// PB-9, RP-4: these base pages were unmapped or moved.
    pub fn changed(&mut self, asid: u32, first: u64, pages: u64) {
        let dropped = self.buffer.drop(|held| held.meets(asid, first, pages));
        self.add("invalidated", dropped);
        self.stacks.changed(asid, first, pages);
    }

    /// The process ended.
    pub fn gone(&mut self, asid: u32) {
        let dropped = self.buffer.drop(|held| held.asid == asid);
        self.add("invalidated", dropped);
        self.stacks.stacks.remove(&asid);
    }

    /// HW-9. A switch to the process that runs is none.
    pub fn switch(&mut self, to: u32, process_ids: bool) {
        if self.running.replace(to) == Some(to) {
            return;
        }
        if !process_ids {
            let dropped = self.buffer.drop(|_| true);
            self.add("invalidated", dropped);
        }
        if let Some(sbfp) = self.sbfp.as_mut().filter(|_| !process_ids) {
            sbfp.forget();
        }
        if !self.config.keep_at_switch {
            self.instances.clear();
            self.sbfp.iter_mut().for_each(|sbfp| sbfp.fdt.clear());
        }
    }

    /// All counters, by their names in the rules (PB-10). `free` are free entries that came into the buffer, `nodes`
    /// those of prefetch walks (PB-11), `evicted_unused` also the accessed bits to clear (PB-12), `resident` the
    /// entries that are there now.
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        let mut counts = self.counts.clone();
        counts.insert("resident", self.buffer.held.len() as u64);
        counts.insert("fdt_updates", self.sbfp.as_ref().map_or(0, |sbfp| sbfp.updates));
        counts.insert("sampler_hits", self.sbfp.as_ref().map_or(0, |sbfp| sbfp.sampler_hits));
        counts.insert("pointer_writes", self.stacks.pointer_writes);
        counts
    }

    /// The entries of the buffer, oldest first.
    pub fn held(&self) -> &[Held] {
        &self.buffer.held
    }

    /// Counters of free distances that are not 0 (SBFP-1): by size (0 if all share one table) and distance.
    pub fn distances(&self) -> BTreeMap<(u8, i64), u64> {
        let all = self.sbfp.iter().flat_map(|sbfp| sbfp.fdt.clone());
        all.filter(|(_, count)| *count > 0).collect()
    }

    /// The stack of a process, top first (RP-1).
    pub fn stack(&self, asid: u32) -> Vec<u64> {
        self.stacks.stacks.get(&asid).into_iter().flatten().rev().map(|page| page.0).collect()
    }

    /// C0, C1 and C2 of ATP for mappings of this order (ATP-1).
    pub fn atp_counters(&self, order: u8) -> Option<[u64; 3]> {
        match self.instances.get(&order)? {
            Predictor::Atp(atp) => Some(atp.counters),
            _ => None,
        }
    }

    /// Halvings of the FDT (SBFP-2).
    pub fn halvings(&self) -> u64 {
        self.sbfp.as_ref().map_or(0, |sbfp| sbfp.halvings)
    }
}
