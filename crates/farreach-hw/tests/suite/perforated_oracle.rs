//! Superpages with holes, against a plain model of others (`farreach_oracle::perforated`): on random streams of
//! lookups, holes, changes, switches and ends, count by count.
//!
//! Two things differ, and are known. The model walks from the root again for a hole whose superpage it missed (OX-2);
//! the machine's walk goes on to the base level: three references less. And a hole never closes here, for a mark ends
//! with the first change in it, and a new one begins with nothing mapped.

use farreach_hw::tlb::{Lookup, Outcome, Tlb, Unfiltered, design, keys_of};
use farreach_oracle::dice::{Dice, seeds};
use farreach_oracle::perforated::{Perforated as Model, PerforatedConfig};
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::event::Kind;
use farreach_types::params::Params;
use farreach_types::translation::{Attr, PageTableView, Perforated, Pte};
use serde_json::json;
use std::collections::BTreeMap;

/// A base page, or a superpage with the frames of its holes.
struct Mapped {
    order: u8,
    frame: u64,
    holes: BTreeMap<u64, u64>,
}

/// The page table, by process and first page.
#[derive(Default)]
struct World(BTreeMap<(u32, u64), Mapped>);

impl World {
    fn superpage(&self, asid: u32, vpn: u64) -> Option<&Mapped> {
        self.0.get(&(asid, vpn >> 9 << 9)).filter(|mapped| mapped.order == 9)
    }
}

impl PageTableView for World {
    fn pte(&self, asid: Asid, vpn: Vpn) -> Option<Pte> {
        let pte = |pfn, order| Pte { pfn: Pfn(pfn), attr: Attr(7), order };
        match self.superpage(asid.0, vpn.0) {
            Some(large) => {
                let place = large.holes.get(&vpn.0).copied().unwrap_or(large.frame + vpn.0 % 512);
                Some(pte(place, if large.holes.is_empty() { 9 } else { 0 }))
            }
            None => self.0.get(&(asid.0, vpn.0)).map(|mapped| pte(mapped.frame, 0)),
        }
    }

    fn perforated(&self, asid: Asid, vpn: Vpn) -> Option<Perforated> {
        let large = self.superpage(asid.0, vpn.0).filter(|large| !large.holes.is_empty())?;
        let mut holes = [0; 8];
        large.holes.keys().for_each(|hole| holes[(hole % 512 / 64) as usize] |= 1 << (hole % 64));
        Some(Perforated { pfn: Pfn(large.frame), attr: Attr(7), holes })
    }
}

fn machine(bitmaps: usize, process_ids: bool) -> Box<dyn Tlb> {
    let given = json!({"second_level": "perforated", "l1d": "4K:4/2+2M:2", "l1i": "4K:1", "l2": "4K|2M:16/4",
        "replacement": "lru", "prf_bitmaps": bitmaps, "process_ids": process_ids});
    let (design, given) = (design("hierarchy").unwrap(), given.as_object().unwrap());
    (design.build)(&Params::resolve(&keys_of(design, given), given).unwrap()).unwrap()
}

/// PRF-1 to PRF-3.
#[test]
fn perforated() {
    let mut sums = [0; 3];
    for seed in seeds(1000) {
        let mut dice = Dice::new(seed);
        let (prf_bitmaps, process_ids) = (dice.pick(&[0, 1, 2, 3]), dice.percent(50));
        let config = PerforatedConfig { l1: [(4, 2), (2, 2)], l2: (16, 4), prf_bitmaps, levels: 4, process_ids };
        let (mut model, mut tlb) = (Model::new(config), machine(prf_bitmaps, process_ids));
        let (mut world, mut report) = (World::default(), Unfiltered::default());
        let (mut asid, mut next, mut switched) = (1, 1 << 20, 0);
        tlb.switch(Asid(asid), &mut report);
        for step in 0..2000 {
            let vpn = dice.below(5) << 9 | dice.pick(&[0, 1, 2, 63, 64, 65, 200, 201, 450, 511]);
            let block = vpn >> 9 << 9;
            next += 512;
            let changed = match dice.below(100) {
                0 => {
                    asid = 3 - asid;
                    let before = tlb.counts().invalidations;
                    tlb.switch(Asid(asid), &mut report);
                    switched += tlb.counts().invalidations - before;
                    None
                }
                1 if dice.percent(30) => {
                    world.0.retain(|key, _| key.0 != asid);
                    model.gone(asid);
                    tlb.invalidate_space(Asid(asid), &mut report);
                    None
                }
                2 | 3 => {
                    world.0.retain(|key, _| key.0 != asid || key.1 >> 9 != vpn >> 9);
                    world.0.insert((asid, block), Mapped { order: 9, frame: next, holes: BTreeMap::new() });
                    model.map(asid, block, 9, next);
                    Some((block, 512))
                }
                4 if world.superpage(asid, vpn).is_some() => {
                    world.0.remove(&(asid, block));
                    model.unmap(asid, block);
                    Some((block, 512))
                }
                5..10 if world.superpage(asid, vpn).is_some() => {
                    world.0.get_mut(&(asid, block)).unwrap().holes.insert(vpn, next + 1);
                    model.hole(asid, vpn, Some(next + 1));
                    Some((vpn, 1))
                }
                _ => None,
            };
            if let Some((first, pages)) = changed {
                tlb.invalidate(Asid(asid), VpnRange { start: Vpn(first), pages }, &mut report);
            }
            let at = Lookup { asid: Asid(asid), vpn: Vpn(vpn), kind: Kind::Load };
            if world.pte(at.asid, at.vpn).is_none() {
                world.0.insert((asid, vpn), Mapped { order: 0, frame: next + 2, holes: BTreeMap::new() });
                model.map(asid, vpn, 0, next + 2);
                tlb.invalidate(Asid(asid), VpnRange::one(at.vpn), &mut report);
            }
            let pte = world.pte(at.asid, at.vpn).unwrap();
            let hit = tlb.access(at, pte, &world, &mut report).outcome == Outcome::Hit;
            report.clear();
            let missed = model.counts["misses"];
            assert_eq!(model.lookup(asid, vpn), pte.pfn.0);
            assert_eq!(hit, model.counts["misses"] == missed, "seed {seed}, step {step}: page {vpn}");
            let (c, m) = (tlb.counts(), |name: &str| model.counts[name]);
            let own = c.parts.get("perforated").unwrap();
            let both = m("walks") + m("base_walks") - m("misses");
            let found = [
                ("misses", c.misses, m("misses")),
                ("hits of the second level", c.second_level_data_hits, m("l2_hits")),
                ("references", c.walk.by_level().iter().sum(), m("references") - 3 * both),
                ("bitmaps read", own.memory.made.references, m("bitmap_references")),
                ("bitmaps cached", own.counters.get("cached"), m("bitmap_hits")),
                ("holes", own.counters.get("holes"), m("holes")),
                ("invalidations", c.invalidations - switched, m("invalidations")),
            ];
            for (name, one, other) in found {
                assert_eq!(one, other, "seed {seed}, step {step}: {name}");
            }
        }
        let own = &tlb.counts().parts.get("perforated").unwrap().counters;
        sums = [sums[0] + own.get("bitmaps"), sums[1] + own.get("holes"), sums[2] + tlb.counts().evictions];
    }
    assert!(sums.into_iter().all(|sum| sum > 10_000), "{sums:?}");
}
