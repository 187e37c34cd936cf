//! HawkEye: promotion by coverage, zeroing in the background, and recovery of pages of zeros (HWE-1 to HWE-7).
//!
//! * ON-60 A group enters at a fault that gives it a base page, if it may be a superpage and is no candidate. It leaves
//!   when it is counted or chosen and may not be one any more, has no entry, or is one. It is without a coverage then.
//! * ON-61 The first clearing is one period after the beginning, and the count `wait` after it; the next clearing is a
//!   period after this one. A count looks at processes in the order of the ring, and at groups from the highest bin to
//!   the lowest, in the order of each.
//! * ON-62 A group whose bin stays the same keeps its place. One of base pages whose bin was lowered by HWE-5 rises
//!   again. There are bins for the coverage of a whole group, ten in `bins = 50`.
//! * ON-63 In turn: the process that is served goes behind all others of the ring. With `PMU` what was measured last
//!   counts; a process without a measurement has none of it. In bins by logarithm, none is chosen from bin 0. What is
//!   measured is `walk_ticks` for each walk; and of all, that and the time since the walk before, of any process. It is
//!   that of the time from the round before the last one to the last one, which begins with it.
//! * ON-64 A group that LNX-12 refuses goes to the tail of bin 0. Groups that are promoted cost their pages, others
//!   nothing; none is chosen twice in a round. The first round is `scan_sleep` after the beginning.
//! * ON-65 Pages carry the flag, and a block is zeroed if all of its pages are. At the beginning none is. What is
//!   zeroed takes the first zeroed block of the smallest order that has any block, other memory the first that is not
//!   zeroed, each the first of all if there is none; a promotion is other memory. Only pages without the flag
//!   cost `zero_pages`. The period of HWE-6 is a key of its own; a block costs no more than is not zeroed in it.
//! * ON-66 Without zeroing in the background faults give base pages.
//! * ON-67 HWE-7 is looked at after every event, fault and round of promotions, and done before the next event, and
//!   before anything else that is due. Both parts of memory are rounded down. It ends after the superpage that makes 30
//!   % free. Processes with equal overheads follow by number. A page that others share stays, and so does a superpage
//!   with no page of zeros.

mod bins;
mod bloat;
mod zeroing;

pub use bins::Bins;

use crate::frames::Frames;
use crate::linux::Khugepaged;
use crate::paging::{Full, Model, Paging};
use crate::program::Name;
use crate::superpages::{Mode, group};
use crate::system::System;
use farreach_types::event::{Kind, Op};
use std::collections::{BTreeMap, BTreeSet};

/// HWE-4.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Choice {
    Global,
    /// By what was measured, if it is this part at least.
    Measured(f64),
}

/// HWE-6.
#[derive(Clone, Copy, Debug)]
pub struct Zeroing {
    /// log2 of the frames of the blocks.
    pub order: u32,
    pub blocks: u64,
    pub every: u64,
}

/// A system.
#[derive(Clone, Debug)]
pub struct Config {
    pub frames: Frames,
    /// Frames of the memory (HWE-7).
    pub memory: u64,
    /// log2 of the pages of a superpage.
    pub order: u32,
    pub mode: Mode,
    /// HWE-2: the period, and the time from clearing to counting.
    pub period: u64,
    pub wait: u64,
    pub bins: Bins,
    pub choice: Choice,
    /// HWE-4: time of a walk, where it is measured.
    pub walk_ticks: u64,
    /// HWE-5; `alloc_sleep` does not count.
    pub promoter: Khugepaged,
    pub zeroing: Option<Zeroing>,
    /// HWE-7: percent of the memory that start it and end it.
    pub bloat: Option<(u64, u64)>,
}

/// What is counted.
const OWN: [&str; 8] = [
    "hawkeye_coverage_counts",
    "hawkeye_rounds",
    "hawkeye_copied_pages",
    "hawkeye_zeroed_pages",
    "hawkeye_no_block",
    "zero_pages_background",
    "recovery_runs",
    "recovered_pages",
];

/// The model.
pub struct PlainHawkEye {
    config: Config,
    paging: Paging,
    /// The ring of processes, the next in turn first.
    ring: Vec<u32>,
    /// HWE-1, HWE-3: candidates by process and bin, by their first pages.
    candidates: BTreeMap<u32, Vec<Vec<u64>>>,
    coverage: BTreeMap<(u32, u64), u64>,
    /// Cycles of walks and of all.
    measured: BTreeMap<u32, (u64, u64)>,
    /// The same since the last round, and when the last walk was.
    measuring: BTreeMap<u32, (u64, u64)>,
    last_walk: u64,
    /// Free frames that are zeroed.
    zeroed: BTreeSet<u64>,
    /// When A was cleared, if it is not counted yet.
    cleared: Option<u64>,
    /// What is due when: HWE-2, HWE-5, HWE-6, HWE-7.
    due: [u64; 4],
    now: u64,
    counts: BTreeMap<&'static str, u64>,
}

impl PlainHawkEye {
    pub fn new(config: Config) -> PlainHawkEye {
        let paging = Paging::new(config.frames.clone(), true);
        let rounds = if config.promoter.pages_to_scan > 0 { config.promoter.scan_sleep } else { u64::MAX };
        let due = [config.period, rounds, config.zeroing.map_or(u64::MAX, |zeroing| zeroing.every), u64::MAX];
        let (ring, candidates, coverage, measured, measuring, zeroed, cleared, counts) = Default::default();
        PlainHawkEye {
            config,
            paging,
            ring,
            candidates,
            coverage,
            measured,
            measuring,
            last_walk: 0,
            zeroed,
            cleared,
            due,
            now: 0,
            counts,
        }
    }

    /// What was measured of a process since the last round (HWE-4): cycles of walks, and all.
    pub fn measure(&mut self, process: u32, walks: u64, all: u64) {
        self.measured.insert(process, (walks, all));
        self.measuring.insert(process, (walks, all));
    }

    fn overhead(&self, process: u32) -> f64 {
        let (walks, all) = self.measured.get(&process).copied().unwrap_or((0, 1));
        walks as f64 / all.max(1) as f64
    }

    fn add(&mut self, name: &'static str, count: u64) {
        *self.counts.entry(name).or_default() += count;
    }

    fn eligible(&self, process: u32, page: u64) -> bool {
        self.paging.eligible(process, page, self.config.order, self.config.mode)
    }

    /// HWE-2: A of all candidates is cleared.
    fn clear(&mut self) {
        for (process, first) in self.all_candidates() {
            group(first, self.config.order).for_each(|page| self.paging.set_young(process, page, false));
        }
        self.cleared = Some(self.now);
        self.due[0] = self.now + self.config.wait;
    }

    /// HWE-2, HWE-3.
    fn count(&mut self, cleared: u64) {
        for (process, first) in self.by_bins() {
            if !self.stays(process, first) {
                self.leave(process, first);
                continue;
            }
            let entries = self.paging.mapped(process, group(first, self.config.order));
            let accessed = entries.iter().filter(|(_, entry)| entry.young).count() as u64;
            let coverage = self.coverage.get_mut(&(process, first)).expect("a candidate has one");
            *coverage = (6 * *coverage + 4 * accessed) / 10;
            let bin = self.config.bins.of(*coverage);
            self.sort(process, first, bin);
        }
        self.add("hawkeye_coverage_counts", 1);
        self.cleared = None;
        self.due[0] = cleared + self.config.period;
    }

    /// HWE-5.
    fn round(&mut self) {
        self.add("hawkeye_rounds", 1);
        if let Choice::Measured(_) = self.config.choice {
            self.measured = std::mem::take(&mut self.measuring);
        }
        let (order, rule) = (self.config.order, self.config.promoter);
        let (mut used, mut seen) = (0, BTreeSet::new());
        while used < rule.pages_to_scan {
            let Some((process, first)) = self.choose(&seen) else { break };
            if !self.stays(process, first) {
                self.leave(process, first);
                continue;
            }
            seen.insert((process, first));
            self.ring.retain(|of| *of != process);
            self.ring.push(process);
            let group = group(first, order);
            if !self.paging.qualifies(process, &group, rule.max_ptes_none, rule.max_ptes_shared) {
                self.sort_to_tail(process, first);
                continue;
            }
            self.prefer(order, false);
            let Some(base) = self.paging.frames.block(order) else {
                self.add("hawkeye_no_block", 1);
                self.sort_to_tail(process, first);
                break;
            };
            let missing = (base..).zip(group.clone()).filter(|(_, page)| self.paging.entry(process, *page).is_none());
            let zeroed = missing.filter(|(frame, _)| self.zeroed.contains(frame)).count() as u64;
            let collapsed = self.paging.collapse(process, &group, base);
            self.paging.set_young(process, first, true);
            self.paging.counts.zeroed_pages -= zeroed;
            (base..base + (1 << order)).for_each(|frame| _ = self.zeroed.remove(&frame));
            self.leave(process, first);
            used += 1 << order;
            self.add("hawkeye_copied_pages", collapsed.copied);
            self.add("hawkeye_zeroed_pages", collapsed.missing - zeroed);
        }
        self.give_back();
        self.watch_bloat();
        self.due[1] = self.now + rule.scan_sleep;
    }
}

impl System for PlainHawkEye {
    fn memory(&mut self) -> &mut Paging {
        &mut self.paging
    }

    fn serve(&mut self, process: u32, page: u64) -> Result<(), Full> {
        self.paging.counts.page_faults += 1;
        let (known, order) = (self.paging.known(process, page), self.config.order);
        let empty = self.paging.mapped(process, group(page, order)).is_empty();
        if self.config.zeroing.is_some() && empty && self.eligible(process, page) {
            self.prefer(order, true);
            if let Some((group, base)) = self.paging.largest(process, page, [order]) {
                self.use_zeroed(base..base + (group.end - group.start), true);
                return Ok(());
            }
        }
        if known.private() || !self.paging.programs.shared.contains_key(&(known.mapping, known.index)) {
            self.prefer(0, known.name != Name::File);
        }
        self.paging.base_page(process, page)?;
        let frame = self.paging.entry(process, page).expect("it was entered").frame;
        self.use_zeroed(frame..frame + 1, known.name != Name::File);
        if self.eligible(process, page) {
            self.enter(process, group(page, order).start);
        }
        Ok(())
    }

    fn frame_to_copy(&mut self) -> Option<u64> {
        self.prefer(0, false);
        let frame = self.paging.frames.one()?;
        self.use_zeroed(frame..frame + 1, false);
        Some(frame)
    }

    fn ended(&mut self, process: u32) {
        self.ring.retain(|of| *of != process);
        self.candidates.remove(&process);
        self.coverage.retain(|(of, _), _| *of != process);
        self.measured.remove(&process);
        self.measuring.remove(&process);
    }
}

impl Model for PlainHawkEye {
    fn paging(&self) -> &Paging {
        &self.paging
    }

    fn apply(&mut self, process: u32, op: &Op) {
        self.follow(process, op);
        self.watch_bloat();
    }

    fn touch(&mut self, process: u32, page: u64, kind: Kind) -> Result<(), Full> {
        let faults = |model: &Self| (model.paging.counts.page_faults, model.paging.counts.protection_faults);
        let before = faults(self);
        self.refer(process, page, kind)?;
        if faults(self) != before {
            self.watch_bloat();
        }
        Ok(())
    }

    fn walked(&mut self, process: u32, page: u64) {
        self.paging.set_young(process, page, true);
        let (walks, all) = self.measuring.entry(process).or_default();
        *walks += self.config.walk_ticks;
        *all += self.config.walk_ticks + self.now - self.last_walk;
        self.last_walk = self.now;
    }

    fn reached(&mut self, process: u32, page: u64) {
        self.paging.set_young(process, page, true);
    }

    fn due(&self) -> u64 {
        self.due.into_iter().min().expect("there are four")
    }

    fn advance(&mut self, now: u64) {
        self.now = now;
        while self.due() <= now {
            match (self.due.iter().position(|due| *due == self.due()), self.cleared) {
                (Some(0), None) => self.clear(),
                (Some(0), Some(cleared)) => self.count(cleared),
                (Some(1), _) => self.round(),
                (Some(2), _) => self.zero_ahead(),
                _ => self.recover(),
            }
        }
    }

    fn own(&self) -> Vec<(&'static str, u64)> {
        OWN.iter().map(|name| (*name, self.counts.get(name).copied().unwrap_or(0))).collect()
    }
}
