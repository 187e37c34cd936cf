//! Random programs on the placement and on the plain model of it: every page has the frame that the model says, or one
//! of the FlexSeg where it says so, and the same pages move.

use super::*;
use farreach_oracle::dice::{Dice, seeds};
use farreach_oracle::tables::Hash;
use farreach_oracle::utopia::{Full, Place, Seg, Utopia, UtopiaConfig};
use std::collections::BTreeMap;

/// What can be wrong with the model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    None,
    /// It is not told of unmapped pages.
    FreeForgotten,
    /// The set of the page beside.
    OtherSet,
    /// The last page of a full set moves, in place of the first.
    OtherVictim,
    /// One walk more until a page moves.
    WalkTooMany,
}

/// Pages of two processes, and what maps each: its order.
struct Random {
    os: Os,
    model: Utopia,
    dice: Dice,
    mapped: BTreeMap<(u32, u64), u8>,
    superpages: bool,
    evicts: bool,
    fault: Fault,
}

type Check = Result<(), String>;

fn same<T: PartialEq + std::fmt::Debug>(what: &str, ours: T, plain: T) -> Check {
    if ours == plain { Ok(()) } else { Err(format!("{what}: the system {ours:?}, the model {plain:?}")) }
}

impl Random {
    fn new(seed: u64, fault: Fault) -> Random {
        let mut dice = Dice::new(seed);
        let (sets, ways) = (dice.pick(&[1, 2, 4, 8]), dice.pick(&[1, 2, 3, 4]));
        let (superpages, evicts, mixes) = (dice.percent(40), dice.percent(50), dice.percent(50));
        let large = if superpages { Seg { sets: 2, ways } } else { Seg { sets: 0, ways: 0 } };
        let walks_at = if evicts { 0 } else { dice.pick(&[0, 1, 2, 5]) };
        let text = |n: u64| n.to_string();
        let keys = [
            ("memory", "64M".to_owned()),
            ("allocator", dice.pick(&["buddy", "fifo"]).to_owned()),
            ("uto_size", text(sets * ways * 4096)),
            ("uto_size_2m", if superpages { text(ways << 22) } else { "none".to_owned() }),
            ("uto_ways", text(ways)),
            ("uto_hash", if mixes { "mix" } else { "identity" }.to_owned()),
            ("uto_full", if evicts { "evict" } else { "flex" }.to_owned()),
            ("uto_walks_at", text(walks_at)),
            ("thp", if superpages { "always" } else { "never" }.to_owned()),
            ("khugepaged", "0".to_owned()),
            ("seed", text(seed)),
        ];
        let keys: Vec<(&str, &str)> = keys.iter().map(|(key, value)| (*key, value.as_str())).collect();
        let mut os = super::os(&[&keys]);
        os.apply(Asid(1), &Op::Start { pid: 2, parent: None, program: "/bin/q".into() });
        let config = UtopiaConfig {
            segs: [Seg { sets, ways }, large],
            cache: (8, 2),
            full: if evicts { Full::Evict } else { Full::Flex },
            walks_at: walks_at + u64::from(fault == Fault::WalkTooMany && walks_at > 0),
            hash: if mixes { Hash::Mix } else { Hash::Identity },
            seed,
            frames: (64 << 20) / 4096,
        };
        Random { os, model: Utopia::new(config), dice, mapped: BTreeMap::new(), superpages, evicts, fault }
    }

    /// The frame of a page, numbered as in the model: its place in the segments, that of base pages first.
    fn place(&self, asid: u32, vpn: u64) -> Place {
        let frame = frame(&self.os, asid, vpn);
        let mut before = 0;
        for segment in self.os.segs() {
            if segment.way(Pfn(frame)).is_some() {
                return Place::Rest(before + frame - segment.first.0);
            }
            before += segment.frames();
        }
        Place::Flex
    }

    /// A page is touched for the first time, or a page that is mapped is walked for, or leaves.
    fn step(&mut self) -> Check {
        let asid = self.dice.below(2) as u32;
        // Superpages lie above.
        let order = if self.superpages && self.dice.percent(40) { 9 } else { 0 };
        let first = if order == 0 { self.dice.below(40) } else { 512 * (1 + self.dice.below(6)) };
        let pages = 1 << order;
        if !self.mapped.contains_key(&(asid, first)) {
            let (start, len, backing) = (first << 12, pages << 12, Backing::Anonymous);
            self.os.apply(Asid(asid), &Op::Map(Mapping { start, len, prot: Prot::RW, shared: false, backing }));
            stale(&mut self.os);
            let vpn = first + self.dice.below(pages);
            store(&mut self.os, asid, vpn);
            let there = if self.fault == Fault::OtherSet { first ^ pages } else { first };
            let (place, moved) = self.model.place(asid, there, order);
            self.mapped.insert((asid, first), order);
            same("frame", self.place(asid, first), place)?;
            same("moved", stale(&mut self.os).first().copied(), moved.map(|moved| moved.1))?;
        } else if self.dice.percent(30) {
            self.os.apply(Asid(asid), &Op::Unmap { start: first << 12, len: pages << 12 });
            law(&self.os);
            self.mapped.remove(&(asid, first));
            if self.fault != Fault::FreeForgotten {
                self.model.free(asid, first, order);
            }
        } else if !self.evicts || self.fault == Fault::OtherVictim {
            stale(&mut self.os);
            let vpn = first + self.dice.below(pages);
            let (rsw, moved) = self.model.walk(asid, vpn);
            same("in its segment", is_held(&self.os, asid, vpn), rsw.hit)?;
            if !rsw.hit && self.os.counts_walks() {
                self.os.walked(Asid(asid), Vpn(vpn));
                law(&self.os);
            }
            same("moved by a walk", stale(&mut self.os).first().copied(), moved.map(|moved| moved.1))?;
        }
        // UTO-7: the same frames are free.
        let [rest, flex, free] = self.model.frames();
        let frames = self.os.frames();
        same("frames in use", frames.resident, rest + flex)?;
        same("free frames", frames.free.unwrap_or(0) + frames.set_aside, free)?;
        for (place, segment) in self.os.segs().iter().enumerate() {
            for set in 0..segment.sets {
                same("SF", self.os.used(place, set), self.model.used_ways(place, set as usize) as u64)?;
            }
        }
        Ok(())
    }
}

/// The streams of a fault that agree, and the moves.
fn run(seed: u64, fault: Fault) -> Result<u64, String> {
    let mut random = Random::new(seed, fault);
    (0..150).try_for_each(|step| random.step().map_err(|why| format!("seed {seed}, step {step}: {why}")))?;
    Ok(random.os.counts().restseg_moves)
}

#[test]
fn the_placement_agrees_with_the_plain_model() {
    let moves: u64 = seeds(1000).map(|seed| run(seed, Fault::None).unwrap_or_else(|why| panic!("{why}"))).sum();
    assert!(moves > 1000, "{moves}");
}

#[test]
fn every_planted_fault_is_found() {
    for fault in [Fault::FreeForgotten, Fault::OtherSet, Fault::OtherVictim, Fault::WalkTooMany] {
        assert!((0..100).any(|seed| run(seed, fault).is_err()), "{fault:?} was not found");
    }
}
