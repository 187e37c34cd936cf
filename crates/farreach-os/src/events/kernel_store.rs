//! What the kernel stores for a program.

use crate::accessed::AccessBits;
use crate::contract::Unserved;
use crate::os::Os;
use farreach_types::addr::{Asid, VpnRange};
use farreach_types::event::Kind;

impl Os {
    /// The kernel stored to these pages: they get memory, and are modified, as by a store of the program. It goes by
    /// the page table of the program, so accessed bits are set (OSC-2); no policy counts it as a walk. If memory is
    /// full, that is in [`Os::take_unserved`].
    pub(super) fn kernel_store(&mut self, asid: Asid, range: VpnRange) {
        for vpn in range.iter() {
            if let Err(why) = self.touch(asid, vpn, Kind::Store) {
                self.unserved.get_or_insert(why);
                return;
            }
            if let AccessBits::Walk { .. } = self.access_bits {
                self.set_accessed(asid, vpn);
            }
        }
    }

    /// Why the last event could not be served, if so: to be asked after each [`Os::apply`].
    pub fn take_unserved(&mut self) -> Option<Unserved> {
        self.unserved.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::What;
    use crate::testing::*;
    use farreach_types::addr::{Pfn, Vpn};
    use farreach_types::event::Op;
    use farreach_types::translation::PageTableView;

    fn stored(os: &mut Os, asid: u32, start: u64, len: u64) -> Option<Unserved> {
        os.apply(Asid(asid), &Op::KernelStore { start, len });
        os.check();
        os.take_unserved()
    }

    /// Each page that has a byte of it gets memory, with a fault, and no other one does.
    #[test]
    fn pages_get_memory_where_the_kernel_stores() {
        let mut os = os("demand", "");
        map(&mut os, 16, 8);
        assert_eq!(stored(&mut os, 0, (17 << 12) + 4000, 4096 + 97), None);
        let there: Vec<u64> = (16..24).filter(|&vpn| os.pte(Asid(0), Vpn(vpn)).is_some()).collect();
        assert_eq!((there, os.counts().page_faults, os.counts().dirty_pages), (vec![17, 18, 19], 3, 3));
        // Again, and by the program: nothing more.
        assert_eq!(stored(&mut os, 0, 18 << 12, 1), None);
        store(&mut os, 17);
        assert_eq!((os.counts().page_faults, os.memory_use().touched_bytes), (3, 3 << 12));
    }

    /// Memory that was shared by a fork becomes the process's own, and TLBs are told.
    #[test]
    fn shared_pages_are_copied() {
        let mut os = os("demand", "");
        map(&mut os, 16, 2);
        let parent = store(&mut os, 16);
        os.apply(Asid(0), &Op::Fork { child: Asid(1) });
        changes(&mut os, What::Stale);
        assert_eq!(stored(&mut os, 1, (16 << 12) + 8, 8), None);
        let child = os.pte(Asid(1), Vpn(16)).map(|pte| pte.pfn);
        assert!(child.is_some_and(|pfn| pfn != Pfn(parent)), "{child:?}");
        assert_eq!((changes(&mut os, What::Stale), os.counts().cow_copies), (vec![(16, 1)], 1));
    }

    /// What is read into is not zeros (LNX-4).
    #[test]
    fn lnx_4_a_page_that_is_read_into_is_none_of_zeros() {
        let mut os = os("linux", "thp=never,zero_page=true");
        map(&mut os, 16, 4);
        assert_eq!(stored(&mut os, 0, 16 << 12, 4096), None);
        load(&mut os, 16);
        load(&mut os, 17);
        assert_eq!((counts(&os, ["zero_page_faults"]), os.counts().page_faults), ([1], 2));
        assert_eq!(stored(&mut os, 0, 17 << 12, 1), None);
        assert_eq!(os.counts().protection_faults, 1);
    }

    /// OSC-2.
    #[test]
    fn osc_2_accessed_bits_are_set() {
        let mut os = os("ingens", "");
        map(&mut os, 16, 4);
        assert!(os.counts_walks());
        assert_eq!(stored(&mut os, 0, 16 << 12, 1), None);
        store(&mut os, 17);
        let accessed = |vpn| os.spaces[0].table.get(Vpn(vpn)).unwrap().accessed;
        assert_eq!((accessed(16), accessed(17)), (true, false), "a touch that is no walk sets none");
    }

    #[test]
    fn full_memory_is_told() {
        let mut os = os("demand", "memory=16K");
        map(&mut os, 16, 8);
        let full = stored(&mut os, 0, 16 << 12, 5 << 12).expect("four frames");
        assert!(os.explain(full).contains("out of memory at page 0x14000"), "the fifth page");
        assert_eq!((os.counts().page_faults, os.take_unserved()), (5, None));
    }

    /// With pages of 16 KB.
    #[test]
    fn larger_base_pages() {
        let mut os = os("demand", "page_size=16K");
        map(&mut os, 16, 16);
        assert_eq!(stored(&mut os, 0, (19 << 12) + 4095, 2), None);
        let there: Vec<u64> = (4..8).filter(|&vpn| os.pte(Asid(0), Vpn(vpn)).is_some()).collect();
        assert_eq!((there, os.counts().page_faults), (vec![4, 5], 2));
    }
}
