//! The hand cases of sections 5.1 to 5.3, and their laws on random walks.

use super::*;
use crate::dice::{Dice, seeds};

/// A walk of process 1 for a base page.
fn base(vpn: u64, frame: u64) -> Walk {
    Walk { asid: 1, vpn, frame, order: 0, pc: 0x40, reserved: false, run: 1 }
}

fn sums(g: Guesses) -> [u64; 3] {
    [g.none, g.correct, g.wrong]
}

#[test]
fn spt_1_spt_2_spt_3_spt_4_the_hand_case() {
    for (reserved, sum) in [(true, [1, 9, 0]), (false, [10, 0, 0])] {
        let mut spec = PlainSpecTlb::new(64, 4);
        { 0..10 }.for_each(|page| _ = spec.walked(&Walk { reserved, ..base(page, 1024 + page) }));
        assert_eq!(sums(spec.guesses), sum);
    }
}

#[test]
fn spt_2_spt_3_wrong_dropped_and_out_of_place() {
    let mut spec = PlainSpecTlb::new(8, 4);
    let reserved = |vpn, frame| Walk { reserved: true, ..base(vpn, frame) };
    assert_eq!(spec.walked(&reserved(0, 1025)), Guess::None, "out of place: not entered");
    assert_eq!(spec.walked(&reserved(1, 1025)), Guess::None);
    assert_eq!(spec.walked(&base(2, 77)), Guess::Wrong);
    assert_eq!(spec.walked(&reserved(3, 1027)), Guess::None, "the wrong entry was dropped");
    assert_eq!(spec.walked(&Walk { order: 9, ..base(0, 1024) }), Guess::None, "superpages have no guess");
    assert_eq!(spec.walked(&Walk { asid: 2, ..base(4, 1028) }), Guess::None);
    assert_eq!(spec.walked(&base(4, 1028)), Guess::Correct);
    // Five regions of one set of four: the first leaves.
    { 1..5 }.for_each(|i| _ = spec.walked(&reserved(1024 * i, 2048 * i)));
    assert_eq!(spec.walked(&base(4, 1028)), Guess::None);
    spec.changed(1, 1024 + 511, 1);
    assert_eq!(spec.walked(&base(1024 + 4, 2048 + 4)), Guess::None);
    spec.switch(2, true);
    assert_eq!(spec.walked(&base(2048 + 4, 4096 + 4)), Guess::Correct);
    spec.switch(2, false);
    assert_eq!(spec.walked(&base(2048 + 5, 4096 + 5)), Guess::None);
}

#[test]
fn spo_1_spo_2_spo_3_spo_4_the_hand_case() {
    let mut spot = PlainSpot::new(32, 4, 32, false);
    let guesses: Vec<_> = (0..6).map(|page| spot.walked(&Walk { run: 64, ..base(page, 500 + page) })).collect();
    use Guess::{Correct, None};
    assert_eq!(guesses, [None, None, Correct, Correct, Correct, Correct]);
    assert_eq!(sums(spot.guesses), [2, 4, 0]);
}

/// By hand: confidence 3 falls to 2, 1, then the offset is replaced.
#[test]
fn spo_3_marks_and_falling_confidence() {
    use Guess::{Correct, None, Wrong};
    let mut spot = PlainSpot::new(32, 4, 32, false);
    assert_eq!([0, 1, 2].map(|page| spot.walked(&Walk { run: 31, ..base(page, 500 + page) })), [None; 3]);
    let in_run = |page| Walk { run: 32, ..base(page, 500 + page) };
    assert_eq!([0, 1, 2, 3].map(|page| spot.walked(&in_run(page))), [None, None, Correct, Correct]);
    let other = |page| base(page, 900 + page);
    assert_eq!([0, 1, 2, 3, 4].map(|page| spot.walked(&other(page))), [Wrong, Wrong, None, None, Correct]);
    spot.switch(1);
    assert_eq!(spot.walked(&other(5)), Correct);
    spot.switch(2);
    assert_eq!(spot.walked(&other(6)), None);
}

#[test]
fn asa_1_asa_2_asa_3_asa_4_the_hand_case() {
    assert_eq!([PlainAsap::price(true, 4), PlainAsap::price(false, 4)], [2, 4]);
    assert_eq!([PlainAsap::price(true, 2), PlainAsap::price(true, 1)], [1, 1], "the caches skip what is above");
    let mut asap = PlainAsap::default();
    asap.registers(&[(1, 0, 1024)]);
    assert!(asap.walked(1, 1023, 0));
    assert_eq!(asap.counts()["references"] + 4, 6);
    assert!(asap.walked(1, 0, 9) && !asap.walked(1, 1024, 0) && !asap.walked(2, 5, 0));
    let counts = asap.counts();
    assert_eq!((counts["references"], counts["covered"], counts["huge"]), (3, 2, 1));
}

#[test]
fn spt_4_spo_4_asa_4_laws_on_random_walks() {
    for seed in seeds(100) {
        let mut dice = Dice::new(seed);
        let (mut spec, mut spot) = (PlainSpecTlb::new(16, 4), PlainSpot::new(8, 4, 32, dice.percent(50)));
        let mut asap = PlainAsap::default();
        asap.registers(&[(0, 0, 4096), (1, 2000, 100)]);
        for _ in 0..2000 {
            let vpn = dice.below(1 << 14);
            let walk = Walk {
                asid: dice.below(2) as u32,
                vpn,
                frame: if dice.percent(80) { vpn + 512 * (vpn / 4096) } else { dice.below(1 << 14) },
                order: dice.pick(&[0, 0, 0, 9]),
                pc: dice.below(20),
                reserved: dice.percent(50),
                run: dice.pick(&[1, 64]),
            };
            spec.walked(&walk);
            spot.walked(&walk);
            asap.walked(walk.asid, vpn, walk.order);
            if dice.percent(2) {
                spec.changed(walk.asid, vpn, 1 + dice.below(600));
                spec.switch(walk.asid, dice.percent(50));
                spot.switch(walk.asid);
            }
        }
        let counts = asap.counts();
        assert_eq!(counts["references"], 2 * counts["covered"] - counts["huge"]);
        assert_eq!([spec.guesses, spot.guesses].map(|g| sums(g).iter().sum::<u64>()), [2000, 2000]);
        assert!(spec.guesses.correct > 0 && spec.guesses.wrong > 0 && spot.guesses.correct > 0);
    }
}
