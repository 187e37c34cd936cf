//! The contract of daemons.

use crate::os::Os;
use crate::region::Region;
use farreach_types::addr::{Asid, Vpn, VpnRange};

/// Work that a system does by itself.
pub trait Daemon: Send {
    /// When it works next, in instructions; `u64::MAX`: not before it is told something.
    fn due(&self) -> u64;

    /// It is due, and this late: works, and has another time after it.
    fn run(&mut self, os: &mut Os, now: u64);

    /// A fault on a page of a region was served.
    fn faulted(&mut self, os: &Os, asid: Asid, vpn: Vpn, region: &Region) {
        let _ = (os, asid, vpn, region);
    }

    /// A region is advised to have superpages (MADV_HUGEPAGE).
    fn advised(&mut self, os: &Os, asid: Asid, region: &Region) {
        let _ = (os, asid, region);
    }

    /// Pages of a range lost their mappings there: unmapped, dropped or moved.
    fn unmapped(&mut self, asid: Asid, range: VpnRange) {
        let _ = (asid, range);
    }

    /// A range is not memory of the process any more: unmapped, or moved away.
    fn left(&mut self, asid: Asid, range: VpnRange) {
        let _ = (asid, range);
    }

    /// Other memory is free than before: after an event, a fault or a copy.
    fn memory_used(&mut self, os: &Os) {
        let _ = os;
    }

    /// Whether it wants to know of page walks.
    fn counts_walks(&self) -> bool {
        false
    }

    /// A process walked its page table at this time.
    fn walked(&mut self, asid: Asid, now: u64) {
        let _ = (asid, now);
    }

    /// A process ended.
    fn ended(&mut self, asid: Asid) {
        let _ = asid;
    }

    /// What it counts, by name.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}
