//! Prefetching (PB, section 2).

use super::*;
use farreach_oracle::since::prefetch::{self as plain, Atp, Config, Filter, Free, PlainPrefetch};

/// The model with the page table and the TLBs around it.
struct Prefetched {
    model: PlainPrefetch,
    walks: Walks,
    fills_caches: bool,
    process_ids: bool,
}

/// What the model sees during a miss.
struct Around<'a, 'b> {
    miss: &'a Miss<'b>,
    walks: &'a mut Walks,
    fills_caches: bool,
}

impl plain::World for Around<'_, '_> {
    fn mapping(&self, asid: u32, vpn: u64) -> Option<(u64, u8, u64)> {
        self.miss.world.mapping(asid, vpn)
    }
    fn in_l1(&self, asid: u32, vpn: u64) -> bool {
        self.miss.base.holds(usize::from(self.miss.look.fetch()), asid, vpn)
    }
    fn in_l2(&self, asid: u32, vpn: u64) -> bool {
        self.miss.base.holds(2, asid, vpn)
    }
    fn background_walk(&mut self, asid: u32, vpn: u64) -> u64 {
        self.walks.walk(self.miss.world, asid, vpn, self.fills_caches).len() as u64
    }
    fn fill_l2(&mut self, _: u32, _: u64) {
        unreachable!("prefetch_into = buffer")
    }
}

impl Plain for Prefetched {
    fn miss(&mut self, miss: &Miss) -> bool {
        let look = &miss.look;
        let event = plain::Miss {
            asid: look.asid(),
            vpn: look.vpn(),
            pc: look.pc,
            fetch: look.fetch(),
            position: look.position,
            order: look.order(),
        };
        let answered = self.model.missed(&event);
        if !answered {
            self.walks.demand(miss.world, look.asid(), look.vpn());
        }
        let mut around = Around { miss, walks: &mut self.walks, fills_caches: self.fills_caches };
        self.model.filled(&event, answered, miss.victim, &mut around);
        answered
    }

    fn change(&mut self, asid: u32, pages: VpnRange, split: bool, _: &World) {
        self.walks.forget(asid);
        if split {
            self.model.split(asid, pages.start.0, pages.pages);
        } else {
            self.model.changed(asid, pages.start.0, pages.pages);
        }
    }

    fn gone(&mut self, asid: u32) {
        self.walks.forget(asid);
        self.model.gone(asid);
    }

    fn switch(&mut self, to: u32) {
        self.walks.switch();
        self.model.switch(to, self.process_ids);
    }

    fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.model.counts()
    }

    fn references(&self) -> References {
        [0, 0, self.model.counts()["nodes"], 0]
    }

    fn nodes(&self) -> u64 {
        self.walks.nodes
    }

    fn held(&self) -> Option<Vec<(u32, u64, u8, u64)>> {
        Some(self.model.held().iter().map(|held| (held.asid, held.first, held.order, held.frame)).collect())
    }
}

type Keys = Vec<(&'static str, String)>;

/// A predictor with random keys: the model's, and the machine's.
fn predictor(dice: &mut Dice, name: &'static str, keys: &mut Keys) -> plain::Kind {
    let (rows, ways) = dice.pick(&[(4, 1), (8, 2), (2, 2), (64, 4)]);
    let slots = dice.pick(&[1, 2, 3]);
    let both_signs = dice.percent(40);
    let mut add = |key, value: String| keys.push((key, value));
    add("prefetcher", name.into());
    if ["stride", "markov", "distance", "masp", "atp"].contains(&name) {
        add("prefetch_rows", rows.to_string());
        add("prefetch_row_ways", ways.to_string());
    }
    if ["markov", "distance"].contains(&name) {
        add("prefetch_slots", slots.to_string());
    }
    if ["h2p", "atp"].contains(&name) {
        add("h2p_signs", if both_signs { "both" } else { "one" }.into());
    }
    match name {
        "none" => plain::Kind::None,
        "sequential" => {
            let degree = 1 + dice.below(3);
            add("prefetch_degree", degree.to_string());
            plain::Kind::Sp { degree: degree as i64 }
        }
        "stride" => {
            let threshold = 1 + dice.below(3);
            add("asp_threshold", threshold.to_string());
            plain::Kind::Asp { threshold, rows, ways }
        }
        "markov" => plain::Kind::Mp { rows, ways, slots },
        "distance" => {
            let (train_first, allocate_at_lookup) = (dice.percent(40), dice.percent(40));
            add("dp_train", if train_first { "first" } else { "lookup" }.into());
            add("dp_allocate", if allocate_at_lookup { "lookup" } else { "write" }.into());
            plain::Kind::Dp { rows, ways, slots, train_first, allocate_at_lookup }
        }
        "recency" => {
            let (prefetch, walk) = (dice.pick(&[2, 3]), dice.percent(50));
            add("rp_prefetch", prefetch.to_string());
            add("rp_reference", if walk { "walk" } else { "pte" }.into());
            plain::Kind::Rp { prefetch, walk, leave: false }
        }
        "h2p" => plain::Kind::H2p { both_signs },
        "masp" => plain::Kind::Masp { rows, ways },
        "stp" => plain::Kind::Stp,
        "atp" => {
            let initial = dice.pick(&[[128, 0, 0], [0, 0, 0], [126, 30, 1], [200, 40, 3], [255, 0, 2]]);
            let fpq_free = dice.percent(60);
            add("atp_initial", initial.map(|n: u64| n.to_string()).join("+"));
            add("atp_fpq_free", fpq_free.to_string());
            plain::Kind::Atp(Atp { initial, fpq_free, both_signs, masp: (rows, ways), ..Atp::new() })
        }
        "morrigan" => plain::Kind::Morrigan { rows: [128, 128, 128, 64], halve: 1 << 16 },
        other => unreachable!("{other}"),
    }
}

fn free(dice: &mut Dice, keys: &mut Keys) -> Free {
    let mut add = |key, value: String| keys.push((key, value));
    let choice = dice.pick(&["none", "none", "all", "static", "sbfp", "sbfp", "sbfp"]);
    add("prefetch_free", choice.into());
    match choice {
        "all" => Free::All,
        "static" => {
            let distances = dice.pick(&[vec![1], vec![-1, 1, 2], vec![7, -7, 3]]);
            add("prefetch_static", distances.iter().map(i64::to_string).collect::<Vec<_>>().join("+"));
            Free::Static(distances)
        }
        "sbfp" => {
            let (threshold, sampler) = (dice.pick(&[0, 0, 1, 2]), dice.pick(&[4, 16, 64]));
            let (keep, per_size) = (dice.percent(30), dice.percent(30));
            add("sbfp_threshold", threshold.to_string());
            add("sbfp_sampler", sampler.to_string());
            add("sampler_keep", keep.to_string());
            add("fdt_per_size", per_size.to_string());
            Free::Sbfp { threshold, sampler, keep, per_size }
        }
        _ => Free::None,
    }
}

/// Everything but the predictor at random. With the name of the predictor.
pub(super) fn make(dice: &mut Dice, name: &'static str) -> (Setting, Box<dyn Plain>) {
    let mut keys: Keys = vec![("behind", "prefetch".into())];
    let predictor = predictor(dice, name, &mut keys);
    let free = free(dice, &mut keys);
    let entries = dice.pick(&[1, 2, 4, 16]);
    let (delay, fills_caches) = (dice.pick(&[0, 0, 3, 10]), dice.percent(70));
    let flag = |dice: &mut Dice, one: &str, other: &str| {
        let is = dice.percent(35);
        (is, if is { one.to_owned() } else { other.to_owned() })
    };
    let (pb_lru, replacement) = flag(dice, "lru", "fifo");
    let (on_walk, on) = flag(dice, "walk", "miss");
    let (base_unit, unit) = flag(dice, "base", "own");
    let (keep_at_switch, on_switch) = flag(dice, "keep", "flush");
    let (for_fetch, side) = flag(dice, "fetch", "all");
    let (filter, filters) = dice.pick(&[(Filter::L2, "l2"), (Filter::L1, "l1"), (Filter::None, "none")]);
    keys.extend([
        ("pb_entries", entries.to_string()),
        ("pb_replacement", replacement),
        ("pb_for", side),
        ("prefetch_on", on),
        ("prefetch_filter", filters.into()),
        ("prefetch_delay", delay.to_string()),
        ("predict_unit", unit),
        ("predictors_on_switch", on_switch),
        ("prefetch_fills_pwc", fills_caches.to_string()),
    ]);
    let config = Config {
        pb_lru,
        on_walk,
        filter,
        base_unit,
        delay,
        keep_at_switch,
        for_fetch,
        free,
        ..Config::new(predictor, entries)
    };
    let setting = Setting::new(dice, "prefetch", keys);
    let model = PlainPrefetch::new(config);
    let walks = Walks::new(&setting);
    let process_ids = setting.process_ids;
    (setting, Box::new(Prefetched { model, walks, fills_caches, process_ids }))
}

const NAMES: [&str; 11] =
    ["none", "sequential", "stride", "markov", "distance", "recency", "h2p", "masp", "stp", "atp", "morrigan"];

#[test]
fn prefetching_agrees_with_the_plain_model() {
    for name in NAMES {
        let sums = all(|dice| make(dice, name));
        assert!(sums.answers > 700 && sums.misses > 40_000, "{name}: {sums:?}");
        println!("{name}: {sums:?}");
    }
}
