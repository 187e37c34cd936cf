//! Which machines can be virtual machines.

use super::chosen;
use super::keys::{GUEST, HOST, HOST_FRACTURE, NESTED_TLB};
use crate::tlb::parts::hierarchy::cores::CORES;
use farreach_types::addr::Bytes;
use farreach_types::params::{PAGE_SIZE, Params};

/// The reach of a design's entries, as it matters with a host.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::tlb) enum Entries {
    /// One page each.
    Pages,
    /// One page each, with segment registers beside them; `served`: the registers translate the pages inside the
    /// segment.
    Segment { served: bool },
    /// Several pages in consecutive frames or in a group, derived from the guest's page table alone.
    Runs,
    /// Ranges, from the guest's range table.
    Ranges,
}

/// Base pages for which there is a page table: those of x86-64, and the other granules of Arm.
const GRANULES: [Bytes; 3] = [Bytes(4 << 10), Bytes(16 << 10), Bytes(64 << 10)];

/// Refuses impossible combinations with a part whose entries reach so far; `kind`: its key and value.
pub(in crate::tlb) fn check(params: &Params, kind: &str, entries: Entries) -> Result<(), String> {
    let (guest, host) = (params.text(GUEST.name), params.text(HOST.name));
    let refuse = |what: &str, with: &str, why: &str| Err(format!("{what} is not allowed with {with}: {why}"));
    let (of_guest, of_host) = (format!("guest = {guest}"), format!("host = {host}"));
    let page = Bytes(params.int(PAGE_SIZE.name));
    let of_page = format!("page_size = {page}");
    match (page == GRANULES[0], entries, guest) {
        (true, ..) => {}
        (false, Entries::Pages, "none") if GRANULES.contains(&page) => {}
        (false, Entries::Pages, "none") => {
            return Err(format!("{of_page} is not allowed: page tables have base pages of 4K, 16K or 64K"));
        }
        (false, Entries::Pages, _) => {
            return refuse(&of_page, &of_guest, "tables of virtual machines have pages of 4K, 2M and 1G");
        }
        (false, ..) => return refuse(&of_page, kind, "its page table is that of x86-64, with pages of 4K, 2M and 1G"),
    }
    match (guest, entries) {
        ("none", _) if host != HOST.default => {
            return refuse(
                &of_host,
                &of_guest,
                "there is no virtual machine; guest must be one of walk, segment, composed",
            );
        }
        ("none", _) => return Ok(()),
        ("segment" | "composed", Entries::Pages | Entries::Runs | Entries::Ranges) => {
            return refuse(
                &of_guest,
                kind,
                "it has no segment registers; guest must be none or walk, or kind must be segment",
            );
        }
        ("walk", Entries::Segment { served: true }) => {
            let why = "what lies inside the segment is not walked for; guest must be none, segment or composed, or \
                       segment_served_by must be pages";
            return refuse(&of_guest, "segment_served_by = registers", why);
        }
        ("segment" | "composed", Entries::Segment { served: false }) => {
            let why = "pages, and not the registers, translate inside the segment; guest must be none or walk";
            return refuse(&of_guest, "segment_served_by = pages", why);
        }
        _ => {}
    }
    if let Some(listed) = chosen(params) {
        (listed.check)(params)?;
    }
    let cores = params.int(CORES.name);
    if host != "segment" && params.int(NESTED_TLB.name) > 0 && cores > 1 {
        let what = format!("nested_tlb = {}", params.int(NESTED_TLB.name));
        return refuse(
            &what,
            &format!("cores = {cores}"),
            "each core would have a guest page table in places of its own",
        );
    }
    let (walks, fracture) = (host != "segment", params.flag(HOST_FRACTURE.name));
    match entries {
        Entries::Ranges if walks => refuse(
            &of_host,
            kind,
            "no table says which ranges of the guest are ranges of the system; host must be segment",
        ),
        Entries::Runs if walks && fracture => refuse(
            "host_fracture = true",
            &format!("{kind} and {of_host}"),
            "its entries reach beyond one page of the guest, and of the host perhaps; host_fracture must be false, or \
             host must be segment",
        ),
        _ => Ok(()),
    }
}
