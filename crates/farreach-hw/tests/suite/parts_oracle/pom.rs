//! The TLB in memory (POM).

use super::*;
use farreach_oracle::since::pom::{PlainPom, PomConfig};

struct Pom {
    model: PlainPom,
    walks: Walks,
}

impl Plain for Pom {
    fn miss(&mut self, miss: &Miss) -> bool {
        let (asid, vpn, order) = (miss.look.asid(), miss.look.vpn(), miss.look.order());
        let answered = self.model.missed(asid, vpn, order);
        if !answered {
            self.walks.demand(miss.world, asid, vpn);
            self.model.walked(asid, vpn, order);
        }
        answered
    }

    fn change(&mut self, asid: u32, pages: VpnRange, _: bool, _: &World) {
        self.walks.forget(asid);
        self.model.changed(asid, pages.start.0, pages.pages);
    }

    fn gone(&mut self, asid: u32) {
        self.walks.forget(asid);
        self.model.gone(asid);
    }

    fn switch(&mut self, _: u32) {
        self.walks.switch();
    }

    fn counts(&self) -> BTreeMap<&'static str, u64> {
        let mut counts = self.model.counts();
        counts.insert("hits", counts["hits_4k"] + counts["hits_2m"]);
        counts
    }

    /// POM-3, POM-5.
    fn references(&self) -> References {
        let counts = self.model.counts();
        let probes = counts["probes_first"] + counts["probes_second"];
        [probes, probes, counts["writes"] + counts["invalidated"], 0]
    }

    fn nodes(&self) -> u64 {
        self.walks.nodes
    }
}

pub(super) fn pom(dice: &mut Dice) -> (Setting, Box<dyn Plain>) {
    let config = PomConfig {
        pom_4k: dice.pick(&[4, 8, 32, 256]),
        pom_2m: dice.pick(&[4, 8, 64]),
        predictor: dice.pick(&[1, 4, 64]),
    };
    let keys = vec![
        ("behind", "pom".into()),
        ("pom_4k", config.pom_4k.to_string()),
        ("pom_2m", config.pom_2m.to_string()),
        ("pom_predictor", config.predictor.to_string()),
    ];
    let setting = Setting::new(dice, "pom", keys);
    let walks = Walks::new(&setting);
    (setting, Box::new(Pom { model: PlainPom::new(config), walks }))
}

#[test]
fn pom_agrees_with_the_plain_model() {
    let sums = all(pom);
    for name in ["hits_4k", "hits_2m", "evicted", "invalidated", "probes_second"] {
        assert!(sums.counts[name] > 1000, "{name}: {sums:?}");
    }
}
