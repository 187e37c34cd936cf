//! Traps as the source (T94-70): the lookups that a real page table lets through are not seen, and need not be.
//!
//! A page is mapped while every design answers it quietly, that is while the loop would filter it for all of them. A
//! trap is a lookup that is not filtered, so it goes the plain way, to every design: those that answer it quietly
//! anyway are not changed by that. What they then report is unmapped. There is no clock of last lookups, so designs
//! report the pages whose used bits they clear, and the next use of such a page traps (AMB-4).
//!
//! That a page is mapped for loads says that it may be mapped for stores, too, as soon as its operating systems know of
//! a store: the modified bit of an entry decides nothing and counts nowhere.

use super::Engine;
use farreach_types::Error;
use farreach_types::addr::{Asid, Vpn};
use farreach_types::event::{Kind, Op};
use std::ops::Range;

impl Engine {
    /// Operating systems do the work of their own that is due when the program has run for this long: nothing counts
    /// its instructions.
    pub fn keep_own_time(&mut self, microseconds: u64) {
        if self.timed {
            (0..self.groups.len()).for_each(|g| self.work_until(g, self.groups[g].os.ticks_of(microseconds)));
        }
    }

    /// A reference trapped. Returns whether the page may be mapped for stores as well; it may for loads and fetches.
    pub fn trap(&mut self, asid: Asid, vpn: Vpn, kind: Kind) -> Result<bool, Error> {
        if self.current != Some(asid) {
            self.switch(asid);
        }
        let mut quiet = self.access_all(asid, vpn.0, kind, 0)?;
        if quiet != self.full {
            // Registers that are loaded by the next lookup: the reference, which is repeated now, is that.
            quiet = self.access_all(asid, vpn.0, kind, 0)?;
        }
        if quiet != self.full {
            let loud = &self.instances[(self.full & !quiet).trailing_zeros() as usize].name;
            let what = format!("page {:#x} changes it at every lookup, so traps cannot drive it", vpn.0);
            return Err(Error::Simulation { machine: loud.clone(), what });
        }
        self.mapped.as_mut().expect("this engine is driven by traps").insert(asid, vpn);
        let served = |g: &super::Group| g.os.is_served(asid, Vpn(vpn.0 >> g.order()), Kind::Store);
        Ok(self.groups.iter().all(served))
    }

    /// See [`crate::TrapLab::set_bits`]; for systems that map base pages alone.
    pub fn set_bits(&mut self) -> Result<Range<u32>, Error> {
        let mut common = 0..u64::BITS;
        for instance in &mut self.instances {
            let (name, order) = (instance.name.clone(), instance.order);
            for (tlb, _) in instance.each() {
                let refuse =
                    |why| Error::Config { machine: name.clone(), what: format!("sets cannot be sampled: {why}") };
                let bits = tlb.set_bits(0).map_err(refuse)?;
                let both = common.start.max(bits.start + order)..common.end.min(bits.end + order);
                if both.is_empty() {
                    let why = "no bit of the page number chooses the set in all arrays of all machines";
                    return Err(refuse(why.into()));
                }
                common = both;
            }
        }
        Ok(common)
    }

    /// An event of the program.
    pub fn trap_op(&mut self, asid: Asid, op: &Op) -> Result<(), Error> {
        if self.current != Some(asid) {
            self.switch(asid);
        }
        let broken = |what| Error::Trace { file: "program".into(), place: format!("address space {}", asid.0), what };
        self.follow_op(asid, op).map_err(broken)?;
        self.unserved.take().map_or(Ok(()), Err)
    }
}
