//! Laws on random streams with changes and switches (PB-10, SBFP-6, ATP-5, HW-3, HW-4).

use super::tests::Bench;
use super::*;
use crate::dice::{Dice, seeds};

fn kinds(dice: &mut Dice) -> Kind {
    let (rows, ways) = dice.pick(&[(256, 1), (8, 2), (4, 4)]);
    let slots = dice.pick(&[1, 2, 4]);
    let [one, two, three] = [50, 50, 30].map(|p| dice.percent(p));
    let more = dice.below(2);
    let initial = dice.pick(&[[128, 0, 0], [200, 50, 0], [0; 3]]);
    dice.pick(&[
        Kind::None,
        Kind::Sp { degree: slots as i64 },
        Kind::Asp { threshold: 1 + more, rows, ways },
        Kind::Mp { rows, ways, slots },
        Kind::Dp { rows, ways, slots, train_first: one, allocate_at_lookup: two },
        Kind::Rp { prefetch: 2 + more as usize, walk: one, leave: two },
        Kind::H2p { both_signs: one },
        Kind::Masp { rows, ways },
        Kind::Stp,
        Kind::Atp(Atp { fpq_free: one, fpq_mapped: three, initial, ..Atp::new() }),
        Kind::Morrigan { rows: [4, 4, 2, 2], halve: 100 },
    ])
}

fn frees(dice: &mut Dice) -> Free {
    let (keep, per_size) = (dice.percent(30), dice.percent(50));
    let sbfp = |threshold| Free::Sbfp { threshold, sampler: 16, keep, per_size };
    dice.pick(&[Free::None, Free::All, Free::Static(vec![-1, 1, 2]), sbfp(0), sbfp(3), sbfp(20)])
}

/// One event for both runs, so that they stay alike.
#[derive(Clone, Copy)]
enum Event {
    Touch(u32, u64, u64, bool),
    Change(u32, u64, u64),
    Switch(u32, bool),
    Gone(u32),
}

/// Two processes with base pages 0..256 and superpages in 512..4096, those at times of base pages.
struct Stream {
    asid: u32,
    at: u64,
    step: u64,
    process_ids: bool,
}

impl Stream {
    fn next(&mut self, dice: &mut Dice) -> Event {
        match dice.below(200) {
            0 => return Event::Change(self.asid, dice.below(256), 1 + dice.below(8)),
            1 => return Event::Change(self.asid, 512 * (1 + dice.below(7)), 512),
            2 => {
                self.asid = 3 - self.asid;
                return Event::Switch(self.asid, self.process_ids);
            }
            3 if dice.percent(20) => return Event::Gone(self.asid),
            4..8 => self.at = dice.below(256),
            8..12 => self.at = 512 + dice.below(7 * 512),
            12..18 => self.step = dice.pick(&[1, 1, 2, 3, 7, 512]),
            _ => {}
        }
        self.at += self.step;
        if self.at >= 4096 || (256..512).contains(&self.at) {
            self.at = dice.below(256);
        }
        let vpn = if dice.percent(15) { dice.below(256) } else { self.at };
        Event::Touch(self.asid, vpn, 4 * dice.below(6), dice.percent(20))
    }
}

/// Maps a page if it is not: a superpage in a region that is empty, by the number of the region.
fn map(b: &mut Bench, asid: u32, vpn: u64) {
    if b.world.mapping(asid, vpn).is_some() {
        return;
    }
    let region = vpn / 512 * 512;
    let empty = b.world.mapped.range((asid, region)..(asid, region + 512)).next().is_none();
    let (first, order) = if region >= 512 && empty && !region.is_multiple_of(1536) { (region, 9) } else { (vpn, 0) };
    b.world.mapped.insert((asid, first), (order, (u64::from(asid) << 20) + 2 * 4096 * b.position + first));
}

fn change(b: &mut Bench, asid: u32, first: u64, pages: u64) {
    let meets = |f: u64, order: u8| f < first + pages && first < f + (1 << order);
    b.world.mapped.retain(|(a, f), (order, _)| *a != asid || !meets(*f, *order));
    b.world.tlb.retain(|(a, f, order)| *a != asid || !meets(*f, *order));
    b.prefetch.changed(asid, first, pages);
}

fn play(b: &mut Bench, event: Event) {
    match event {
        Event::Touch(asid, vpn, pc, fetch) => {
            map(b, asid, vpn);
            b.touch(asid, vpn, pc, fetch);
        }
        Event::Change(asid, first, pages) => change(b, asid, first, pages),
        Event::Switch(asid, process_ids) => {
            if !process_ids {
                b.world.tlb.clear();
            }
            b.prefetch.switch(asid, process_ids);
        }
        Event::Gone(asid) => {
            b.world.mapped.retain(|key, _| key.0 != asid);
            b.world.tlb.retain(|e| e.0 != asid);
            b.prefetch.gone(asid);
        }
    }
}

fn check(b: &Bench, config: &Config) {
    let n = |name| b.count(name);
    assert_eq!(n("candidates"), n("filtered") + n("walks"), "PB-10");
    assert_eq!(n("walks"), n("faulting") + n("prefetched"), "PB-10");
    assert_eq!(n("hits"), n("hits_free") + n("hits_prefetched"), "PB-10");
    assert_eq!(n("hits"), b.answered.len() as u64, "HW-3");
    let out = n("hits") + n("evicted_unused") + n("invalidated") + n("resident") + n("into_l2");
    assert_eq!(n("prefetched") + n("free"), out, "PB-10");
    let misses = (b.walked.len() + b.answered.len()) as u64;
    let sum: u64 = b.prefetch.distances().values().sum();
    if let Free::Sbfp { .. } = config.free {
        assert_eq!(n("fdt_updates"), n("hits_free") + n("sampler_hits"), "SBFP-6");
        assert!(sum <= n("fdt_updates"), "SBFP-6");
        if b.prefetch.halvings() == 0 && config.keep_at_switch {
            assert_eq!(sum, n("fdt_updates"), "SBFP-6");
        }
    }
    if let Kind::Atp(_) = config.predictor {
        let chosen: u64 = CHOICES.map(n).iter().sum();
        let triggers = if config.on_walk { b.walked.len() as u64 } else { misses };
        assert!(config.for_fetch || chosen == triggers, "ATP-5");
    }
    assert!(n("pointer_writes") <= 4 * misses, "RP-5");
    assert!(b.prefetch.held().len() <= config.pb_entries, "PB-1");
    for (i, held) in b.prefetch.held().iter().enumerate() {
        assert_eq!(b.world.mapping(held.asid, held.first), Some((held.first, held.order, held.frame)), "PB-9, HW-5");
        assert!(!b.prefetch.held()[..i].iter().any(|h| h.meets(held.asid, held.first, 1 << held.order)), "PB-6");
    }
}

/// Random keys and a stream of 2,000 misses, beside one without prefetching.
#[test]
fn pb_10_sbfp_6_atp_5_hw_3_hold_on_random_streams() {
    let mut sums = std::collections::BTreeMap::new();
    for seed in seeds(100) {
        let mut dice = Dice::new(seed);
        let config = Config {
            pb_lru: dice.percent(50),
            on_walk: dice.percent(30),
            filter: dice.pick(&[Filter::L2, Filter::L1, Filter::None]),
            base_unit: dice.percent(20),
            delay: dice.pick(&[0, 0, 5]),
            keep_at_switch: dice.percent(50),
            for_fetch: dice.percent(10),
            into_l2: dice.percent(10),
            free: frees(&mut dice),
            ..Config::new(kinds(&mut dice), dice.pick(&[4, 16, 64]))
        };
        let entries = dice.pick(&[2, 8, 32]);
        let mut b = Bench::new(config.clone(), entries, []);
        let mut base = Bench::new(Config::new(Kind::None, 0), entries, []);
        let mut stream = Stream { asid: 1, at: 0, step: 1, process_ids: dice.percent(50) };
        while b.walked.len() + b.answered.len() < 2000 {
            let event = stream.next(&mut dice);
            play(&mut b, event);
            play(&mut base, event);
            if let Event::Touch(..) = event
                && !dice.percent(10)
            {
                continue;
            }
            check(&b, &config);
        }
        check(&b, &config);
        if !config.into_l2 {
            assert_eq!(b.world.tlb, base.world.tlb, "HW-3, seed {seed}");
            assert_eq!(base.walked.len(), b.walked.len() + b.answered.len(), "HW-L1, seed {seed}");
        }
        assert!(base.prefetch.counts().values().all(|n| *n == 0), "HW-4");
        b.prefetch.counts().into_iter().for_each(|(name, n)| *sums.entry(name).or_insert(0) += n);
    }
    assert!(seeds(100).count() < 100 || sums.values().all(|n| *n > 0), "something never happens: {sums:?}");
}
