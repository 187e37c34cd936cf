//! Superpages with holes (PRF-1): a fault maps a group of 2 MB in the free frames of an aligned block, and the pages
//! whose places there are taken in frames elsewhere.
//!
//! In the page table all of them are base pages. That they make a superpage is a mark beside it, which hardware that
//! knows of holes reads with an entry ([`PageTableView::perforated`](crate::Os)). The mark ends when the translation of
//! one of its pages does, hole or not, as a superpage is split when a part of it changes (T94-42). Hardware is told of
//! each such change anyway, and has then dropped what it knew. That a mark begins need not be told: nothing of its
//! group was mapped before.

use crate::huge::inside;
use crate::os::Os;
use crate::page_table::entry::{Entry, attributes};
use crate::region::Region;
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::translation::Perforated;

impl Os {
    /// Maps a group for which there is no free block as a superpage with holes, if the policy has a place for one.
    /// Returns whether the page of the fault is mapped now: a hole may find no frame, and then waits for a touch.
    pub(super) fn perforated_fault(&mut self, asid: Asid, vpn: Vpn, region: &Region, group: VpnRange) -> bool {
        if !inside(group, region.range) || group.pages != 1 << Perforated::ORDER {
            return false;
        }
        let Some((base, holes)) = self.placement.perforated_block(&mut self.memory) else { return false };
        let attr = attributes(region.prot, false);
        let mark = Perforated { pfn: base, attr, holes };
        let entry = Entry { label: region.label, attr, present: true, populated: true, ..Entry::default() };
        let before = self.mapped;
        let pages: Vec<Vpn> = group.iter().collect();
        for run in pages.chunk_by(|one, other| mark.is_hole(*one) == mark.is_hole(*other)) {
            let pages = VpnRange { start: run[0], pages: run.len() as u64 };
            if !mark.is_hole(run[0]) {
                let pfn = Pfn(base.0 + pages.start.offset_in(Perforated::ORDER.into()));
                self.memory.fill_run(region.object, region.page_of(pages.start), pfn, pages.pages);
                self.map_run(asid, pages, Entry { pfn, ..entry });
                continue;
            }
            for hole in pages.iter() {
                let request = self.request_for(asid, hole, region);
                let Some(pfn) = self.placement.allocate(&mut self.memory, request) else { break };
                self.memory.fill(region.object, request.page, pfn);
                self.map_page(asid, hole, Entry { pfn, ..entry });
            }
        }
        let there = self.spaces[asid.0 as usize].table.update(vpn, |entry| entry.populated = false).is_some();
        let holes: u64 = holes.iter().map(|word| u64::from(word.count_ones())).sum();
        let counts = &mut self.memory.counts;
        counts.perforated_faults += 1;
        counts.perforated_holes += holes;
        counts.populated_pages += self.mapped - before - u64::from(there);
        counts.populated_in_superpages += group.pages - holes - u64::from(!mark.is_hole(vpn));
        self.spaces[asid.0 as usize].perforated.insert(group.start, mark);
        there
    }

    /// The translations of these pages are no longer valid: their superpages with holes end.
    pub(super) fn end_perforated(&mut self, asid: Asid, pages: VpnRange) {
        if let Some(space) = self.spaces.get_mut(asid.0 as usize).filter(|space| !space.perforated.is_empty()) {
            space
                .perforated
                .retain(|first, _| !VpnRange { start: *first, pages: 1 << Perforated::ORDER }.overlaps(&pages));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::What;
    use farreach_types::event::{Advice, Backing, Kind, Mapping, Op, Prot};
    use farreach_types::params::Params;
    use farreach_types::translation::PageTableView;
    use serde_json::{Map, json};

    const P: Asid = Asid(0);

    /// A system with this memory and share of free frames, in which frame 3 of each 2 MB belongs to others, and a
    /// process with two regions of 2 MB from page 0x200 on.
    fn os(memory: &str, share: f64, others: &[u64]) -> Os {
        let given = [("placement", json!("perforated")), ("memory", json!(memory)), ("perforated_free", json!(share))];
        let given: Map<_, _> = given.map(|(key, value)| (key.to_owned(), value)).into_iter().collect();
        let mut os = Os::new(&Params::resolve(&crate::keys("perforated"), &given).unwrap()).unwrap();
        for frame in others {
            assert!(os.memory.alloc.take(Pfn(*frame), 1));
        }
        os.memory.keep(others.len() as u64);
        os.apply(P, &Op::Start { pid: 1, parent: None, program: "/bin/p".into() });
        let map = Mapping { start: 2 << 20, len: 4 << 20, prot: Prot::RW, shared: false, backing: Backing::Heap };
        os.apply(P, &Op::Map(map));
        os
    }

    fn frames(os: &Os, first: u64) -> Vec<Option<u64>> {
        (first..first + 512).map(|vpn| os.pte(P, Vpn(vpn)).map(|pte| pte.pfn.0)).collect()
    }

    /// PRF-1: the lowest of the blocks with most free frames; the page whose place is taken lies elsewhere; a block
    /// that is wholly free makes an ordinary superpage.
    #[test]
    fn prf_1_by_hand() {
        let mut os = os("8M", 0.75, &[3, 512 + 7, 512 + 64, 1024 + 500]);
        os.touch(P, Vpn(0x203), Kind::Store).unwrap();
        assert_eq!((os.pte(P, Vpn(0x203)).unwrap().order, os.perforated(P, Vpn(0x203))), (9, None), "the last block");
        os.touch(P, Vpn(0x403), Kind::Store).unwrap();
        let there = frames(&os, 0x400);
        let hole = there[3].expect("it was touched");
        assert!((0..512).all(|i| i == 3 || there[i as usize] == Some(i)) && hole >= 512, "{hole}");
        let superpage = os.perforated(P, Vpn(0x5ff)).unwrap();
        assert_eq!((superpage.pfn, superpage.filter(), superpage.is_hole(Vpn(0x403))), (Pfn(0), 1, true));
        assert_eq!((0x400..0x600).filter(|vpn| superpage.is_hole(Vpn(*vpn))).count(), 1);
        let c = os.counts();
        assert_eq!([c.page_faults, c.superpage_faults, c.perforated_faults, c.perforated_holes], [2, 1, 1, 1]);
        assert_eq!([c.populated_pages, c.populated_in_superpages, c.superpage_fallbacks], [511 + 511, 511 + 511, 0]);
        os.check();
    }

    /// PRF-1: too few frames are free, and the fault brings in its page.
    #[test]
    fn prf_1_too_many_holes() {
        let others: Vec<u64> = (0..1024).filter(|frame| frame % 4 == 0).collect();
        for (share, superpages) in [(0.75, 1), (0.7501, 0), (1.0, 0)] {
            let mut os = os("4M", share, &others);
            os.touch(P, Vpn(0x201), Kind::Store).unwrap();
            let c = os.counts();
            assert_eq!((c.perforated_faults, c.superpage_fallbacks), (superpages, 1 - superpages), "{share}");
            assert_eq!(frames(&os, 0x200).iter().flatten().count(), if superpages == 1 { 512 } else { 1 });
            os.check();
        }
    }

    /// A hole that finds no frame waits for its touch, and is a hole all the same.
    #[test]
    fn holes_without_frames_wait() {
        let others: Vec<u64> = (0..100).collect();
        let mut os = os("2M", 0.75, &others);
        os.touch(P, Vpn(0x3ff), Kind::Load).unwrap();
        assert_eq!(frames(&os, 0x200).iter().flatten().count(), 412);
        assert!(os.perforated(P, Vpn(0x200)).unwrap().is_hole(Vpn(0x200)));
        assert!(os.touch(P, Vpn(0x200), Kind::Load).is_err(), "memory is full");
        os.check();
    }

    /// A change in a part of it ends the superpage, and is reported as a change of that part alone.
    #[test]
    fn a_change_ends_it() {
        for advice in [true, false] {
            for page in [0x203u64, 0x300] {
                let mut os = os("4M", 0.75, &[3, 515]);
                os.touch(P, Vpn(0x200), Kind::Store).unwrap();
                assert!(os.perforated(P, Vpn(page)).is_some());
                let mut changes = Vec::new();
                os.take_changes(&mut changes);
                let (start, len) = (page << 12, 4096);
                os.apply(
                    P,
                    &match advice {
                        true => Op::Advise { start, len, advice: Advice::DontNeed },
                        false => Op::Protect { start, len, prot: Prot { write: false, ..Prot::RW } },
                    },
                );
                assert_eq!((os.perforated(P, Vpn(page)), os.perforated(P, Vpn(0x3ff))), (None, None));
                os.take_changes(&mut changes);
                assert!(changes.iter().any(|c| c.what == What::Stale && c.pages == VpnRange::one(Vpn(page))));
                os.touch(P, Vpn(page), Kind::Load).unwrap();
                assert_eq!(frames(&os, 0x200).iter().flatten().count(), 512, "the rest stayed");
                os.check();
            }
        }
    }
}
