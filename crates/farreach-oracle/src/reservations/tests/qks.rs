//! The example of QKS, and what it leaves out.

use super::*;
use crate::dice::{Dice, seeds};
use crate::reservations::freebsd::quicksilver::{Config, Quicksilver};

const SYNC: Config = Config { threshold: 64, asynchronous: false, inactive: 5000 };

fn small(config: Config, frames: u64) -> Quicksilver {
    Quicksilver::new(Config { threshold: 2, ..config }, 4, frames)
}

fn steps(model: &Quicksilver) -> [u64; 4] {
    ["promotions", "zero_pages", "zero_pages_background", "qks_inactive"].map(|name| model.count(name))
}

#[test]
fn qks_1_the_64th_page() {
    let mut model = Quicksilver::new(SYNC, 512, 1024);
    let (_, at) = mapped(&mut model, Kind::Anonymous, Grows::No, 512);
    touch_all(&mut model, at..at + 63, Access::Store);
    assert_eq!(steps(&model), [0; 4]);
    touch(&mut model, at + 63, Access::Store);
    assert_eq!(steps(&model), [1, 448, 0, 0]);
    let leaf = model.freebsd.world.leaf(1, at + 400).unwrap();
    assert_eq!((leaf.0, leaf.1.order, leaf.1.writable), (at, 9, true));
    assert_eq!((model.freebsd.fullpop(), model.freebsd.world.shares()), (1, [512, 512, 0]));
    touch_all(&mut model, at..at + 512, Access::Store);
    assert_eq!(model.count("faults"), 64);
}

/// QKS-1: the variant whose rest is zeroed later.
#[test]
fn qks_1_asynchronous() {
    let mut model = Quicksilver::new(Config { threshold: 256, asynchronous: true, ..SYNC }, 512, 1024);
    let (_, at) = mapped(&mut model, Kind::Anonymous, Grows::No, 512);
    touch_all(&mut model, at..at + 255, Access::Store);
    model.tick(1);
    assert_eq!(steps(&model), [0; 4]);
    touch_all(&mut model, at + 255..at + 260, Access::Store);
    assert_eq!(model.freebsd.world.order(1, at), Some(0));
    model.tick(1);
    assert_eq!(steps(&model), [1, 0, 252, 0]);
    assert_eq!(model.freebsd.world.order(1, at), Some(9));
}

/// QKS-1, OJ-33: what cannot be mapped as a superpage is not prepared.
#[test]
fn qks_1_what_is_not_prepared() {
    // The group reaches beyond the object; it is of a file; it hides another.
    let mut model = small(SYNC, 32);
    let (_, at) = mapped(&mut model, Kind::Anonymous, Grows::No, 3);
    touch_all(&mut model, at..at + 3, Access::Store);
    let (_, file) = mapped(&mut model, Kind::File, Grows::No, 4);
    touch_all(&mut model, file..file + 3, Access::Store);
    assert_eq!(steps(&model), [0; 4]);
    touch(&mut model, file + 3, Access::Store);
    assert_eq!(steps(&model), [1, 0, 0, 0], "FBR-7");
    let (_, at) = mapped(&mut model, Kind::Anonymous, Grows::No, 4);
    touch_all(&mut model, at..at + 1, Access::Store);
    model.freebsd.fork(1, 2);
    for page in 0..3 {
        model.touch(2, at + page, Access::Store).unwrap();
    }
    assert_eq!(steps(&model), [1, 0, 0, 0]);
    // Pages that were read count as stored to.
    let (_, at) = mapped(&mut model, Kind::Anonymous, Grows::No, 4);
    touch_all(&mut model, at..at + 2, Access::Load);
    assert_eq!(steps(&model), [2, 2, 0, 0]);
    assert_eq!(model.freebsd.world.leaf(1, at).map(|(_, leaf)| (leaf.writable, leaf.dirty)), Some((true, true)));
}

/// QKS-2, QKS-3.
#[test]
fn qks_2_qks_3_inactive_reservations() {
    let mut model = Quicksilver::new(Config { threshold: 3, ..SYNC }, 4, 16);
    let (_, at) = mapped(&mut model, Kind::Anonymous, Grows::No, 8);
    touch(&mut model, at, Access::Store);
    model.tick(4000);
    touch(&mut model, at + 4, Access::Store);
    model.tick(999);
    assert_eq!((model.freebsd.queue().len(), steps(&model)), (2, [0; 4]));
    model.tick(1);
    assert_eq!((model.freebsd.queue().len(), steps(&model)), (1, [0, 0, 0, 1]));
    assert_eq!(model.freebsd.world.shares(), [11, 2, 3]);
    // What is broken is not reserved again.
    touch_all(&mut model, at + 1..at + 4, Access::Store);
    assert_eq!(steps(&model)[0], 0);
    // A superpage loses a page: its block stays, and comes back, until it is inactive.
    touch_all(&mut model, at + 5..at + 7, Access::Store);
    assert_eq!(steps(&model), [1, 1, 0, 1]);
    let object = model.freebsd.world.mapping(1, at).unwrap().object;
    model.unmap(1, at + 6..at + 7);
    assert_eq!(model.freebsd.world.shares(), [8, 7, 1]);
    model.tick(4999);
    assert_eq!(model.freebsd.queue(), [(object, 4)]);
    model.tick(1);
    assert_eq!((model.freebsd.world.shares(), steps(&model)), ([9, 7, 0], [1, 1, 0, 2]));
}

/// OSC-5 after each event, as the model looks by itself.
#[test]
fn qks_1_to_qks_3_random_programs() {
    let mut sums = [0; 4];
    for seed in seeds(30) {
        let mut dice = Dice::new(seed);
        let frames = dice.pick(&[25, 48, 1 << 10]);
        let config = Config { threshold: 3, asynchronous: dice.percent(50), inactive: 4 };
        let mut model = Quicksilver::new(config, 8, frames);
        for object in 0..6_u64 {
            let kind = dice.pick(&[Kind::Anonymous, Kind::Anonymous, Kind::Shared, Kind::File]);
            let pages = 128..128 + 1 + dice.below(40);
            let number = model.object(kind, Grows::No, pages.clone());
            model.map(1 + dice.below(2) as u32, 512 * object + pages.start, number, pages, RW);
        }
        model.freebsd.fork(1, 3);
        for _ in 0..200 {
            let (process, range) = (1 + dice.below(3) as u32, range(&mut dice));
            match dice.below(30) {
                0 => model.unmap(process, range),
                1 => model.protect(process, range, dice.pick(&[RW, RW, READ])),
                2..5 => model.tick(1),
                _ => {
                    let run = run(&mut dice, &model.freebsd.world);
                    let access = dice.pick(&[Access::Load, Access::Store]);
                    for (process, vpn) in run {
                        let _ = model.touch(process, vpn, access);
                    }
                }
            }
        }
        sums.iter_mut().zip(steps(&model)).for_each(|(sum, n)| *sum += n);
        (1..4).for_each(|process| model.exit(process));
        assert_eq!(model.freebsd.world.shares(), [frames, 0, 0], "seed {seed}");
    }
    assert!(seeds(30).count() == 1 || sums.iter().all(|sum| *sum >= 10), "{sums:?}");
}
