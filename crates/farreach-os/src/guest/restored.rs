//! Translations that a processor uses though the tables do not have them any more: another processor has changed them,
//! and this one was not told yet. The recording says so before each block that uses one. What a machine does not have
//! any more is mapped again, as a page of its own with all rights, until the tables change again, or the processor
//! writes a register, drops translations, or stops. A page that the tables map elsewhere by then is used as they say.

use super::Guest;
use super::format::{Leaf, Rights};
use crate::os::Os;
use farreach_types::addr::{Asid, GUEST_ADDRESS_BITS, KERNEL, Vpn, VpnRange};

impl Guest {
    /// The running processor uses this translation next: of a page of 4 KB, to a physical address.
    pub(super) fn restore(&mut self, os: &mut Os, asid: Asid, page: u64, address: u64) -> Result<(), String> {
        if page >> GUEST_ADDRESS_BITS != 0 {
            return Err(format!("a stale translation of {page:#x}; addresses have {GUEST_ADDRESS_BITS} bits"));
        }
        let vpn = Vpn(page >> os.shift);
        let upper = os.is_upper(vpn);
        let asid = if upper { KERNEL } else { asid };
        os.space(asid);
        if !upper {
            self.enter(os, asid);
        }
        let is_mapped = os.spaces[asid.0 as usize].table.get(vpn).is_some();
        if is_mapped || self.bring_in(os, asid, vpn, upper).is_ok() {
            return Ok(());
        }
        let leaf = Leaf { pfn: address >> os.shift, order: 0, attr: Rights::ALL.attributes(), global: true };
        self.insert(os, asid, VpnRange::one(vpn), leaf);
        self.restored.push((asid, vpn));
        self.counts.restored_pages += 1;
        Ok(())
    }

    /// No translation is restored any more.
    pub(super) fn forget_restored(&mut self, os: &mut Os) {
        for (asid, vpn) in std::mem::take(&mut self.restored) {
            self.remove(os, asid, VpnRange::one(vpn));
        }
    }
}
