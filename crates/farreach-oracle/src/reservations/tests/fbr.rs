//! FBR-A, FBR-B, FBR-C, and what they leave out.

use super::*;
use crate::dice::{Dice, seeds};
use crate::reservations::freebsd::{Checks, FreeBsd};

/// Promotions, failures, demotions, mapped at once.
fn steps(model: &FreeBsd) -> [u64; 4] {
    ["promotions", "failures", "demotions", "mapped_at_once"].map(|name| model.count(name))
}

fn faults(model: &FreeBsd) -> [u64; 2] {
    ["faults", "write_faults"].map(|name| model.count(name))
}

#[test]
fn fbr_a() {
    let mut model = FreeBsd::new(4, 8);
    let (object, at) = mapped(&mut model, Kind::Anonymous, Grows::No, 3);
    assert_eq!(touch(&mut model, at + 1, Access::Load), 1);
    assert_eq!(model.world.reservation(object, 1).map(|r| (r.pages(), r.frames())), Some((0..4, 0..4)));
    assert_eq!([model.partpop(), model.fullpop()], [3, 0]);

    let mut model = FreeBsd::new(4, 8);
    let (_, at) = mapped(&mut model, Kind::File, Grows::No, 3);
    touch(&mut model, at + 1, Access::Load);
    assert_eq!([model.count("reservations"), model.count("ordinary")], [0, 1]);
    assert_eq!(model.world.shares(), [7, 1, 0]);
}

#[test]
fn fbr_b() {
    for checks in [Checks::Every, Checks::UntilFailure] {
        let mut model = FreeBsd::new(4, 8).checking(checks);
        let (_, at) = mapped(&mut model, Kind::Anonymous, Grows::No, 4);
        touch(&mut model, at, Access::Load);
        let first = |model: &FreeBsd| model.world.leaf(1, at).map(|(_, leaf)| (leaf.order, leaf.writable, leaf.dirty));
        assert_eq!(first(&model), Some((0, true, false)));
        touch_all(&mut model, at + 1..at + 4, Access::Store);
        assert_eq!(model.fullpop(), 1);
        assert_eq!(first(&model), Some((0, false, false)), "it loses its write right");
        assert_eq!(steps(&model), [0, 1, 0, 0]);
        touch(&mut model, at, Access::Store);
        assert_eq!(steps(&model), [1, 1, 0, 0]);
        assert_eq!(faults(&model).iter().sum::<u64>(), 5);
        assert_eq!(first(&model), Some((2, true, true)));
    }
}

#[test]
fn fbr_c() {
    let mut model = FreeBsd::new(4, 8);
    let (first, at) = mapped(&mut model, Kind::Anonymous, Grows::No, 4);
    touch(&mut model, at, Access::Store);
    let (second, at) = mapped(&mut model, Kind::Anonymous, Grows::No, 4);
    touch(&mut model, at, Access::Store);
    assert_eq!(model.queue(), [(first, 0), (second, 0)]);
    for (wanted, frame) in [1, 2, 3].into_iter().enumerate() {
        let (_, at) = mapped(&mut model, Kind::Anonymous, Grows::No, 1);
        assert_eq!(touch(&mut model, at, Access::Store), frame);
        assert_eq!(model.count("broken"), 1, "{wanted}");
        assert_eq!(model.queue(), [(second, 0)]);
    }
    assert_eq!(model.world.shares(), [0, 5, 3]);
    // The fourth breaks the other one.
    let (_, at) = mapped(&mut model, Kind::Anonymous, Grows::No, 1);
    assert_eq!(touch(&mut model, at, Access::Store), 5);
    assert_eq!([model.count("broken"), model.count("reclaimed"), model.partpop()], [2, 2, 0]);
}

#[test]
fn fbr_2_colour_and_page_0() {
    let mut model = FreeBsd::new(4, 64);
    let file = model.object(Kind::File, Grows::No, 0..16);
    model.map(1, 7, file, 2..16, RW);
    // Page 2 is at 7, so the colour is 1, and groups are 3-6, 7-10, ….
    touch(&mut model, 7, Access::Load);
    assert_eq!(model.count("ordinary"), 1, "its group would begin before page 0");
    touch(&mut model, 9, Access::Load);
    assert_eq!(model.world.reservation(file, 4).map(|r| r.pages()), Some(3..7));
    touch_all(&mut model, 8..12, Access::Store);
    assert_eq!(model.world.order(1, 8), Some(2));
    // Another mapping, at another distance: same reservations, no superpages.
    model.map(2, 18, file, 2..16, RW);
    model.touch(2, 25, Access::Load).unwrap();
    assert_eq!(model.world.reservation(file, 9).map(|r| r.pages()), Some(7..11));
}

#[test]
fn fbr_4_neighbours_and_blocks() {
    // Two blocks: an ordinary page in a group keeps it from being reserved later.
    let mut model = FreeBsd::new(4, 7);
    let (object, at) = mapped(&mut model, Kind::Anonymous, Grows::No, 8);
    assert_eq!(touch(&mut model, at, Access::Store), 0);
    assert_eq!(touch(&mut model, at + 5, Access::Store), 6);
    assert_eq!([model.count("reservations"), model.count("ordinary")], [1, 1]);
    model.unmap(1, at..at + 4);
    assert_eq!(model.count("freed"), 1);
    touch(&mut model, at + 6, Access::Store);
    assert!(model.world.reservation(object, 6).is_none());
    assert_eq!(model.count("ordinary"), 2);
}

#[test]
fn fbr_5_the_queue_moves_once_a_tick() {
    let mut model = FreeBsd::new(4, 16);
    let (a, at) = mapped(&mut model, Kind::Anonymous, Grows::No, 4);
    let (b, other) = mapped(&mut model, Kind::Anonymous, Grows::No, 4);
    touch(&mut model, at, Access::Store);
    touch(&mut model, other, Access::Store);
    touch(&mut model, at + 1, Access::Store);
    assert_eq!(model.queue(), [(a, 0), (b, 0)], "same tick");
    model.tick(1);
    touch(&mut model, at + 2, Access::Store);
    assert_eq!(model.queue(), [(b, 0), (a, 0)]);
    touch(&mut model, other + 1, Access::Store);
    assert_eq!(model.queue(), [(a, 0), (b, 0)]);
    touch(&mut model, at + 3, Access::Store);
    assert_eq!(model.queue(), [(b, 0)], "a full one leaves");
    model.unmap(1, at..at + 1);
    assert_eq!(model.queue(), [(b, 0), (a, 0)]);
    model.unmap(1, other..other + 1);
    assert_eq!(model.queue(), [(b, 0), (a, 0)], "same tick");
    model.tick(1);
    model.unmap(1, at + 1..at + 2);
    model.tick(1);
    model.unmap(1, other + 1..other + 2);
    assert_eq!(model.queue(), [(a, 0)]);
    assert_eq!([model.count("freed"), model.partpop()], [1, 2]);
}

#[test]
fn fbr_6_starts_again_from_fbr_3() {
    // Two reservations with a page each have all of memory; a third object wants four pages.
    let mut model = FreeBsd::new(4, 8);
    let (_, at) = mapped(&mut model, Kind::Anonymous, Grows::No, 8);
    touch(&mut model, at, Access::Store);
    touch(&mut model, at + 4, Access::Store);
    let (own, other) = mapped(&mut model, Kind::Anonymous, Grows::No, 4);
    touch_all(&mut model, other..other + 4, Access::Store);
    // Four ordinary pages out of two broken reservations; the first that is broken is the oldest.
    assert_eq!((0..4).map(|page| model.world.frame(1, other + page).unwrap()).collect::<Vec<_>>(), [1, 2, 3, 5]);
    assert!(model.world.reservation(own, 0).is_none());
    touch_all(&mut model, at..at + 2, Access::Store);
    assert_eq!(model.world.frame(1, at + 1), Some(6));
    touch(&mut model, at + 2, Access::Store);
    assert_eq!(model.touch(1, at + 3, Access::Store), Err(Failed::Full));
    assert_eq!(model.count("faults"), 8);
}

#[test]
fn fbr_7_clean_superpages_are_read_only() {
    let mut model = FreeBsd::new(4, 8);
    let (_, at) = mapped(&mut model, Kind::Anonymous, Grows::No, 4);
    touch_all(&mut model, at..at + 4, Access::Load);
    assert_eq!(steps(&model), [1, 0, 0, 0]);
    let leaf = |model: &FreeBsd| model.world.leaf(1, at).map(|(_, leaf)| (leaf.order, leaf.writable, leaf.dirty));
    assert_eq!(leaf(&model), Some((2, false, false)));
    // FBR-9: a store demotes; then clean and dirty pages differ, until the last.
    touch_all(&mut model, at..at + 4, Access::Store);
    assert_eq!(steps(&model), [2, 3, 1, 0]);
    assert_eq!(faults(&model), [4, 4]);
    assert_eq!(leaf(&model), Some((2, true, true)));
}

#[test]
fn fbr_7_how_far_entries_lose_the_write_right() {
    for (checks, left) in [(Checks::Every, [false; 3]), (Checks::UntilFailure, [false, true, true])] {
        let mut model = FreeBsd::new(4, 8).checking(checks);
        let (_, at) = mapped(&mut model, Kind::Anonymous, Grows::No, 4);
        touch_all(&mut model, at..at + 3, Access::Load);
        touch(&mut model, at + 3, Access::Store);
        let writable = [0, 1, 2].map(|page| model.world.leaf(1, at + page).unwrap().1.writable);
        assert_eq!(writable, left, "{checks:?}");
    }
}

#[test]
fn fbr_8_mapping_at_once() {
    for (loads, at_once) in [(0, 2), (1, 1)] {
        let mut model = FreeBsd::new(4, 16);
        let (object, at) = mapped(&mut model, Kind::Shared, Grows::No, 8);
        touch_all(&mut model, at..at + loads, Access::Load);
        touch_all(&mut model, at + loads..at + 4, Access::Store);
        // A load of any page maps all of them; a store only if all are dirty.
        model.map(2, 8, object, 0..8, RW);
        let load = model.touch(2, 10, Access::Load).unwrap();
        assert_eq!((load.order, load.fault), (2, Fault::Missing));
        assert_eq!(model.world.leaf(2, 8).unwrap().1.writable, loads == 0);
        model.map(3, 8, object, 0..8, RW);
        assert_eq!(model.touch(3, 10, Access::Store).unwrap().order, if loads == 0 { 2 } else { 0 });
        assert_eq!(model.count("mapped_at_once"), at_once);
        // Not congruent; not all of the group; not full.
        model.map(4, 9, object, 0..8, RW);
        model.map(5, 8, object, 0..3, RW);
        for process in [4, 5] {
            assert_eq!(model.touch(process, 10, Access::Load).unwrap().order, 0);
        }
        touch(&mut model, at + 4, Access::Store);
        assert_eq!(model.touch(2, 12, Access::Load).unwrap().order, 0);
        assert_eq!(model.count("mapped_at_once"), at_once);
    }
}

#[test]
fn fbr_9_parts_and_wholes() {
    let full = || {
        let mut model = FreeBsd::new(4, 8);
        let (_, at) = mapped(&mut model, Kind::Anonymous, Grows::No, 4);
        touch_all(&mut model, at..at + 4, Access::Store);
        assert_eq!(steps(&model), [1, 0, 0, 0]);
        (model, at)
    };
    let (mut model, at) = full();
    model.protect(1, at..at + 4, READ);
    assert_eq!(model.world.leaf(1, at).map(|(_, leaf)| (leaf.order, leaf.writable)), Some((2, false)));
    model.protect(1, at..at + 4, RW);
    // Its dirty pages are clean entries now: demoted by a store, and again one when all were stored to.
    touch_all(&mut model, at..at + 4, Access::Store);
    assert_eq!(steps(&model), [2, 3, 1, 0]);
    model.unmap(1, at..at + 4);
    assert_eq!([steps(&model)[2], model.count("freed")], [1, 1]);

    let (mut model, at) = full();
    model.protect(1, at + 1..at + 2, READ);
    assert_eq!(steps(&model), [1, 0, 1, 0]);
    assert_eq!([0, 1].map(|page| model.world.leaf(1, at + page).unwrap().1.writable), [true, false]);

    let (mut model, at) = full();
    model.unmap(1, at..at + 1);
    assert_eq!(steps(&model), [1, 0, 1, 0]);
    assert_eq!([model.world.order(1, at), model.world.order(1, at + 1)], [None, Some(0)]);
    assert_eq!(model.partpop(), 1);
}

#[test]
fn fbr_10_fork_and_stores() {
    let mut model = FreeBsd::new(4, 32);
    let (object, at) = mapped(&mut model, Kind::Anonymous, Grows::No, 4);
    touch_all(&mut model, at..at + 4, Access::Store);
    model.fork(1, 2);
    let leaf = |model: &FreeBsd, process| model.world.leaf(process, at).map(|(_, leaf)| (leaf.order, leaf.writable));
    assert_eq!([leaf(&model, 1), leaf(&model, 2)], [Some((2, false)); 2]);
    assert_eq!(steps(&model), [1, 0, 0, 0]);
    // The child's page comes from a reservation of the child's object.
    let child = model.touch(2, at + 1, Access::Store).unwrap();
    assert_eq!((child.frame, child.order, child.fault), (5, 0, Fault::Write));
    assert_eq!(model.world.mapping(2, at).map(|mapping| mapping.object), Some(object + 1));
    assert_eq!(model.world.reservation(object + 1, 1).map(|r| (r.pages(), r.frames())), Some((0..4, 4..8)));
    assert_eq!([model.count("copied"), steps(&model)[2]], [1, 1]);
    assert_eq!(leaf(&model, 1), Some((2, false)));
    for vpn in [at, at + 2, at + 3] {
        model.touch(2, vpn, Access::Store).unwrap();
    }
    assert_eq!([model.count("copied"), model.count("promotions")], [4, 2]);
    assert_eq!(leaf(&model, 2), Some((2, true)));
    // The parent copies too, as long as the child is there.
    assert_eq!(touch(&mut model, at, Access::Store), 8);
    assert_eq!([model.count("copied"), model.world.shares()[1]], [5, 9]);
    model.exit(2);
    assert_eq!([model.count("freed"), model.world.shares()[1]], [1, 5]);
    model.exit(1);
    assert_eq!(model.world.shares(), [32, 0, 0]);
}

#[test]
fn fbr_10_shared_memory_stays_shared() {
    let mut model = FreeBsd::new(4, 8);
    let (_, at) = mapped(&mut model, Kind::Shared, Grows::No, 4);
    touch_all(&mut model, at..at + 2, Access::Store);
    model.fork(1, 2);
    for page in 0..4 {
        model.touch(2, at + page, Access::Store).unwrap();
    }
    // The child dirties the copies itself (OJ-27): without that, two would be clean.
    assert_eq!(steps(&model), [1, 0, 0, 0]);
    model.fork(1, 3);
    for page in 2..4 {
        model.touch(3, at + page, Access::Store).unwrap();
    }
    assert_eq!(steps(&model), [1, 1, 0, 0]);
    assert_eq!([model.count("copied"), model.world.shares()[1]], [0, 4]);
    // A superpage is copied as it is.
    model.fork(2, 4);
    assert_eq!(model.world.leaf(4, at), model.world.leaf(2, at));
}

#[test]
fn fbr_10_alone_again_and_private_files() {
    let mut model = FreeBsd::new(4, 32);
    let (_, at) = mapped(&mut model, Kind::Anonymous, Grows::Up, 4);
    touch(&mut model, at, Access::Store);
    model.fork(1, 2);
    model.grow(2, at, 2);
    assert_eq!(model.world.mappings().iter().filter(|m| m.process == 2).count(), 2, "OJ-31");
    model.exit(2);
    assert_eq!(touch(&mut model, at, Access::Store), 0);
    assert_eq!(model.count("copied"), 0);

    // A load: the file's page. A store to another: read, then copied.
    let file = model.object(Kind::File, Grows::No, 0..4);
    model.map_private(1, 512, file, 0..4, RW);
    assert_eq!(touch(&mut model, 512, Access::Load), 4);
    assert!(!model.world.leaf(1, 512).unwrap().1.writable);
    assert_eq!(touch(&mut model, 513, Access::Store), 9);
    assert_eq!(model.world.objects()[file].resident.len(), 2);
    assert_eq!(model.count("copied"), 1);
    assert_eq!(touch(&mut model, 512, Access::Store), 8);
}

/// OSC-5 and FBR-5 after each event (the model looks by itself), and what holds at the end.
#[test]
fn fbr_1_to_fbr_10_random_programs() {
    let mut total: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in seeds(40) {
        let mut dice = Dice::new(seed);
        let frames = dice.pick(&[25, 48, 100, 1 << 10]);
        let checks = dice.pick(&[Checks::Every, Checks::UntilFailure]);
        let mut model = FreeBsd::new(dice.pick(&[1, 4, 8]), frames).checking(checks);
        for object in 0..6_u64 {
            let kind = dice.pick(&[Kind::Anonymous, Kind::Shared, Kind::File]);
            let grows = if kind == Kind::Anonymous { dice.pick(&[Grows::Up, Grows::Down]) } else { Grows::No };
            let pages = 128..128 + 1 + dice.below(40);
            let number = model.object(kind, grows, pages.clone());
            let process = 1 + dice.below(2) as u32;
            let at = 512 * object + pages.start;
            if kind == Kind::File && dice.percent(50) {
                model.map_private(process, at, number, pages.clone(), RW);
            } else {
                model.map(process, at, number, pages.clone(), RW);
            }
            if kind != Kind::Anonymous && dice.percent(50) {
                model.map(3, 512 * object + dice.pick(&[0, 4, 3]), number, pages, RW);
            }
        }
        for _ in 0..200 {
            let process = 1 + dice.below(4) as u32;
            let range = range(&mut dice);
            match dice.below(50) {
                0 => model.unmap(process, range),
                1 => model.protect(process, range, dice.pick(&[RW, READ])),
                2 => {
                    let ours = model.world.mappings().iter().filter(|m| m.process == process);
                    let ends: Vec<u64> = ours.filter(|m| free_at_end(&model.world, m)).map(|m| m.vpn).collect();
                    if !ends.is_empty() {
                        model.grow(process, dice.pick(&ends), 1 + dice.below(4));
                    }
                }
                3 => model.tick(1),
                4 if dice.percent(30) => {
                    model.exit(4);
                    model.fork(1 + dice.below(3) as u32, 4);
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
            assert_eq!(model.count("broken"), 0, "seed {seed}");
        }
        (1..5).for_each(|process| model.exit(process));
        assert_eq!(model.world.shares(), [frames, 0, 0], "seed {seed}");
        for (name, count) in model.counts {
            *total.entry(name).or_default() += count;
        }
    }
    // Everything happens in these programs.
    assert!(seeds(40).count() == 1 || total.len() == 13 && total.values().all(|&n| n > 4), "{total:?}");
}

/// A mapping of a growing object, with room behind.
fn free_at_end(world: &World, mapping: &Mapping) -> bool {
    let place = mapping.vpns();
    let room = match world.objects()[mapping.object].grows {
        Grows::No => return false,
        Grows::Up => place.end..place.end + 4,
        Grows::Down => place.start - 4..place.start,
    };
    room.clone().all(|vpn| vpn % 512 > 60 && vpn % 512 < 450 && world.mapping(mapping.process, vpn).is_none())
}
