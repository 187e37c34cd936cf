//! A design asked about a page table made by hand, for the entries that the papers draw: no operating system, no stream, no counts.

use super::spec::MachineSpec;
use crate::Error;
use crate::addr::{Asid, Vpn};
use crate::event::Kind;
use crate::hw::tlb::{EntryView, Lookup, Noise, PageTableView};

/// The entries of the machine's TLB after loads from these pages of address space 0, in order.
///
/// # Errors
/// The description is not acceptable, or the table has no entry for one of the pages.
pub fn entries_by_hand(spec: &MachineSpec, table: &dyn PageTableView, pages: &[Vpn]) -> Result<Vec<EntryView>, Error> {
    let config = |what: String| Error::Config { machine: spec.name.clone(), what };
    let design = spec.hardware.tlb().ok_or_else(|| config("kind: a TLB by itself is expected".into()))?;
    let mut tlb = (design.build)(&spec.params).map_err(config)?;
    let mut noise = Noise::default();
    for &vpn in pages {
        let pte = table.pte(Asid(0), vpn).ok_or_else(|| config(format!("the table has no entry for page {:#x}", vpn.0)))?;
        tlb.access(Lookup { asid: Asid(0), vpn, kind: Kind::Load }, pte, table, &mut noise);
        noise.clear();
    }
    Ok(tlb.entries())
}
