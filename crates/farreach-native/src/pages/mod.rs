//! A kernel on real memory with pages of several sizes, and what machines predict for the same.
//!
//! [`sizes`] finds the sizes that this machine gives, [`measure`] runs the kernel in turns on pages of each, in
//! processes of their own, and [`predict`] simulates it.

mod once;
mod predict;
mod probe;
mod size;

pub use once::{Measured, once};
pub use predict::{MACHINES, Predicted, Told, predict, told};
pub use probe::probe;
pub use size::{PageSize, page_size};

use crate::Say;
use farreach_kernels::{Kernel, Settings};
use farreach_types::{Result, bail, ensure};
use std::fs;
use std::path::Path;

/// The sizes of these that this machine gives, 4 KB first; `say` gets a line about each of the others.
///
/// # Errors
/// There are no others than 4 KB.
pub fn sizes(pages: &[PageSize], say: Say) -> Result<Vec<PageSize>> {
    let mut sizes = vec![PageSize::BASE];
    for &size in pages {
        match size.missing() {
            Some(missing) => say(format!("no pages of {}: {missing}", size.name())),
            None if !sizes.contains(&size) => sizes.push(size),
            None => {}
        }
    }
    if sizes.len() == 1 {
        bail!("there is nothing to compare 4 KB pages with on this machine");
    }
    Ok(sizes)
}

/// What was measured.
pub struct Comparison {
    /// The sizes, 4 KB first.
    pub sizes: Vec<PageSize>,
    /// The runs on pages of each size, a run for each round.
    pub runs: Vec<Vec<Measured>>,
    /// Load averages of the machine meanwhile, if it tells them.
    pub loads: Vec<f64>,
    /// Of this machine, in Hz, as the kernel tells it.
    pub clock: Option<f64>,
    /// Whether this is a virtual machine, whose walks go through two page tables.
    pub is_virtual: bool,
}

/// Runs the kernel on pages of each size, by the command `farreach`, in rounds over all sizes, so that other load
/// affects all sizes alike. A round more comes first, as a warm-up, and does not count.
///
/// # Errors
/// A run fails, is too short to be measured, or computes something else than the others.
pub fn measure(
    kernel: &Kernel,
    settings: &Settings,
    sizes: Vec<PageSize>,
    rounds: u32,
    farreach: &Path,
) -> Result<Comparison> {
    let mut runs: Vec<Vec<Measured>> = sizes.iter().map(|_| Vec::new()).collect();
    let mut loads = Vec::new();
    for round in 0..=rounds {
        for (size, runs) in sizes.iter().zip(&mut runs) {
            let run = once::apart(kernel, settings, *size, farreach)?;
            if round > 0 {
                runs.push(run);
                loads.extend(load_average());
            }
        }
    }
    let same = |run: &Measured| run.checksum == runs[0][0].checksum;
    ensure!(
        runs.iter().flatten().all(same),
        "kernel/{}: runs on pages of several sizes computed different things",
        kernel.name
    );
    let is_virtual = fs::read_to_string("/proc/cpuinfo").is_ok_and(|text| text.contains(" hypervisor"));
    Ok(Comparison { sizes, runs, loads, clock: clock(), is_virtual })
}

impl Comparison {
    /// How many times as long as the algorithm the making of its input took, on 4 KB pages: the median.
    pub fn setup(&self) -> f64 {
        let [median, ..] = spread(self.runs[0].iter().map(|run| run.setup / run.seconds));
        median
    }

    /// Cycles of this machine for each data reference, by size.
    pub fn cycles(&self) -> Vec<Option<f64>> {
        let of = |runs: &Vec<Measured>| {
            let [median, ..] = spread(runs.iter().map(|run| run.seconds / run.references as f64));
            self.clock.map(|hz| median * hz)
        };
        self.runs.iter().map(of).collect()
    }

    /// How many times as fast as on 4 KB pages it is on pages of the size at this place: median, least and most.
    pub fn speedup(&self, at: usize) -> [f64; 3] {
        spread(self.runs[0].iter().zip(&self.runs[at]).map(|(base, own)| base.seconds / own.seconds))
    }

    /// Percent of the arrays that were in such pages.
    pub fn held_percent(&self, at: usize) -> f64 {
        let [share, ..] = spread(self.runs[at].iter().map(|run| 100.0 * run.held as f64 / run.bytes.max(1) as f64));
        share
    }

    /// The result of [`probe`] on pages of the size at this place.
    pub fn chain(&self, at: usize) -> f64 {
        let [median, ..] = spread(self.runs[at].iter().map(|run| run.probe));
        median
    }

    /// Whether one entry of the first TLB holds far more than 4 KB on pages of 2 MB; nothing if there were none, or if
    /// 4 KB pages make no difference either.
    pub fn large_entries(&self) -> Option<bool> {
        let (small, large) = (self.chain(0), self.chain(self.sizes.iter().position(|size| size.bytes == 2 << 20)?));
        (small > 1.2).then(|| large - 1.0 < (small - 1.0) / 2.0)
    }
}

/// Median, least and most.
pub fn spread(values: impl Iterator<Item = f64>) -> [f64; 3] {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    [values[values.len() / 2], values[0], values[values.len() - 1]]
}

/// Clock of this machine in Hz, from the kernel.
fn clock() -> Option<f64> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("cpu MHz"))?;
    line.rsplit(' ').next()?.trim().parse::<f64>().ok().map(|mhz| mhz * 1e6)
}

/// Load average of the last minute.
fn load_average() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_has_the_median() {
        assert_eq!(spread([3.0, 1.0, 2.0].into_iter()), [2.0, 1.0, 3.0]);
    }

    const SIZES: [PageSize; 2] = [PageSize::BASE, PageSize { bytes: 2 << 20 }];

    fn probed(sizes: &[PageSize], small: f64, large: f64) -> Comparison {
        let run = |probe| vec![Measured { probe, seconds: 1.0, references: 2, ..Measured::default() }];
        let runs = [small, large].map(run).into();
        Comparison { sizes: sizes.to_vec(), runs, loads: Vec::new(), clock: Some(1e9), is_virtual: false }
    }

    #[test]
    fn entries_are_as_large_as_the_chain_says() {
        let of = |small, large| probed(&SIZES, small, large).large_entries();
        assert_eq!(of(2.4, 2.39), Some(false));
        assert_eq!(of(2.4, 1.02), Some(true));
        assert_eq!(of(1.01, 1.0), None, "a first TLB that has all pages, or none whose misses cost");
        assert_eq!(probed(&SIZES[..1], 2.4, 2.4).large_entries(), None, "nothing to tell");
    }

    #[test]
    fn times_become_cycles_where_the_clock_is_known() {
        let mut comparison = probed(&SIZES, 1.0, 1.0);
        assert_eq!((comparison.cycles(), comparison.speedup(1)), (vec![Some(5e8); 2], [1.0; 3]));
        comparison.clock = None;
        assert_eq!(comparison.cycles(), [None, None]);
    }

    /// Every machine gives 4 KB pages, and says why it gives no others.
    #[test]
    fn a_size_that_is_not_given_is_told() {
        let mut said = Vec::new();
        let error = sizes(&[PageSize::BASE], &mut |line| said.push(line)).unwrap_err();
        assert!(said.is_empty() && error.to_string().contains("nothing to compare"), "{error}");
    }
}
