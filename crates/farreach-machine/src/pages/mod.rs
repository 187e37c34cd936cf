//! The page-size study: the misses of true-LRU TLBs of every number of entries, at many page sizes, on both sides, and
//! the memory that each size takes, from one pass over the stream (PS-1 to PS-5, PS-7, PS-13).

mod engine;
mod parts;
mod ranges;
mod sides;
mod stack;
mod touched_pages;

use super::driver::Driver;
use super::options::Options;
use super::tally::Progress;
use engine::PageEngine;
use farreach_cost as cost;
use farreach_types::Error;
use farreach_types::addr::{BASE_SHIFT, Bytes};
use farreach_types::counts::{
    MachineResult, PAGESIZE_SCHEMA, PageCounts, PagePhase, PageRow, PageSizeResult, PhaseSize, Workload,
};
use farreach_types::event::{Batch, Kind, Source};
use parts::Part;
use sides::Row;
use std::borrow::Cow;

/// The sizes a study can have (PS-2, and on to the large pages of today's machines): 4 KB to 2 MB.
pub const PAGE_SIZES: [u64; MAX_SIZES] =
    [1 << 12, 1 << 13, 1 << 14, 1 << 15, 1 << 16, 1 << 17, 1 << 18, 1 << 19, 1 << 20, 1 << 21];
const MAX_SIZES: usize = 10;

/// Numbers of entries that every result has: powers of two up to this one.
const ENTRY_COUNTS: u64 = 4096;

/// Page sizes side by side over one stream.
///
/// A page is known by address space and number. A process switch flushes nothing: the TLBs are tagged (PS-8 has one
/// process; several share the TLBs of one processor). Pages that are unmapped, moved, dropped by advice or ended with
/// their address space leave the TLBs and free their entries. Protection does not matter: `mprotect` and copy-on-write
/// leave a page where it is.
///
/// ```
/// use farreach_types::event::Kind;
/// use farreach_machine::{Options, PageLab};
/// use farreach_trace::generate;
/// let mut lab = PageLab::new(&[4096, 65536], 64, Options::default()).unwrap();
/// lab.run(&mut generate::strided(4096, 128, 1280)).unwrap();
/// // 128 pages in turn: 64 entries never hold the next one, 128 always do, and so do 8 entries for 64 KB each.
/// let misses = |size, entries| lab.misses(Kind::Load, size, entries).unwrap();
/// assert_eq!([misses(4096, 64), misses(4096, 128), misses(65536, 8)], [1280, 128, 8]);
/// ```
pub struct PageLab {
    sizes: Vec<u64>,
    entries: u64,
    driver: Driver<PageEngine>,
    options: Options,
}

impl PageLab {
    /// `sizes`: page sizes in bytes, ascending, of [`PAGE_SIZES`]. `entries`: of the TLBs that the result tells of; it
    /// has those of other numbers beside.
    ///
    /// # Errors
    /// [`Error::Config`]: the sizes are none of these, or not ascending. [`Error::Io`]: a thread cannot be started.
    pub fn new(sizes: &[u64], entries: u64, options: Options) -> Result<PageLab, Error> {
        let given = || sizes.iter().map(|&size| Bytes(size).to_string()).collect::<Vec<_>>().join(",");
        let refuse = |what: String| Err(Error::Config { machine: given(), what });
        if let Some(&size) = sizes.iter().find(|size| !PAGE_SIZES.contains(size)) {
            return refuse(format!("{} is not allowed: a page size must be a power of two from 4K to 2M", Bytes(size)));
        }
        if sizes.is_empty() || !sizes.is_sorted_by(|a, b| a < b) {
            return refuse("there must be one size or more, each larger than the one before".into());
        }
        let count = options.threads.clamp(1, sizes.len());
        let orders = |first: usize| sizes.iter().skip(first).step_by(count).map(|s| s.trailing_zeros() - BASE_SHIFT);
        let engine =
            |first| PageEngine::new(&orders(first).collect::<Vec<_>>(), entries, options.stops_after(), options.plain);
        let driver = Driver::new((0..count).map(engine).collect(), count > 1, &options)?;
        Ok(PageLab { sizes: sizes.to_vec(), entries, driver, options })
    }

    /// Waits until every batch is counted. Nothing can be fed after it.
    ///
    /// # Errors
    /// Errors of engines on threads of their own; without such threads [`PageLab::feed`] returns them.
    pub fn finish(&mut self) -> Result<(), Error> {
        self.driver.finish()
    }

    /// As [`Lab::judge`](crate::Lab::judge).
    ///
    /// # Errors
    /// The failure, if more was wanted.
    pub fn judge(&self, failure: Option<Error>) -> Result<(), Error> {
        self.driver.judge(failure)
    }

    /// Takes one batch, given away or lent; false: the limit is reached, further batches would be ignored. With
    /// [`Options::threads`] also if an engine has given up: [`PageLab::finish`] says why.
    ///
    /// # Errors
    /// [`Error::Trace`]: the batch is invalid, for instance executes a block that was never defined.
    pub fn feed<'b>(&mut self, batch: impl Into<Cow<'b, Batch>>) -> Result<bool, Error> {
        self.driver.feed(batch.into())
    }

    /// Takes a whole stream.
    ///
    /// # Errors
    /// Those of the source, and of [`PageLab::feed`].
    pub fn run(&mut self, source: &mut dyn Source) -> Result<(), Error> {
        self.driver.run(source)
    }

    /// Whether [`Options::limit`] was reached, after [`PageLab::finish`].
    pub fn limit_reached(&self) -> bool {
        self.driver.limit_reached()
    }

    /// Progress of the simulation.
    pub fn progress(&self) -> Progress {
        self.driver.progress()
    }

    /// Misses so far of a TLB with this many entries, on the side of fetches or of loads and stores, after
    /// [`PageLab::finish`]. `None` if the size is not in the study.
    ///
    /// # Panics
    /// With [`Options::threads`], before [`PageLab::finish`].
    pub fn misses(&self, side: Kind, page_size: u64, entries: u64) -> Option<u64> {
        let row = self.rows().into_iter().find(|row| row.page_size() == page_size)?;
        Some(row.distances[usize::from(side != Kind::Fetch)].misses(entries))
    }

    /// All sizes, ascending.
    fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = self.driver.engines("results").iter().flat_map(PageEngine::rows).collect();
        rows.sort_by_key(|row| row.order);
        debug_assert!(rows.iter().map(Row::page_size).eq(self.sizes.iter().copied()));
        rows
    }

    /// What was counted phase by phase; nothing if the run has no phases.
    fn phases(&self) -> Vec<PagePhase> {
        let engines: Vec<Vec<Part>> = self.driver.engines("results").iter().map(PageEngine::phases).collect();
        let phase = |at: usize| {
            let tally = &engines[0][at].tally;
            // Engines have every size in turn.
            let size = |(i, &page_size): (usize, &u64)| {
                let ([fetch_misses, data_misses], set) = engines[i % engines.len()][at].sizes[i / engines.len()];
                PhaseSize {
                    page_size,
                    fetch_misses,
                    data_misses,
                    code_bytes: set.fetched * page_size,
                    data_bytes: set.data * page_size,
                    total_bytes: set.all * page_size,
                }
            };
            PagePhase {
                instructions: tally.references.fetch,
                lookups: tally.lookups().total(),
                sizes: self.sizes.iter().enumerate().map(size).collect(),
            }
        };
        (0..engines[0].len()).map(phase).collect()
    }

    /// The result so far, after [`PageLab::finish`]. `source`: what ran, for display. `stopped`: why it ended early, if
    /// it did. `policies`: machines that ran over the same stream.
    ///
    /// # Panics
    /// With [`Options::threads`], before [`PageLab::finish`].
    pub fn result(&self, source: &str, stopped: Option<String>, policies: Vec<MachineResult>) -> PageSizeResult {
        let rows = self.rows();
        let first = &self.driver.engines("results")[0];
        let tally = first.tally();
        let limit = self.limit_reached().then(|| format!("--limit {}", self.options.limit.unwrap_or(0)));
        let workload = Workload {
            source: source.to_owned(),
            instructions: tally.references.fetch,
            references: tally.references,
            lookups: tally.lookups(),
            touched_bytes: first.sides.touched_pages.touched() << BASE_SHIFT,
            processes: first.process_counts.processes(),
            threads: first.process_counts.threads(),
            stopped: stopped.or(limit),
            signals: first.process_counts.signals(),
            limits: Vec::new(),
            seed: self.options.seed,
            huge_pages: first.process_counts.huge_pages().clone(),
            allocator: None,
            traps: None,
            guest: None,
            windows: None,
            piece: None,
        };
        let deepest = rows.iter().flat_map(|row| &row.distances).map(|d| d.at.len() as u64).max().unwrap_or(0);
        let last = ENTRY_COUNTS.max(deepest.next_power_of_two());
        let entry_counts: Vec<u64> = (0..64).map(|i| 1 << i).take_while(|n| *n <= last).collect();
        let rows = rows
            .iter()
            .map(|row| PageRow { counts: row.counts(self.entries, &entry_counts), ..PageRow::default() })
            .collect();
        let mut result = PageSizeResult {
            schema: PAGESIZE_SCHEMA.to_owned(),
            workload,
            entries: self.entries,
            entry_counts,
            rows,
            phases: self.phases(),
            policies,
            frontier: Vec::new(),
            advice: None,
        };
        cost::pages::derive(&mut result);
        result
    }
}

impl Row {
    fn page_size(&self) -> u64 {
        1 << (self.order + BASE_SHIFT)
    }

    fn counts(&self, entries: u64, entry_counts: &[u64]) -> PageCounts {
        let [fetch, data] = &self.distances;
        let bytes = |pages: u64| pages * self.page_size();
        PageCounts {
            page_size: self.page_size(),
            fetch_lookups: self.lookups[0],
            data_lookups: self.lookups[1],
            fetch_misses: fetch.misses(entries),
            data_misses: data.misses(entries),
            code_bytes: bytes(self.pages.fetched),
            data_bytes: bytes(self.pages.data),
            total_bytes: bytes(self.pages.all),
            allocated_bytes: bytes(self.pages.allocations),
            peak_bytes: bytes(self.pages.peak),
            page_table_bytes: self.pages.table_nodes << BASE_SHIFT,
            write_back_bytes: bytes(self.pages.stored),
            fetch_misses_by_entries: entry_counts.iter().map(|&n| fetch.misses(n)).collect(),
            data_misses_by_entries: entry_counts.iter().map(|&n| data.misses(n)).collect(),
        }
    }
}
