//! mprotect: new attributes for mapped pages.

use crate::contract::What;
use crate::os::Os;
use crate::page_table::entry::attributes;
use crate::region::Region;
use farreach_types::addr::{Asid, VpnRange};
use farreach_types::event::Prot;

impl Os {
    /// New protection for a range.
    pub(crate) fn protect(&mut self, asid: Asid, range: VpnRange, prot: Prot) {
        let pieces = self.take(asid, range);
        for region in pieces.iter().filter(|r| r.prot != prot) {
            self.demote_edges_of(asid, region.range, range);
        }
        for region in pieces {
            self.put(asid, Region { prot, ..region.clone() });
            if region.prot != prot {
                self.reattribute(asid, region.range, prot);
            }
        }
    }

    /// New attributes for the mapped pages of a range.
    fn reattribute(&mut self, asid: Asid, range: VpnRange, prot: Prot) {
        let (mut changed, mut writable) = (Vec::new(), Vec::new());
        for vpn in self.space(asid).table.mapped_in(range) {
            let other = self.space(asid).table.update(vpn, |entry| {
                let new = attributes(prot, entry.cow);
                let other = entry.attr != new;
                if other {
                    entry.attr = new;
                    entry.forbidden = false;
                }
                other
            });
            if other.expect("just listed") {
                changed.push(vpn);
            } else if prot.write {
                writable.push(vpn);
            }
        }
        self.ranges_changed(asid, &changed);
        self.stale(asid, &changed);
        self.report(asid, &writable, What::Writable);
    }
}
