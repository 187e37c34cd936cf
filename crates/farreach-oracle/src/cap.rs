//! Contiguity-aware paging (CAP-1 to CAP-7), page by page: memory is a list of frames that are free or not, and every
//! block of the allocator is looked for in it. Superpages have one size; nothing is collapsed, shared or moved.
//!
//! Where the rules leave something open:
//!
//! * OC-1 A free block is the largest aligned one that is wholly free. An ordinary request takes the smallest block
//!   that is large enough, of equal ones the lowest, and its first frames.
//! * OC-2 A region is what was mapped by one call, or a file with all that maps it, also if parts of it are unmapped
//!   later: its pages are those from the first that is mapped to the last.
//! * OC-3 The address of a pair is the page of the fault, for a superpage its first page. A page has one pair.
//! * OC-4 A rover on a block that is taken stands for the next free block above, or the first.
//! * OC-5 One page splits blocks up to half of the largest.
//! * OC-6 Without a placement a request is an ordinary one.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// What is done wrong, to see whether a comparison finds it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Nothing.
    None,
    /// CAP-3: the rover stays behind a placement that fills a run.
    Rover,
    /// CAP-5: the first pair counts, not the nearest.
    Pair,
    /// CAP-6: one page splits the largest blocks, too.
    Split,
}

#[derive(Default)]
struct Region {
    mapped: BTreeSet<u64>,
    frames: BTreeMap<u64, u64>,
    /// Address and offset, oldest first.
    pairs: Vec<(u64, i128)>,
    file: bool,
}

/// A system with one memory.
pub struct Cap {
    free: Vec<bool>,
    regions: Vec<Region>,
    /// log2 of the frames of the largest block, and of a superpage.
    top: u32,
    superpage: u32,
    rover: u64,
    fault: Fault,
    /// First pages of superpages, by region.
    superpages: BTreeSet<(usize, u64)>,
    counts: BTreeMap<&'static str, u64>,
}

impl Cap {
    /// This number of free frames.
    pub fn new(frames: u64, top: u32, superpage: u32, fault: Fault) -> Cap {
        Cap {
            free: vec![true; frames as usize],
            regions: Vec::new(),
            top,
            superpage,
            rover: 0,
            fault,
            superpages: BTreeSet::new(),
            counts: BTreeMap::new(),
        }
    }

    /// Something new, with these pages; its number.
    pub fn map(&mut self, pages: Range<u64>, file: bool) -> usize {
        self.regions.push(Region { mapped: pages.collect(), file, ..Region::default() });
        self.regions.len() - 1
    }

    /// Pages of it are unmapped.
    pub fn unmap(&mut self, region: usize, pages: Range<u64>) {
        for page in pages {
            self.superpages.remove(&(region, page >> self.superpage << self.superpage));
            self.regions[region].mapped.remove(&page);
            if let Some(frame) = self.regions[region].frames.remove(&page) {
                self.free[frame as usize] = true;
            }
        }
    }

    /// Whether some of these pages are mapped.
    pub fn is_mapped(&self, region: usize, pages: Range<u64>) -> bool {
        self.regions[region].mapped.range(pages).next().is_some()
    }

    /// The frame of a page and log2 of the pages that are mapped with it.
    pub fn frame(&self, region: usize, page: u64) -> Option<(u64, u32)> {
        let first = page >> self.superpage << self.superpage;
        let order = if self.superpages.contains(&(region, first)) { self.superpage } else { 0 };
        self.regions[region].frames.get(&page).map(|frame| (*frame, order))
    }

    /// What was counted under this name.
    pub fn count(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or(0)
    }

    /// Free frames.
    pub fn free_frames(&self) -> u64 {
        self.free.iter().filter(|free| **free).count() as u64
    }

    /// Where a page of the region would be at its distance, not rounded, if there is a distance.
    pub fn target(&self, region: usize, page: u64) -> Option<u64> {
        let known = !self.regions[region].pairs.is_empty();
        known.then(|| u64::try_from(i128::from(page) - self.offset(region, page)).ok()).flatten()
    }

    /// Others take a frame. False if it is not free.
    pub fn take(&mut self, frame: u64) -> bool {
        self.free.get_mut(frame as usize).is_some_and(|free| std::mem::replace(free, false))
    }

    /// A reference to a page that is mapped. False if memory is full.
    pub fn touch(&mut self, region: usize, page: u64) -> bool {
        let of = &self.regions[region];
        if of.frames.contains_key(&page) {
            return true;
        }
        let first = page >> self.superpage << self.superpage;
        let mut group = first..first + (1 << self.superpage);
        let fits = group.all(|page| of.mapped.contains(&page) && !of.frames.contains_key(&page));
        if fits
            && !of.file
            && let Some(frame) = self.serve(region, first, self.superpage)
        {
            self.superpages.insert((region, first));
            self.give(region, first, frame, 1 << self.superpage);
            return true;
        }
        let frame = self.serve(region, page, 0);
        if let Some(frame) = frame {
            self.give(region, page, frame, 1);
        }
        frame.is_some()
    }

    fn give(&mut self, region: usize, page: u64, frame: u64, pages: u64) {
        for at in 0..pages {
            assert!(std::mem::replace(&mut self.free[(frame + at) as usize], false), "frame {frame} is taken");
            self.regions[region].frames.insert(page + at, frame + at);
        }
    }

    /// The frames for a request.
    fn serve(&mut self, region: usize, page: u64, order: u32) -> Option<u64> {
        // CAP-4.
        if self.regions[region].pairs.is_empty() {
            let (first, end) = self.ends(region);
            if let Some(frame) = self.place(end - first) {
                self.note(region, page, i128::from(first) - i128::from(frame));
            }
        }
        if !self.regions[region].pairs.is_empty() {
            let target = i128::from(page) - self.offset(region, page);
            if let Some(frame) = self.at(target, order) {
                return Some(frame);
            }
            // CAP-7.
            if order > 0 {
                let pairs = self.regions[region].pairs.iter();
                let next = pairs.map(|(at, _)| *at).filter(|at| *at > page).min().unwrap_or(self.ends(region).1);
                if let Some(frame) = self.place((next - page).max(1 << order)) {
                    self.note(region, page, i128::from(page) - i128::from(frame));
                    return Some(frame);
                }
            }
        }
        // OC-1.
        (order..=self.top).find_map(|size| {
            let mut blocks = (0..self.free.len() as u64).step_by(1 << size);
            blocks.find(|block| self.block(*block) == Some(size))
        })
    }

    fn ends(&self, region: usize) -> (u64, u64) {
        let mapped = &self.regions[region].mapped;
        (*mapped.first().expect("it is mapped"), mapped.last().expect("it is mapped") + 1)
    }

    /// CAP-5.
    fn offset(&self, region: usize, page: u64) -> i128 {
        let mut pairs = self.regions[region].pairs.clone();
        if self.fault != Fault::Pair {
            pairs.sort();
        }
        let below = pairs.iter().rev().find(|(at, _)| *at <= page);
        below.unwrap_or(&pairs[0]).1
    }

    /// CAP-1, OC-3.
    fn note(&mut self, region: usize, page: u64, offset: i128) {
        let pairs = &mut self.regions[region].pairs;
        if let Some(pair) = pairs.iter_mut().find(|(at, _)| *at == page) {
            pair.1 = offset;
            return;
        }
        pairs.push((page, offset));
        if pairs.len() > 64 {
            pairs.remove(0);
            *self.counts.entry("pairs_overwritten").or_default() += 1;
        }
    }

    /// CAP-6: the target, if it may be taken.
    fn at(&mut self, target: i128, order: u32) -> Option<u64> {
        let size = 1i128 << order;
        let up = (target + size - 1).div_euclid(size) * size;
        let block = u64::try_from(up).ok().and_then(|frame| self.block(frame));
        let what = match block {
            None => "targets_occupied",
            Some(block) if block < order => "targets_small",
            // OC-5.
            Some(block) if order == 0 && block == self.top && self.fault != Fault::Split => "targets_large",
            Some(_) => "targets_hit",
        };
        *self.counts.entry("targets_misaligned").or_default() += u64::from(up != target);
        *self.counts.entry(what).or_default() += 1;
        (what == "targets_hit").then_some(up as u64)
    }

    /// log2 of the free block around a frame.
    fn block(&self, frame: u64) -> Option<u32> {
        (0..=self.top).rev().find(|order| {
            let first = (frame >> order << order) as usize;
            let block = self.free.get(first..first + (1 << order));
            block.is_some_and(|block| block.iter().all(|free| *free))
        })
    }

    /// CAP-3.
    fn place(&mut self, pages: u64) -> Option<u64> {
        let block = 1u64 << self.top;
        let pages = pages.div_ceil(block) * block;
        let blocks: Vec<u64> = (0..self.free.len() as u64).step_by(block as usize).collect();
        let free: Vec<u64> = blocks.into_iter().filter(|at| self.block(*at) == Some(self.top)).collect();
        // OC-4.
        let rover = *free.iter().find(|at| **at >= self.rover).or(free.first())?;
        // CAP-2: the runs, each as the blocks of it.
        let mut runs: Vec<Vec<u64>> = Vec::new();
        for &at in &free {
            match runs.last_mut() {
                Some(run) if run.last() == Some(&(at - block)) => run.push(at),
                _ => runs.push(vec![at]),
            }
        }
        let own = runs.iter().position(|run| run.contains(&rover)).expect("it is in the map");
        let all = runs.len();
        let mut chosen: Option<(usize, Vec<u64>)> = None;
        for turn in 0..all {
            let number = (own + turn) % all;
            let run: Vec<u64> = runs[number].iter().copied().filter(|at| turn > 0 || *at >= rover).collect();
            let enough = run.len() as u64 * block >= pages;
            if enough || chosen.as_ref().is_none_or(|(_, best)| run.len() > best.len()) {
                chosen = Some((number, run));
            }
            if enough {
                break;
            }
        }
        let (number, run) = chosen.expect("there is a run");
        *self.counts.entry("placements").or_default() += 1;
        self.rover = match run.get((pages / block) as usize) {
            Some(at) => *at,
            None if self.fault == Fault::Rover => self.rover,
            None => runs[(number + 1) % all][0],
        };
        Some(run[0])
    }
}
