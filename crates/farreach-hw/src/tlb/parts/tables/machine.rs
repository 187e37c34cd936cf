//! The table of a machine, in a virtual machine that of the guest: told of changes, and walked.

use super::held::Held;
use super::reads::{Reads, Step, Steps};
use super::{PART, Table, Walked, chosen};
use crate::cache::{Port, Purpose};
use crate::tlb::parts::hierarchy::host::Host;
use farreach_types::addr::{Asid, BASE_SHIFT, Pfn, Vpn, VpnRange, owner};
use farreach_types::counts::{MemoryCounts, TlbCounts};
use farreach_types::params::Params;
use farreach_types::translation::PageTableView;

/// See the module.
pub(in crate::tlb) struct Tables {
    table: Box<dyn Table>,
    held: Held,
    process_ids: bool,
    /// The place of its counters in [`TlbCounts::parts`].
    part: usize,
    /// The last walk.
    steps: Steps,
}

impl Tables {
    /// The table that the key names, with its counters; `None`: the radix tree.
    pub fn new(params: &Params, seed: u64, counts: &mut TlbCounts) -> Result<Option<Tables>, String> {
        let Some(listed) = chosen(params) else { return Ok(None) };
        let names: Vec<_> = listed.counters.iter().map(|counter| counter.name).collect();
        Ok(Some(Tables {
            table: (listed.build)(params, seed)?,
            held: Held::default(),
            process_ids: params.flag(crate::tlb::keys::PROCESS_IDS.name),
            part: counts.parts.add(PART, &names),
            steps: Steps::default(),
        }))
    }

    /// A demand walk for a mapped page, which is in this frame.
    ///
    /// In a virtual machine (NEC, NFL) each step of the guest waits for the host to translate the addresses of its
    /// lines, all at once; and behind the last step the host translates the page. What the guest's walker reads in the
    /// background comes behind that, with translations of its own. A host that adds translates nothing here.
    pub fn walk(
        &mut self,
        (asid, vpn, page): (Asid, Vpn, Pfn),
        host: Option<&mut Host>,
        port: &mut Port,
        counts: &mut TlbCounts,
    ) {
        counts.walk.walks += 1;
        let asid = owner(asid, vpn.0);
        let mapping = self.held.mapping(asid, vpn);
        debug_assert!(mapping.is_some(), "{asid:?} {vpn:?} is mapped, and the table was not told");
        let Tables { table, steps, part, .. } = self;
        let own = &mut counts.parts.at(*part).counters;
        table.walk(asid, vpn, mapping, &mut Reads::new(Purpose::Demand, steps, Some(own)));
        let Some(host) = host else {
            return steps.make(Purpose::Demand, port, &mut counts.parts.at(*part).memory);
        };
        let make = |step: Step, purpose: Purpose, host: &mut Host, port: &mut Port, counts: &mut TlbCounts| {
            match step.is_known {
                true => host.skipped(step.addresses.len() as u64, counts),
                false => {
                    let pages = step.addresses.iter().map(|address| Pfn(address >> BASE_SHIFT));
                    host.translate_at_once(pages, purpose, counts, port);
                }
            }
            port.step(purpose, step.addresses, &mut counts.parts.at(*part).memory);
        };
        steps.of_walk().for_each(|step| make(step, Purpose::Demand, host, port, counts));
        host.translate(page, counts, port);
        steps.behind().for_each(|step| make(step, Purpose::Background, host, port, counts));
    }

    /// A walk in the background for a page that may be absent. Not in virtual machines.
    pub fn walk_ahead(
        &mut self,
        (asid, vpn): (Asid, Vpn),
        view: &dyn PageTableView,
        port: &mut Port,
        memory: &mut MemoryCounts,
    ) -> Walked {
        let of = owner(asid, vpn.0);
        let mapping = self.held.mapping(of, vpn);
        let mut reads = Reads::new(Purpose::Background, &mut self.steps, None);
        self.table.walk(of, vpn, mapping, &mut reads);
        let failed = reads.failed;
        self.steps.make(Purpose::Background, port, memory);
        let found = view.pte(asid, vpn);
        debug_assert_eq!(found.is_some(), mapping.is_some(), "{asid:?} {vpn:?}: the table was not told of a change");
        Walked { references: self.steps.references(), by_level: [0; 5], found: found.filter(|_| !failed) }
    }

    /// See [`crate::tlb::OnMap::faulting`].
    pub fn faulting(&mut self, asid: Asid, vpn: Vpn, counts: &mut TlbCounts) {
        self.table.faulting(asid, vpn, &mut counts.parts.at(self.part).counters);
    }

    /// See [`crate::tlb::OnMap::mapped`].
    pub fn mapped(&mut self, asid: Asid, pages: VpnRange, view: &dyn PageTableView, counts: &mut TlbCounts) {
        let own = &mut counts.parts.at(self.part).counters;
        // Pages that are new are in no cache of a walker.
        if self.held.any(asid, pages) {
            self.table.forget(asid, pages);
        }
        self.held.mapped(asid, pages, view, &mut *self.table, own);
        self.check();
    }

    /// See [`crate::tlb::OnMap::unmapped`].
    pub fn unmapped(&mut self, asid: Asid, pages: VpnRange, view: &dyn PageTableView, counts: &mut TlbCounts) {
        let own = &mut counts.parts.at(self.part).counters;
        self.table.forget(asid, pages);
        self.held.unmapped(asid, pages, view, &mut *self.table, own);
        self.check();
    }

    /// The address space ended.
    pub fn gone(&mut self, asid: Asid, counts: &mut TlbCounts) {
        let own = &mut counts.parts.at(self.part).counters;
        self.held.gone(asid, &mut *self.table, own);
        self.table.gone(asid, own);
        self.check();
    }

    /// Another process runs.
    pub fn switch(&mut self, to: Asid) {
        self.table.switch(to, self.process_ids);
    }

    /// In debug builds, for tables that are small.
    fn check(&self) {
        if cfg!(debug_assertions) && self.held.len() < 256 {
            self.table.check(&mut self.held.iter());
        }
    }
}
