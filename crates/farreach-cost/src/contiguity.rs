//! Contiguity of memory, from the pages that are mapped: the fewest ranges that cover it, and the fewest entries of
//! each kind of hardware.

use farreach_types::counts::{ContiguitySample, Need, Ranges};

/// Present pages that follow each other in the virtual address space, and in the physical one if frames are known, with
/// one permission.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// First virtual page.
    pub vpn: u64,
    /// Pages.
    pub pages: u64,
    /// First frame; `None` if frames are not visible.
    pub pfn: Option<u64>,
    /// Permission bits; only their equality matters.
    pub permission: u8,
}

/// Pages of an aligned cluster of the clustered TLB (RMM15-42), log2.
const CLUSTER: u32 = 3;
/// Pages under one contiguous bit of an Arm page table with 4 KB pages, log2.
const CONTIGUOUS_BIT: u32 = 4;
/// Pages of a 2 MB page, log2.
const HUGE: u32 = 9;
/// Pages that make a range (RMM15-20).
const RANGE: u64 = 8;

impl Run {
    fn end(&self) -> u64 {
        self.vpn + self.pages
    }
    /// Whether `next` continues this run; `physical`: in both address spaces.
    fn goes_on(&self, next: &Run, physical: bool) -> bool {
        let frames = || self.pfn.map(|f| f + self.pages) == next.pfn;
        self.end() == next.vpn && self.permission == next.permission && (!physical || frames())
    }
}

/// Joins runs, ascending by virtual page, that continue each other.
pub fn joined(runs: &[Run], physical: bool) -> Vec<Run> {
    let mut out: Vec<Run> = Vec::new();
    for run in runs {
        match out.last_mut() {
            Some(last) if last.goes_on(run, physical) => last.pages += run.pages,
            _ => out.push(*run),
        }
    }
    out
}

/// The statistics of one moment. `runs`: ascending by virtual page, none touching another's pages.
pub fn sample(runs: &[Run], seconds: f64, huge_pages: u64) -> ContiguitySample {
    let visible = !runs.is_empty() && runs.iter().all(|run| run.pfn.is_some());
    let ideal = joined(runs, false);
    let actual = joined(runs, true);
    // Without frames, every run is taken to lie in frames with the numbers of its pages.
    let placed =
        if visible { actual.clone() } else { ideal.iter().map(|run| Run { pfn: Some(run.vpn), ..*run }).collect() };
    ContiguitySample {
        seconds,
        pages: runs.iter().map(|run| run.pages).sum(),
        huge_pages,
        virtual_ranges: ranges(&ideal),
        physical_ranges: visible.then(|| ranges(&actual)),
        needs: needs(&placed),
    }
}

/// The fewest of these sizes, any order, that add up to `percent` of their sum.
fn fewest(sizes: &[u64], percent: u64) -> u64 {
    let mut sizes = sizes.to_vec();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    let wanted = (u128::from(sizes.iter().sum::<u64>()) * u128::from(percent)).div_ceil(100);
    let mut sum = 0u128;
    let enough = sizes.iter().take_while(|&&size| {
        let before = sum;
        sum += u128::from(size);
        before < wanted
    });
    enough.count() as u64
}

/// Statistics of runs that were joined.
pub fn ranges(runs: &[Run]) -> Ranges {
    let mut sizes: Vec<u64> = runs.iter().map(|run| run.pages).collect();
    sizes.sort_unstable();
    let Some(&max) = sizes.last() else { return Ranges::default() };
    let total: u64 = sizes.iter().sum();
    let percent = |pages: u64| 100.0 * pages as f64 / total as f64;
    let mut histogram = vec![[0, 0]; max.ilog2() as usize + 1];
    for &size in &sizes {
        let [runs, pages] = &mut histogram[size.ilog2() as usize];
        *runs += 1;
        *pages += size;
    }
    let large = || sizes.iter().filter(|&&size| size >= RANGE);
    Ranges {
        count: sizes.len() as u64,
        count_8: large().count() as u64,
        percent_in_8: percent(large().sum()),
        cover: [50, 90, 99].map(|percent| fewest(&sizes, percent)),
        largest_percent: percent(max),
        max_pages: max,
        median_pages: sizes[(sizes.len() - 1) / 2],
        mean_pages: total as f64 / sizes.len() as f64,
        histogram,
    }
}

/// Entries of each kind of hardware for runs that are contiguous in both address spaces.
fn needs(runs: &[Run]) -> Vec<Need> {
    let pages: u64 = runs.iter().map(|run| run.pages).sum();
    let need = |hardware: &str, sizes: &[u64]| Need {
        hardware: hardware.to_owned(),
        entries: sizes.len() as u64,
        entries_99: fewest(sizes, 99),
    };
    let whole: Vec<u64> = runs.iter().map(|run| run.pages).collect();
    vec![
        Need { hardware: "4 KB pages".to_owned(), entries: pages, entries_99: (pages * 99).div_ceil(100) },
        need("clustered TLB, 8 pages", &clusters(runs)),
        need("contiguous bit, 16 pages", &blocks(runs, CONTIGUOUS_BIT)),
        need("2 MB pages", &blocks(runs, HUGE)),
        need("range TLB", &whole),
    ]
}

/// Pages per entry if aligned blocks of `2^order` pages have one entry and other pages each their own.
fn blocks(runs: &[Run], order: u32) -> Vec<u64> {
    let mut sizes = Vec::new();
    for run in runs {
        let size = 1 << order;
        let aligned = run.pfn.is_some_and(|pfn| pfn % size == run.vpn % size);
        let blocks = if aligned { (run.end() / size).saturating_sub(run.vpn.div_ceil(size)) } else { 0 };
        sizes.extend(std::iter::repeat_n(size, blocks as usize));
        sizes.extend(std::iter::repeat_n(1, (run.pages - blocks * size) as usize));
    }
    sizes
}

/// Pages per entry of a clustered TLB: an aligned virtual cluster has one entry for each aligned physical cluster that
/// its pages are in, in any order, provided their permissions are equal.
fn clusters(runs: &[Run]) -> Vec<u64> {
    let mut sizes = Vec::new();
    let mut cluster = None;
    // Entries of the current virtual cluster: cluster of frames, permission, pages.
    let mut here: Vec<(u64, u8, u64)> = Vec::new();
    for run in runs {
        for i in 0..run.pages {
            if cluster != Some((run.vpn + i) >> CLUSTER) {
                cluster = Some((run.vpn + i) >> CLUSTER);
                sizes.extend(here.drain(..).map(|(.., pages)| pages));
            }
            let frames = (run.pfn.unwrap_or(run.vpn) + i) >> CLUSTER;
            match here.iter_mut().find(|(f, p, _)| (*f, *p) == (frames, run.permission)) {
                Some((.., pages)) => *pages += 1,
                None => here.push((frames, run.permission, 1)),
            }
        }
    }
    sizes.extend(here.into_iter().map(|(.., pages)| pages));
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(vpn: u64, pages: u64, pfn: u64) -> Run {
        Run { vpn, pages, pfn: Some(pfn), permission: 3 }
    }
    fn entries(sample: &ContiguitySample) -> Vec<u64> {
        sample.needs.iter().map(|n| n.entries).collect()
    }

    #[test]
    fn rmm15_43_44_a_hand_made_address_space() {
        // Pages 0..16 in frames 0..16; 16..24 elsewhere, adjacent virtually; a hole; 100..101 with another permission
        // beside 101..103.
        let runs = [run(0, 16, 0), run(16, 8, 64), Run { permission: 1, ..run(100, 1, 200) }, run(101, 2, 201)];
        let s = sample(&runs, 0.0, 0);
        assert_eq!((s.pages, s.virtual_ranges.count, s.virtual_ranges.max_pages), (27, 3, 24));
        let physical = s.physical_ranges.clone().unwrap();
        assert_eq!((physical.count, physical.count_8, physical.cover), (4, 2, [1, 3, 4]));
        assert_eq!((physical.median_pages, physical.max_pages), (2, 16));
        assert_eq!(physical.histogram, [[1, 1], [1, 2], [0, 0], [1, 8], [1, 16]]);
        // 4 KB; clusters 0, 1, 2, then pages 100 | 101, 102; one block of 16 and 8 + 3 pages; no 2 MB; four ranges.
        assert_eq!(entries(&s), [27, 5, 12, 27, 4]);
    }

    #[test]
    fn what_is_contiguous_but_not_congruent_has_no_blocks() {
        let s = sample(&[run(0, 1024, 7)], 0.0, 0);
        // Each of the 128 clusters of pages straddles two of frames.
        assert_eq!(entries(&s), [1024, 256, 1024, 1024, 1]);
        assert_eq!(entries(&sample(&[run(0, 1024, 512)], 0.0, 0)), [1024, 128, 64, 2, 1]);
        assert_eq!(entries(&sample(&[run(1, 1024, 513)], 0.0, 0))[3], 1 + 512);
    }

    #[test]
    fn without_frames_only_the_virtual_half_is_said() {
        let blind = [Run { pfn: None, ..run(0, 4, 0) }, Run { pfn: None, ..run(4, 508, 0) }];
        let s = sample(&blind, 1.5, 0);
        assert_eq!((s.physical_ranges.is_none(), s.virtual_ranges.count), (true, 1));
        assert_eq!(entries(&s), [512, 64, 32, 1, 1]);
        assert_eq!(sample(&[], 0.0, 0).virtual_ranges, Ranges::default());
    }

    #[test]
    fn the_fewest_that_cover() {
        assert_eq!([50, 90, 99].map(|p| fewest(&[1, 50, 40, 9], p)), [1, 2, 3]);
        assert_eq!([fewest(&[], 99), fewest(&[5], 50)], [0, 1]);
    }
}
