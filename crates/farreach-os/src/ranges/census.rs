//! Contiguity of an address space at one moment (RMM15-43, RMM15-44).

use super::runs::Runs;
use crate::page_table::PageTable;
use farreach_types::addr::{Vpn, VpnRange};
use farreach_types::counts::Contiguity;

/// Shortest run that counts as a range in statistics, independent of the threshold (RMM15-43).
const LEAST: u64 = 8;

/// The address space as it was when it had most pages.
#[derive(Clone, Debug, Default)]
pub struct Census {
    /// Pages that were mapped then.
    pub pages: u64,
    /// The statistics.
    pub found: Contiguity,
}

/// The number of lengths, largest first, that add up to `percent` of `pages`.
fn cover(descending: &[u64], pages: u64, percent: u64) -> Option<u64> {
    let mut sum = 0;
    let need = (u128::from(pages) * u128::from(percent)).div_ceil(100);
    let enough = descending.iter().position(|&n| {
        sum += u128::from(n);
        sum >= need
    });
    enough.map(|at| at as u64 + 1)
}

impl Census {
    /// The census of this moment.
    pub fn take(table: &PageTable, runs: &Runs) -> Census {
        let mapped = table.present();
        let mut lengths: Vec<u64> = runs.iter().map(|(_, run)| run.pages).filter(|&n| n >= LEAST).collect();
        lengths.sort_unstable_by(|a, b| b.cmp(a));
        // Ideal contiguity: virtually contiguous pages with equal attributes, in any frames.
        let mut ideal: Vec<u64> = Vec::new();
        let mut last = None;
        for (first, run) in runs.iter() {
            match ideal.last_mut() {
                Some(pages) if last == Some((first, run.attr)) => *pages += run.pages,
                _ => ideal.push(run.pages),
            }
            last = Some((Vpn(first.0 + run.pages), run.attr));
        }
        ideal.sort_unstable_by(|a, b| b.cmp(a));
        // Superpages that exist now, not all that were ever made: many are split before others are made.
        let everywhere = VpnRange { start: Vpn(0), pages: 1 << 52 };
        let (mut superpages, mut superpage_pages) = (0, 0);
        for run in table.runs_in(everywhere).iter().filter(|run| run.entry.order > 0) {
            superpages += run.pages >> run.entry.order;
            superpage_pages += run.pages;
        }
        let found = Contiguity {
            mapped_pages: mapped,
            superpages,
            superpage_pages,
            ranges: lengths.len() as u64,
            range_pages: lengths.iter().sum(),
            median_pages: lengths.get(lengths.len() / 2).copied().unwrap_or(0),
            largest_pages: lengths.first().copied().unwrap_or(0),
            cover_50: cover(&lengths, mapped, 50),
            cover_90: cover(&lengths, mapped, 90),
            cover_99: cover(&lengths, mapped, 99),
            ideal_ranges: ideal.len() as u64,
            ideal_cover_99: cover(&ideal, mapped, 99),
            ideal_largest_pages: ideal.first().copied().unwrap_or(0),
            ..Contiguity::default()
        };
        Census { pages: mapped, found }
    }
}

#[cfg(test)]
mod tests {
    use super::cover;

    #[test]
    fn rmm15_43_the_fewest_ranges_that_cover_a_share() {
        assert_eq!((cover(&[50, 40, 10], 100, 50), cover(&[50, 40, 10], 100, 51)), (Some(1), Some(2)));
        assert_eq!(
            (cover(&[50, 40, 9], 100, 99), cover(&[50, 40, 8], 100, 99), cover(&[], 1, 50)),
            (Some(3), None, None)
        );
        assert_eq!(cover(&[8], 9, 90), None);
    }
}
