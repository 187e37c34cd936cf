use super::*;
use crate::tlb::{Lookup, Outcome, Tlb, Unfiltered};
use farreach_types::addr::{Pfn, Vpn, VpnRange};
use farreach_types::event::Kind;
use farreach_types::translation::{Attr, PageTableView, Pte};
use serde_json::{Map, Value as Json};

fn mechanism(name: &str, cores: usize, keys: &[(&str, &str)]) -> Box<dyn Mechanism> {
    let mut all = vec![&SHOOTDOWN, &crate::tlb::keys::PROCESS_IDS];
    all.extend(super::keys(name).unwrap());
    let given: Map<String, Json> =
        [("shootdown", name)].iter().chain(keys).map(|(key, value)| (key.to_string(), (*value).into())).collect();
    build(&Params::resolve(&all, &given).unwrap(), cores as u64).unwrap().unwrap()
}

fn pages(asid: u32, pages: u64) -> FlushRequest {
    FlushRequest {
        asid: Asid(asid),
        pages: VpnRange { start: Vpn(0x100), pages },
        order: 0,
        tables: false,
        unmapped: false,
    }
}

fn plan(pages: u64, whole: u64, interrupted: u64, broadcasts: u64) -> Plan {
    Plan { pages, whole, interrupted, broadcasts, ..Plan::default() }
}

/// OS-SHD-4, first example.
#[test]
fn os_shd_4_six_processes_flush_once_each() {
    let drops = |processes: u32, keys: &[(&str, &str)]| {
        let mut mechanism = mechanism("generations", 1, keys);
        let turns = (0..3).flat_map(|_| 0..processes);
        turns.map(|asid| mechanism.switch(0, Asid(asid))).filter(|drop| *drop != AtSwitch::Nothing).count()
    };
    assert_eq!(drops(6, &[]), 6, "only the first six: slots are flushed when they are taken");
    assert_eq!(drops(7, &[]), 21, "each takes the slot of the one that comes next");
    assert_eq!(drops(2, &[("process_ids", "false")]), 6);
    // The one that loses its slot is dropped.
    let mut mechanism = mechanism("generations", 1, &[("pcid_slots", "2")]);
    let drops = [1, 2, 3, 2, 1].map(|asid| mechanism.switch(0, Asid(asid)));
    let [first, second] = [1, 2].map(|asid| AtSwitch::Space(Asid(asid)));
    assert_eq!(drops, [first, second, first, AtSwitch::Nothing, second]);
}

/// OS-SHD-1, second and third example.
#[test]
fn os_shd_1_more_than_33_pages_drop_the_process() {
    let mut mechanism = mechanism("generations", 2, &[]);
    mechanism.switch(0, Asid(7));
    assert_eq!(mechanism.request(&pages(7, 33), 0), plan(1, 0, 0, 0));
    assert_eq!(mechanism.request(&pages(7, 34), 0), plan(0, 1, 0, 0));
    let huge = FlushRequest { order: 9, ..pages(7, 32 << 9) };
    assert_eq!((huge.strides(), mechanism.request(&huge, 0)), (32, plan(1, 0, 0, 0)));
    // Another core with the process is interrupted (OS-SHD-2), one with another process is not, and catches up.
    mechanism.switch(1, Asid(7));
    assert_eq!(mechanism.request(&pages(7, 4), 0), plan(0b11, 0, 0b10, 0));
    mechanism.switch(1, Asid(8));
    assert_eq!(mechanism.request(&pages(7, 4), 0), plan(1, 0, 0, 0));
    assert!(mechanism.is_behind(1, Asid(7)) && !mechanism.is_behind(0, Asid(7)));
    assert_eq!(mechanism.switch(1, Asid(7)), AtSwitch::Space(Asid(7)));
    assert!(!mechanism.is_behind(1, Asid(7)));
    assert_eq!(mechanism.switch(1, Asid(7)), AtSwitch::Nothing);
}

/// OS-SHD-3, end of the second example.
#[test]
fn os_shd_3_lazy_cores_are_not_interrupted() {
    let mut mechanism = mechanism("generations", 2, &[("other_cores", "idle")]);
    mechanism.switch(1, Asid(7));
    mechanism.switch(0, Asid(7));
    assert_eq!([(); 2].map(|()| mechanism.request(&pages(7, 4), 0)), [plan(1, 0, 0, 0); 2]);
    assert!(mechanism.is_behind(1, Asid(7)));
    assert_eq!(mechanism.switch(1, Asid(7)), AtSwitch::Space(Asid(7)), "two behind");
    assert_eq!(mechanism.switch(0, Asid(7)), AtSwitch::Nothing);
    // With pages of the table freed it is interrupted, once: then it has the kernel's table.
    let tables = FlushRequest { tables: true, ..pages(7, 4) };
    assert_eq!([(); 2].map(|()| mechanism.request(&tables, 0)), [plan(1, 0, 2, 0), plan(1, 0, 0, 0)]);
    assert_eq!(mechanism.switch(1, Asid(7)), AtSwitch::Space(Asid(7)));
}

/// OS-SHD-8: an instruction for each page, below 512; ranges; ids that run out.
#[test]
fn os_shd_8_broadcasts_interrupt_no_core() {
    let mut arm = mechanism("broadcast", 3, &[]);
    assert_eq!(arm.request(&pages(7, 511), 0), plan(0b111, 0, 0, 511));
    assert_eq!(arm.request(&pages(7, 512), 0), plan(0, 0b111, 0, 1));
    let mut arm = mechanism("broadcast", 3, &[("broadcast_ranges", "true")]);
    // 512 pages: 16 units of 32 pages... of 2^6 pages, 8 of them. 515: also one unit of two pages, and one page.
    let instructions = [1, 2, 512, 515, (1 << 21) - 1, 1 << 21].map(|n| arm.request(&pages(7, n), 0).broadcasts);
    assert_eq!(instructions, [1, 1, 1, 3, 5, 1]);
    assert_eq!(arm.request(&pages(7, 1 << 21), 0).whole, 0b111);
    // Ids 1 to 3 for two cores; the fourth process begins anew.
    let mut arm = mechanism("broadcast", 2, &[("space_ids", "4")]);
    let drops = [(0, 1), (1, 2), (0, 3), (0, 1), (0, 4), (1, 2), (1, 4)].map(|(core, of)| arm.switch(core, Asid(of)));
    let [no, all] = [AtSwitch::Nothing, AtSwitch::Everything];
    assert_eq!(drops, [no, no, no, no, all, no, all], "core 1 runs on, and drops everything when it switches");
    // The id of a process that has ended is used up.
    let mut arm = mechanism("broadcast", 2, &[("space_ids", "3")]);
    assert_eq!([1, 2].map(|asid| arm.switch(0, Asid(asid))), [no, no]);
    arm.ended(Asid(1));
    assert_eq!(arm.switch(0, Asid(1)), all);
    let all: Vec<_> = [&SHOOTDOWN, &crate::tlb::keys::PROCESS_IDS]
        .into_iter()
        .chain(super::keys("broadcast").unwrap().iter().copied())
        .collect();
    let given =
        [("shootdown", "broadcast"), ("space_ids", "3")].map(|(key, value)| (key.to_string(), Json::from(value)));
    let params = Params::resolve(&all, &given.into_iter().collect()).unwrap();
    assert!(build(&params, 2).is_ok());
    let refused = build(&params, 3).err().unwrap();
    assert!(refused.contains("space_ids = 3") && refused.contains("at least 4"), "{refused}");
}

/// OS-SHD-9: looked at once in 32 flushes; from then on by broadcast, and no switch looks at generations.
#[test]
fn os_shd_9_a_process_of_four_cores_gets_a_global_id() {
    let mut amd = mechanism("global_ids", 5, &[]);
    (0..4).for_each(|core| _ = amd.switch(core, Asid(7)));
    for _ in 0..31 {
        assert_eq!(amd.request(&pages(7, 1), 0), plan(0b1111, 0, 0b1110, 0));
    }
    let last = Plan { unreachable: 0b10000, ..plan(0, 0b11111, 0b1110, 0) };
    assert_eq!(amd.request(&pages(7, 1), 0), last, "the old ids go");
    assert_eq!(amd.request(&pages(7, 33), 0), plan(0b11111, 0, 0, 5));
    assert_eq!(amd.request(&pages(7, 34), 0), plan(0, 0b11111, 0, 1));
    amd.switch(3, Asid(8));
    amd.request(&pages(7, 1), 0);
    assert_eq!(amd.switch(3, Asid(7)), AtSwitch::Nothing);
    assert_eq!(amd.switch(3, Asid(8)), AtSwitch::Nothing);
    // One on three cores does not get any, nor one that the others have loaded while they are idle.
    let mut amd_idle = mechanism("global_ids", 5, &[("other_cores", "idle")]);
    (0..4).rev().for_each(|core| _ = amd_idle.switch(core, Asid(7)));
    assert!((0..64).all(|_| amd_idle.request(&pages(7, 1), 0) == plan(1, 0, 0, 0)));
    let mut amd = mechanism("global_ids", 5, &[]);
    (0..3).for_each(|core| _ = amd.switch(core, Asid(7)));
    assert!((0..64).all(|_| amd.request(&pages(7, 1), 0) == plan(0b111, 0, 0b110, 0)));
}

/// OS-SHD-5: both tags.
#[test]
fn os_shd_5_a_kernel_with_tables_of_its_own_has_two_tags() {
    for name in ["generations", "global_ids", "latr"] {
        assert_eq!([mechanism(name, 2, &[]), mechanism(name, 2, &[("kpti", "true")])].map(|m| m.tags()), [1, 2]);
    }
}

/// OS-SHD-10: an munmap waits for the tick or the switch of each core.
#[test]
fn os_shd_10_a_record_waits_for_the_tick_of_each_core() {
    let mut latr = mechanism("latr", 3, &[("latr_records", "2"), ("latr_tick", "1000")]);
    (0..3).for_each(|core| _ = latr.switch(core, Asid(7)));
    let gone = FlushRequest { unmapped: true, ..pages(7, 4) };
    let waits = Plan { deferred: 0b110, ..plan(1, 0, 0, 0) };
    assert_eq!(latr.request(&gone, 0), waits);
    let is_late = |latr: &dyn Mechanism, vpn| {
        [0, 1, 2].map(|core| latr.is_late(core, Asid(7), VpnRange { start: Vpn(vpn), pages: 1 }))
    };
    assert_eq!(is_late(&*latr, 0x103), [false, true, true]);
    assert_eq!(is_late(&*latr, 0x104), [false; 3]);
    assert_eq!((latr.next_tick(), latr.is_late(1, Asid(8), VpnRange::ALL)), (1000, false));
    // A core serves all at its switch; a change of protection is told at once.
    let late = |request, cores| Late { request, cores };
    assert_eq!(latr.deferring().unwrap().serve(2), [late(gone, 0b100)]);
    assert_eq!(latr.request(&pages(7, 1), 0), plan(0b111, 0, 0b110, 0));
    // Many pages drop the process, as by interrupt.
    let many = FlushRequest { unmapped: true, ..pages(7, 34) };
    assert_eq!(latr.request(&many, 0), Plan { deferred: 0b110, ..plan(0, 1, 0, 0) });
    // There is room for two.
    assert_eq!(latr.request(&gone, 0), Plan { is_crowded: true, ..plan(0b111, 0, 0b110, 0) });
    let all = FlushRequest { pages: VpnRange::ALL, ..many };
    assert_eq!(latr.deferring().unwrap().serve(1), [late(gone, 0b10), late(all, 0b10)]);
    latr.deferring().unwrap().ticked(1000);
    assert_eq!(latr.next_tick(), 2000);
    // The first record is gone, the second waits for core 2.
    assert_eq!(latr.request(&gone, 0), waits);
    assert!(latr.request(&gone, 0).is_crowded);
    // Pages that are mapped anew are served at once, and only they.
    let beside = VpnRange { start: Vpn(0x110), pages: 1 };
    assert_eq!(latr.deferring().unwrap().reused(Asid(7), beside), [late(all, 0b100)]);
    assert_eq!(latr.deferring().unwrap().reused(Asid(7), VpnRange::ALL), [late(gone, 0b110)]);
    assert_eq!(is_late(&*latr, 0x103), [false; 3]);
    // Nothing is served for a process that has ended.
    latr.request(&gone, 0);
    latr.ended(Asid(7));
    assert_eq!(latr.deferring().unwrap().serve(1), []);
}

/// OS-SHD-10: idle cores are in no record, and take no room. With tables freed they are interrupted (OS-SHD-2).
#[test]
fn os_shd_10_idle_cores_are_in_no_record() {
    let mut latr = mechanism("latr", 2, &[("latr_records", "1"), ("other_cores", "idle")]);
    let gone = |asid| FlushRequest { unmapped: true, ..pages(asid, 4) };
    for asid in [7, 8, 9] {
        (0..2).for_each(|core| _ = latr.switch(core, Asid(asid)));
        assert_eq!(latr.request(&gone(asid), 0), plan(1, 0, 0, 0));
        assert_eq!(latr.request(&FlushRequest { tables: true, ..gone(asid) }, 0), plan(1, 0, 0b10, 0));
        // It has the kernel's table now.
        assert_eq!(latr.request(&FlushRequest { tables: true, ..gone(asid) }, 0), plan(1, 0, 0, 0));
    }
}

/// OS-SHD-10, the example: what another core has stays until the tick, also if the stream comes to this core before.
/// What it would lose if a page came back is looked up each time.
#[test]
fn os_shd_10_a_core_that_runs_on_serves_at_the_tick() {
    let given = [("cores", "2"), ("shootdown", "latr"), ("flush_ceiling", "1"), ("latr_tick", "1000")];
    let given: Map<String, Json> = given.iter().map(|(key, value)| (key.to_string(), (*value).into())).collect();
    let design = crate::tlb::design("hierarchy").unwrap();
    let mut tlb = (design.build)(&Params::resolve(&crate::tlb::keys_of(design, &given), &given).unwrap()).unwrap();
    let mut report = Unfiltered::default();
    let mut hits = |tlb: &mut dyn Tlb, vpn| {
        let at = Lookup { asid: Asid(7), vpn: Vpn(vpn), kind: Kind::Load };
        let answer = tlb.access(at, Same.pte(at.asid, at.vpn).unwrap(), &Same, &mut report);
        (answer.outcome == Outcome::Hit, answer.filterable)
    };
    let mut ignored = Unfiltered::default();
    let run = |tlb: &mut dyn Tlb, thread| tlb.thread(Asid(7), thread, &mut Unfiltered::default());
    let unmaps = |tlb: &mut dyn Tlb| {
        tlb.requested(FlushRequest { unmapped: true, ..pages(7, 4) });
        tlb.invalidate(Asid(7), pages(7, 4).pages, &mut Unfiltered::default());
    };
    run(&mut *tlb, 1);
    run(&mut *tlb, 2);
    assert_eq!([hits(&mut *tlb, 0x200).0, hits(&mut *tlb, 0x200).0], [false, true]);
    run(&mut *tlb, 1);
    unmaps(&mut *tlb);
    run(&mut *tlb, 2);
    assert_eq!(hits(&mut *tlb, 0x200), (true, false));
    tlb.on_time().unwrap().advance(1000, &mut ignored);
    assert_eq!([hits(&mut *tlb, 0x200).0, hits(&mut *tlb, 0x200).0], [false, true]);
    // At a switch of this core to another process, too. A switch of the other core, which gets it first, is none.
    let dropped = |tlb: &dyn Tlb| {
        let count = |name| tlb.counts().parts.count(PART, name);
        count("local_inval_all") - count("switch_flushes")
    };
    run(&mut *tlb, 1);
    unmaps(&mut *tlb);
    let before = dropped(&*tlb);
    tlb.thread(Asid(8), 1, &mut ignored);
    assert_eq!(dropped(&*tlb), before);
    tlb.thread(Asid(8), 2, &mut ignored);
    assert_eq!(dropped(&*tlb), before + 1);
}

/// Every page is mapped to itself.
struct Same;

impl PageTableView for Same {
    fn pte(&self, _asid: Asid, vpn: Vpn) -> Option<Pte> {
        Some(Pte { pfn: Pfn(vpn.0), attr: Attr::default(), order: 0 })
    }
}
