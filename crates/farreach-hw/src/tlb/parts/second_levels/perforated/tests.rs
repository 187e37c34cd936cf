//! Superpages with holes (PRF): the case by hand, the law, and safety with every page a hole in turn.

use super::super::SECOND_LEVEL;
use super::fault::SUPERPAGE_FIRST;
use crate::tlb::contract::Outcome;
use crate::tlb::parts::additions::tests::world::{Stream, World};
use crate::tlb::parts::additions::tests::{Keys, Machine};
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::counts::{Parts, TlbCounts};
use farreach_types::event::Kind;
use farreach_types::translation::PageTableView;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::panic::{AssertUnwindSafe, catch_unwind};

const SMALL: [(&str, &str); 4] = [("l1d", "4K:4/2+2M:2"), ("l1i", "4K:2+2M:1"), ("l2", "4K|2M:16/4"), ("pwc_pd", "4")];

fn perforated(keys: Keys) -> Machine {
    Machine::new(&[&SMALL[..], &[(SECOND_LEVEL.name, "perforated"), ("replacement", "lru")], keys].concat())
}

/// Pages 0 to 511, with these holes.
fn with_holes(holes: &[u64]) -> World {
    let mut world = World::default();
    world.perforate(0, 0, 1 << 20, holes, 1 << 30);
    world
}

/// PRF-1, PRF-2: a hole at page 3; misses 3, 3, 70. Fetches have a first level of their own, so that every lookup
/// reaches the second.
#[test]
fn prf_hand() {
    let world = with_holes(&[3]);
    let mut machine = perforated(&[("l1d", "4K:1"), ("l1i", "4K:1"), ("pwc_pd", "0")]);
    let mut after = |page, kind| {
        let walks = machine.look_up(&world, 0, page, kind, 0) != Outcome::Hit;
        let (own, walk) = (machine.part("perforated"), machine.counts().walk.clone());
        let names = ["bitmaps", "cached", "holes", "superpages"];
        (walks, walk.by_level()[..4].to_vec(), names.map(|name| own.counters.get(name)), own.memory.made.references)
    };
    let read = vec![1, 1, 1, 1];
    assert_eq!(after(3, Kind::Load), (true, read.clone(), [1, 0, 1, 1], 1), "superpage walk, bitmap, base walk");
    assert_eq!(after(3, Kind::Fetch), (false, read.clone(), [1, 0, 1, 1], 1), "hit");
    assert_eq!(after(70, Kind::Load), (false, read.clone(), [1, 0, 1, 1], 1), "hit, no bitmap");
    assert_eq!(after(4, Kind::Load), (false, read, [2, 1, 1, 1], 1), "hit, by the bitmap");
    machine.check_laws();
}

/// PRF-2: where the superpage is found first, its walk ends above the base level. A hole is walked to then, at the base
/// level, with the bitmap that the lookup asked already.
#[test]
fn prf_holes_are_walked_to() {
    let world = with_holes(&[3]);
    let mut machine = perforated(&[("pwc_pd", "0"), ("prf_bitmaps", "0")]);
    assert_eq!(machine.load(&world, 70), Outcome::TagMiss);
    assert_eq!(machine.counts().walk.by_level()[..4], [0, 1, 1, 1]);
    assert_eq!([machine.count("bitmaps"), machine.counts().superpage_misses], [0, 1]);
    assert_eq!(machine.load(&world, 3), Outcome::TagMiss);
    assert_eq!(machine.counts().walk.by_level()[..4], [1, 2, 2, 2]);
    assert_eq!([machine.count("bitmaps"), machine.counts().superpage_misses], [1, 1]);
    // Another group, and a page beside the hole twice.
    assert_eq!([500, 5, 5].map(|page| machine.load(&world, page)), [Outcome::Hit; 3]);
    assert_eq!(machine.count("bitmaps"), 2, "the second time it is in the first level");
    machine.check_laws();
}

/// PRF-3: the first level has a superpage for the groups without holes, and base pages beside.
#[test]
fn prf_3_first_level() {
    let world = with_holes(&[3]);
    let mut machine = perforated(&[]);
    [70, 300, 5, 3, 5, 3, 511].iter().for_each(|page| _ = machine.load(&world, *page));
    // The second level answered 5; the first all that was there before, and the superpage's other groups.
    assert_eq!((machine.counts().misses, machine.counts().second_level_data_hits), (2, 1));
    let orders: Vec<_> = machine.entries(6).iter().map(|view| (view.order, view.pages.len())).collect();
    assert_eq!(orders, [(0, 1), (0, 1), (9, 7 * 64)]);
}

/// PRF-2: bitmaps are cached by use.
#[test]
fn prf_2_bitmaps() {
    let mut world = World::default();
    (0..3).for_each(|number| world.perforate(0, number, (1 << 20) + (number << 9), &[0], (1 << 30) + (number << 10)));
    for (size, references) in [("0", 9), ("2", 9), ("3", 3)] {
        let mut machine = perforated(&[("l1d", "4K:1"), ("prf_bitmaps", size)]);
        for page in [1, 2, 3] {
            (0..3).for_each(|number| _ = machine.load(&world, (number << 9) + page));
        }
        assert_eq!((machine.counts().misses, machine.count("bitmaps")), (3, 9));
        assert_eq!(machine.part("perforated").memory.made.references, references, "{size}");
        machine.change(0, VpnRange { start: Vpn(1), pages: 1 });
        machine.load(&world, 5);
        assert_eq!(
            machine.part("perforated").memory.made.references,
            references + 1,
            "{size}: it went with the change"
        );
        machine.check_laws();
    }
}

/// Looks up, in this order: pages beside the hole, the hole, all groups, and again.
fn around(machine: &mut Machine, world: &World, hole: u64) {
    let near = [hole ^ 1, hole, hole ^ 63, hole, (hole + 64) % 512, (hole + 256) % 512, hole];
    for page in near.into_iter().chain((0..8).map(|group| group * 64 + hole % 64)).chain([hole, hole ^ 1]) {
        machine.load(world, page);
        machine.look_up(world, 0, page, Kind::Fetch, 0);
    }
}

/// XC-3: every page a hole in turn. `look_up` compares each answer with the page table.
#[test]
fn prf_every_page_a_hole() {
    for hole in 0..512 {
        let world = with_holes(&[hole]);
        for keys in [&[][..], &[("l2", "none")], &[("l1d", "4K:2+1M:2"), ("prf_bitmaps", "0")]] {
            let mut machine = perforated(keys);
            around(&mut machine, &world, hole);
            assert!(machine.count("holes") > 0, "hole {hole}");
            machine.check_laws();
        }
    }
}

/// T-9: without PRF-2's order, XC-3 finds every hole that is looked up after its superpage was found.
#[test]
fn prf_2_without_its_order_fails() {
    SUPERPAGE_FIRST.set(true);
    for hole in 0..512 {
        let world = with_holes(&[hole]);
        let mut machine = perforated(&[]);
        let run = catch_unwind(AssertUnwindSafe(|| around(&mut machine, &world, hole)));
        let why = run.expect_err("a hole was translated by its superpage");
        let text = why.downcast_ref::<String>().map_or("", String::as_str);
        assert!(text.contains("XC-3"), "hole {hole}: {text}");
    }
    SUPERPAGE_FIRST.set(false);
}

/// Law: without holes it is the machine without them, with a page of 2 MB.
#[test]
fn prf_without_holes_is_the_base() {
    for l2 in ["4K|2M:16/4", "4K:8/2+2M:4", "4K:8", "none"] {
        let mut machines =
            [perforated(&[("l2", l2)]), Machine::new(&[&SMALL[..2], &SMALL[3..], &[("l2", l2)]].concat())];
        let (mut marked, mut whole) = (World::default(), World::default());
        for number in 0..24 {
            marked.perforate(0, number, (1 << 20) + (number << 9), &[], 1 << 30);
            whole.map(0, number << 9, (1 << 20) + (number << 9), 9);
        }
        (1 << 14..(1 << 14) + 64).for_each(|page| {
            marked.map(0, page, 3 * page, 0);
            whole.map(0, page, 3 * page, 0);
        });
        let mut rng = Pcg64Mcg::seed_from_u64(1);
        for step in 0..4000 {
            let draw = u64::from(rng.next_u32());
            let vpn = if draw.is_multiple_of(3) { (1 << 14) + draw / 3 % 64 } else { draw / 3 % (24 << 9) };
            if draw.is_multiple_of(97) {
                machines.iter_mut().for_each(|machine| machine.change(0, VpnRange { start: Vpn(vpn), pages: 1 }));
            }
            let ends = [machines[0].load(&marked, vpn), machines[1].load(&whole, vpn)];
            assert_eq!(ends[0], ends[1], "{l2}, step {step}");
        }
        let [one, other] = machines.map(|m| TlbCounts { parts: Parts::default(), ..m.counts().clone() });
        assert!(one == other && one.misses > 1000, "{l2}: {one:?} {other:?}");
    }
}

/// Law, without superpages that have holes: on streams with superpages, changes and switches.
#[test]
fn prf_without_marks_is_the_base() {
    for seed in 0..6 {
        let mut machines = [perforated(&[]), Machine::new(&[&SMALL[..], &[("replacement", "lru")]].concat())];
        let mut stream = Stream::new(seed);
        for step in 0..3000 {
            let Some((asid, vpn, kind, pc)) = stream.next(&mut machines) else { continue };
            let ends = machines.each_mut().map(|machine| machine.look_up(&stream.world, asid, vpn, kind, pc));
            assert_eq!(ends[0], ends[1], "seed {seed}, step {step}");
        }
        let [one, other] = machines.map(|m| TlbCounts { parts: Parts::default(), ..m.counts().clone() });
        assert!(one == other && one.evictions > 100, "{one:?} {other:?}");
    }
}

/// XC-3, on random streams in which superpages come and go with other holes in other frames.
#[test]
fn prf_random_holes_and_changes() {
    for seed in 0..40 {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let mut draw = |n: u64| u64::from(rng.next_u32()) % n;
        let l1 = ["4K:4/2+2M:2", "4K:2", "4K:2+1M:1+2M:1", "4K|2M:4/2"][draw(4) as usize];
        let l2 = ["4K|2M:16/4", "4K:16/4+2M:2", "4K:8", "none"][draw(4) as usize];
        let bitmaps = ["0", "1", "16"][draw(3) as usize];
        let mut machine = perforated(&[("l1d", l1), ("l2", l2), ("prf_bitmaps", bitmaps)]);
        let (mut world, mut next) = (World::default(), 1 << 20);
        for step in 0..4000 {
            let (asid, number) = (draw(2) as u32, draw(6));
            let page = (number << 9) + [draw(512), draw(8), 64 * draw(8)][draw(3) as usize];
            if step < 12 || draw(60) == 0 {
                let (asid, number) = if step < 12 { (step % 2, u64::from(step) / 2) } else { (asid, number) };
                let many = [0, 1, 5, 60, 400][draw(5) as usize];
                let holes: Vec<u64> = (0..many).map(|_| draw(512)).collect();
                world.perforate(asid, number, next, &holes, next + 512);
                next += 2048;
                machine.change(asid, VpnRange { start: Vpn(number << 9), pages: 512 });
            } else if draw(40) == 0 {
                // A page moves; the others stay as base pages.
                world.map(asid, page, next, 0);
                world.perforated.remove(&(asid, page >> 9));
                next += 512;
                machine.change(asid, VpnRange { start: Vpn(page), pages: 1 });
            } else if draw(200) == 0 {
                let pages = VpnRange { start: Vpn(number << 9), pages: 512 };
                machine.with(|tlb, unfiltered| tlb.demote(Asid(asid), pages, unfiltered));
            }
            if world.pte(Asid(asid), Vpn(page)).is_some() {
                let kind = [Kind::Load, Kind::Load, Kind::Fetch][draw(3) as usize];
                machine.look_up(&world, asid, page, kind, 0);
            }
        }
        assert!(machine.count("holes") > 20 && machine.count("bitmaps") > 100, "seed {seed}");
        machine.check_laws();
    }
}
