//! Random streams of lookups, changes, superpages and switches through a machine with prefetching and one without.

use super::*;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// A small machine, so that much is evicted everywhere.
const TLBS: &str = "l1d=4K:4/2+2M:2,l1i=4K:2+2M:1,l2=4K|2M:8/4+1G:2,pwc_pd=2,pwc_pdpt=2,pwc_pml4=1";
/// Slots of its TLBs.
const SLOTS: usize = 4 + 2 + 2 + 1 + 8 + 2;

const PREFETCHERS: [&str; 22] = [
    "prefetcher=morrigan,prefetch_free=all",
    "prefetcher=sequential,prefetch_degree=3",
    "prefetcher=sequential,prefetch_on=walk,prefetch_free=all",
    "prefetcher=stride,prefetch_rows=4",
    "prefetcher=markov,prefetch_rows=8,prefetch_row_ways=2",
    "prefetcher=distance,prefetch_rows=8",
    "prefetcher=distance,prefetch_rows=4,dp_allocate=lookup,dp_train=first,prefetch_free=static",
    "prefetcher=recency,rp_prefetch=3",
    "prefetcher=recency,rp_reference=walk,predictors_on_switch=keep,prefetch_on=walk",
    "prefetcher=h2p,h2p_signs=both,predict_unit=base",
    "prefetcher=h2p,prefetch_filter=none",
    "prefetcher=masp,prefetch_rows=8,pb_for=data",
    "prefetcher=stp,prefetch_filter=l1,predictors_on_switch=keep",
    "prefetcher=stp,prefetch_fills_pwc=false,pb_for=fetch",
    "prefetcher=atp",
    "prefetcher=atp,prefetch_free=sbfp,sbfp_threshold=2",
    "prefetcher=atp,prefetch_free=sbfp,sbfp_threshold=2,predict_unit=base,atp_fpq_free=false,pb_entries=3",
    "prefetcher=none,prefetch_free=sbfp,sbfp_threshold=0,sbfp_sampler=5,fdt_per_size=true",
    "prefetcher=none,prefetch_free=sbfp,sbfp_threshold=3,sampler_keep=true",
    "prefetcher=sequential,prefetch_delay=4,prefetch_degree=2",
    "prefetcher=stp,process_ids=false,pb_entries=1",
    "prefetcher=atp,prefetch_free=sbfp,sbfp_threshold=1,process_ids=false,predictors_on_switch=keep",
];

/// A page table that changes: 24 groups of 512 pages in each of two processes. A group is absent, base pages with
/// gaps, a superpage, or base pages with mappings of 16 pages.
struct World {
    table: Table,
    rng: Pcg64Mcg,
    running: Asid,
    /// The latest page, so that streams have runs.
    page: u64,
    /// The kind of its step, for the program counter.
    pc: u64,
    frame: u64,
}

const GROUPS: u64 = 24;

impl World {
    fn new(seed: u64) -> World {
        let mut world = World {
            table: Table::default(),
            rng: Pcg64Mcg::seed_from_u64(seed),
            running: Asid(0),
            page: 0,
            pc: 0,
            frame: 1 << 18,
        };
        for group in 0..2 * GROUPS {
            world.fill(Asid((group / GROUPS) as u32), group % GROUPS);
        }
        // A page of 1 GB, and the last page of programs.
        world.table.map(Asid(0), 1 << 18, 18, 1 << 20);
        world.table.map(Asid(0), (1 << 35) - 1, 0, 77);
        world
    }

    /// Maps a group afresh.
    fn fill(&mut self, asid: Asid, group: u64) {
        let first = group << 9;
        self.table.0.retain(|(of, page), _| *of != asid || *page >> 9 != group);
        self.frame += 512;
        match self.rng.random_range(0..6) {
            0 => {}
            1 | 2 => self.table.map(asid, first, 9, self.frame),
            3 => (0..512).step_by(16).for_each(|page| self.table.map(asid, first + page, 4, self.frame + page)),
            _ => {
                for page in (0..40).filter(|page| page % 7 != 3) {
                    self.table.map(asid, first + page, 0, self.frame + page);
                }
            }
        }
    }

    /// The next lookup.
    fn next(&mut self) -> Option<(Lookup, Pte)> {
        self.pc = self.rng.random_range(0..9);
        self.page = match self.pc {
            0 => self.rng.random_range(0..GROUPS) << 9,
            1 => (self.rng.random_range(0..GROUPS) << 9) + self.rng.random_range(0..40),
            2 => [(1 << 18) + 5, (1 << 35) - 1][self.rng.random_range(0..2)],
            3 => self.page.saturating_sub(self.rng.random_range(0..3)),
            4 => self.page + 512,
            5 => self.page + 2,
            _ => self.page + self.rng.random_range(1..3),
        };
        let kind = [Kind::Load, Kind::Store, Kind::Load, Kind::Fetch][self.rng.random_range(0..4)];
        let at = Lookup { asid: self.running, vpn: Vpn(self.page), kind };
        Some((at, self.table.pte(at.asid, at.vpn)?))
    }
}

/// One change, told to each machine.
fn change(world: &mut World, machines: &mut [&mut Hierarchy<Paging>]) {
    let asid = Asid(world.rng.random_range(0..2));
    let group = world.rng.random_range(0..GROUPS);
    let whole = VpnRange { start: Vpn(group << 9), pages: 512 };
    let unfiltered = &mut Unfiltered::default();
    match world.rng.random_range(0..12) {
        0..4 => {
            world.fill(asid, group);
            machines.iter_mut().for_each(|tlb| tlb.invalidate(asid, whole, unfiltered));
        }
        4..7 => {
            let one = VpnRange::one(Vpn((group << 9) + world.rng.random_range(0..40)));
            if world.table.pte(asid, one.start).is_some_and(|pte| pte.order == 0) {
                world.table.map(asid, one.start.0, 0, world.frame + 777);
                machines.iter_mut().for_each(|tlb| tlb.invalidate(asid, one, unfiltered));
            }
        }
        7 | 8 => {
            // A superpage is split; its pages stay where they are.
            let Some(pte) = world.table.pte(asid, whole.start).filter(|pte| pte.order == 9) else { return };
            (0..512).for_each(|page| world.table.map(asid, whole.start.0 + page, 0, pte.pfn.0 + page));
            machines.iter_mut().for_each(|tlb| tlb.demote(asid, whole, unfiltered));
        }
        9 => {
            // All pages become a superpage where they are. TLBs are not told.
            let pages = |page| world.table.pte(asid, Vpn(whole.start.0 + page));
            let Some(first) = pages(0).filter(|pte| pte.order == 0 && pte.pfn.0.is_multiple_of(512)) else { return };
            if (0..512).all(|page| pages(page).is_some_and(|pte| pte.pfn.0 == first.pfn.0 + page)) {
                world.table.0.retain(|(of, page), _| *of != asid || *page >> 9 != group);
                world.table.map(asid, whole.start.0, 9, first.pfn.0);
            }
        }
        10 => {
            machines.iter_mut().for_each(|tlb| tlb.invalidate_space(Asid(1), unfiltered));
        }
        _ => {
            world.running = Asid(1 - world.running.0);
            machines.iter_mut().for_each(|tlb| tlb.switch(world.running, unfiltered));
        }
    }
}

/// HW-3, HW-L1, PB-10, SBFP-6, and XC-3, which the hierarchy checks.
#[test]
fn tlbs_are_those_of_a_machine_without() {
    for (seed, keys) in (0..).zip(PREFETCHERS) {
        let ids = if keys.contains("process_ids") { ",process_ids=false" } else { "" };
        let params = resolve(&format!("{TLBS}{ids}"), &[]).unwrap();
        let mut base = Hierarchy::<Paging>::new(&params, Paging::new(&params).unwrap(), &[]).unwrap();
        let entries = if keys.contains("pb_entries") { "" } else { ",pb_entries=6" };
        let mut machine = Machine::new(&format!("{TLBS}{entries},{keys}"), Table::default());
        let mut world = World::new(seed);
        for step in 0..10000_u64 {
            if world.rng.random_range(0..40) == 0 {
                change(&mut world, &mut [&mut base, &mut machine.tlb]);
            }
            let Some((at, pte)) = world.next() else { continue };
            machine.tlb.latest_fetch(world.pc);
            machine.tlb.position(step);
            let hits = machine.own().get("hits");
            let without = base.access(at, pte, &world.table, &mut Unfiltered::default());
            let with = machine.tlb.access(at, pte, &world.table, &mut Unfiltered::default());
            let hit = machine.own().get("hits") > hits;
            assert_eq!(with.outcome, if hit { Outcome::Hit } else { without.outcome }, "{keys} {step}");
            assert!(!hit || without.outcome != Outcome::Hit, "{keys} {step}: PB-2");
            assert_eq!(machine.tlb.entries_in(0..SLOTS), base.entries_in(0..SLOTS), "{keys} {step}: HW-3");
            machine.check_laws();
        }
        let (with, without) = (&machine.tlb.counts, &base.counts);
        assert_eq!(with.misses + machine.own().get("hits"), without.misses, "{keys}: HW-L1");
        assert_eq!((with.evictions, with.invalidations), (without.evictions, without.invalidations), "{keys}");
        let [hits, invalidated, brought, free] = machine.count(["hits", "invalidated", "prefetched", "free"]);
        assert!(hits > 3 && invalidated > 0 && brought + free > hits, "{keys}: {:?}", machine.own());
    }
}

/// PB-3: only the laws of the buffer hold.
#[test]
fn into_the_second_level() {
    for keys in ["prefetcher=stp", "prefetcher=recency", "prefetcher=atp,prefetch_free=sbfp,sbfp_threshold=0"] {
        let mut machine = Machine::new(&format!("{TLBS},prefetch_into=l2,{keys}"), Table::default());
        let mut world = World::new(3);
        for _ in 0..6000 {
            if world.rng.random_range(0..40) == 0 {
                change(&mut world, &mut [&mut machine.tlb]);
            }
            let Some((at, pte)) = world.next() else { continue };
            machine.tlb.latest_fetch(world.pc);
            machine.tlb.access(at, pte, &world.table, &mut Unfiltered::default());
            machine.check_laws();
        }
        let [hits, resident, into] = machine.count(["hits", "resident", "into_l2"]);
        assert!(hits == 0 && resident == 0 && into > 100, "{keys}: {:?}", machine.own());
    }
}

/// HW-4: off, all counts are those of a machine without.
#[test]
fn off_is_the_baseline() {
    let off = ["prefetcher=none,prefetch_free=none", "prefetcher=sequential,prefetch_degree=0"];
    for keys in off {
        let params = resolve(TLBS, &[]).unwrap();
        let mut base = Hierarchy::<Paging>::new(&params, Paging::new(&params).unwrap(), &[]).unwrap();
        let mut machine = Machine::new(&format!("{TLBS},{keys}"), Table::default());
        let mut world = World::new(9);
        for _ in 0..4000 {
            if world.rng.random_range(0..40) == 0 {
                change(&mut world, &mut [&mut base, &mut machine.tlb]);
            }
            let Some((at, pte)) = world.next() else { continue };
            for tlb in [&mut base, &mut machine.tlb] {
                tlb.access(at, pte, &world.table, &mut Unfiltered::default());
            }
        }
        assert_eq!(machine.tlb.counts, base.counts, "{keys}");
        assert!(machine.tlb.counts.parts.is_empty());
    }
}
