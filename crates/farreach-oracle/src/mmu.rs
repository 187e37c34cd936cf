//! First-level TLBs by side and size, the structures behind them, and the walker (DS13-36, RMM15-1 to RMM15-14,
//! RMM15-41, RMM15-42, DS13-1 to DS13-5), as lists. Every entry has its time of insertion and of last use.
//!
//! * OM-1 Slots: data side of the first level, array by array, fetch side, then the second level (`l2`, then `l2i`) and
//!   the range TLB, or the clusters. A set is the page number, in units of the entry, mod sets.
//! * OM-2 An entry of the first level gets the largest size of its level that is not larger than the mapping. The
//!   second level holds a page if it has a size of the same leaf (4 KB, 2 MB, 1 GB) that is not larger than the
//!   mapping, or any such size with `l2_fracture`. After a hit in the second level, the first level holds that entry's
//!   size, or a smaller size that it has.
//! * OM-3 Filling an entry of more than one page drops the entries that it covers in its own level: `covered_drops` of
//!   all levels.
//! * OM-4 `coalesce`: a mapping smaller than that counts as that large if all pages of the aligned group have
//!   contiguous frames, aligned alike, and the same attributes. Pages outside the mapping itself are `preloaded`.
//! * OM-5 `evictions` are those of the structure behind the first level, or of the first level on a side that has none.
//!   Evicted ranges are counted separately. `invalidations`: entries of all levels, ranges apart, and pages of
//!   clusters.
//! * OM-14 A node of the page table fills a base page with entries of 8 bytes, so a level is 9, 11 or 13 bits of the
//!   address, and there are as many levels as 48 bits need, or 57.
//! * OM-6 A walk starts from the deepest cached entry, which counts as used, and caches everything that it reads except
//!   the leaf, top first. Any change of a mapping of a process drops all cached entries of the process.
//! * OM-7 `fills`: one per miss. `merges`: misses that joined a cluster.
//! * OM-11 Clusters of 2, 4 or 8 pages. They hold runs, not aligned groups: the page that missed, and the pages before
//!   and after it as long as each has the next frame and the same attributes. Pages of the cluster with the same
//!   cluster of frames share an entry.
//! * OM-13 Runs: entries of any pages in a row in frames in a row with equal attributes, up to a limit, and superpages,
//!   beside the second level (they follow its slots). A walk brings the page and the pages before and after it in its
//!   line of eight, as long as each continues the run and has no entry. This run is appended to the entry that ends
//!   before it. Then the entry that begins after it is appended to the run. Each happens only if both together are
//!   within the limit. The lower entry keeps its slot and its time of insertion. A single page gets no entry.
//!   Superpages drop the entries that they cover. A change of any page drops the entry, and all its pages are counted.
//!   Splitting a superpage drops superpages only, which count one. With `first`, a hit changes nothing else.
//! * OM-12 Several segments: the registers hold the largest ranges of the running process. They are loaded before a
//!   lookup if they hold those of another process, or if a change affected one of them, or if the miss before was for a
//!   page in a range and the ranges have changed since they were loaded.
//! * OM-10 `range_control = counters` looks at the counters after every 4096 misses of the first level, before the
//!   next: on turns off if fewer than 16 lookups were answered by ranges alone and fewer than 256 walks met the range
//!   bit; off turns on at 256 of these.
//! * OM-8 Filling a range drops the ranges that it overlaps, uncounted. If the range used last is dropped, there is
//!   none used last.
//! * OM-9 Which walks search the range table: see [`Hint`].

mod arrays;
mod behind;
mod changes;
mod clusters;
mod config;
mod ranges;
mod runs;
mod walk;

pub use config::{Array, Behind, Config, Hint, RangeOrder, SegmentMode};

use super::plru::Tree;
use super::policies::Policy;
use super::tlb::Replacement;
use arrays::{Level, Slots};
use clusters::Cluster;
use farreach_hw::tlb::{EntryView, Lookup, Outcome};
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::counts::TlbCounts;
use farreach_types::event::Kind;
use farreach_types::translation::{Attr, PageTableView, Pte, Range, Translation};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use ranges::Held;
use runs::Row;
use walk::Pointer;

/// The model.
pub struct PlainMmu {
    config: Config,
    l1: [Level; 2],
    l2: Option<Level>,
    l2i: Option<Level>,
    clusters: Option<Slots<Cluster>>,
    ranges: Option<Slots<Held>>,
    rows: Vec<Option<Row>>,
    row_rng: Pcg64Mcg,
    row_tree: Option<Tree>,
    newest: Option<usize>,
    /// The segment registers (OM-12): process, version of its ranges, the ranges.
    registers: Option<(Asid, u64, Vec<Range>)>,
    /// OM-11.
    cluster: (u64, bool),
    /// OM-9.
    waits: Vec<u8>,
    /// OM-10: misses of the first level, lookups answered by ranges alone, walks to a range bit.
    window: [u64; 3],
    caches: Vec<Slots<Pointer>>,
    counts: TlbCounts,
    now: u64,
    /// The address of the latest fetch (HW-6), which the caller knows.
    pub pc: u64,
}

impl PlainMmu {
    pub fn new(config: Config) -> PlainMmu {
        let c = &config;
        let some = |arrays: &[Array], seed| {
            let level = |policy| (!arrays.is_empty()).then(|| Level::new(arrays, policy, c.seed + seed));
            match c.l2_replacement {
                Some(policy) => level(Replacement::Lru).map(|level| level.told(policy)),
                None => level(c.replacement),
            }
        };
        let l1 = |arrays: &[Array], seed| Level::new(arrays, c.l1_replacement.unwrap_or(c.replacement), c.seed + seed);
        let paged = !matches!(c.behind, Behind::Clusters { .. });
        PlainMmu {
            l1: [l1(c.l1d, 0), l1(c.l1i, 8)],
            l2: if paged { some(c.l2, 16) } else { None },
            l2i: c.l2i.filter(|_| paged).and_then(|arrays| some(arrays, 24)),
            clusters: match c.behind {
                Behind::Clusters { entries, ways, .. } => Some(Slots::new(entries, ways, c.replacement, c.seed + 64)),
                _ => None,
            },
            ranges: match c.behind {
                Behind::Ranges { entries, random, .. } => {
                    let policy = if random { Replacement::Random } else { Replacement::Lru };
                    Some(Slots::new(entries, 0, policy, c.seed + 64))
                }
                _ => None,
            },
            rows: match c.behind {
                Behind::Runs { entries, .. } => vec![None; entries],
                _ => Vec::new(),
            },
            row_rng: Pcg64Mcg::seed_from_u64(c.seed + 64),
            row_tree: match c.behind {
                Behind::Runs { entries, .. } if c.replacement == Replacement::TreePlru => Some(Tree::new(entries)),
                _ => None,
            },
            newest: None,
            registers: None,
            cluster: match c.behind {
                Behind::Clusters { pages, runs, .. } => (pages, runs),
                _ => (8, false),
            },
            waits: vec![0; 256],
            window: [0; 3],
            caches: (1..c.shape().1)
                .map(|l| Slots::new(c.pwc[l - 1], 0, c.replacement, c.seed + 32 + l as u64))
                .collect(),
            counts: TlbCounts::default(),
            now: 0,
            pc: 0,
            config,
        }
    }

    pub fn lookup(&mut self, at: Lookup, pte: Pte, table: &dyn PageTableView) -> Outcome {
        if let SegmentMode::Several(k) = self.config.segment {
            return self.several(at, pte, table, k);
        }
        let in_segment = at.kind != Kind::Fetch
            && self.config.segment != SegmentMode::None
            && table.segments().segment(at.asid).is_some_and(|s| s.base <= at.vpn && at.vpn < s.limit);
        if in_segment && self.config.segment == SegmentMode::Registers {
            return Outcome::Hit;
        }
        let outcome = self.paged(at, pte, table);
        self.counts.segment.misses_inside += u64::from(in_segment && outcome != Outcome::Hit);
        outcome
    }

    fn several(&mut self, at: Lookup, pte: Pte, table: &dyn PageTableView, k: usize) -> Outcome {
        if self.registers.as_ref().is_none_or(|r| r.0 != at.asid) {
            self.registers = Some((at.asid, table.ranges().version(at.asid), table.ranges().largest(at.asid, k)));
        }
        let (_, version, ranges) = self.registers.as_ref().unwrap();
        let inside = |r: &Range| r.first <= at.vpn && at.vpn.0 < r.first.0 + r.pages;
        if at.kind != Kind::Fetch && ranges.iter().any(inside) {
            return Outcome::Hit;
        }
        let stale = *version != table.ranges().version(at.asid) && table.ranges().range(at.asid, at.vpn).is_some();
        let outcome = self.paged(at, pte, table);
        if stale && outcome != Outcome::Hit {
            self.registers = None;
        }
        outcome
    }

    fn paged(&mut self, at: Lookup, pte: Pte, table: &dyn PageTableView) -> Outcome {
        self.now += 1;
        let page = Translation { pfn: pte.pfn, attr: pte.attr };
        if let Behind::Ranges { order: RangeOrder::First, on: true, mru, .. } = self.config.behind
            && let Some(found) = self.search_ranges(at, mru)
        {
            assert_eq!(found, page);
            return Outcome::Hit;
        }
        if let Behind::Runs { first: true, .. } = self.config.behind
            && let Some((found, _)) = self.search_rows(at)
        {
            assert_eq!(found, page);
            return Outcome::Hit;
        }
        self.now += 1;
        let (side, now) = (usize::from(at.kind == Kind::Fetch), self.now);
        if let Some(e) = self.l1[side].entry(at.asid, at.vpn) {
            e.last = now;
            assert_eq!(e.says(at.vpn), page);
            return Outcome::Hit;
        }
        let (outcome, order) = match self.behind(at, pte) {
            Some((found, order)) => {
                assert_eq!(found, page);
                (Outcome::Hit, order)
            }
            None => {
                let c = &mut self.counts;
                c.misses += 1;
                c.tag_misses += 1;
                c.fills += 1;
                c.superpage_misses += u64::from(pte.order > 0);
                *(match at.kind {
                    Kind::Fetch => &mut c.fetch_misses,
                    Kind::Load => &mut c.load_misses,
                    Kind::Store => &mut c.store_misses,
                }) += 1;
                c.data_misses = c.load_misses + c.store_misses;
                self.walk(at, self.config.leaf(pte.order));
                let order = self.coalesced(at, pte, table);
                self.counts.preloaded += (1 << order) - (1 << pte.order);
                self.fill_behind(at, page, order, table);
                (Outcome::TagMiss, order)
            }
        };
        if let Some(Policy::Chirp { .. }) = self.config.l2_replacement {
            let [dead, unused] = self.l2.iter().chain(&self.l2i).fold([0; 2], |[a, b], level| {
                let [dead, unused] = level.counted();
                [a + dead, b + unused]
            });
            let own = &mut self.counts.replacement;
            own.reset(&["dead_victims", "unused_victims"]);
            own.add(0, dead);
            own.add(1, unused);
        }
        self.now += 1;
        let fit = self.l1[side].sizes().into_iter().filter(|&o| o <= order).max().unwrap();
        let (covered, evicted) = self.l1[side].fill(at, page, fit, self.now);
        self.counts.covered_drops += covered;
        if self.clusters.is_none() && self.rows.is_empty() && self.second(at.kind).is_none() {
            self.counts.evictions += evicted;
        }
        outcome
    }

    pub fn counts(&self) -> &TlbCounts {
        &self.counts
    }

    /// The translation that the entries of this kind give, without the segment.
    pub fn says(&self, asid: Asid, vpn: Vpn, kind: Kind) -> Option<Translation> {
        let side = usize::from(kind == Kind::Fetch);
        let second = if side == 1 && self.config.l2i.is_some() { &self.l2i } else { &self.l2 };
        let cluster = || {
            let all = self.clusters.as_ref()?.slots.iter().flatten();
            { all }.filter(|c| c.asid == asid && c.number == vpn.0 / self.cluster.0).find_map(|c| {
                c.pages[(vpn.0 % self.cluster.0) as usize].map(|pfn| Translation { pfn: Pfn(pfn), attr: c.attr })
            })
        };
        let range = || self.ranges.as_ref()?.slots.iter().flatten().find(|h| h.has(asid, vpn)).map(|h| h.says(vpn));
        let paged = || second.as_ref().and_then(|level| level.says(asid, vpn));
        let row =
            || self.rows.iter().flatten().filter(|r| r.asid == asid).find_map(|r| r.says(vpn)).map(|(page, _)| page);
        self.l1[side].says(asid, vpn).or_else(paged).or_else(cluster).or_else(range).or_else(row)
    }

    pub fn views(&self) -> Vec<EntryView> {
        let (mut out, mut before) = (Vec::new(), 0);
        for level in self.l1.iter().chain(&self.l2).chain(&self.l2i) {
            level.views(before, &mut out);
            before += level.len();
        }
        if let Some(clusters) = &self.clusters {
            out.extend(clusters.slots.iter().enumerate().filter_map(|(i, c)| {
                let c = c.as_ref()?;
                let page =
                    |i: usize| c.pages[i].map(|pfn| (i as u64, Translation { pfn: Pfn(pfn), attr: c.attr }, false));
                let (base, pages) = (Vpn(c.number * self.cluster.0), (0..8).filter_map(page).collect());
                let order = self.cluster.0.trailing_zeros() as u8;
                Some(EntryView { slot: before + i, asid: c.asid, base, order, pages, sb_enabled: None, used: None })
            }));
        }
        out.extend(self.rows.iter().enumerate().filter_map(|(i, r)| {
            let r = r.as_ref()?;
            let (first, n) = match r.superpage {
                Some((first, _, order)) => (first, 1 << order),
                None => (*r.pages.first_key_value()?.0, r.pages.len() as u64),
            };
            let page = |i: u64| (i, r.says(Vpn(first + i)).unwrap().0, false);
            let pages = if r.superpage.is_some() { vec![page(0)] } else { vec![page(0), page(n - 1)] };
            let order = (0..).find(|&o| 1u64 << o >= n)?;
            Some(EntryView {
                slot: before + i,
                asid: r.asid,
                base: Vpn(first),
                order,
                pages,
                sb_enabled: None,
                used: None,
            })
        }));
        if let Some(ranges) = &self.ranges {
            out.extend(ranges.slots.iter().enumerate().filter_map(|(i, h)| {
                let h = h.as_ref()?;
                let Range { first, pages, .. } = h.range;
                let page = |i: u64| (i, h.says(Vpn(first.0 + i)), false);
                let ends = if pages == 1 { vec![page(0)] } else { vec![page(0), page(pages - 1)] };
                let order = (0..).find(|&o| 1u64 << o >= pages)?;
                Some(EntryView {
                    slot: before + i,
                    asid: h.asid,
                    base: first,
                    order,
                    pages: ends,
                    sb_enabled: None,
                    used: None,
                })
            }));
        }
        out
    }
}
