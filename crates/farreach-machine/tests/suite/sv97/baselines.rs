//! The machines that softvm is compared with (SV97-30 to SV97-32, SV97-42, AMB-40, AMB-50, CA-24), reference by
//! reference.

use super::world::{RWX, Table, spec, system};
use farreach_hw::system::{Item, RandomTlb, System};
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::counts::SystemCounts;
use farreach_types::event::Kind;
use farreach_types::translation::{Attr, Translation};

struct Run {
    machine: Box<dyn System>,
    table: Table,
    name: String,
}

impl Run {
    fn new(name: &str) -> Run {
        let mut machine = system(name, false);
        machine.switch(Asid(0));
        Run { machine, table: Table::default(), name: name.into() }
    }
    /// After a fetch from another segment, so that handlers are resident, and the first segment's entries are not in
    /// the way.
    fn begun(name: &str) -> Run {
        let mut run = Run::new(name);
        run.go(Kind::Fetch, 0x7000_0040);
        run
    }
    fn go(&mut self, kind: Kind, addr: u64) {
        self.machine.run(Asid(0), &[Item::new(kind, addr)], &self.table);
    }
    fn counts(&self) -> SystemCounts {
        self.machine.counts(0, [1 << 40; 2])
    }
    /// Cycles of the references to these addresses, one by one.
    fn loads(&mut self, addrs: &[u64]) -> Vec<u64> {
        let params = spec(&self.name);
        let cycles = |c: &SystemCounts| farreach_cost::system::miss_cycles(c, &params);
        let one = |addr: &u64| {
            let before = cycles(&self.counts());
            self.go(Kind::Load, *addr);
            cycles(&self.counts()) - before
        };
        addrs.iter().map(one).collect()
    }
}

/// The golden trace of CA-21 on each machine.
const GOLDEN: [u64; 6] = [0x400000, 0x400010, 0x401000, 0x404000, 0x800000, 0x10000000];

/// SV97-30: a miss whose entry is in L1-D costs 10; a new page of the page table costs a root refill beside it.
#[test]
fn mips_costs() {
    // Both handlers are resident: two runs of 10, six lines of code, root and entry from memory.
    let mut r = Run::begun("sv97/mips");
    let c = r.counts();
    assert_eq!((c.tlb_misses, c.tlb_root_misses, c.handler.fetch_runs, c.handler.data_runs), (1, 1, 1, 1));
    assert_eq!((c.handler.l1i_misses, c.handler.l2i_misses, c.handler.loads, c.handler.l2d_misses), (6, 6, 2, 2));
    // Cold: 10 + 10, root 110, entry 110. Same page: nothing, though both levels miss. Next page, same line of entries:
    // 10. Another line: 10 + 110. Another page of the table: root resident in its line, so 10 + 10 + 110; another
    // segment: all.
    assert_eq!(r.loads(&GOLDEN), [240, 0, 10, 120, 130, 240]);
    assert_eq!(r.loads(&GOLDEN), [0; 6], "all pages are in the TLB now");
}

/// SV97-30: in the machine, too, pages of the page table have slots of their own. With one ordinary slot two pages
/// displace each other again and again, while the page of the page table that has both their entries stays.
#[test]
fn sv97_30_pages_of_the_page_table_stay_in_their_slots() {
    for split in ["false", "true"] {
        let mut r = Run::new(&format!("sv97/mips:entries=9,reserved=8,split={split}"));
        for _ in 0..10 {
            r.loads(&[0x10_0000, 0x10_1000]);
        }
        assert_eq!((r.counts().tlb_misses, r.counts().tlb_root_misses), (20, 1), "split = {split}");
        // Eight of them have room, a ninth takes the slot of one of these.
        let tables = |n: u64| (0..n).map(|i| 0x10_0000 + (i << 22)).collect::<Vec<u64>>();
        (0..3).for_each(|_| _ = r.loads(&tables(8)));
        assert_eq!(r.counts().tlb_root_misses, 8, "split = {split}");
        r.loads(&tables(9));
        assert_eq!(r.counts().tlb_root_misses, 9, "split = {split}");
    }
}

/// AMB-40 and Table 1: a TLB miss is served where the caches hit, and each class is counted.
#[test]
fn event_classes() {
    let mut r = Run::new("sv97/mips:entries=3,reserved=2");
    // One ordinary entry. Lines that share no set with each other or with page table entries.
    let (a, b) = (0x10_0850, 0x10_1850);
    r.go(Kind::Load, a);
    assert_eq!(r.counts().data.events[5], 1, "memory, no TLB");
    r.go(Kind::Load, a + 16);
    assert_eq!(r.counts().data.events[4], 1, "memory, TLB");
    r.go(Kind::Load, b);
    r.go(Kind::Load, a);
    assert_eq!(r.counts().data.events[1], 1, "L1, no TLB");
    // A second-level hit: another page of the program with the same first-level set displaces the line.
    r.go(Kind::Load, a + 0x2000);
    r.go(Kind::Load, a);
    assert_eq!(r.counts().data.events[3], 1, "L2, no TLB");
    r.go(Kind::Load, a + 0x10);
    r.go(Kind::Load, a + 0x10 + 0x200);
    let c = r.counts();
    assert_eq!(c.tlb_misses, c.data.events[1] + c.data.events[3] + c.data.events[5]);
    assert_eq!(c.data.events[2], 0, "L2, TLB");
    assert_eq!(c.data.l2_misses, c.data.events[4] + c.data.events[5]);
}

/// H-SV-2: on TLB misses that hit a cache softvm pays nothing; on cache misses that hit the TLB it pays where the TLB
/// machine does not.
#[test]
fn who_pays_where() {
    // 80 pages, a line each, all in the caches: the TLB misses, the caches do not.
    let pages: Vec<u64> = (0..80u64).map(|i| i << 12 | 0x850).collect();
    let (mut softvm, mut mips) = (Run::new("sv97/softvm:l1_size=512K"), Run::new("sv97/mips:l1_size=512K"));
    for r in [&mut softvm, &mut mips] {
        r.loads(&pages);
    }
    assert_eq!(softvm.loads(&pages).iter().sum::<u64>(), 0);
    assert!(mips.loads(&pages).iter().sum::<u64>() > 0);
    // Many lines of one page.
    let lines: Vec<u64> = (0..200u64).map(|i| 0x1F00_0000 + i * 16).collect();
    let (s, m) = (softvm.loads(&lines), mips.loads(&lines));
    assert_eq!(s[1..].iter().sum::<u64>(), 1990);
    assert_eq!(m[1..].iter().sum::<u64>(), 0);
}

/// SV97-31, SV97-32: the same misses without code; in VMP root entries cost nothing.
#[test]
fn spur_and_vmp_costs() {
    // 3 instead of 10 for each run.
    assert_eq!(Run::begun("sv97/spur").loads(&GOLDEN), [226, 3, 3, 116, 116, 226]);
    // 10 + UPTE 20 + 10 + 90, and never a root entry's 20 or 110.
    assert_eq!(Run::begun("sv97/vmp").loads(&GOLDEN), [130, 10, 10, 130, 130, 130]);
    // The local memory is read as often as the caches would be.
    let mut vmp = Run::new("sv97/vmp");
    vmp.go(Kind::Load, 0x1000);
    assert_eq!(
        (vmp.counts().handler.loads, vmp.counts().handler.l1d_misses, vmp.counts().handler.l2d_misses),
        (2, 1, 0)
    );
    let mut spur = Run::new("sv97/spur");
    spur.go(Kind::Fetch, 0x1000);
    assert_eq!((spur.counts().handler.l1i_misses, spur.counts().handler.fetch_runs), (0, 1));
}

/// The walker: 7 and two loads at physical addresses, 110 each from memory.
#[test]
fn x86_costs() {
    let mut r = Run::begun("sv97/x86");
    assert_eq!(r.loads(&GOLDEN), [227, 0, 7, 117, 117, 227]);
    // Physical caches: a second page of the same frame finds the lines of the first.
    r.table.map(0, 0x20000, 9, RWX);
    r.table.map(0, 0x20001, 9, RWX);
    r.go(Kind::Store, 0x2000_0040);
    let before = r.counts().data.l1_misses;
    r.go(Kind::Load, 0x2000_1040);
    assert_eq!(r.counts().data.l1_misses, before);
    // A mapping that changes leaves the TLB, a process switch empties it.
    let misses = r.counts().tlb_misses;
    r.table.map(0, 0x20000, 10, RWX);
    r.machine.changed(Asid(0), VpnRange::one(Vpn(0x20000)), &r.table);
    r.go(Kind::Load, 0x2000_0040);
    assert_eq!((r.counts().tlb_misses, r.counts().tlb_invalidations), (misses + 1, 1));
    let entries = 1 + 5 + 2; // The fetch, five golden pages, and both of the last.
    r.machine.switch(Asid(1));
    assert_eq!(r.counts().tlb_invalidations, 1 + entries);
}

/// CA-24, SV97-30: ordinary entries never take reserved slots, for any random numbers.
#[test]
fn reserved_slots_are_never_taken() {
    for seed in 0..4 {
        let mut tlb = RandomTlb::new(&spec(&format!("sv97/mips:seed={seed}")), 8).unwrap();
        let it = Translation { pfn: Pfn(1), attr: Attr(1) };
        let roots: Vec<u64> = (0..8).map(|i| 1 << 39 | i).collect();
        roots.iter().for_each(|&page| tlb.fill_reserved(page, it));
        let mut hits = 0;
        for i in 0..50_000u64 {
            let page = i * i % 977;
            match tlb.find(page) {
                Some(_) => hits += 1,
                None => tlb.fill(page, it),
            }
            assert_eq!(tlb.pages()[1], roots);
        }
        assert!(hits > 1000);
        assert_eq!(tlb.pages()[0].len(), 56);
        // A root entry takes a reserved slot only.
        let ordinary = tlb.pages()[0].clone();
        tlb.fill_reserved(1 << 39 | 99, it);
        assert_eq!(tlb.pages()[0], ordinary);
        assert_eq!(tlb.pages()[1].iter().filter(|p| roots.contains(p)).count(), 7);
    }
}

#[test]
fn wrong_descriptions_are_refused() {
    for (text, words) in [
        ("sv97/mips:entries=8", &["reserved = 8", "at least one"][..]),
        ("sv97/softvm:l1_ways=3", &["power of two"]),
        ("sv97/softvm:line=64,l2_line=32", &["shorter"]),
        ("sv97/softvm:l2_line=48", &["l2_line", "power of two"]),
        ("sv97/softvm:synonyms=aligned,l2_ways=2", &["synonyms = aligned", "direct-mapped"]),
        ("sv97/softvm:table=trie", &["table = trie", "linear, radix, hashed, clustered, guarded"]),
        ("sv97/softvm:page_size=16K", &["page_size = 16K", "pages of 4K"]),
        ("sv97/softvm:handler_at=6", &["handler_at = 6", "multiples of 4"]),
        ("sv97/mips:handler_at=2M", &["handler_at", "983040"]),
    ] {
        use farreach_machine::{Lab, MachineSpec, Options};
        let lab = MachineSpec::parse(text, 0).and_then(|spec| Lab::new(vec![spec], Options::default()));
        let error = lab.err().unwrap_or_else(|| panic!("{text} is accepted")).to_string();
        assert!(words.iter().chain([&text]).all(|w| error.contains(w)), "{text}: {error}");
    }
}
