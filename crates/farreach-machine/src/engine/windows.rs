//! Sampling: the machines see windows of the run alone, each with a warm-up before it, and what they count in the
//! windows is scaled to the whole.
//!
//! The run is cut into pieces of [`Sample::window`] instructions. The first is always counted, since a beginning is
//! like nothing else. Of each [`Sample::one_in`] pieces after it one is counted, chosen at random. The piece before it
//! warms up the machines. Between windows the TLBs keep what they have, and learn of changes of page tables; the
//! operating systems serve every lookup, so faults, memory and their work are exact. What is counted of the pieces is
//! scaled by their instructions, and the spread among them is the standard error (Cochran, chapter 2).

use super::super::differences::{combined, json, with_levels};
use super::super::instance::TlbInstance;
use super::super::options::Sample;
use super::super::traps::Estimate;
use super::Engine;
use farreach_hw::tlb::Lookup;
use farreach_types::Error;
use farreach_types::addr::{Asid, Vpn, owner};
use farreach_types::counts::{MissEstimate, TlbCounts, WindowUse};
use farreach_types::event::Kind;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde_json::Value;

/// What the machines do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Nothing.
    Skip,
    /// They see all, and it is not counted.
    WarmUp,
    /// It is counted.
    Window,
}

/// What was counted in windows, of all designs.
#[derive(Clone)]
struct Windows {
    /// Instructions in each.
    instructions: Vec<u64>,
    /// By design, then by window.
    misses: Vec<Vec<u64>>,
    /// By design: the sum of all counts.
    sums: Vec<Value>,
}

/// See the module.
pub struct Sampling {
    sample: Sample,
    chooses: Pcg64Mcg,
    seed: u64,
    phase: Phase,
    /// Where the phase ends, in instructions.
    until: u64,
    /// Where the next window begins, during its warm-up or before.
    next: u64,
    /// The first piece after the first that no choice was made among yet.
    group: u64,
    /// Where the window began, and what each design had counted then.
    begun: (u64, Vec<Value>),
    /// The first piece.
    first: Windows,
    others: Windows,
}

impl Sampling {
    pub fn new(sample: Sample, seed: u64, designs: usize) -> Sampling {
        let none =
            Windows { instructions: Vec::new(), misses: vec![Vec::new(); designs], sums: vec![Value::Null; designs] };
        Sampling {
            sample,
            chooses: Pcg64Mcg::seed_from_u64(seed),
            seed,
            phase: Phase::Window,
            until: sample.window,
            next: 0,
            group: 1,
            begun: (0, vec![Value::Null; designs]),
            first: none.clone(),
            others: none,
        }
    }

    /// Chooses the next window.
    fn choose(&mut self) {
        let piece = self.group + self.chooses.random_range(0..u64::from(self.sample.one_in));
        self.group += u64::from(self.sample.one_in);
        self.next = piece * self.sample.window;
    }

    /// What each design counted in the window that is open, if it tells anything: it is the only one, or half of it is
    /// over.
    fn open(&self, now: u64, designs: &[TlbInstance]) -> Option<Windows> {
        let long = now.saturating_sub(self.begun.0);
        let tells = self.first.instructions.is_empty() || long * 2 >= self.sample.window;
        (self.phase == Phase::Window && tells && long > 0).then(|| self.window(now, designs))
    }

    fn window(&self, now: u64, designs: &[TlbInstance]) -> Windows {
        let sums: Vec<Value> = designs
            .iter()
            .zip(&self.begun.1)
            .map(|(design, before)| {
                combined(&json(&design.counts()), before, &|now, before| now.saturating_sub(before))
            })
            .collect();
        let misses = sums.iter().map(|sum| vec![sum["misses"].as_u64().unwrap_or(0)]).collect();
        Windows { instructions: vec![now - self.begun.0], misses, sums }
    }

    fn close(&mut self, now: u64, designs: &[TlbInstance]) {
        let window = self.window(now, designs);
        if self.first.instructions.is_empty() {
            self.first = window;
        } else {
            self.others.add(&window);
        }
    }

    /// What was counted, the window that is open included.
    fn counted(&self, now: u64, designs: &[TlbInstance]) -> (Windows, Windows) {
        let (mut first, mut others) = (self.first.clone(), self.others.clone());
        if let Some(open) = self.open(now, designs) {
            if first.instructions.is_empty() { first = open } else { others.add(&open) }
        }
        (first, others)
    }

    /// What was sampled of a run of `now` instructions.
    pub fn used(&self, now: u64, designs: &[TlbInstance]) -> WindowUse {
        let (first, others) = self.counted(now, designs);
        let all = || first.instructions.iter().chain(&others.instructions);
        WindowUse {
            one_in: self.sample.one_in.into(),
            window_instructions: self.sample.window,
            windows: all().count() as u64,
            counted_instructions: all().sum(),
            seed: self.seed,
        }
    }

    /// The counts of a design in a whole run of `now` instructions, and its misses with their standard error.
    pub fn whole(&self, design: usize, now: u64, designs: &[TlbInstance]) -> (TlbCounts, MissEstimate) {
        let (first, others) = self.counted(now, designs);
        let exact: u64 = first.instructions.iter().sum();
        let rest = now.saturating_sub(exact) as f64;
        let seen: u64 = others.instructions.iter().sum();
        let scaled = match seen {
            // Of the rest nothing was seen: as if it were like the beginning.
            0 => combined(&first.sums[design], &Value::Null, &|n, _| scale(n, 1.0 + rest / exact.max(1) as f64)),
            seen => combined(&first.sums[design], &others.sums[design], &|first, others| {
                first + scale(others, rest / seen as f64)
            }),
        };
        let counts = whole_counts(with_levels(scaled, &json(&designs[design].counts())));
        let windows = &others.misses[design];
        let of = (rest / self.sample.window as f64).ceil().max(windows.len() as f64) as u32;
        let standard_error = match (windows.len(), of) {
            (_, 0) => Some(0.0),
            (0, _) => None,
            _ => Estimate::over_sets(windows, of).standard_error,
        };
        let misses = counts.misses as f64;
        (counts, MissEstimate { misses, standard_error })
    }
}

impl Windows {
    fn add(&mut self, other: &Windows) {
        self.instructions.extend(&other.instructions);
        for (mine, more) in self.misses.iter_mut().zip(&other.misses) {
            mine.extend(more);
        }
        for (mine, more) in self.sums.iter_mut().zip(&other.sums) {
            *mine = combined(mine, more, &|a, b| a + b);
        }
    }
}

fn scale(n: u64, factor: f64) -> u64 {
    (n as f64 * factor).round() as u64
}

/// Scaled counts, whose sums are right again though each number was rounded.
fn whole_counts(scaled: Value) -> TlbCounts {
    let mut counts = TlbCounts::default();
    let mut all = combined(&json(&counts), &scaled, &|_, scaled| scaled);
    if let (Value::Object(all), Value::Object(scaled)) = (&mut all, scaled) {
        all.extend(scaled);
    }
    counts = serde_json::from_value(all).expect("the same numbers, scaled");
    counts.fetch_misses = counts.fetch_misses.min(counts.misses);
    counts.data_misses = counts.misses - counts.fetch_misses;
    counts.store_misses = counts.store_misses.min(counts.data_misses);
    counts.load_misses = counts.data_misses - counts.store_misses;
    counts.subblock_misses = counts.subblock_misses.min(counts.misses);
    counts.tag_misses = counts.misses - counts.subblock_misses;
    // Walks by distance are some of all.
    let mut many = counts.walk_distances.total().saturating_sub(counts.misses);
    for class in 0..counts.walk_distances.classes().len() {
        let count = counts.walk_distances.class(class);
        let less = many.min(*count);
        *count -= less;
        many -= less;
    }
    counts
}

impl Engine {
    /// From now on, which is the beginning, a sample is simulated.
    pub fn sample(&mut self, sample: Sample, seed: u64) {
        let sampling = Sampling::new(sample, seed, self.instances.len());
        self.phase_end = sampling.until;
        self.boundary = self.phase_end;
        self.sampling = Some(Box::new(sampling));
    }

    /// The phase of the sampling is over.
    #[cold]
    pub(super) fn next_phase(&mut self) {
        let now = self.tally.limit_count();
        let Some(mut sampling) = self.sampling.take() else { return };
        while now >= sampling.until {
            match sampling.phase {
                Phase::Window => {
                    sampling.close(now, &self.instances);
                    sampling.choose();
                    let warm_up = sampling.next.saturating_sub(sampling.sample.window).max(now);
                    (sampling.phase, sampling.until) = (Phase::Skip, warm_up);
                    if warm_up > now {
                        self.flush_lookups(true);
                        self.skips = true;
                    }
                }
                Phase::Skip => {
                    // Lookups that the machines do not see are forgotten.
                    self.flush_lookups(true);
                    self.skips = false;
                    (sampling.phase, sampling.until) = (Phase::WarmUp, sampling.next);
                }
                Phase::WarmUp => {
                    let counts = self.instances.iter().map(|instance| json(&instance.counts())).collect();
                    sampling.begun = (now, counts);
                    (sampling.phase, sampling.until) = (Phase::Window, sampling.next.max(now) + sampling.sample.window);
                }
            }
        }
        self.uncounted = sampling.phase != Phase::Window;
        self.phase_end = sampling.until;
        self.set_boundary();
        self.sampling = Some(sampling);
    }

    /// A lookup that the machines do not see: the operating systems serve it. Returns whether it was the first of its
    /// page since they changed it.
    #[inline(never)]
    pub(super) fn skip(&mut self, asid: Asid, vpn: u64, kind: Kind, inside: u32) -> Result<bool, Error> {
        let of = owner(asid, vpn);
        if self.plain {
            self.footprint.insert(of, vpn);
            for g in 0..self.groups.len() {
                if self.groups[g].mask() & inside == 0 {
                    self.touch(g, Lookup { asid: of, vpn: Vpn(vpn >> self.groups[g].order()), kind })?;
                    self.follow(g);
                }
            }
            return Ok(true);
        }
        self.make_room_for_times();
        let (slot, known) = self.filter.find(vpn, kind);
        let (filtered, served) = known.unwrap_or_default();
        if filtered == self.full {
            return Ok(false);
        }
        if known.is_none() {
            self.claim(asid, vpn, slot);
        }
        let designs = self.full & !filtered & !inside;
        if designs & !served != 0 {
            self.serve(of, vpn, kind, slot, designs & !served)?;
        }
        (0..self.instances.len()).filter(|i| designs >> i & 1 != 0).for_each(|i| self.filter.add_candidate(slot, i));
        self.filter.publish(slot, kind, if vpn == super::filter::NEVER_FILTERED { 0 } else { designs });
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farreach_types::counts::WalkDistances;

    /// Each class of 1 becomes 2, which are 6, and 3 misses become 5.
    #[test]
    fn walks_by_distance_are_no_more_than_all() {
        let walk_distances = WalkDistances { lines_256: 1, lines_1k: 1, beyond: 1, ..WalkDistances::default() };
        let counts = TlbCounts { misses: 3, walk_distances, ..TlbCounts::default() };
        let whole = whole_counts(combined(&json(&counts), &Value::Null, &|n, _| scale(n, 1.5)));
        assert_eq!((whole.misses, whole.walk_distances.classes()), (5, [1, 2, 0, 0, 0, 2]));
    }
}
