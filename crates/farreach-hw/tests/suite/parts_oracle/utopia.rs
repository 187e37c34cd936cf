//! Walks of restrictive segments (UTO), on a system that places pages there and is compared with the model, too.

use super::*;
use farreach_oracle::tables::Hash;
use farreach_oracle::utopia::{Full, Place, Seg, Utopia, UtopiaConfig};

struct Restricted {
    model: Utopia,
    /// Orders of the pages that the model has been told of.
    mapped: BTreeMap<(u32, u64), u8>,
    walks: Walks,
    parallel: bool,
    steps: u64,
    background: u64,
    hidden: u64,
}

impl Restricted {
    fn free(&mut self, leaves: impl Fn(u32, VpnRange) -> bool) {
        let gone = |(&(asid, first), &order): (&(u32, u64), &u8)| {
            leaves(asid, VpnRange { start: Vpn(first), pages: 1 << order }).then_some((asid, first, order))
        };
        for (asid, first, order) in self.mapped.iter().filter_map(gone).collect::<Vec<_>>() {
            self.mapped.remove(&(asid, first));
            self.model.free(asid, first, order);
        }
    }
}

impl Plain for Restricted {
    fn miss(&mut self, miss: &Miss) -> bool {
        let (asid, vpn) = (miss.look.asid(), miss.look.vpn());
        let rsw = self.model.walk(asid, vpn).0;
        self.steps += rsw.steps;
        if !rsw.hit {
            let nodes = self.walks.demand(miss.world, asid, vpn).1;
            // UTO-4: the shorter of the two.
            self.hidden += if self.parallel { rsw.steps.min(nodes) } else { 0 };
        } else if self.parallel {
            self.background += self.walks.walk(miss.world, asid, vpn, true).len() as u64;
        }
        rsw.hit
    }

    fn change(&mut self, asid: u32, pages: VpnRange, _: bool, _: &World) {
        self.walks.forget(asid);
        self.free(|of, page| of == asid && page.overlaps(&pages));
    }

    /// UTO-1, UTO-5: the page has the frame that the model says.
    fn mapped(&mut self, asid: u32, pages: VpnRange, world: &World) {
        let (first, order) = (pages.start.0, pages.pages.trailing_zeros() as u8);
        let (place, moved) = self.model.place(asid, first, order);
        self.mapped.insert((asid, first), order);
        assert_eq!(moved, None);
        let (.., frame) = world.mapping(asid, first).expect("mapped");
        // The model numbers the frames of both segments in a row.
        let mut before = 0;
        let mut ours = Place::Flex;
        for segment in &world.restsegs {
            if segment.way(Pfn(frame)).is_some() {
                ours = Place::Rest(before + frame - segment.first.0);
            }
            before += segment.frames();
        }
        assert_eq!(ours, place, "{asid} {first:#x}");
    }

    fn gone(&mut self, asid: u32) {
        self.walks.forget(asid);
        self.free(|of, _| of == asid);
    }

    fn switch(&mut self, _: u32) {
        self.walks.switch();
    }

    fn counts(&self) -> BTreeMap<&'static str, u64> {
        let of = |name| self.model.counts[name];
        let mut counts: BTreeMap<_, _> =
            ["rsw_hits", "sf_references", "tar_references"].map(|name| (name, of(name))).into();
        counts.insert("rsw", of("rsw_hits") + of("walks"));
        counts
    }

    fn references(&self) -> References {
        let read = self.model.counts["sf_references"] + self.model.counts["tar_references"];
        [self.steps, read, self.background, self.hidden]
    }

    fn nodes(&self) -> u64 {
        self.walks.nodes
    }
}

pub(super) fn utopia(dice: &mut Dice) -> (Setting, Box<dyn Plain>) {
    let (sets, ways) = (dice.pick(&[1, 2, 8, 16]), dice.pick(&[1, 2, 4]));
    let (large, mixes, parallel) = (dice.percent(70), dice.percent(40), dice.percent(50));
    let (entries, cache_ways) = dice.pick(&[(1, 1), (2, 1), (4, 2), (4, 4), (64, 4)]);
    let seed = dice.below(5);
    let segment = |first, order, sets| RestSeg { first: Pfn(first), order, sets, ways, mixed: mixes.then_some(seed) };
    let mut segments = vec![segment(1 << 18, 0, sets)];
    if large {
        segments.push(segment(1 << 19, 9, 2));
    }
    let keys = vec![
        ("behind", "utopia".into()),
        ("uto_cache_entries", entries.to_string()),
        ("uto_cache_ways", cache_ways.to_string()),
        ("uto_walk", if parallel { "parallel" } else { "after" }.into()),
    ];
    let config = UtopiaConfig {
        segs: [Seg { sets, ways }, if large { Seg { sets: 2, ways } } else { Seg { sets: 0, ways: 0 } }],
        cache: (entries, cache_ways),
        full: Full::Flex,
        walks_at: 0,
        hash: if mixes { Hash::Mix } else { Hash::Identity },
        seed,
        frames: 1 << 40,
    };
    let setting = Setting { restsegs: segments, ..Setting::new(dice, "utopia", keys) };
    let (walks, model) = (Walks::new(&setting), Utopia::new(config));
    let plain = Restricted { model, mapped: BTreeMap::new(), walks, parallel, steps: 0, background: 0, hidden: 0 };
    (setting, Box::new(plain))
}

#[test]
fn utopia_agrees_with_the_plain_model() {
    let sums = all(utopia);
    for name in ["rsw_hits", "sf_references", "tar_references"] {
        assert!(sums.counts[name] > 1000, "{name}: {sums:?}");
    }
    assert!(sums.counts["rsw"] > sums.counts["rsw_hits"] + 1000, "{sums:?}");
}
