//! Random programs: what must hold after every event (OSC-5 a to c), and that everything happens.

use super::ranger::eights;
use super::*;
use crate::dice::{Dice, seeds};
use crate::linux::{Khugepaged, Mode};
use crate::since_os::{hawkeye, ingens, mosaic, ranger, solaris, tps, trident, windows};
use farreach_types::event::ThpRule;
use std::collections::BTreeSet;

/// Leaves are aligned, whole and alike; each frame is free, reserved, or has a page. `held` frames are neither.
fn check(model: &impl Model, frames: u64, held: u64) {
    let paging = model.paging();
    for (process, space) in &paging.programs.spaces {
        for (page, entry) in &space.table {
            let first = page >> entry.order << entry.order;
            let base = entry.frame.checked_sub(page - first).expect("a leaf has frames from its first on");
            assert!(base.is_multiple_of(1 << entry.order), "process {process}, page {page}: {entry:?}");
            for other in first..first + (1 << entry.order) {
                let part = space.table.get(&other).expect("a leaf is whole");
                assert_eq!((part.order, part.frame, part.cow), (entry.order, base + (other - first), entry.cow));
                assert_eq!(space.pages[&other].prot, space.pages[page].prot);
            }
        }
    }
    let mut used: BTreeSet<u64> = paging.programs.entries().map(|entry| entry.frame).collect();
    used.extend(paging.programs.shared.values());
    assert_eq!(used.len() as u64 + paging.frames.free() + held, frames);
}

fn step(model: &mut (impl Model + ?Sized), dice: &mut Dice, processes: u32) {
    let process = 1 + dice.below(processes.into()) as u32;
    let first = dice.below(12) * 8 + dice.pick(&[0, 0, 0, 1, 5]);
    let range = first..first + dice.pick(&[1, 3, 8, 16, 32]);
    let (start, len) = bytes(&range);
    let backing = dice.pick(&[Backing::Anonymous, Backing::Anonymous, Backing::Heap, Backing::Stack]);
    match dice.below(60) {
        0..4 => map_as(model, process, range, backing),
        4 => {
            let backing = dice.pick(&[Backing::Anonymous, Backing::File { path: "/f".into(), offset: 0 }]);
            model.apply(process, &Op::Map(Mapping { start, len, prot: Prot::RW, shared: true, backing }));
        }
        5..7 => unmap(model, process, range),
        7 => protect(model, process, range, dice.pick(&[READ_ONLY, Prot::RW, Prot::RW])),
        8..10 => {
            let all = [Advice::DontNeed, Advice::HugePage, Advice::NoHugePage, Advice::Populate];
            advise(model, process, range, dice.pick(&all));
        }
        10 => {
            let new_start = (128 + dice.below(4) * 32) << 12;
            model.apply(process, &Op::Remap { old_start: start, old_len: len, new_start, new_len: len });
        }
        11 if dice.percent(30) => model.apply(process, &Op::Thp(dice.pick(&[ThpRule::System, ThpRule::Advised]))),
        12 if dice.percent(50) => {
            end(model, process);
            let parent = 1 + process % processes;
            fork(model, parent, process);
        }
        _ => {
            for page in range {
                if model.paging().page(process, page).is_some() && dice.percent(70) {
                    let kind = dice.pick(&[Kind::Load, Kind::Store]);
                    if model.touch(process, page, kind).is_ok() && dice.percent(80) {
                        model.walked(process, page);
                    }
                }
            }
        }
    }
}

/// Runs programs, and adds up what was counted.
fn run<M: Model>(new: impl Fn(u64) -> M, held: impl Fn(&M) -> u64, happened: impl Fn(&M) -> Vec<u64>) {
    let mut sums: Vec<u64> = Vec::new();
    for seed in seeds(30) {
        let mut dice = Dice::new(seed);
        let (frames, mut now) = (dice.pick(&[96, 256, 512]), 0);
        let mut model = new(frames);
        (1..4).for_each(|process| map(&mut model, process, 0..64));
        for _ in 0..200 {
            step(&mut model, &mut dice, 3);
            check(&model, frames, held(&model));
            now += dice.pick(&[1, 1, 20]);
            if model.due() <= now {
                model.advance(now);
                check(&model, frames, held(&model));
                assert!(model.due() >= now);
            }
        }
        let counted = happened(&model);
        (1..4).for_each(|process| end(&mut model, process));
        assert_eq!(model.paging().frames.free(), frames, "seed {seed}");
        sums.resize(counted.len(), 0);
        sums.iter_mut().zip(counted).for_each(|(sum, n)| *sum += n);
    }
    assert!(seeds(30).count() == 1 || sums.iter().all(|sum| *sum >= 10), "{sums:?}");
}

#[test]
fn os_tps_1_to_os_tps_3_random_programs() {
    let new = |frames| {
        let threshold = if frames == 256 { 60 } else { 100 };
        tps::PlainTps::new(tps::Config { frames: blocks(frames), largest: 5, threshold })
    };
    run(new, tps::PlainTps::reserved, |model| {
        vec![model.reservations, model.promotions, model.paging().counts.demotions, model.paging().counts.cow_copies]
    });
}

#[test]
fn sol_1_sol_2_random_programs() {
    let new = |frames| solaris::PlainSolaris::new(solaris::Config { frames: blocks(frames), orders: vec![4, 2] });
    run(
        new,
        |_| 0,
        |model| {
            let counts = &model.paging().counts;
            vec![counts.superpage_faults, counts.superpage_fallbacks, counts.demotions, counts.cow_copies]
        },
    );
}

#[test]
fn win_1_random_programs() {
    let new = |frames| {
        let request = if frames == 256 { windows::Request::Advised } else { windows::Request::Mapped };
        windows::PlainWindows::new(windows::Config { frames: blocks(frames), order: 3, request })
    };
    run(new, |_| 0, |model| vec![model.served, model.refused, model.paging().counts.demotions]);
}

#[test]
fn ing_1_to_ing_6_random_programs() {
    let new = |frames| {
        let promoter =
            Khugepaged { pages_to_scan: 24, scan_sleep: 30, alloc_sleep: 90, max_ptes_none: 0, max_ptes_shared: 2 };
        let fairness = (frames == 256).then(Default::default);
        let config = ingens::Config {
            frames: blocks(frames),
            order: 3,
            mode: Mode::Always,
            util_threshold: 70,
            promoter,
            fairness,
            adaptive: frames == 512,
            track_every: 40,
            sampling: frames == 96,
        };
        ingens::PlainIngens::new(config)
    };
    run(
        new,
        |_| 0,
        |model| {
            let mut all: Vec<u64> = model.own().into_iter().map(|(_, count)| count).collect();
            all.push(model.paging().counts.demotions);
            all
        },
    );
}

#[test]
fn tri_1_to_tri_3_random_programs() {
    let new = |frames| {
        let promoter =
            Khugepaged { pages_to_scan: 64, scan_sleep: 30, alloc_sleep: 90, max_ptes_none: 7, max_ptes_shared: 2 };
        let config = trident::Config {
            frames: blocks(frames),
            memory: frames,
            giant: 5,
            pmd: 3,
            mode: Mode::Always,
            promoter,
            max_none_giant: 31,
            compaction: (frames < 512).then_some(100),
        };
        trident::PlainTrident::new(config)
    };
    run(
        new,
        |_| 0,
        |model| {
            let counts = &model.paging().counts;
            let mut all: Vec<u64> = model.own().into_iter().map(|(_, count)| count).collect();
            all.extend([counts.superpage_faults, counts.demotions]);
            all
        },
    );
}

#[test]
fn hwe_1_to_hwe_7_random_programs() {
    let new = |frames| {
        let promoter =
            Khugepaged { pages_to_scan: 16, scan_sleep: 50, alloc_sleep: 0, max_ptes_none: 7, max_ptes_shared: 2 };
        let zeroing = hawkeye::Zeroing { order: 3, blocks: 1, every: 25 };
        let config = hawkeye::Config {
            frames: Frames::blocks(frames, |_| true, 10, false),
            memory: frames,
            order: 3,
            mode: Mode::Always,
            period: 60,
            wait: 10,
            bins: hawkeye::Bins::Log2,
            choice: hawkeye::Choice::Global,
            walk_ticks: 0,
            promoter,
            zeroing: (frames != 256).then_some(zeroing),
            bloat: Some((15, 30)),
        };
        hawkeye::PlainHawkEye::new(config)
    };
    run(new, |_| 0, |model| model.own().into_iter().map(|(_, count)| count).collect());
}

#[test]
fn rng_1_to_rng_4_random_programs() {
    let new = |frames| {
        let faults = if frames == 256 { vec![3] } else { vec![] };
        ranger::PlainRanger::new(ranger::Config { faults, period: 80, ..eights(frames) })
    };
    run(new, |_| 0, |model| model.own().into_iter().map(|(_, count)| count).collect());
}

#[test]
fn os_mos_1_os_mos_2_random_programs() {
    let new = |frames| mosaic::PlainMosaic::new(mosaic::Config { frames, front: 6, back: 2, choices: 3, seed: 5 });
    run(
        new,
        |_| 0,
        |model| {
            let mut all: Vec<u64> = model.own().into_iter().map(|(_, count)| count).collect();
            all.push(model.paging().counts.cow_copies);
            all
        },
    );
}

/// OSC-5 e: with all that is new switched off, each is the same paging on demand.
#[test]
fn osc_5_all_off_is_all_the_same() {
    let off = Khugepaged { pages_to_scan: 0, scan_sleep: 1, alloc_sleep: 1, max_ptes_none: 0, max_ptes_shared: 0 };
    for seed in seeds(10) {
        let all = || blocks(256);
        let mode = Mode::Never;
        let plain = solaris::PlainSolaris::new(solaris::Config { frames: all(), orders: vec![] });
        let ranger = ranger::Config { mode, faults: vec![], period: u64::MAX, ..eights(256) };
        let (util_threshold, fairness, adaptive, track_every, sampling) = (90, None, false, 0, false);
        let ingens = ingens::Config {
            frames: all(),
            order: 3,
            mode,
            util_threshold,
            promoter: off,
            fairness,
            adaptive,
            track_every,
            sampling,
        };
        let hawkeye = hawkeye::Config {
            frames: all(),
            memory: 256,
            order: 3,
            mode,
            period: u64::MAX,
            wait: 1,
            bins: hawkeye::Bins::Fifty,
            choice: hawkeye::Choice::Measured(0.02),
            walk_ticks: 0,
            promoter: off,
            zeroing: None,
            bloat: None,
        };
        let trident = trident::Config {
            frames: all(),
            memory: 256,
            giant: 5,
            pmd: 3,
            mode,
            promoter: off,
            max_none_giant: 0,
            compaction: None,
        };
        let mut models: Vec<Box<dyn Model>> = vec![
            Box::new(plain),
            Box::new(tps::PlainTps::new(tps::Config { frames: all(), largest: 0, threshold: 100 })),
            Box::new(ranger::PlainRanger::new(ranger)),
            Box::new(ingens::PlainIngens::new(ingens)),
            Box::new(hawkeye::PlainHawkEye::new(hawkeye)),
            Box::new(trident::PlainTrident::new(trident)),
        ];
        let mut dice: Vec<Dice> = models.iter().map(|_| Dice::new(seed)).collect();
        for _ in 0..150 {
            for (model, dice) in models.iter_mut().zip(&mut dice) {
                step(model.as_mut(), dice, 3);
                assert_eq!(model.due(), u64::MAX);
            }
            let (first, others) = models.split_first().expect("there are six");
            for other in others {
                assert_eq!(other.paging().counts, first.paging().counts);
                assert_eq!(other.paging().frames.free(), first.paging().frames.free());
                for (process, space) in &first.paging().programs.spaces {
                    let frames = |model: &dyn Model| {
                        let table = &model.paging().programs.spaces[process].table;
                        table.iter().map(|(page, entry)| (*page, entry.frame, entry.cow)).collect::<Vec<_>>()
                    };
                    assert_eq!(
                        frames(other.as_ref()),
                        frames(first.as_ref()),
                        "process {process}, {}",
                        space.table.len()
                    );
                }
            }
        }
    }
}
