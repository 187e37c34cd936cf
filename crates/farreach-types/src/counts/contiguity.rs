//! How contiguous the memory of a process is (RMM15-43, RMM15-44).

use serde::{Deserialize, Serialize};

/// Version of [`ContiguityResult`]'s JSON. Fields may be added under the same version; none is renamed or removed.
pub const CONTIGUITY_SCHEMA: &str = "farreach.contiguity/1";

/// What `farreach contiguity` found.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ContiguityResult {
    /// [`CONTIGUITY_SCHEMA`].
    pub schema: String,
    /// Which process or command.
    pub source: String,
    /// Whether the frames were visible. Otherwise everything physical is absent.
    pub frames_visible: bool,
    /// The sample with the most memory, in detail.
    pub peak: ContiguitySample,
    /// Its regions, largest first.
    pub regions: Vec<RegionContiguity>,
    /// All samples.
    pub samples: Vec<ContiguitySample>,
}

/// The memory of a process at one moment. A page is 4 KB.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ContiguitySample {
    /// Seconds since the first sample.
    pub seconds: f64,
    /// Pages mapped and present.
    pub pages: u64,
    /// Pages that are parts of huge pages, as the kernel says.
    pub huge_pages: u64,
    /// Runs of present virtual pages with equal permission: what ideal placement would make contiguous (RMM15-44).
    pub virtual_ranges: Ranges,
    /// Runs contiguous in both address spaces, with equal permission (RMM15-43).
    pub physical_ranges: Option<Ranges>,
    /// Entries that translation hardware would need. Without frames: if memory were placed ideally.
    pub needs: Vec<Need>,
}

/// Statistics of runs of pages.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Ranges {
    /// The number of busy frames.
    pub count: u64,
    /// Number of runs of eight pages and more, the smallest range of RMM15-20.
    pub count_8: u64,
    /// Percent of all pages in those.
    pub percent_in_8: f64,
    /// The fewest runs that have 50, 90, 99 percent of all pages.
    pub cover: [u64; 3],
    /// Percent of all pages in the largest run.
    pub largest_percent: f64,
    /// Pages of the largest.
    pub max_pages: u64,
    /// Pages of the median run.
    pub median_pages: u64,
    /// Mean pages.
    pub mean_pages: f64,
    /// Runs of `2^i` to `2^(i+1) - 1` pages at place `i`: how many, and their pages.
    pub histogram: Vec<[u64; 2]>,
}

/// Entries that one kind of hardware would need to reach everything.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Need {
    /// The hardware.
    pub hardware: String,
    /// Entries for all pages.
    pub entries: u64,
    /// The fewest entries for 99 percent of the pages.
    pub entries_99: u64,
}

/// One region.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct RegionContiguity {
    /// Its name: a file, heap, stack, anonymous.
    pub region: String,
    /// Pages present.
    pub pages: u64,
    /// Of them in huge pages.
    pub huge_pages: u64,
    /// Runs of present virtual pages.
    pub virtual_ranges: u64,
    /// Runs contiguous in both address spaces.
    pub physical_ranges: Option<u64>,
}
