//! Faults planted in a model are found: each letter of OSC-5, by the check and by the next event.

use super::*;
use crate::reservations::freebsd::FreeBsd;
use crate::reservations::navarro::{DirtyRule, Navarro};

/// A 16-page object: pages 0-3 one leaf, page 5 another, the rest reserved; and a page elsewhere.
fn world() -> World {
    let mut model = Navarro::new(&[1, 4, 16], 32, DirtyRule::File);
    let object = model.object(Kind::Anonymous, Grows::No, 0..16);
    model.map(1, 16, object, 0..16, RW);
    let one = model.object(Kind::Anonymous, Grows::No, 0..1);
    model.map(1, 64, one, 0..1, RW);
    for vpn in [16, 17, 18, 19, 21, 64] {
        model.touch(1, vpn, Access::Store).unwrap();
    }
    model.world
}

#[test]
fn osc_5_a_b_c_planted_faults() {
    type Plant = fn(&mut World);
    let plants: [(&str, &str, Plant); 14] = [
        ("a", "a free block is lost", |world| world.buddy.free.iter_mut().for_each(Vec::clear)),
        ("a", "a page's frame is free, too", |world| world.buddy.free[0].push(0)),
        ("a", "a reservation is lost", |world| world.reservations.clear()),
        ("a", "a page is forgotten", |world| world.objects[1].resident.clear()),
        ("b", "two pages have one frame", |world| {
            world.objects[1].resident.insert(0, Resident { frame: 0, dirty: false });
        }),
        ("b", "a frame beyond memory", |world| {
            world.objects[1].resident.insert(0, Resident { frame: 32, dirty: false });
        }),
        ("b", "a reserved frame is a page's", |world| {
            world.objects[1].resident.insert(0, Resident { frame: 4, dirty: false });
        }),
        ("b", "a page is elsewhere than its reservation says", |world| {
            let frame = world.objects[1].resident[&0].frame;
            let other = world.objects[0].resident.insert(5, Resident { frame, dirty: false }).unwrap();
            world.objects[1].resident.insert(0, other);
        }),
        ("b", "a leaf maps the frame of another page", |world| {
            world.leaves.get_mut(&(1, 21)).unwrap().frame += 1;
        }),
        ("b", "a leaf over pages that have no frames", |world| {
            let leaf = world.leaves[&(1, 21)];
            world.leaves.insert((1, 22), Leaf { frame: leaf.frame + 1, ..leaf });
        }),
        ("c", "a leaf at an unaligned page", |world| world.leaves.get_mut(&(1, 21)).unwrap().order = 1),
        ("c", "a leaf of unaligned frames", |world| world.leaves.get_mut(&(1, 16)).unwrap().frame += 2),
        ("c", "a leaf under a leaf", |world| {
            world.leaves.insert((1, 18), world.leaves[&(1, 21)]);
        }),
        ("c", "a part of a superpage has other rights", |world| {
            world.cut(1, &(17..18));
            world.mappings_in(1, &(17..18)).for_each(|mapping| mapping.rights = READ);
        }),
    ];
    assert_eq!(world().check(), Ok(()));
    for (letter, name, plant) in plants {
        let mut world = world();
        plant(&mut world);
        let found = world.check().expect_err(name);
        assert!(found.starts_with(&format!("OSC-5 {letter}:")), "{name}: {found}");
    }
}

#[test]
#[should_panic(expected = "OSC-5 b")]
fn osc_5_b_an_event_of_nav_looks() {
    let mut model = Navarro::new(&[1, 4], 8, DirtyRule::File);
    let object = model.object(Kind::Anonymous, Grows::No, 0..4);
    model.map(1, 0, object, 0..4, RW);
    model.touch(1, 0, Access::Load).unwrap();
    model.world.leaves.get_mut(&(1, 0)).unwrap().frame += 1;
    let _ = model.touch(1, 1, Access::Load);
}

#[test]
#[should_panic(expected = "FBR-5")]
fn fbr_5_an_event_looks_at_the_queue() {
    let mut model = FreeBsd::new(4, 8);
    let object = model.object(Kind::Anonymous, Grows::No, 0..4);
    model.map(1, 0, object, 0..4, RW);
    model.touch(1, 0, Access::Load).unwrap();
    // Full, but not marked as full.
    for page in 1..4 {
        model.world.objects[object].resident.insert(page, Resident { frame: page, dirty: false });
        model.world.reservations.get_mut(&(object, 0)).unwrap().used.insert(page);
    }
    let _ = model.touch(1, 0, Access::Load);
}

#[test]
#[should_panic(expected = "OSC-5 a")]
fn osc_5_a_an_event_of_fbr_looks() {
    let mut model = FreeBsd::new(4, 8);
    let object = model.object(Kind::Anonymous, Grows::No, 0..4);
    model.map(1, 0, object, 0..4, RW);
    model.world.buddy.free[3].clear();
    model.protect(1, 0..4, READ);
}
