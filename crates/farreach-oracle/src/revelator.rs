//! Revelator: frames that a page may have by hash, and guesses of them at misses (REV-1 to REV-3), as lists.
//!
//! * OZ-1 Candidate i of a page is `mix(asid<<52 ^ v, seed + i) mod frames` (HW-11), which is REV-1 for process 0 and
//!   seed 0. "Any frame" is the lowest free one. A page that is moved has the lowest tier whose candidate its frame is.
//! * OZ-2 k is fixed, or the least number of candidates, at least one, whose tiers had a share of `percent` of all
//!   placements so far, those in any frame among them; all candidates, if they have less.
//! * OZ-3 A node of level 1 is placed like a page, by the number of its 2 MB, in `node_frames` of its own (PT-3). It is
//!   there while a page of 4 KB of its 2 MB is. The guess of it is its first candidate alone.
//! * OZ-4 References are the walk's and one more a miss, that of the guessed node (REV-3). If that is right the last
//!   step is spared. Data are not references of the walk: `data_references` are k a miss.
//! * OZ-5 Of equal candidates the lowest counts. Superpages have no guesses, of either kind (`none`).

use crate::tables::mix;
use std::collections::BTreeMap;

/// How many candidates are fetched (REV-2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fetched {
    Fixed(usize),
    /// OZ-2: percent of placements.
    Share(u64),
}

/// Keys of the machine.
#[derive(Clone, Copy, Debug)]
pub struct RevelatorConfig {
    pub frames: u64,
    pub node_frames: u64,
    /// N of REV-1.
    pub candidates: usize,
    pub fetched: Fetched,
    /// Levels of the table: references of a walk to a page of 4 KB.
    pub levels: u64,
    pub seed: u64,
}

impl Default for RevelatorConfig {
    fn default() -> RevelatorConfig {
        let fetched = Fetched::Share(90);
        RevelatorConfig { frames: 1 << 16, node_frames: 1 << 12, candidates: 3, fetched, levels: 4, seed: 0 }
    }
}

/// Where something lies, and by which candidate; `candidates`: by none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placed {
    pub frame: u64,
    pub tier: usize,
}

/// What a miss did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Missed {
    /// Candidates fetched.
    pub fetched: usize,
    /// The one that was right.
    pub correct: Option<usize>,
    pub node_correct: bool,
    pub references: u64,
    pub steps: u64,
}

/// The model.
pub struct Revelator {
    config: RevelatorConfig,
    used: Vec<bool>,
    nodes_used: Vec<bool>,
    pages: BTreeMap<(u32, u64), Placed>,
    /// By process and 2 MB: place and pages.
    nodes: BTreeMap<(u32, u64), (Placed, u64)>,
    /// REV-1: placements by tier; the last in any frame.
    pub tiers: Vec<u64>,
    /// REV-3: `correct_i`.
    pub correct: Vec<u64>,
    /// `misses`, `wrong`, `none`, `node_correct`, `node_wrong`, `references`, `steps`, `data_references`.
    pub counts: BTreeMap<&'static str, u64>,
}

impl Revelator {
    /// With all memory free.
    pub fn new(config: RevelatorConfig) -> Revelator {
        assert!(config.candidates > 0 && !matches!(config.fetched, Fetched::Fixed(k) if k > config.candidates));
        let names = ["misses", "wrong", "none", "node_correct", "node_wrong", "references", "steps", "data_references"];
        Revelator {
            used: vec![false; config.frames as usize],
            nodes_used: vec![false; config.node_frames as usize],
            pages: BTreeMap::new(),
            nodes: BTreeMap::new(),
            tiers: vec![0; config.candidates + 1],
            correct: vec![0; config.candidates],
            counts: names.map(|name| (name, 0)).into(),
            config,
        }
    }

    fn add(&mut self, name: &'static str, n: u64) {
        *self.counts.get_mut(name).unwrap() += n;
    }

    /// REV-1: the candidates of a page, or of the node of a 2 MB.
    pub fn candidates(&self, asid: u32, number: u64, frames: u64) -> Vec<u64> {
        let hash = |i: usize| mix((u64::from(asid) << 52) ^ number, self.config.seed + i as u64) % frames;
        (0..self.config.candidates).map(hash).collect()
    }

    /// The first free candidate, else the lowest free frame. None: memory is full.
    fn free(used: &[bool], candidates: &[u64]) -> Option<Placed> {
        let by_hash = candidates.iter().position(|&frame| !used[frame as usize]);
        match by_hash {
            Some(tier) => Some(Placed { frame: candidates[tier], tier }),
            None => {
                let frame = used.iter().position(|used| !used)? as u64;
                Some(Placed { frame, tier: candidates.len() })
            }
        }
    }

    /// A page of 4 KB is mapped (REV-1). None: memory is full, and nothing changed.
    pub fn map(&mut self, asid: u32, vpn: u64) -> Option<Placed> {
        assert!(!self.pages.contains_key(&(asid, vpn)), "it is not mapped yet");
        let placed = Revelator::free(&self.used, &self.candidates(asid, vpn, self.config.frames))?;
        if !self.nodes.contains_key(&(asid, vpn / 512)) {
            let candidates = self.candidates(asid, vpn / 512, self.config.node_frames);
            let node = Revelator::free(&self.nodes_used, &candidates)?;
            self.nodes_used[node.frame as usize] = true;
            self.nodes.insert((asid, vpn / 512), (node, 0));
        }
        self.nodes.get_mut(&(asid, vpn / 512)).unwrap().1 += 1;
        self.used[placed.frame as usize] = true;
        self.tiers[placed.tier] += 1;
        self.pages.insert((asid, vpn), placed);
        Some(placed)
    }

    /// A page is mapped no more, or becomes part of a superpage.
    pub fn unmap(&mut self, asid: u32, vpn: u64) {
        let placed = self.pages.remove(&(asid, vpn)).expect("it was mapped");
        self.used[placed.frame as usize] = false;
        let (node, pages) = self.nodes.get_mut(&(asid, vpn / 512)).unwrap();
        *pages -= 1;
        if *pages == 0 {
            self.nodes_used[node.frame as usize] = false;
            self.nodes.remove(&(asid, vpn / 512));
        }
    }

    /// The system moves a page to this free frame.
    pub fn moved(&mut self, asid: u32, vpn: u64, frame: u64) {
        assert!(!std::mem::replace(&mut self.used[frame as usize], true), "it is free");
        let candidates = self.candidates(asid, vpn, self.config.frames);
        let tier = candidates.iter().position(|&f| f == frame).unwrap_or(candidates.len());
        let old = self.pages.insert((asid, vpn), Placed { frame, tier }).expect("it is mapped");
        self.used[old.frame as usize] = false;
    }

    /// A process ended.
    pub fn gone(&mut self, asid: u32) {
        let own: Vec<u64> = self.pages.keys().filter(|page| page.0 == asid).map(|page| page.1).collect();
        own.iter().for_each(|&vpn| self.unmap(asid, vpn));
    }

    /// Something else has a frame, or has it no more.
    pub fn occupy(&mut self, frame: u64, used: bool) {
        assert!(self.pages.values().all(|placed| placed.frame != frame));
        self.used[frame as usize] = used;
    }

    /// OZ-2.
    pub fn fetched(&self) -> usize {
        match self.config.fetched {
            Fetched::Fixed(k) => k,
            Fetched::Share(percent) => {
                let all: u64 = self.tiers.iter().sum();
                let enough = |&k: &usize| self.tiers[..k].iter().sum::<u64>() * 100 >= all * percent;
                (1..=self.config.candidates).find(enough).unwrap_or(self.config.candidates)
            }
        }
    }

    /// REV-2, REV-3: a last-level miss on a base page, with the order of its mapping.
    pub fn missed(&mut self, asid: u32, vpn: u64, order: u8) -> Missed {
        let mut out = Missed {
            fetched: 0,
            correct: None,
            node_correct: false,
            references: self.config.levels - u64::from(order) / 9,
            steps: self.config.levels - u64::from(order) / 9,
        };
        self.add("misses", 1);
        if order > 0 {
            self.add("none", 1);
        } else {
            out.fetched = self.fetched();
            let frame = self.pages[&(asid, vpn)].frame;
            let guesses = self.candidates(asid, vpn, self.config.frames);
            out.correct = guesses[..out.fetched].iter().position(|&guess| guess == frame);
            let (node, _) = self.nodes[&(asid, vpn / 512)];
            out.node_correct = self.candidates(asid, vpn / 512, self.config.node_frames)[0] == node.frame;
            out.references += 1;
            out.steps -= u64::from(out.node_correct);
            match out.correct {
                Some(i) => self.correct[i] += 1,
                None => self.add("wrong", 1),
            }
            self.add(if out.node_correct { "node_correct" } else { "node_wrong" }, 1);
        }
        self.add("references", out.references);
        self.add("steps", out.steps);
        self.add("data_references", out.fetched as u64);
        out
    }
}

#[cfg(test)]
mod tests;
