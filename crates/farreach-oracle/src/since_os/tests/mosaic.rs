//! Mosaic.

use super::*;
use crate::dice::Dice;
use crate::since_os::mosaic::{Config, PlainMosaic};

const SMALL: Config = Config { frames: 9, front: 2, back: 1, choices: 2, seed: 0 };

/// The example of MOS.
#[test]
fn os_mos_1_the_example() {
    let mut model = PlainMosaic::with(SMALL, Box::new(|_, _| (0, vec![1, 2])));
    map(&mut model, 1, 0..8);
    for (page, expected) in [(0, 0), (1, 1), (2, 5), (3, 8)] {
        store(&mut model, 1, page..page + 1);
        assert_eq!(frame(&model, 1, page), Some(expected), "bucket {}", expected / 3);
    }
    assert_eq!([model.fronts, model.backs, model.conflicts], [2, 2, 0]);
    assert!(model.touch(1, 4, Kind::Store).is_err());
    assert_eq!((model.conflicts, model.paging().frames.free()), (1, 5));
    // A place that is free again is taken; nothing moves.
    unmap(&mut model, 1, 1..2);
    store(&mut model, 1, 4..5);
    assert_eq!([0, 2, 3, 4].map(|page| frame(&model, 1, page)), [Some(0), Some(5), Some(8), Some(1)]);
    assert_eq!(own(&model, "mosaic_conflicts"), 1);
}

/// OS-MOS-1: the back with the fewest pages; copies and other processes have places of their own.
#[test]
fn os_mos_1_backs_and_processes() {
    let config = Config { frames: 24, front: 2, back: 4, ..SMALL };
    let places = |process: u32, page: u64| if process == 1 { (0, vec![1, 2 + page % 2]) } else { (3, vec![0, 0]) };
    let mut model = PlainMosaic::with(config, Box::new(places));
    map(&mut model, 1, 0..16);
    store(&mut model, 1, 0..6);
    // Two in front; then pages 2 (backs of 1, 2), 3 (1, 3), 4 (1, 2), 5 (1, 3).
    let frames = (0..6).map(|page| frame(&model, 1, page).unwrap()).collect::<Vec<_>>();
    assert_eq!(frames, [0, 1, 8, 20, 14, 9]);
    fork(&mut model, 1, 2);
    store(&mut model, 2, 3..4);
    assert_eq!([1, 2].map(|process| frame(&model, process, 3)), [Some(20), Some(18)]);
}

/// OS-MOS-2: the first conflict comes when nearly all frames are in use.
#[test]
fn os_mos_2_the_first_conflict() {
    for seed in 0..2 {
        let frames = 1 << 13;
        let mut model = PlainMosaic::new(Config { frames, front: 56, back: 8, choices: 6, seed });
        let (mut dice, mut used) = (Dice::new(seed), 0);
        while model.conflicts == 0 {
            used += u64::from(model.touch(1, dice.below(1 << 36), Kind::Store).is_ok());
        }
        assert!(used * 100 >= frames * 97, "{used} of {frames}");
    }
}
