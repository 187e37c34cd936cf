//! NAV-A, NAV-B, and what they leave out.

use super::*;
use crate::dice::{Dice, seeds};
use crate::reservations::navarro::{DirtyRule, Navarro, Preempt};

fn model(frames: u64, dirty_rule: DirtyRule) -> Navarro {
    Navarro::new(&[1, 4, 16], frames, dirty_rule)
}

/// Promotions to 4 and to 16, and demotion steps from 4 and from 16.
fn steps(model: &Navarro) -> [u64; 4] {
    [("promotions", 4), ("promotions", 16), ("demotions", 4), ("demotions", 16)].map(|(name, n)| model.count(name, n))
}

#[test]
fn nav_a() {
    let mut model = model(32, DirtyRule::File);
    let (h, at) = mapped(&mut model, Kind::Anonymous, Grows::No, 32);
    let (g, other) = mapped(&mut model, Kind::Anonymous, Grows::No, 4);

    assert_eq!(touch(&mut model, at + 5, Access::Load), 5);
    let r1 = &model.world.reservations()[0];
    assert_eq!((r1.pages(), r1.frames(), &r1.used), (0..16, 0..16, &BTreeSet::from([5])));
    assert_eq!(model.lists(), [vec![], vec![(h, 0)]]);

    assert_eq!(touch(&mut model, at + 20, Access::Load), 20);
    let r2 = &model.world.reservations()[1];
    assert_eq!((r2.pages(), r2.frames(), &r2.used), (16..32, 16..32, &BTreeSet::from([20])));
    assert_eq!(model.lists(), [vec![], vec![(h, 0), (h, 16)]]);

    assert_eq!(touch(&mut model, other, Access::Load), 0);
    assert_eq!(model.lists(), [vec![(h, 4), (g, 0)], vec![(h, 16)]]);
    // 8-11 and 12-15 are buddies.
    assert_eq!(model.world.free_blocks()[3], [8]);
    let mut frames: Vec<_> = model.world.reservations().iter().map(|r| r.frames()).collect();
    frames.sort_by_key(|frames| frames.start);
    assert_eq!(frames, [0..4, 4..8, 16..32]);

    assert_eq!([4, 6, 7].map(|page| touch(&mut model, at + page, Access::Load)), [4, 6, 7]);
    assert_eq!(model.world.leaf(1, at + 5).map(|(first, leaf)| (first, leaf.order, leaf.frame)), Some((at + 4, 2, 4)));

    assert_eq!(touch(&mut model, at, Access::Load), 8);
    assert_eq!(model.world.reservation(h, 0).map(|r| (r.pages(), r.frames())), Some((0..4, 8..12)));

    assert_eq!(model.count("preempted", 16) + model.count("preempted", 4), 1);
    assert_eq!(steps(&model), [1, 0, 0, 0]);
    assert_eq!([16, 4].map(|size| model.count("reservations", size)), [2, 2]);
    assert_eq!([16, 4].map(|size| model.count("honoured", size)), [0, 3]);
    assert_eq!(["overlap", "bounds"].map(|name| model.count(name, 16)), [1, 1]);
    for page in 0..16 {
        touch(&mut model, at + page, Access::Load);
    }
    assert_eq!(model.count("promotions", 16), 0);
}

#[test]
fn nav_b() {
    let mut model = model(16, DirtyRule::All);
    let (_, at) = mapped(&mut model, Kind::Anonymous, Grows::No, 16);
    for page in 0..16 {
        touch(&mut model, at + page, Access::Load);
        assert_eq!(steps(&model), [(page + 1) / 4, (page + 1) / 16, 0, 0], "after page {page}");
    }
    touch(&mut model, at + 6, Access::Store);
    assert_eq!(steps(&model), [4, 1, 1, 1]);
    let orders = |model: &Navarro| [0, 4, 5, 6, 7, 8, 12].map(|page| model.world.order(1, at + page).unwrap());
    assert_eq!(orders(&model), [2, 0, 0, 0, 0, 2, 2]);
    for page in [4, 5, 7] {
        touch(&mut model, at + page, Access::Store);
    }
    assert_eq!(steps(&model), [5, 1, 1, 1]);
    assert_eq!(model.world.leaf(1, at + 4).map(|(_, leaf)| (leaf.order, leaf.writable)), Some((2, true)));
    for page in [0..4, 8..12, 12..16].into_iter().flatten() {
        touch(&mut model, at + page, Access::Store);
    }
    // "Total demotion steps 5, promotions after loading 4 + 1".
    assert_eq!(steps(&model), [4 + 4, 1 + 1, 4, 1]);
    assert_eq!(model.world.leaf(1, at).map(|(_, leaf)| (leaf.order, leaf.writable)), Some((4, true)));
    assert_eq!([model.count("faults", 0), model.count("write_faults", 0)], [16, 16]);
}

#[test]
fn nav_2_growing_objects_may_be_passed_at_their_end() {
    for (grows, pages, reserved) in [
        (Grows::No, 7, 4..8), // 4-7 would end beyond page 6, so one page.
        (Grows::Up, 7, 4..8),
        (Grows::Up, 3, 4..4),
        (Grows::Up, 16, 0..16),
    ] {
        let mut model = model(64, DirtyRule::File);
        let (object, at) = mapped(&mut model, Kind::Anonymous, grows, pages);
        touch(&mut model, at + pages.min(6) - 1, Access::Store);
        let got = model.world.reservation(object, pages.min(6) - 1).map(|r| r.pages());
        let fixed = grows == Grows::No || reserved.is_empty();
        assert_eq!(got, (!fixed).then_some(reserved), "{grows:?} {pages}");
    }
    // A stack: object pages 100-107 below 108. It may be passed at 100, not at 108.
    let mut model = model(64, DirtyRule::File);
    let object = model.object(Kind::Anonymous, Grows::Down, 101..108);
    model.map(1, 101, object, 101..108, RW);
    touch(&mut model, 101, Access::Store);
    assert_eq!(model.world.reservation(object, 101).map(|r| r.pages()), Some(100..104));
    model.grow(1, 101, 9);
    assert_eq!(model.world.mapping(1, 92).map(|mapping| mapping.vpns()), Some(92..108));
    // 16 pages now, but 96-111 passes the fixed end, and overlaps 100-103.
    touch(&mut model, 95, Access::Store);
    assert_eq!(model.world.reservation(object, 95).map(|r| r.pages()), Some(80..96));
}

#[test]
fn nav_2_a_heap_of_its_size_before_it_grows() {
    let mut model = model(64, DirtyRule::File);
    let (heap, at) = mapped(&mut model, Kind::Anonymous, Grows::Up, 8);
    touch(&mut model, at, Access::Store);
    assert_eq!(model.world.reservation(heap, 0).map(|r| r.pages()), Some(0..4));
    model.grow(1, at, 8);
    touch(&mut model, at + 9, Access::Store);
    // 16 would overlap 0-3.
    assert_eq!(model.world.reservation(heap, 9).map(|r| r.pages()), Some(8..12));
    model.grow(1, at, 1);
    touch(&mut model, at + 16, Access::Store);
    assert_eq!(model.world.reservation(heap, 16).map(|r| r.pages()), Some(16..32));
    // What reaches beyond the end is honoured after it has grown.
    model.grow(1, at, 1);
    touch(&mut model, at + 17, Access::Store);
    assert_eq!(model.count("honoured", 16), 1);
}

#[test]
fn nav_2_alignment_in_the_mapping() {
    let mut model = model(64, DirtyRule::File);
    let object = model.object(Kind::File, Grows::No, 0..32);
    model.map(1, 4, object, 0..32, RW);
    touch(&mut model, 5, Access::Load);
    assert_eq!(model.world.reservation(object, 1).map(|r| r.pages()), Some(0..4));
    assert_eq!(model.count("alignment", 16), 1);
}

#[test]
fn nav_3_nav_6_breaks_again_until_an_extent_is_free() {
    // R1 of 16 with pages in all its 4s but in none of the second pages: in L0. A request for a page breaks it twice.
    let mut model = model(16, DirtyRule::File);
    let (h, at) = mapped(&mut model, Kind::Anonymous, Grows::No, 16);
    let (_, other) = mapped(&mut model, Kind::Anonymous, Grows::No, 1);
    for page in [0, 4, 8, 12] {
        touch(&mut model, at + page, Access::Load);
    }
    assert_eq!(model.lists(), [vec![(h, 0)], vec![]]);
    assert_eq!(touch(&mut model, other, Access::Load), 1);
    assert_eq!([16, 4].map(|size| model.count("preempted", size)), [1, 1]);
    // The old time: the first piece went first, the others wait in order.
    assert_eq!(model.lists(), [vec![(h, 4), (h, 8), (h, 12)], vec![]]);
}

#[test]
fn nav_3_smaller_extents_come_last() {
    let mut model = model(8, DirtyRule::File);
    let (_, at) = mapped(&mut model, Kind::Anonymous, Grows::No, 16);
    touch(&mut model, at, Access::Load);
    assert_eq!([model.count("memory", 16), model.count("reservations", 4)], [1, 1]);
    touch(&mut model, at + 8, Access::Load);
    for page in [1, 2, 3, 9, 10, 11] {
        touch(&mut model, at + page, Access::Load);
    }
    assert_eq!(model.touch(1, at + 15, Access::Load), Err(Failed::Full));
    assert_eq!(model.count("faults", 0), 8);
    model.unmap(1, at..at + 16);
    assert_eq!(model.world.free_blocks()[3], [0]);
}

#[test]
fn oamb_1_nearest_or_oldest() {
    for (preempt, broken) in [(Preempt::Nearest, 4), (Preempt::Oldest, 16)] {
        let mut model = model(20, DirtyRule::File).preempting(preempt);
        let (_, large) = mapped(&mut model, Kind::Anonymous, Grows::No, 16);
        let (_, small) = mapped(&mut model, Kind::Anonymous, Grows::No, 4);
        let (_, one) = mapped(&mut model, Kind::Anonymous, Grows::No, 1);
        touch(&mut model, large, Access::Load);
        touch(&mut model, small, Access::Load);
        touch(&mut model, one, Access::Load);
        assert_eq!(model.count("preempted", broken), 1, "{preempt:?}");
        assert_eq!(model.count("preempted", 20 - broken), 0, "{preempt:?}");
    }
}

#[test]
fn nav_6_a_broken_reservation_keeps_superpages_and_promotes_its_pieces() {
    let mut model = model(16, DirtyRule::File);
    let (h, at) = mapped(&mut model, Kind::Anonymous, Grows::No, 16);
    let (_, other) = mapped(&mut model, Kind::Anonymous, Grows::No, 4);
    for page in [0, 1, 2, 3, 8, 9, 10] {
        touch(&mut model, at + page, Access::Load);
    }
    touch(&mut model, other, Access::Load);
    assert_eq!(model.world.order(1, at), Some(2));
    // Full, so in no list (OJ-12).
    assert!(model.world.reservation(h, 0).is_some_and(Reservation::full));
    touch(&mut model, at + 11, Access::Load);
    assert_eq!(steps(&model), [2, 0, 0, 0]);
}

#[test]
fn nav_4_nav_5_the_last_allocation_counts() {
    let mut model = model(32, DirtyRule::File);
    let (h, at) = mapped(&mut model, Kind::Anonymous, Grows::No, 32);
    let (_, other) = mapped(&mut model, Kind::Anonymous, Grows::No, 4);
    for page in [0, 16, 1] {
        touch(&mut model, at + page, Access::Load);
    }
    assert_eq!(model.lists(), [vec![], vec![(h, 16), (h, 0)]]);
    touch(&mut model, other, Access::Load);
    assert_eq!(model.world.reservation(h, 0).map(|r| r.size), Some(16));
    assert_eq!(model.world.reservation(h, 16).map(|r| r.size), Some(4));
    // A touch of a page that is mapped is no allocation.
    touch(&mut model, at + 18, Access::Load);
    touch(&mut model, at, Access::Load);
    assert_eq!(model.world.reservation(h, 0).map(|r| r.time), Some(3));
}

#[test]
fn nav_7_frames_in_order_are_not_enough() {
    let mut model = model(4, DirtyRule::File);
    let (_, at) = mapped(&mut model, Kind::Anonymous, Grows::No, 4);
    let (_, other) = mapped(&mut model, Kind::Anonymous, Grows::No, 1);
    touch_all(&mut model, at..at + 3, Access::Load);
    // Breaks the reservation into single pages, and gives back what it got.
    assert_eq!(touch(&mut model, other, Access::Load), 3);
    model.unmap(1, other..other + 1);
    assert_eq!(touch(&mut model, at + 3, Access::Load), 3);
    assert_eq!(steps(&model), [0; 4]);
}

#[test]
fn nav_7_each_space_for_itself() {
    let mut model = model(16, DirtyRule::File);
    let (object, at) = mapped(&mut model, Kind::Shared, Grows::No, 4);
    model.map(2, 64, object, 0..4, RW);
    for page in [0, 1, 2] {
        touch(&mut model, at + page, Access::Load);
        model.touch(2, 64 + page, Access::Load).unwrap();
    }
    model.touch(2, 67, Access::Load).unwrap();
    assert_eq!([model.world.order(1, at), model.world.order(2, 64)], [Some(0), Some(2)]);
    touch(&mut model, at + 3, Access::Load);
    assert_eq!(model.world.order(1, at), Some(2));
    // A third, at an address that is not aligned, has none.
    model.map(3, 65, object, 0..4, RW);
    for vpn in 65..69 {
        model.touch(3, vpn, Access::Load).unwrap();
    }
    assert_eq!(steps(&model), [2, 0, 0, 0]);
    // Frames go with the last.
    model.exit(1);
    model.exit(2);
    assert_eq!(model.world.shares(), [12, 4, 0]);
    model.exit(3);
    assert_eq!(model.world.shares(), [16, 0, 0]);
}

#[test]
fn nav_7_rights_must_be_equal() {
    let mut model = model(16, DirtyRule::File);
    let (_, at) = mapped(&mut model, Kind::Anonymous, Grows::No, 4);
    model.protect(1, at..at + 1, READ);
    touch_all(&mut model, at..at + 4, Access::Load);
    assert_eq!(steps(&model), [0; 4]);
    assert_eq!(model.touch(1, at, Access::Store), Err(Failed::Denied));
    assert_eq!(model.touch(1, at + 4, Access::Load), Err(Failed::Unmapped));
}

#[test]
fn nav_8_unmapping_and_protecting_a_part() {
    let all = |frames| {
        let mut model = model(frames, DirtyRule::File);
        let (object, at) = mapped(&mut model, Kind::Anonymous, Grows::No, 16);
        touch_all(&mut model, at..at + 16, Access::Store);
        assert_eq!(steps(&model), [4, 1, 0, 0]);
        (model, object, at)
    };
    let (mut one, object, at) = all(16);
    one.unmap(1, at + 6..at + 7);
    assert_eq!(steps(&one), [4, 1, 1, 1]);
    assert_eq!([4, 5, 7, 8].map(|page| one.world.order(1, at + page)), [Some(0), Some(0), Some(0), Some(2)]);
    // OJ-13: the frame is reserved still, and the reservation in a list again.
    assert_eq!(one.world.shares(), [0, 15, 1]);
    assert_eq!(one.lists(), [vec![(object, 0)], vec![]]);

    let (mut whole, _, at) = all(16);
    whole.protect(1, at..at + 16, READ);
    assert_eq!(whole.world.order(1, at), Some(4));
    whole.protect(1, at + 4..at + 8, READ);
    assert_eq!(steps(&whole), [4, 1, 0, 0]);
    whole.protect(1, at + 4..at + 8, RW);
    assert_eq!(steps(&whole), [4, 1, 0, 1]);
    whole.unmap(1, 0..u64::MAX);
    assert_eq!(whole.world.shares(), [16, 0, 0]);
}

#[test]
fn nav_9_by_rule() {
    for (rule, kind, faults) in [
        (DirtyRule::File, Kind::Anonymous, 0),
        (DirtyRule::File, Kind::File, 1),
        (DirtyRule::All, Kind::Anonymous, 1),
        (DirtyRule::Off, Kind::File, 0),
    ] {
        let mut model = model(16, rule);
        let (_, at) = mapped(&mut model, kind, Grows::No, 4);
        touch_all(&mut model, at..at + 4, Access::Load);
        touch(&mut model, at + 2, Access::Store);
        assert_eq!([model.count("write_faults", 0), model.count("demotions", 4)], [faults; 2], "{rule:?} {kind:?}");
    }
}

/// OSC-5 after each event (the model looks by itself), and what holds at the end.
#[test]
fn nav_1_to_nav_9_random_programs() {
    let mut total: BTreeMap<_, u64> = BTreeMap::new();
    for seed in seeds(40) {
        let mut dice = Dice::new(seed);
        let rule = dice.pick(&[DirtyRule::File, DirtyRule::All, DirtyRule::Off]);
        let frames = dice.pick(&[25, 48, 100, 1 << 10]);
        let mut model = model(frames, rule).preempting(dice.pick(&[Preempt::Nearest, Preempt::Oldest]));
        for object in 0..6_u64 {
            let (kind, grows) = (
                dice.pick(&[Kind::Anonymous, Kind::Shared, Kind::File]),
                dice.pick(&[Grows::No, Grows::Up, Grows::Down]),
            );
            let pages = 128..128 + 1 + dice.below(40);
            let number = model.object(kind, grows, pages.clone());
            let process = 1 + dice.below(2) as u32;
            model.map(process, 512 * object + pages.start, number, pages.clone(), RW);
            if kind != Kind::Anonymous && grows == Grows::No && dice.percent(50) {
                model.map(3, 512 * object + dice.pick(&[0, 4, 3]), number, pages.clone(), RW);
            }
        }
        for _ in 0..200 {
            let process = 1 + dice.below(3) as u32;
            let range = range(&mut dice);
            match dice.below(40) {
                0 => model.unmap(process, range),
                1 => model.protect(process, range, dice.pick(&[RW, READ])),
                2 => {
                    let last =
                        model.world.mappings().iter().filter(|m| m.process == process && end_grows(&model.world, m));
                    let ends: Vec<u64> = last.map(|m| m.vpn).collect();
                    if !ends.is_empty() {
                        model.grow(process, dice.pick(&ends), 1 + dice.below(4));
                    }
                }
                _ => {
                    let run = run(&mut dice, &model.world);
                    let access = dice.pick(&[Access::Load, Access::Store]);
                    for (process, vpn) in run {
                        let _ = model.touch(process, vpn, access);
                    }
                }
            }
        }
        if frames == 1 << 10 {
            assert!(!model.counts.keys().any(|(name, _)| *name == "preempted" || *name == "memory"), "seed {seed}");
        }
        (1..4).for_each(|process| model.exit(process));
        assert_eq!(model.world.shares(), [frames, 0, 0], "seed {seed}");
        for (key, count) in model.counts {
            *total.entry(key).or_default() += count;
        }
    }
    // Everything happens in these programs: eight counters of two sizes, `memory` of three, three of none.
    assert!(seeds(40).count() == 1 || total.len() == 22 && total.values().all(|&n| n > 0), "{total:?}");
}

/// A mapping of an object's growing end, far from the place of the next object.
pub(super) fn end_grows(world: &World, mapping: &Mapping) -> bool {
    let (object, place) = (&world.objects()[mapping.object], mapping.vpns());
    match object.grows {
        Grows::No => false,
        Grows::Up => mapping.pages.end == object.pages.end && place.end % 512 < 450,
        Grows::Down => mapping.pages.start == object.pages.start && place.start % 512 > 60,
    }
}
