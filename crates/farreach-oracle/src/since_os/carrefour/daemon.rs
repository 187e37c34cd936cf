//! What the daemon does in each period (CLP-1, CLP-2).

use super::{PlainCarrefour, Wrong};
use crate::paging::Counts;
use crate::program::Name;
use crate::superpages::group;
use std::collections::BTreeMap;
use std::ops::Range;

/// Samples by node.
type Nodes = BTreeMap<u64, u64>;

/// A page or superpage with samples.
struct Leaf {
    process: u32,
    pages: Range<u64>,
    /// By node, and by page and node.
    all: Nodes,
    of: BTreeMap<u64, Nodes>,
}

impl Leaf {
    fn samples(&self) -> u64 {
        self.all.values().sum()
    }

    fn is_superpage(&self) -> bool {
        self.pages.end - self.pages.start > 1
    }
}

/// The largest number of samples.
fn most(samples: &Nodes) -> u64 {
    samples.values().copied().max().unwrap_or(0)
}

impl PlainCarrefour {
    /// ON-94: the node that a leaf belongs on.
    fn best(&self, samples: &Nodes, home: u64) -> u64 {
        let equal = |node: &u64| samples[node] == most(samples);
        let mut nodes = samples.keys().copied();
        match samples.contains_key(&home) && equal(&home) {
            true if !self.wrong(Wrong::LowestOfEqual) => home,
            _ if self.wrong(Wrong::HighestOfEqual) => nodes.rfind(equal).expect("there are samples"),
            _ => nodes.find(equal).expect("there are samples"),
        }
    }

    /// ON-95.
    fn switch_on(&mut self, now: u64) {
        let (counts, before, elapsed) = (self.huge.paging.counts, self.counts_before, now - self.ran);
        let faults = |of: Counts| of.page_faults + of.protection_faults;
        let pages = |of: Counts| of.zeroed_pages + of.cow_copies;
        let time = self.config.fault_ticks * (faults(counts) - faults(before))
            + self.config.page_ticks * (pages(counts) - pages(before));
        let walks = self.walks - self.walks_before;
        if 100 * walks > self.config.walks * elapsed || 100 * time > self.config.faults * elapsed {
            self.add("carrefour_switched_on", u64::from(!self.on));
            self.on = true;
        }
        (self.counts_before, self.walks_before, self.ran) = (counts, self.walks, now);
    }

    /// ON-93: leaves with samples, by process and address.
    fn leaves(&mut self) -> Vec<Leaf> {
        let mut leaves: BTreeMap<(u32, u64), Leaf> = BTreeMap::new();
        for ((process, page, node), samples) in std::mem::take(&mut self.samples) {
            if self.huge.paging.entry(process, page).is_none() {
                continue;
            }
            let pages = self.huge.paging.superpage(process, page);
            let fresh = Leaf { process, pages: pages.clone(), all: Nodes::new(), of: BTreeMap::new() };
            let leaf = leaves.entry((process, pages.start)).or_insert(fresh);
            *leaf.all.entry(node).or_default() += samples;
            *leaf.of.entry(page).or_default().entry(node).or_default() += samples;
        }
        leaves.into_values().collect()
    }

    pub(super) fn run(&mut self, now: u64) {
        self.add("carrefour_periods", 1);
        self.switch_on(now);
        let leaves = self.leaves();
        self.decide(leaves);
        let collapses = !self.splitting || self.wrong(Wrong::Collapses);
        self.huge.superpages_on = self.on;
        self.huge.collapse_on = self.on && collapses;
        self.due = now + self.config.period;
    }

    /// CLP-1.
    fn decide(&mut self, leaves: Vec<Leaf>) {
        let (mut all, mut local, mut moved, mut split) = (0, 0, 0, 0);
        for leaf in &leaves {
            all += leaf.samples();
            moved += most(&leaf.all);
            for (page, samples) in &leaf.of {
                local += samples.get(&self.home(leaf.process, *page)).copied().unwrap_or(0);
                split += most(samples);
            }
        }
        if all < self.config.least_samples {
            return;
        }
        self.add("carrefour_decisions", 1);
        let ppm = local * 1_000_000 / all;
        self.counts.insert("last_local_ppm_at_end", ppm);
        self.counts.entry("first_local_ppm_at_end").or_insert(ppm);
        let gains = |estimate: u64, points: u64| 100 * estimate.saturating_sub(local) >= points * all;
        let whole = gains(moved, self.config.moved);
        let splits = !whole && gains(split, self.config.split);
        let (points, equal) = (self.config.hot * all, self.wrong(Wrong::HotIfEqual));
        let is_hot = |leaf: &Leaf| {
            leaf.is_superpage() && (100 * leaf.samples() > points || equal && 100 * leaf.samples() == points)
        };
        let (hot, others): (Vec<Leaf>, Vec<Leaf>) = leaves.into_iter().partition(is_hot);
        let some_hot = !hot.is_empty() && !self.wrong(Wrong::HotCollapses);
        self.splitting = some_hot || splits || self.splitting && !whole;
        if splits && !self.wrong(Wrong::StaysOn) {
            self.on = false;
        }
        hot.into_iter().for_each(|leaf| self.interleave(&leaf));
        if whole || splits {
            others.into_iter().for_each(|leaf| self.migrate(&leaf, splits));
        }
    }

    /// ON-96: a hot superpage.
    fn interleave(&mut self, leaf: &Leaf) {
        self.split(leaf);
        self.add("carrefour_hot_splits", 1);
        if self.wrong(Wrong::NotDealt) {
            return;
        }
        for page in leaf.pages.clone() {
            let number = if self.wrong(Wrong::DealtInPairs) { page / 2 } else { page };
            let copied = self.place(leaf.process, page, number % self.config.nodes);
            self.add("carrefour_interleaved_pages", copied);
            self.add("carrefour_copied_pages", copied);
        }
    }

    /// ON-96: any other leaf.
    fn migrate(&mut self, leaf: &Leaf, splits: bool) {
        let mut places = vec![(leaf.pages.start, &leaf.all)];
        if splits && leaf.is_superpage() && leaf.all.len() > 1 {
            self.split(leaf);
            self.add("carrefour_splits", 1);
            places = leaf.of.iter().map(|(page, samples)| (*page, samples)).collect();
            if self.wrong(Wrong::AllOfSplit) {
                let below = |page: u64| leaf.of.range(..=page).next_back().map(|(_, samples)| (page, samples));
                places = leaf.pages.clone().filter_map(below).collect();
            }
        }
        for (page, samples) in places {
            let node = self.best(samples, self.home(leaf.process, page));
            let copied = self.place(leaf.process, page, node);
            self.add("carrefour_migrated_pages", copied);
            self.add("carrefour_copied_pages", copied);
        }
    }

    fn split(&mut self, leaf: &Leaf) {
        self.huge.paging.split(leaf.process, leaf.pages.start);
        self.demoted.push((leaf.process, leaf.pages.clone()));
    }

    /// ON-96, ON-97: the leaf of a page goes to a node. The pages that were copied.
    fn place(&mut self, process: u32, page: u64, node: u64) -> u64 {
        let paging = &mut self.huge.paging;
        let entry = paging.entry(process, page).expect("it is mapped");
        let leaf = group(page, entry.order);
        let frames = entry.frame..entry.frame + (1 << entry.order);
        if frames.clone().all(|frame| paging.nodes[&frame] == node) {
            return 0;
        }
        let pinned = paging.page(process, page).is_some_and(|page| page.name == Name::Kernel);
        let named_once = frames.clone().all(|frame| paging.names(frame) == 1);
        let to = if pinned || !named_once {
            None
        } else if entry.order == 0 {
            paging.frames.one()
        } else {
            paging.frames.block(entry.order)
        };
        let Some(to) = to else {
            self.add("carrefour_failed_pages", 1 << entry.order);
            return 0;
        };
        paging.move_frames(frames.clone(), to);
        (to..to + (1 << entry.order)).for_each(|frame| _ = paging.nodes.insert(frame, node));
        paging.frames.give_back(frames);
        paging.counts.gathered_pages += 1 << entry.order;
        self.stale.push((process, leaf));
        1 << entry.order
    }
}
