//! Filtered lookups of opaque designs, a sample of them repeated: a design that says too often that a lookup may be
//! filtered is found out, and does not only count wrongly.

use super::Engine;
use farreach_hw::tlb::{Lookup, Outcome};
use farreach_types::Error;
use farreach_types::addr::{Asid, Vpn};

/// Lookups that reach opaque designs, for each that is repeated.
const EACH: u64 = 16;

/// What is sampled, and the choice of it. The choices depend on the stream alone.
pub(super) struct Audit {
    /// The opaque designs.
    pub designs: u32,
    lookups: u64,
    state: u64,
}

impl Audit {
    pub fn new(designs: u32) -> Audit {
        Audit { designs, lookups: 0, state: 0x9E37_79B9_7F4A_7C15 }
    }

    /// Whether one is due, of which a number says.
    fn next(&mut self) -> Option<u64> {
        self.lookups += 1;
        // Not the first: little was evicted by then.
        if self.lookups < 4 * EACH || !self.lookups.is_multiple_of(EACH) {
            return None;
        }
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        Some(self.state)
    }
}

impl Engine {
    /// A lookup has reached an opaque design. The error names the design and what it answered.
    #[cold]
    pub(super) fn audit(&mut self, asid: Asid) -> Result<(), Error> {
        let Some(number) = self.audit.next() else { return Ok(()) };
        let Some((slot, vpn, kind, filtered)) = self.filter.any_filtered(number) else { return Ok(()) };
        let mut left = filtered & self.audit.designs;
        while left != 0 {
            let design = left.trailing_zeros() as usize;
            left &= left - 1;
            let instance = &mut self.instances[design];
            let (os, k) = (&self.groups[instance.group].os, instance.order);
            let pte = self.filter.answer(slot, instance.group).pte;
            let at = Lookup { asid: os.tag_of(asid, Vpn(vpn >> k)), vpn: Vpn(vpn >> k), kind };
            let (tlb, sees) = instance.tlb(kind);
            let unfiltered = self.filter.report(k);
            unfiltered.clear_for(sees);
            let answer = tlb.access(at, pte, os, unfiltered);
            self.filter.unfilter(asid, design, k);
            if answer.outcome != Outcome::Hit {
                let what = format!(
                    "it answered that lookups of page {:#x} of address space {} ({kind:?}) may be filtered, has not \
                     reported the page since, and now the same lookup is no hit ({:?}). So it would have been counted \
                     wrongly: a page whose next lookup would change something is to be reported (unfilter)",
                    at.vpn.0, at.asid.0, answer.outcome
                );
                return Err(Error::Simulation { machine: instance.name.clone(), what });
            }
        }
        Ok(())
    }
}
