//! The daemon of Carrefour-LP (CLP-1, CLP-2): once in a period it looks at the samples since the last one.
//!
//! Where the rules are silent:
//!
//! * Samples are of addresses: those of pages that are not mapped any more do not count. The share of local ones is
//!   that by the nodes on which the pages lie at the end of the period.
//! * A page, or a superpage as a whole, goes to the node with most of its samples; of equal ones to that on which its
//!   first page lies, or else to the first. Estimates take each page to be movable.
//! * Where moving superpages whole is 15 points better, all sampled pages are moved, each as it is mapped. Where
//!   splitting is decided, superpages with samples of several nodes are split, and then all sampled pages are moved. In
//!   other periods nothing is moved but the pages of hot superpages.
//! * Hot superpages come first. Their pages are dealt to the nodes by their numbers, and are not moved again in the
//!   period.
//! * Superpages are on at the start, off from a decision to split, and on again by walks or faults: this is looked at
//!   before. Collapsing is off from the first split on until moving superpages whole is better, and where superpages
//!   are off.
//! * Each page moves in a request of its own. A page that cannot move stays, and is tried again in the next period.

mod estimate;

use super::contract::Daemon;
use crate::numa::{Numa, Placed, Sample};
use crate::os::Os;
use estimate::{Estimate, Leaf, Sampled, most};
use farreach_types::addr::{Asid, Pfn, VpnRange};

/// How it works. Times are in instructions; shares in percent.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Nodes of memory.
    pub nodes: u8,
    /// From one run to the next.
    pub period: u64,
    /// Fewest samples that decide something.
    pub least: u64,
    /// Of the samples: above it a superpage is hot.
    pub hot: u64,
    /// Points that moving whole superpages must gain.
    pub moved: u64,
    /// Points that splitting must gain.
    pub split: u64,
    /// Of the instructions: walks above which superpages are switched on.
    pub walks: u64,
    /// Of the time: faults above which they are.
    pub faults: u64,
    /// Time of a fault.
    pub fault_ticks: u64,
    /// Time of filling or copying a page at a fault.
    pub page_ticks: u64,
}

/// What the system had done at the end of the period before.
#[derive(Clone, Copy, Default)]
struct Reading {
    time: u64,
    walks: u64,
    faults: u64,
    pages: u64,
}

#[derive(Default)]
struct Tally {
    periods: u64,
    decided: u64,
    switched_on: u64,
    splits: u64,
    hot: u64,
    migrated: u64,
    interleaved: u64,
    failed: u64,
    first_local: Option<u64>,
    last_local: u64,
}

/// See the module.
pub(crate) struct Balancer {
    settings: Settings,
    due: u64,
    before: Reading,
    /// Superpages are on.
    on: bool,
    /// It splits, and nothing is collapsed (CLP-2).
    splitting: bool,
    tally: Tally,
}

impl Balancer {
    pub fn new(settings: Settings) -> Balancer {
        let due = settings.period;
        Balancer { settings, due, before: Reading::default(), on: true, splitting: false, tally: Tally::default() }
    }

    /// CLP-1: superpages are switched on where walks or faults take much of the time.
    fn watch_costs(&mut self, os: &Os, now: u64) {
        let counts = &os.memory.counts;
        let reading = Reading {
            time: now,
            walks: os.numa.as_ref().map_or(0, |numa| numa.walks()),
            faults: counts.page_faults + counts.protection_faults,
            pages: counts.zeroed_pages + counts.cow_copies,
        };
        let since = std::mem::replace(&mut self.before, reading);
        let share = |part: u64, ticks: u64, percent: u64| {
            u128::from(part) * u128::from(ticks) * 100 > u128::from(percent) * u128::from(now - since.time)
        };
        let (faults, pages) = (reading.faults - since.faults, reading.pages - since.pages);
        let time = faults.saturating_mul(self.settings.fault_ticks);
        let time = time.saturating_add(pages.saturating_mul(self.settings.page_ticks));
        let costly = share(reading.walks - since.walks, 1, self.settings.walks) || share(time, 1, self.settings.faults);
        self.tally.switched_on += u64::from(costly && !self.on);
        self.on |= costly;
    }

    /// The mapped pages with samples, by process and page.
    fn leaves(&self, os: &Os, samples: &[Sample]) -> Vec<Leaf> {
        let mut leaves: Vec<Leaf> = Vec::new();
        for Sample { asid, vpn, node, times } in samples.iter().copied() {
            let Some(entry) = os.spaces[asid.0 as usize].table.get(vpn) else { continue };
            let order = u32::from(entry.order);
            let pages = VpnRange { start: vpn.align_down(order), pages: 1 << order };
            if leaves.last().is_none_or(|last| (last.asid, last.pages) != (asid, pages)) {
                let home = os.home(Pfn(entry.pfn.0 - vpn.offset_in(order)));
                leaves.push(Leaf { asid, pages, home, sampled: Vec::new() });
            }
            let sampled = &mut leaves.last_mut().expect("just pushed").sampled;
            if sampled.last().is_none_or(|last| last.vpn != vpn) {
                sampled.push(Sampled { vpn, home: os.home(entry.pfn), by: vec![0; self.settings.nodes.into()] });
            }
            sampled.last_mut().expect("just pushed").by[usize::from(node)] += times;
        }
        leaves
    }

    /// Moves a whole page or superpage. Returns the base pages that were copied.
    fn put(&mut self, os: &mut Os, asid: Asid, pages: VpnRange, node: u8) -> u64 {
        match os.move_to_node(asid, pages, node) {
            Placed::Already => 0,
            Placed::Copied => pages.pages,
            Placed::Failed => {
                self.tally.failed += pages.pages;
                0
            }
        }
    }

    /// CLP-1: splits a superpage, and deals its pages to the nodes.
    fn interleave(&mut self, os: &mut Os, leaf: &Leaf) {
        os.demote(leaf.asid, leaf.pages.start);
        self.tally.hot += 1;
        for vpn in leaf.pages.iter() {
            let node = (vpn.0 % u64::from(self.settings.nodes)) as u8;
            self.tally.interleaved += self.put(os, leaf.asid, VpnRange::one(vpn), node);
        }
        os.sync_ranges(leaf.asid);
    }

    /// CLP-1: the page goes to the node that uses it most, as it is mapped or, split, page by page.
    fn place(&mut self, os: &mut Os, leaf: &Leaf, splits: bool) {
        if splits && leaf.is_superpage() && leaf.has_several_nodes() {
            os.demote(leaf.asid, leaf.pages.start);
            self.tally.splits += 1;
            for page in &leaf.sampled {
                let copied = self.put(os, leaf.asid, VpnRange::one(page.vpn), most(&page.by, page.home));
                self.tally.migrated += copied;
            }
            os.sync_ranges(leaf.asid);
        } else {
            let copied = self.put(os, leaf.asid, leaf.pages, most(&leaf.by(), leaf.home));
            self.tally.migrated += copied;
        }
    }

    /// CLP-1, with the samples of a period.
    fn balance(&mut self, os: &mut Os, leaves: Vec<Leaf>) {
        let estimate = Estimate::of(&leaves);
        if estimate.all < self.settings.least {
            return;
        }
        self.tally.decided += 1;
        self.tally.last_local = estimate.local_ppm();
        self.tally.first_local.get_or_insert(self.tally.last_local);
        let whole = estimate.gains(estimate.moved, self.settings.moved);
        let splits = !whole && estimate.gains(estimate.split, self.settings.split);
        let is_hot = |leaf: &Leaf| {
            let most = u128::from(self.settings.hot) * u128::from(estimate.all);
            leaf.is_superpage() && u128::from(leaf.times()) * 100 > most
        };
        let (hot, others): (Vec<Leaf>, Vec<Leaf>) = leaves.into_iter().partition(is_hot);
        self.splitting = !hot.is_empty() || splits || self.splitting && !whole;
        self.on &= !splits;
        hot.iter().for_each(|leaf| self.interleave(os, leaf));
        if whole || splits {
            others.iter().for_each(|leaf| self.place(os, leaf, splits));
        }
    }
}

impl Daemon for Balancer {
    fn due(&self) -> u64 {
        self.due
    }

    fn run(&mut self, os: &mut Os, now: u64) {
        self.tally.periods += 1;
        self.watch_costs(os, now);
        let samples = os.numa.as_deref_mut().map(Numa::take_samples).unwrap_or_default();
        let leaves = self.leaves(os, &samples);
        self.balance(os, leaves);
        os.placement.allow_superpages(self.on, self.on && !self.splitting);
        self.due = now.saturating_add(self.settings.period);
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let tally = &self.tally;
        vec![
            ("carrefour_periods", tally.periods),
            ("carrefour_decisions", tally.decided),
            ("carrefour_switched_on", tally.switched_on),
            ("carrefour_splits", tally.splits),
            ("carrefour_hot_splits", tally.hot),
            ("carrefour_migrated_pages", tally.migrated),
            ("carrefour_interleaved_pages", tally.interleaved),
            ("carrefour_copied_pages", tally.migrated + tally.interleaved),
            ("carrefour_failed_pages", tally.failed),
            ("first_local_ppm_at_end", tally.first_local.unwrap_or(0)),
            ("last_local_ppm_at_end", tally.last_local),
        ]
    }
}

#[cfg(test)]
mod tests;
