//! Guesses of frames (SPT, SPO), and nodes that are read early (ASA).

use super::*;
use farreach_oracle::since::speculation::{Guess, Guesses, PlainAsap, PlainSpecTlb, PlainSpot, Walk};

enum Model {
    Spec(PlainSpecTlb),
    Spot(PlainSpot, u64),
    /// With its registers.
    Asap(PlainAsap, usize),
}

struct Speculating {
    model: Model,
    walks: Walks,
    /// Steps of walks that the program did not wait for.
    hidden: u64,
    process_ids: bool,
}

impl Plain for Speculating {
    fn miss(&mut self, miss: &Miss) -> bool {
        let (look, world) = (&miss.look, miss.world);
        let (asid, vpn, order) = (look.asid(), look.vpn(), look.order());
        let (top, nodes) = self.walks.demand(world, asid, vpn);
        let mut walk = Walk {
            asid,
            vpn,
            frame: look.pte.pfn.0,
            order,
            pc: look.pc,
            reserved: world.reservation(look.at.asid, look.at.vpn).is_some(),
            run: 0,
        };
        let guess = match &mut self.model {
            Model::Spec(model) => model.walked(&walk),
            Model::Spot(model, most) => {
                walk.run = world.run(asid, vpn, *most);
                model.walked(&walk)
            }
            Model::Asap(model, registers) => {
                let regions = world.regions[&asid].iter().take(*registers);
                model.registers(&regions.map(|r| (asid, r.start.0, r.pages)).collect::<Vec<_>>());
                // ASA-3.
                if model.walked(asid, vpn, order) {
                    self.hidden += nodes - PlainAsap::price(true, top);
                }
                Guess::None
            }
        };
        if guess == Guess::Correct {
            self.hidden += nodes;
        }
        false
    }

    fn change(&mut self, asid: u32, pages: VpnRange, _: bool, _: &World) {
        self.walks.forget(asid);
        if let Model::Spec(model) = &mut self.model {
            model.changed(asid, pages.start.0, pages.pages);
        }
    }

    fn gone(&mut self, asid: u32) {
        self.walks.forget(asid);
        if let Model::Spec(model) = &mut self.model {
            model.gone(asid);
        }
    }

    fn switch(&mut self, to: u32) {
        self.walks.switch();
        match &mut self.model {
            Model::Spec(model) => model.switch(to, self.process_ids),
            Model::Spot(model, _) => model.switch(to),
            Model::Asap(..) => {}
        }
    }

    fn counts(&self) -> BTreeMap<&'static str, u64> {
        let guesses = |all: &Guesses| [("correct", all.correct), ("wrong", all.wrong), ("none", all.none)].into();
        match &self.model {
            Model::Spec(model) => guesses(&model.guesses),
            Model::Spot(model, _) => guesses(&model.guesses),
            Model::Asap(model, _) => {
                let counts = model.counts();
                let of = |name| counts.get(name).copied().unwrap_or(0);
                [("covered", of("covered")), ("huge", of("huge")), ("prefetches", of("references"))].into()
            }
        }
    }

    fn references(&self) -> References {
        let counts = self.counts();
        [0, 0, counts.get("prefetches").copied().unwrap_or(0), self.hidden]
    }

    fn nodes(&self) -> u64 {
        self.walks.nodes
    }
}

fn make(
    dice: &mut Dice,
    part: &'static str,
    model: Model,
    keys: Vec<(&'static str, u64)>,
) -> (Setting, Box<dyn Plain>) {
    let keys = keys.into_iter().map(|(key, value)| (key, value.to_string()));
    let setting = Setting::new(dice, part, keys.chain([("behind", part.to_owned())]).collect());
    let (walks, process_ids) = (Walks::new(&setting), setting.process_ids);
    (setting, Box::new(Speculating { model, walks, hidden: 0, process_ids }))
}

pub(super) fn spectlb(dice: &mut Dice) -> (Setting, Box<dyn Plain>) {
    let (entries, ways) = dice.pick(&[(1, 1), (2, 2), (2, 1), (8, 4), (64, 4)]);
    let model = Model::Spec(PlainSpecTlb::new(entries, ways));
    make(dice, "spectlb", model, vec![("spec_entries", entries as u64), ("spec_ways", ways as u64)])
}

pub(super) fn spot(dice: &mut Dice) -> (Setting, Box<dyn Plain>) {
    let (entries, ways) = dice.pick(&[(1, 1), (2, 2), (4, 2), (32, 4)]);
    let (run, keep) = (dice.pick(&[1, 2, 4, 8]), dice.percent(50));
    let model = Model::Spot(PlainSpot::new(entries, ways, run, keep), run);
    let keys = vec![("spot_entries", entries as u64), ("spot_ways", ways as u64), ("spot_run", run)];
    let (mut setting, plain) = make(dice, "spot", model, keys);
    setting.keys.push(("predictors_on_switch", if keep { "keep" } else { "flush" }.into()));
    (setting, plain)
}

pub(super) fn asap(dice: &mut Dice) -> (Setting, Box<dyn Plain>) {
    let registers = 1 + dice.below(4);
    let model = Model::Asap(PlainAsap::default(), registers as usize);
    make(dice, "asap", model, vec![("asap_registers", registers)])
}

#[test]
fn spectlb_agrees_with_the_plain_model() {
    let sums = all(spectlb);
    assert!(sums.counts["correct"] > 1000 && sums.counts["wrong"] > 200, "{sums:?}");
}

#[test]
fn spot_agrees_with_the_plain_model() {
    let sums = all(spot);
    assert!(sums.counts["correct"] > 1000 && sums.counts["wrong"] > 1000, "{sums:?}");
}

#[test]
fn asap_agrees_with_the_plain_model() {
    let sums = all(asap);
    assert!(sums.counts["covered"] > 10_000 && sums.counts["huge"] > 1000, "{sums:?}");
}
