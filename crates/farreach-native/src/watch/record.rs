//! What was seen of a process, interval by interval, and the result that it makes.

mod result;

use crate::snapshot::Region;
use farreach_cost::watch::{Counted, Heater, Known, ORDERS, PageSet, bytes, counted};
use farreach_live::own_cpu;
use farreach_live::watch::{Method, Seen};
use farreach_types::counts::WatchInterval;
use procfs::process::Process;
use std::collections::HashMap;
use std::ops::Range;
use std::time::{Duration, Instant};

const PAGE: u64 = 4096;
const HUGE: u64 = 2 << 20;
/// The place of 2 MB pages in [`ORDERS`].
const LARGE: usize = 5;

/// When an interval was.
pub struct Took {
    pub began: Instant,
    pub ended: Instant,
}

/// Everything so far.
pub struct Record<'a> {
    process: &'a Process,
    method: Method,
    began: Instant,
    cpu: Duration,
    own: Option<[f64; 2]>,
    /// Of a used page, for the process.
    price: Duration,
    /// What its used pages cost the process in all intervals and in the last, and how busy it was in that.
    paid: Duration,
    last_paid: (Duration, Duration),
    /// Its processor time when the interval began.
    busy: f64,
    /// The memory at the last look.
    regions: Vec<Region>,
    intervals: Vec<WatchInterval>,
    counted: Vec<Counted>,
    /// All used pages, as long as it is known which.
    whole: Option<PageSet>,
    heater: Heater,
    /// Used pages of each interval, by name of the mapping.
    mappings: HashMap<String, Vec<u64>>,
    sampled: Option<[u64; 2]>,
}

/// User and system time of a process, in seconds.
fn times(process: &Process) -> Option<[f64; 2]> {
    let stat = process.stat().ok()?;
    Some([stat.utime, stat.stime].map(|ticks| ticks as f64 / procfs::ticks_per_second() as f64))
}

/// The present pages of a process.
fn present(regions: &[Region]) -> PageSet {
    regions.iter().flat_map(|region| &region.runs).map(|run| run.vpn..run.vpn + run.pages).collect()
}

fn pages(region: &Region) -> u64 {
    region.runs.iter().map(|run| run.pages).sum()
}

impl<'a> Record<'a> {
    pub fn new(process: &'a Process, method: Method, regions: Vec<Region>, price: Duration) -> Record<'a> {
        let own = times(process);
        Record {
            process,
            method,
            began: Instant::now(),
            cpu: own_cpu(),
            own,
            price,
            paid: Duration::ZERO,
            last_paid: Default::default(),
            busy: own.map_or(0.0, |own| own.iter().sum()),
            regions,
            intervals: Vec::new(),
            counted: Vec::new(),
            whole: Some(PageSet::default()),
            heater: Heater::default(),
            mappings: HashMap::new(),
            sampled: None,
        }
    }

    /// The memory at the last look.
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    pub fn has_intervals(&self) -> bool {
        !self.intervals.is_empty()
    }

    /// What its used pages cost the process in the last interval, and its processor time in that.
    pub fn last_paid(&self) -> (Duration, Duration) {
        self.last_paid
    }

    /// Forgets all intervals so far, but not what they cost.
    pub fn forget(&mut self) {
        self.intervals.clear();
        self.counted.clear();
        self.whole = Some(PageSet::default());
        self.heater = Heater::default();
        self.mappings.clear();
    }

    /// Adds an interval. `regions`: the memory at its end.
    pub fn add(&mut self, took: Took, seen: &Seen, regions: Vec<Region>) {
        let noted =
            seen.noted().unwrap_or_else(|| regions.iter().map(|region| region.used_pages.min(pages(region))).sum());
        let busy = times(self.process).map_or(self.busy, |times| times.iter().sum());
        let paid = self.price * noted.min(u64::from(u32::MAX)) as u32;
        self.last_paid = (paid, Duration::from_secs_f64((busy - self.busy).max(0.0)));
        self.busy = busy;
        self.paid += paid;
        let mut present = present(&regions);
        let set = |ranges: &[Range<u64>]| ranges.iter().cloned().collect::<PageSet>();
        let (watched, used, counts);
        let known = match seen {
            Seen::Nothing => None,
            Seen::Pages(ranges) => {
                used = set(ranges);
                // What was used and is gone by now was there.
                present.extend(&used);
                Some(Known::Pages(&used))
            }
            Seen::Sample { watched: of, used: ranges } => {
                (watched, used) = (set(of), set(ranges));
                present.extend(&watched);
                self.sampled = Some([watched.blocks().count() as u64, present.blocks().count() as u64]);
                Some(Known::Sample { watched: &watched, used: &used })
            }
            Seen::InSmaps => {
                let count = |region: &Region| (region.pages.clone(), region.used_pages.min(pages(region)));
                counts = regions.iter().map(count).collect::<Vec<_>>();
                Some(Known::Counts(&counts))
            }
        };
        match (known, &mut self.whole) {
            (Some(Known::Pages(used)), Some(whole)) => whole.extend(used),
            _ => self.whole = None,
        }
        let since = |instant: Instant| instant.duration_since(self.began).as_secs_f64();
        let (seconds, length) = (since(took.ended), took.ended.duration_since(took.began).as_secs_f64());
        let counted = known.map(|known| counted(&present, known));
        if let Some(known) = known {
            self.heater.add(seconds, &present, known);
            for (name, used) in by_mapping(&regions, known) {
                self.mappings.entry(name).or_default().push(used);
            }
        }
        self.intervals.push(WatchInterval {
            seconds,
            length,
            present_bytes: present.len() * PAGE,
            huge_bytes: regions.iter().map(|region| region.huge_pages).sum::<u64>() * PAGE,
            used_bytes: counted.map(|counted| bytes(counted[0], ORDERS[0])),
            used_2m_bytes: counted.map(|counted| bytes(counted[LARGE], ORDERS[LARGE])),
        });
        self.counted.extend(counted);
        self.regions = regions;
    }
}

/// Used pages by name of the mapping; of a sample, in proportion.
fn by_mapping(regions: &[Region], known: Known) -> HashMap<String, u64> {
    let mut sums: HashMap<String, [u64; 3]> = HashMap::new();
    for (i, region) in regions.iter().enumerate() {
        let (used, watched) = match known {
            Known::Pages(used) => (used.count(&region.pages), 1),
            Known::Counts(counts) => (counts[i].1, 1),
            Known::Sample { watched, used } => (used.count(&region.pages), watched.count(&region.pages)),
        };
        let sum = sums.entry(region.name.clone()).or_default();
        *sum = [sum[0] + used, sum[1] + watched, sum[2] + pages(region)];
    }
    let scaled = |[used, watched, present]: [u64; 3]| match known {
        Known::Sample { .. } => (used as f64 * present as f64 / watched.max(1) as f64).round() as u64,
        _ => used,
    };
    sums.into_iter().map(|(name, sums)| (name, scaled(sums))).collect()
}
