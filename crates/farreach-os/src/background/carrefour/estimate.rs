//! Samples by page, and how many would be local if pages moved (CLP-1).

use farreach_types::addr::{Asid, Vpn, VpnRange};

/// A base page with samples.
pub struct Sampled {
    /// It.
    pub vpn: Vpn,
    /// The node on which it lies.
    pub home: u8,
    /// Samples by node.
    pub by: Vec<u64>,
}

/// A page or superpage with samples.
pub struct Leaf {
    /// Whose it is.
    pub asid: Asid,
    /// Its base pages.
    pub pages: VpnRange,
    /// The node on which its first page lies.
    pub home: u8,
    /// Those with samples, ascending.
    pub sampled: Vec<Sampled>,
}

/// The node with most samples; of equal ones this home, or else the first.
pub fn most(by: &[u64], home: u8) -> u8 {
    let times = by.iter().copied().max().unwrap_or(0);
    if by[usize::from(home)] == times { home } else { by.iter().position(|n| *n == times).unwrap_or(0) as u8 }
}

impl Leaf {
    /// Whether it is no base page.
    pub fn is_superpage(&self) -> bool {
        self.pages.pages > 1
    }

    /// Samples by node, of all of its pages.
    pub fn by(&self) -> Vec<u64> {
        let mut by = vec![0; self.sampled[0].by.len()];
        self.sampled.iter().for_each(|page| by.iter_mut().zip(&page.by).for_each(|(sum, n)| *sum += n));
        by
    }

    /// All of its samples.
    pub fn times(&self) -> u64 {
        self.by().iter().sum()
    }

    /// Whether threads of several nodes use it.
    pub fn has_several_nodes(&self) -> bool {
        self.by().iter().filter(|n| **n > 0).count() > 1
    }
}

/// Samples, and how many are local: now, with all pages moved as they are mapped, and with all superpages split.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Estimate {
    /// Samples.
    pub all: u64,
    /// Local ones.
    pub local: u64,
    /// If each page and superpage were where most of its samples are from.
    pub moved: u64,
    /// If each base page were.
    pub split: u64,
}

impl Estimate {
    /// Of the samples of a period.
    pub fn of(leaves: &[Leaf]) -> Estimate {
        let most = |by: &[u64]| by.iter().copied().max().unwrap_or(0);
        let mut sum = Estimate::default();
        for leaf in leaves {
            let pages = || leaf.sampled.iter();
            sum.all += leaf.times();
            sum.local += pages().map(|page| page.by[usize::from(page.home)]).sum::<u64>();
            sum.moved += most(&leaf.by());
            sum.split += pages().map(|page| most(&page.by)).sum::<u64>();
        }
        sum
    }

    /// Whether this number of local samples is at least `points` percent of all samples more than now.
    pub fn gains(&self, local: u64, points: u64) -> bool {
        u128::from(local.saturating_sub(self.local)) * 100 >= u128::from(points) * u128::from(self.all)
    }

    /// The share of local samples.
    pub fn local_ppm(&self) -> u64 {
        (u128::from(self.local) * 1_000_000 / u128::from(self.all.max(1))) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clp_1_points_are_of_all_samples_and_reached_exactly() {
        let estimate = Estimate { all: 200, local: 100, moved: 129, split: 110 };
        assert!(!estimate.gains(estimate.moved, 15) && estimate.gains(130, 15));
        assert!(estimate.gains(estimate.split, 5) && !estimate.gains(109, 5));
        assert!(estimate.gains(90, 0) && !estimate.gains(90, 1), "fewer are no gain");
        assert_eq!((estimate.local_ppm(), Estimate::default().local_ppm()), (500_000, 0));
    }

    #[test]
    fn of_equal_nodes_a_page_stays_at_home_or_goes_to_the_first() {
        assert_eq!((most(&[3, 5, 5], 2), most(&[3, 5, 5], 0), most(&[0, 0, 0], 1)), (2, 1, 1));
    }

    #[test]
    fn clp_1_halves_of_two_nodes_are_half_local_whole_and_all_local_split() {
        let page = |vpn: u64| Sampled { vpn: Vpn(vpn), home: 0, by: if vpn < 8 { vec![2, 0] } else { vec![0, 2] } };
        let pages = VpnRange { start: Vpn(0), pages: 16 };
        let leaf = Leaf { asid: Asid(0), pages, home: 0, sampled: (0..16).map(page).collect() };
        assert!(leaf.has_several_nodes() && leaf.is_superpage());
        assert_eq!(Estimate::of(&[leaf]), Estimate { all: 32, local: 16, moved: 16, split: 32 });
    }
}
