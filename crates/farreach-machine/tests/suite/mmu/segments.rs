//! Segment registers: the lookups they serve, their emulation, several sets.

use super::*;

/// CA-25, AMB-63, AMB-65.
#[test]
fn ds13_2_what_the_segment_serves() {
    let segment = Segment { base: Vpn(0x100), limit: Vpn(0x200), pfn: Pfn(0x100 + DISTANCE) };
    let memory = Memory { segment: Some(segment), ..Memory::default() };
    let mut design = tlb("segment", "");
    loads(&mut *design, &memory, 0x100..0x200);
    touch(&mut *design, &memory, Kind::Store, 0x100..0x200);
    assert_eq!(*design.counts(), TlbCounts::default(), "not even looked up");
    loads(&mut *design, &memory, [0xff, 0x200]);
    touch(&mut *design, &memory, Kind::Fetch, [0x100]);
    let c = design.counts();
    assert_eq!((c.data_misses, c.fetch_misses), (2, 1));
    // DS13-4, DS13-24: BASE = LIMIT, and the registers are loaded again.
    let off = Memory { segment: Some(Segment { limit: segment.base, ..segment }), ..Memory::default() };
    design.segment_changed(Asid(0), &mut Unfiltered::default());
    loads(&mut *design, &off, [0x100]);
    assert_eq!(design.counts().data_misses, 2, "the fetch brought it into the second level");
    loads(&mut *design, &off, [0x101]);
    assert_eq!(design.counts().data_misses, 3);
}

/// DS13-43: the owner of the registers, and their agreement with the page table (XC-3).
#[test]
fn f_2_registers_for_the_direct_map() {
    let over = |base, limit| Some(Segment { base: Vpn(base), limit: Vpn(limit), pfn: Pfn(base + DISTANCE) });
    let both = Memory { segment: over(0x100, 0x200), kernel: over(0x1000, 0x2000), ..Memory::default() };
    let alone = Memory { kernel: both.kernel, ..Memory::default() };
    // Misses of the kernel's pages beside the program's segment, alone, and beside it again.
    for (kernel, missed) in [("none", [64, 64, 64]), ("shared", [64, 0, 64]), ("own", [0, 0, 0])] {
        let mut design = tlb("segment", &format!("l1d=4K:4,l1i=4K:4,l2=none,kernel_segment={kernel}"));
        for (round, memory) in [&both, &alone, &both].into_iter().enumerate() {
            design.segment_changed(Asid(0), &mut Unfiltered::default());
            let before = design.counts().misses;
            for vpn in (0x1000 + 64 * round as u64..).take(64) {
                for kind in [Kind::Load, Kind::Store] {
                    touch(&mut *design, memory, kind, [vpn]);
                    let pte = memory.pte(Asid(0), Vpn(vpn)).unwrap();
                    let found = design.probe(Asid(0), Vpn(vpn), kind).map(|t| (t.pfn, t.attr));
                    assert_eq!(found, Some((pte.pfn, pte.attr)), "{kernel}: {vpn:#x}");
                }
            }
            assert_eq!(design.counts().misses - before, missed[round], "{kernel}, round {round}");
            let before = design.counts().misses;
            touch(&mut *design, memory, Kind::Fetch, [0x1800 + round as u64]);
            loads(&mut *design, memory, [0x2000 + round as u64, 0xfff - round as u64]);
            assert_eq!(design.counts().misses - before, 3, "{kernel}: fetches, and what lies outside, are paged");
            loads(&mut *design, memory, 0x100..0x108);
            let program = if memory.segment.is_some() { 0 } else { 8 };
            assert_eq!(design.counts().misses - before, 3 + program, "{kernel}: the program");
        }
    }
}

/// CA-28, DS13-25, DS13-30: emulation has the same translations, and counts the misses inside the segment separately.
#[test]
fn ds13_25_emulation() {
    let segment = Segment { base: Vpn(1000), limit: Vpn(2000), pfn: Pfn(1000 + DISTANCE) };
    let memory = Memory { segment: Some(segment), ..Memory::default() };
    let [mut registers, mut emulated, mut none] =
        [("segment", ""), ("segment", "segment_served_by=pages"), ("hierarchy", "")]
            .map(|(kind, keys)| tlb(kind, keys));
    let mut rng = Pcg64Mcg::seed_from_u64(1);
    for _ in 0..20_000 {
        let vpn = [950 + rng.next_u64() % 1100, rng.next_u64() % 3000][(rng.next_u64() % 2) as usize];
        for design in [&mut registers, &mut emulated, &mut none] {
            loads(&mut **design, &memory, [vpn]);
        }
    }
    let inside = emulated.counts().segment.misses_inside;
    assert_eq!((emulated.counts().misses, emulated.entries()), (none.counts().misses, none.entries()));
    assert!(inside > 1000 && registers.counts().misses < none.counts().misses - inside / 2, "{inside}");
    assert!(registers.counts().misses <= emulated.counts().misses - inside, "freed entries only help here");
}

/// F-20: several sets of registers equal a range TLB of as many entries in front of all levels, once it has found them
/// in its table.
#[test]
fn f_20_several_segments_are_a_range_tlb_without_a_table() {
    let k = 5;
    let memory = Memory { ranges: (0..k).map(|i| range(1000 * i, 100 + 50 * i)).collect(), ..Memory::default() };
    let mut segments = tlb("segment", &format!("segments={k},l1d=4K:8,l2=4K:32"));
    let mut ranges = tlb("range", &format!("range_entries={k},range_order=first,l1d=4K:8,l2=4K:32"));
    // The range TLB gets its ranges by one miss each, which the registers do not need. Then both drop their page
    // entries.
    loads(&mut *ranges, &memory, (0..k).map(|i| 1000 * i));
    assert_eq!(ranges.counts().misses, k);
    let others: Vec<u64> = (0..100).map(|i| 500 + 1000 * (i % k) + i / k).collect();
    for design in [&mut segments, &mut ranges] {
        loads(&mut **design, &memory, others.iter().copied());
    }
    let (before_segments, before_ranges) = (segments.counts().misses, ranges.counts().misses);
    let mut rng = Pcg64Mcg::seed_from_u64(20);
    for _ in 0..20_000 {
        let page = rng.next_u64() % (1000 * k);
        assert_eq!(loads(&mut *segments, &memory, [page]), loads(&mut *ranges, &memory, [page]), "page {page}");
    }
    let misses = segments.counts().misses - before_segments;
    assert_eq!(misses, ranges.counts().misses - before_ranges);
    assert!(misses > 5000, "{misses}");
    // With fewer sets the largest ranges are in them.
    let mut three = tlb("segment", "segments=3,l1d=4K:1,l2=none");
    let outcomes = loads(&mut *three, &memory, (0..k).map(|i| 1000 * i + 1));
    use Outcome::{Hit, TagMiss};
    assert_eq!(outcomes, [TagMiss, TagMiss, Hit, Hit, Hit]);
    assert_eq!(touch(&mut *three, &memory, Kind::Fetch, [4001]), [TagMiss], "AMB-63");
}
