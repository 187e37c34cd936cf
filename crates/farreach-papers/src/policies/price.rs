//! What the work of an operating system costs (OSC-4). Each event is counted; these are the prices.

use farreach_types::counts::OsCounts;

/// Cycles of a fault, with the way into the kernel and back. On a Zen 5 of 2026 in a virtual machine, `farreach advise`
/// measured 4489 with Linux 6.18.
const FAULT: u64 = 4500;
/// Cycles to fill 4 KB with zeros: 733 there.
const ZERO: u64 = 730;
/// Cycles to copy 4 KB: it is read and written. Not measured.
const COPY: u64 = 2 * ZERO;
/// Cycles to look at a page table entry in the background. Not measured.
const SCAN: u64 = 20;

/// Cycles for a node of a population map (NAV-11), with the look for a page's frame: `benches/population_map.rs` of
/// `farreach-os` measured 0.05 of filling 4 KB with zeros.
pub(crate) const MAP_NODE: u64 = 37;

/// As said beside tables.
pub(super) const WORDS: &str = "\
    Time is instructions at one cycle each, cycles of translation by the model, and work of the system that the \
    program waits for: 4500 cycles a fault and 730 for each 4 KB of zeros, as measured on a Zen 5 with Linux 6.18, \
    and 1460 for each 4 KB that is copied, which is assumed; 37 for each node of a population map, of a map made for \
    this. Daemons work in the background: their copies and zeros, compaction included, and 20 cycles for each entry \
    that they look at, are apart. The longest fault is the most pages that one fault filled or copied, all at the \
    price of zeros: where it copies, it takes longer.";

/// What was done, in pages of 4 KB.
pub(super) struct Work {
    /// Faults, those of stores to protected pages included.
    pub faults: u64,
    zeroed: u64,
    copied: u64,
    background_zeroed: u64,
    background_copied: u64,
    zeroed_ahead: u64,
    scanned: u64,
    largest: u64,
    map_nodes: u64,
}

impl Work {
    /// As a system counted it. Counters of daemons say by their names what they count (OSC-4); an exchange is two
    /// copies (RNG-3).
    pub fn of(os: &OsCounts) -> Work {
        let own = |name| os.policy.get(name);
        let background_zeroed = os.policy.ending_in("_zeroed_pages");
        let background_copied = os.policy.ending_in("copied_pages") + 2 * own("exchanged_pages");
        Work {
            faults: os.page_faults + os.protection_faults,
            zeroed: os.zeroed_pages.saturating_sub(background_zeroed),
            copied: (os.cow_copies + os.gathered_pages).saturating_sub(background_copied),
            background_zeroed,
            background_copied,
            zeroed_ahead: own("zero_pages_background"),
            scanned: os.policy.ending_in("_scanned_ptes") + own("recovery_scanned_pages"),
            largest: os.largest_fault_pages,
            map_nodes: own("map_nodes"),
        }
    }

    /// Cycles that the program waits.
    pub fn waited(&self) -> u64 {
        FAULT * self.faults + ZERO * self.zeroed + COPY * self.copied + MAP_NODE * self.map_nodes
    }

    /// Cycles beside the program.
    pub fn background(&self) -> u64 {
        ZERO * (self.background_zeroed + self.zeroed_ahead) + COPY * self.background_copied + SCAN * self.scanned
    }

    /// Cycles of the fault with most pages.
    pub fn largest_fault(&self) -> u64 {
        FAULT + ZERO * self.largest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_daemon_does_is_not_waited_for() {
        let mut os = OsCounts { page_faults: 3, zeroed_pages: 600, gathered_pages: 50, ..OsCounts::default() };
        os.largest_fault_pages = 512;
        assert_eq!(Work::of(&os).waited(), 3 * 4500 + 600 * 730 + 50 * 1460);
        assert_eq!((Work::of(&os).background(), Work::of(&os).largest_fault()), (0, 4500 + 512 * 730));
        os.policy = [
            ("khugepaged_zeroed_pages", 500),
            ("khugepaged_copied_pages", 10),
            ("exchanged_pages", 1),
            ("khugepaged_scanned_ptes", 500),
            ("tracker_scanned_ptes", 12),
            ("zero_pages_background", 7),
            ("map_nodes", 2),
        ]
        .map(|(name, n)| (name.to_owned(), n))
        .into_iter()
        .collect();
        assert_eq!(Work::of(&os).waited(), 3 * 4500 + 100 * 730 + 38 * 1460 + 2 * 37);
        assert_eq!(Work::of(&os).background(), 507 * 730 + 12 * 1460 + 512 * 20);
    }
}
