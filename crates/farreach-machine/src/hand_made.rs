//! A design or a machine with caches over a page table made by hand, for examples that the papers draw or work out: no
//! operating system, no stream.

use super::spec::MachineSpec;
use farreach_hw::system::{Item, Softvm, System};
use farreach_hw::tlb::{EntryView, Lookup, Unfiltered};
use farreach_types::Error;
use farreach_types::addr::{Asid, BASE_SHIFT, Pfn, Vpn};
use farreach_types::counts::SystemCounts;
use farreach_types::event::Kind;
use farreach_types::translation::{Attr, PageTableView, Pte};

/// The entries of the machine's TLB after loads from these pages of address space 0, in order.
///
/// # Errors
/// The description is not acceptable, or the table has no entry for one of the pages.
pub fn entries_after_loads(
    spec: &MachineSpec,
    table: &dyn PageTableView,
    pages: &[Vpn],
) -> Result<Vec<EntryView>, Error> {
    let config = |what: String| Error::Config { machine: spec.name.clone(), what };
    let design = spec.hardware.tlb().ok_or_else(|| config("kind: a TLB by itself is expected".into()))?;
    let mut tlb = (design.build)(&spec.params).map_err(config)?;
    let mut unfiltered = Unfiltered::default();
    for &vpn in pages {
        let pte =
            table.pte(Asid(0), vpn).ok_or_else(|| config(format!("the table has no entry for page {:#x}", vpn.0)))?;
        tlb.access(Lookup { asid: Asid(0), vpn, kind: Kind::Load }, pte, table, &mut unfiltered);
        unfiltered.clear();
    }
    Ok(tlb.entries())
}

/// One frame, at the same page of every address space.
struct OneFrame(Vpn);

impl PageTableView for OneFrame {
    fn pte(&self, _: Asid, vpn: Vpn) -> Option<Pte> {
        (vpn == self.0).then_some(Pte { pfn: Pfn(1), attr: Attr(Attr::READ | Attr::WRITE), order: 0 })
    }
}

/// The counts of a machine of kind `softvm` while two processes write the same line of one page of memory in turn,
/// `turns` times each. `shared`: their segments have the same identifier, else one of their own (SV97-9, SV97-17).
///
/// # Errors
/// The description is not acceptable.
pub fn two_processes_on_one_line(spec: &MachineSpec, shared: bool, turns: u32) -> Result<SystemCounts, Error> {
    let config = |what: String| Error::Config { machine: spec.name.clone(), what };
    let mut machine = Softvm::from_params(&spec.params).map_err(config)?;
    let page = Vpn(5);
    let (table, addr) = (OneFrame(page), page.0 << BASE_SHIFT);
    for turn in 0..2 * turns {
        let asid = Asid(turn % 2);
        if turn == 1 && shared && !machine.share(asid, addr, (Asid(0), addr)) {
            return Err(config("the segment cannot be shared".into()));
        }
        machine.switch(asid);
        machine.run(asid, &[Item::new(Kind::Store, addr)], &table);
    }
    Ok(machine.counts(0, [0, u64::from(2 * turns)]))
}
