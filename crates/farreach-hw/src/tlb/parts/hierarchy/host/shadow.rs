//! Shadow paging (SHD): the hypervisor keeps a merged table, from the guest's virtual pages to system memory. A walk is
//! as long as without a virtual machine. What the guest does to its own table traps, as far as the merged one has it.
//!
//! A fault of the guest is seen by the pages that it maps, in one report (SHD-2). Splitting or joining pages is none.

use super::guest::What;
use super::merged::{Merged, traps};
use super::{GUEST, GuestWalk, HOST, ListedHost, Mode, Nested, VM_EXIT_CYCLES};
use crate::tlb::parts::additions::Law;
use crate::tlb::parts::hierarchy::cores::CORES;
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::counts::OwnCounts;
use farreach_types::params::Params;
use farreach_types::translation::PageTableView;

/// The host as the registry knows it.
pub const LISTED: ListedHost = ListedHost {
    name: "shadow",
    about: "a merged table that the hypervisor keeps by traps; walks are native (SHD)",
    keys: &[&VM_EXIT_CYCLES],
    counters: traps!(),
    laws: &[Law {
        name: "SHD-1: no walk is in two dimensions",
        sides: |_, counts| (counts.host_walk.walks + counts.host_walk.nested_tlb_hits, 0),
    }],
    follows: true,
    check,
    build: |_| Some(Shadow::default().into()),
    ..ListedHost::NEW
};

/// Refuses machines for which hosts with a merged table are not defined.
pub(super) fn check(params: &Params) -> Result<(), String> {
    let (guest, host, cores) = (params.text(GUEST.name), params.text(HOST.name), params.int(CORES.name));
    let refuse = |with: String, why: &str| Err(format!("host = {host} is not allowed with {with}: {why}"));
    if guest != "walk" {
        return refuse(format!("guest = {guest}"), "it merges page tables; guest must be walk");
    }
    if cores > 1 {
        return refuse(format!("cores = {cores}"), "it is not defined on several cores (HW-12); cores must be 1");
    }
    Ok(())
}

/// See the module.
#[derive(Default)]
pub(in crate::tlb) struct Shadow(Merged);

impl Mode for Shadow {
    fn begins(&mut self, walk: &GuestWalk, _: &mut Vec<Asid>, own: &mut OwnCounts) -> Nested {
        self.0.used(walk, own);
        Nested { below: 0, first_is_known: true }
    }

    fn stored(&mut self, asid: Asid, vpn: Vpn, own: &mut OwnCounts) {
        self.0.stored(asid, vpn, true, own);
    }

    fn mapped(&mut self, asid: Asid, pages: VpnRange, table: &dyn PageTableView, own: &mut OwnCounts) {
        let written = self.0.mapped(asid, pages, table, own);
        if written.iter().any(|written| written.what == What::Mapped) {
            self.0.faulted(own);
        }
        self.0.give_back(written);
    }

    fn unmapped(&mut self, asid: Asid, pages: VpnRange, table: &dyn PageTableView, own: &mut OwnCounts) {
        let written = self.0.unmapped(asid, pages, table, own);
        self.0.give_back(written);
    }

    fn gone(&mut self, asid: Asid) {
        self.0.gone(asid);
    }

    fn switch(&mut self, to: Asid, own: &mut OwnCounts) {
        self.0.switch(to, true, own);
    }
}
