//! Second levels that coalesce or hold several sizes, against plain models of others (`farreach_oracle::coalesce`): on
//! random streams, lookup by lookup.

use farreach_hw::tlb::{Lookup, Outcome, Tlb, Unfiltered, design, keys_of};
use farreach_oracle::coalesce::anchor::{AnchorConfig, Anchors};
use farreach_oracle::coalesce::mix::{Mix, MixConfig};
use farreach_oracle::coalesce::skew::{SkewConfig, Skewed};
use farreach_oracle::coalesce::{Mapped, Mappings};
use farreach_oracle::dice::{Dice, seeds};
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::event::Kind;
use farreach_types::params::Params;
use farreach_types::translation::{Attr, PageTableView, Pte};
use serde_json::json;

/// The page table of both.
#[derive(Default)]
struct World(Mappings);

impl PageTableView for World {
    fn pte(&self, asid: Asid, vpn: Vpn) -> Option<Pte> {
        let (first, mapped) = self.0.get(asid.0, vpn.0)?;
        Some(Pte { pfn: Pfn(mapped.pfn + vpn.0 - first), attr: Attr(mapped.attr), order: mapped.order })
    }
}

/// A hierarchy behind a first level of one base page.
struct Machine(Box<dyn Tlb>);

impl Machine {
    fn new(keys: serde_json::Value) -> Machine {
        let mut given = json!({"l1d": "4K:1", "l1i": "4K:1", "replacement": "lru"});
        given.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
        let (design, given) = (design("hierarchy").unwrap(), given.as_object().unwrap());
        Machine((design.build)(&Params::resolve(&keys_of(design, given), given).unwrap()).unwrap())
    }
    fn lookup(&mut self, vpn: u64, world: &World) -> bool {
        let at = Lookup { asid: Asid(1), vpn: Vpn(vpn), kind: Kind::Load };
        let pte = world.pte(at.asid, at.vpn).unwrap();
        self.0.access(at, pte, world, &mut Unfiltered::default()).outcome == Outcome::Hit
    }
    fn change(&mut self, first: u64, pages: u64) {
        self.0.invalidate(Asid(1), VpnRange { start: Vpn(first), pages }, &mut Unfiltered::default());
    }
    fn count(&self, part: &str, counter: &str) -> u64 {
        self.0.counts().parts.count(part, counter)
    }
}

/// A page of some blocks of 2 MB, which is mapped if it was not, as a base page or a superpage; sometimes after its
/// mapping was removed, which `gone` is told.
fn next(dice: &mut Dice, world: &mut World, mut gone: impl FnMut(u64, u64)) -> u64 {
    let vpn = dice.below(24) << 9 | dice.below(12);
    if dice.percent(8)
        && let Some((first, held)) = world.0.get(1, vpn)
    {
        world.0.0.remove(&(1, first));
        gone(first, 1 << held.order);
    }
    if world.0.get(1, vpn).is_none() {
        let block = vpn >> 9 << 9;
        let free = world.0.0.range((1, block)..(1, block + 512)).next().is_none();
        let (order, first) = if free && dice.percent(60) { (9, block) } else { (0, vpn) };
        let attr = u8::from(dice.percent(20));
        world.0.0.insert((1, first), Mapped { order, pfn: first + 512 * dice.below(2), attr });
    }
    vpn
}

/// MIX-1 to MIX-5.
#[test]
fn mix() {
    for seed in seeds(60) {
        let (sets, ways, bundle) = (4 << (seed % 3), 1 + seed as usize % 4, 1 << (seed % 5));
        let mut model = Mix::new(MixConfig { sets, ways, bundle, length: true });
        let entries = sets * ways as u64;
        let keys = json!({"second_level": "mix", "mix_entries": entries, "mix_ways": ways, "mix_bundle": bundle});
        let mut machine = Machine::new(keys);
        let (mut dice, mut world) = (Dice::new(seed), World::default());
        for step in 0..3000 {
            let vpn = next(&mut dice, &mut world, |first, pages| {
                machine.change(first, pages);
                model.change(1, first, pages);
            });
            assert_eq!(machine.lookup(vpn, &world), model.lookup(1, vpn, &world.0), "seed {seed}, step {step}");
            let counts = (machine.0.counts().evictions, machine.count("mix", "mirror_fills"));
            assert_eq!(counts, (model.evictions, model.mirror_fills), "seed {seed}, step {step}");
        }
        assert!(machine.0.counts().misses == model.misses && model.mirror_fills > 0);
    }
}

/// SKW-1 to SKW-3.
#[test]
fn skewed() {
    for seed in seeds(60) {
        let (sets, ways) = (4 << (seed % 3), 2 + 2 * (seed as usize % 3));
        let mut model = Skewed::new(SkewConfig { ways, sets, sizes: vec![0, 9] });
        let entries = sets * ways as u64;
        let mut machine = Machine::new(json!({"second_level": "skewed", "skew_entries": entries, "skew_ways": ways}));
        let (mut dice, mut world) = (Dice::new(seed), World::default());
        for step in 0..3000 {
            let vpn = next(&mut dice, &mut world, |first, pages| {
                machine.change(first, pages);
                model.change(1, first, pages);
            });
            assert_eq!(machine.lookup(vpn, &world), model.lookup(1, vpn, &world.0), "seed {seed}, step {step}");
        }
        assert!(machine.0.counts().misses == model.misses && machine.0.counts().evictions > 100);
    }
}

/// ANC-1 to ANC-5. The model fills an anchor that is alone (OC-8), the machine does not, since without pages in a row
/// it is to equal one without anchors (ANC). So the page behind an anchor always continues it here.
#[test]
fn anchors() {
    for seed in seeds(60) {
        let (sets, ways, distance) = (1 << (seed % 4), 2 + seed as usize % 4, 2 << (seed % 6));
        let mut model = Anchors::new(AnchorConfig { l1: 1, sets, ways, distance });
        let l2 = format!("4K:{}/{ways}", sets * ways as u64);
        let mut machine = Machine::new(json!({"second_level": "anchor", "anchor_distance": distance, "l2": l2}));
        let (mut dice, mut world) = (Dice::new(seed), World::default());
        for step in 0..4000 {
            let vpn = dice.below(160);
            if dice.percent(6) || world.0.get(1, vpn).is_none() {
                let pair = if vpn % distance < 2 { vpn & !1 } else { vpn };
                let frames = 1000 * (1 + dice.below(2));
                for page in pair..if vpn % distance < 2 { pair + 2 } else { vpn + 1 } {
                    world.0.0.insert((1, page), Mapped { order: 0, pfn: frames + page, attr: 7 });
                    machine.change(page, 1);
                    model.change(1, page);
                }
            }
            let hit = machine.lookup(vpn, &world);
            assert_eq!(hit, !model.lookup(1, vpn, &world.0), "seed {seed}, step {step}: page {vpn}");
            assert_eq!(machine.count("anchor", "hits"), model.anchor_hits, "seed {seed}, step {step}: page {vpn}");
        }
        let reads = machine.count("anchor", "reads");
        assert_eq!((machine.0.counts().misses, model.walks + reads), (model.walks, model.references));
    }
}
