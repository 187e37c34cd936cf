//! Pages that change places: two pages take the frames of each other (RNG-3), which is two copies.

use crate::contract::What;
use crate::os::Os;
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};

impl Os {
    /// Unshared pages in consecutive frames, at most a superpage, take the frames from `to` on, which hold as many
    /// pages of another place, or those of other programs (`None`). These take their frames.
    pub(crate) fn exchange(&mut self, asid: Asid, pages: VpnRange, with: Option<(Asid, Vpn)>, to: Pfn) {
        let from = self.spaces[asid.0 as usize].table.get(pages.start).expect("only mapped pages are moved").pfn;
        for i in 0..pages.pages {
            let (here, there) = (Pfn(from.0 + i), Pfn(to.0 + i));
            self.reframe(asid, Vpn(pages.start.0 + i), here, there);
            match with {
                Some((other, first)) => {
                    self.reframe(other, Vpn(first.0 + i), there, here);
                    self.memory.swap_frames(here, there);
                }
                None => self.memory.swap_with_other(here, there),
            }
        }
        self.memory.counts.gathered_pages += 2 * pages.pages;
        let others = with.map(|(other, first)| (other, VpnRange { start: first, ..pages }));
        for (asid, pages) in std::iter::once((asid, pages)).chain(others) {
            self.ranges_changed(asid, &pages.iter().collect::<Vec<_>>());
            self.spaces[asid.0 as usize].table.pack(pages);
            self.change(asid, pages, What::Stale);
        }
    }

    /// A mapped page has another frame from now on, in page table and object.
    pub(crate) fn reframe(&mut self, asid: Asid, vpn: Vpn, from: Pfn, to: Pfn) {
        let region = self.region(asid, vpn);
        let changed = self.spaces[asid.0 as usize].table.update(vpn, |entry| entry.pfn = to);
        changed.expect("only mapped pages are moved");
        if self.memory.frame_of(region.object, region.page_of(vpn)) == Some(from) {
            self.memory.rename(region.object, region.page_of(vpn), to);
        }
    }
}
