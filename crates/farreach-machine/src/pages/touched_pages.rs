//! The pages that a run touches, of every size: the kinds of access to them, and their allocation and release.
//!
//! A page of any size is *allocated* from its first touch (PS-5) until an event releases all 4 KB parts of it that are
//! mapped: an unmapping, a new mapping, a move, advice that drops memory, the end of the address space. As long as
//! another part is mapped, the page stays. A page without a mapped part is released with any of its parts. A page that
//! is touched after its release is allocated again (AMB-30).

use super::MAX_SIZES;
use super::ranges::Ranges;
use farreach_types::addr::{Asid, Vpn, VpnRange};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// It was fetched from.
pub(super) const FETCHED: u8 = 1;
/// It was loaded from or stored to.
pub(super) const DATA: u8 = 2;
/// It was stored to.
pub(super) const STORED: u8 = 4;
/// Its pages of all sizes are allocated.
const LIVE: u8 = 8;
/// It was fetched from, or loaded from or stored to, in the part of the run that is under way.
pub(super) const FETCHED_NOW: u8 = FETCHED << NOW;
pub(super) const DATA_NOW: u8 = DATA << NOW;
const NOW: u32 = 4;

/// Bits of a virtual page number.
const PREFIXES: usize = 52;
/// Entries of a page table node, as a power of two: 512 of 8 bytes fill 4 KB (PS-13).
const FANOUT: usize = 9;
/// Bits of a virtual page number that a page table translates: 48 of an address.
const TRANSLATED: usize = 36;

/// Distinct pages by size: index 0 counts 4 KB pages, index 4 pages of 64 KB.
type ByShift = [u64; PREFIXES];

/// One 4 KB page that was touched.
#[derive(Clone)]
struct Row {
    /// The page of each size that it lies in.
    ids: [u32; MAX_SIZES],
    flags: u8,
}

/// A slot of the direct-mapped table before the maps.
#[derive(Clone, Copy)]
struct Near {
    vpn: u64,
    asid: Asid,
    row: u32,
}

const NEAR_BITS: u32 = 12;

/// The pages of one size.
#[derive(Default)]
struct Level {
    /// Over 4 KB, as a power of two.
    order: u32,
    ids: HashMap<(Asid, u64), u32, FixedState>,
    /// By id: whether it is allocated.
    is_live: Vec<bool>,
    /// Ids that are free.
    spare: Vec<u32>,
    live: u64,
    peak: u64,
    allocations: u64,
}

/// The pages that a run touched, by page size as in [`ByShift`]. Sums over all address spaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Distinct {
    fetched: ByShift,
    data: ByShift,
    stored: ByShift,
    all: ByShift,
    spaces: u64,
}

/// Distinct pages of one size that were touched in a part of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WorkingSet {
    pub fetched: u64,
    pub data: u64,
    pub all: u64,
}

/// Pages of one size over the whole run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pages {
    pub fetched: u64,
    pub data: u64,
    pub stored: u64,
    pub all: u64,
    /// Page table nodes of 4 KB.
    pub table_nodes: u64,
    pub allocations: u64,
    pub peak: u64,
}

/// See the module.
pub(super) struct TouchedPages {
    near: Box<[Near]>,
    rows: Vec<Row>,
    spare_rows: Vec<u32>,
    /// By address space: its 4 KB pages that were touched.
    spaces: HashMap<Asid, HashMap<u64, u32, FixedState>, FixedState>,
    /// By address space: what is mapped in it, in 4 KB pages.
    mapped: HashMap<Asid, Ranges, FixedState>,
    levels: Vec<Level>,
    /// Of address spaces that ended.
    past: Distinct,
    /// Of those that ended in the part of the run that is under way: what was touched in that part.
    past_now: Distinct,
}

impl TouchedPages {
    /// `orders`: the page sizes over 4 KB, as powers of two, ascending.
    pub fn new(orders: &[u32]) -> TouchedPages {
        assert!(orders.len() <= MAX_SIZES);
        let nothing = Near { vpn: u64::MAX, asid: Asid(0), row: 0 };
        TouchedPages {
            near: vec![nothing; 1 << NEAR_BITS].into(),
            rows: Vec::new(),
            spare_rows: Vec::new(),
            spaces: HashMap::default(),
            mapped: HashMap::default(),
            levels: orders.iter().map(|&order| Level { order, ..Level::default() }).collect(),
            past: Distinct::new(),
            past_now: Distinct::new(),
        }
    }

    /// A 4 KB page is touched. Returns its index.
    #[inline]
    pub fn touch(&mut self, asid: Asid, vpn: u64, flags: u8) -> u32 {
        let place = (vpn.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - NEAR_BITS)) as usize;
        let near = &self.near[place];
        let row = if near.vpn == vpn && near.asid == asid { near.row } else { self.find(asid, vpn, place) };
        let known = self.rows[row as usize].flags;
        if known & (flags | LIVE) != flags | LIVE {
            self.mark(row, flags);
        }
        row
    }

    /// Ids of the pages of each size that it lies in.
    #[inline]
    pub fn ids(&self, row: u32) -> &[u32; MAX_SIZES] {
        &self.rows[row as usize].ids
    }

    /// Whether the page was stored to.
    #[inline]
    pub fn is_stored(&self, row: u32) -> bool {
        self.rows[row as usize].flags & STORED != 0
    }

    #[cold]
    fn find(&mut self, asid: Asid, vpn: u64, place: usize) -> u32 {
        let row = match self.spaces.get(&asid).and_then(|pages| pages.get(&vpn)) {
            Some(&row) => row,
            None => self.begin(asid, vpn),
        };
        self.near[place] = Near { vpn, asid, row };
        row
    }

    /// A 4 KB page that was never touched before.
    fn begin(&mut self, asid: Asid, vpn: u64) -> u32 {
        let mut ids = [0; MAX_SIZES];
        for (id, level) in ids.iter_mut().zip(&mut self.levels) {
            *id = level.id(asid, vpn >> level.order);
        }
        let new = Row { ids, flags: 0 };
        let row = match self.spare_rows.pop() {
            Some(row) => {
                self.rows[row as usize] = new;
                row
            }
            None => {
                self.rows.push(new);
                u32::try_from(self.rows.len() - 1).expect("fewer than 2^32 pages fit in memory")
            }
        };
        self.spaces.entry(asid).or_default().insert(vpn, row);
        row
    }

    #[cold]
    fn mark(&mut self, row: u32, flags: u8) {
        let row = &mut self.rows[row as usize];
        if row.flags & LIVE == 0 {
            for (level, id) in self.levels.iter_mut().zip(row.ids) {
                level.begin(id);
            }
        }
        row.flags |= flags | LIVE;
    }

    /// A range is mapped.
    pub fn map(&mut self, asid: Asid, range: VpnRange) {
        self.mapped.entry(asid).or_default().insert(range);
    }

    /// A range is unmapped. It must have been released.
    pub fn unmap(&mut self, asid: Asid, range: VpnRange) {
        if let Some(mapped) = self.mapped.get_mut(&asid) {
            mapped.remove(range);
        }
    }

    /// Gives a child the mappings of its parent.
    pub fn fork(&mut self, asid: Asid, child: Asid) {
        if let Some(mapped) = self.mapped.get(&asid) {
            self.mapped.insert(child, mapped.clone());
        }
    }

    /// Releases the pages of every size whose mapped parts all lie in a range. Calls `gone` for each with the index of
    /// its size and its id.
    pub fn release(&mut self, asid: Asid, range: VpnRange, mut gone: impl FnMut(usize, u32)) {
        let TouchedPages { spaces, mapped, rows, levels, .. } = self;
        let Some(pages) = spaces.get(&asid) else { return };
        if range.pages == 0 {
            return;
        }
        let nothing = Ranges::default();
        let mapped = mapped.get(&asid).unwrap_or(&nothing);
        // For each size, the released range in 4 KB pages.
        let reached: Vec<VpnRange> = levels.iter().map(|level| reached(range, level.order, mapped)).collect();
        let mut take = |vpn: u64, row: u32| {
            let row = &mut rows[row as usize];
            for (i, (level, id)) in levels.iter_mut().zip(row.ids).enumerate() {
                if reached[i].contains(Vpn(vpn)) && std::mem::take(&mut level.is_live[id as usize]) {
                    level.live -= 1;
                    gone(i, id);
                }
            }
            row.flags &= !LIVE;
        };
        let start = reached.iter().map(|r| r.start.0).min().unwrap_or(0).min(range.start.0);
        let end = reached.iter().map(|r| r.end().0).max().unwrap_or(0).max(range.end().0);
        if end - start < pages.len() as u64 {
            (start..end).filter_map(|vpn| Some((vpn, *pages.get(&vpn)?))).for_each(|(vpn, row)| take(vpn, row));
        } else {
            pages.iter().filter(|(vpn, _)| (start..end).contains(*vpn)).for_each(|(&vpn, &row)| take(vpn, row));
        }
    }

    /// An address space has ended, after its release: counts its pages and drops them.
    pub fn forget(&mut self, asid: Asid) {
        self.mapped.remove(&asid);
        let Some(pages) = self.spaces.remove(&asid) else { return };
        self.past.add(pages.iter().map(|(&vpn, &row)| (vpn, self.rows[row as usize].flags)));
        self.past_now.add(pages.iter().map(|(&vpn, &row)| (vpn, self.rows[row as usize].flags >> NOW)));
        for (&vpn, &row) in &pages {
            for level in &mut self.levels {
                if let Some(id) = level.ids.remove(&(asid, vpn >> level.order)) {
                    level.spare.push(id);
                }
            }
            self.spare_rows.push(row);
        }
        self.near.iter_mut().filter(|near| near.asid == asid).for_each(|near| near.vpn = u64::MAX);
    }

    /// The pages of each size so far, in the order of the sizes.
    pub fn pages(&self) -> Vec<Pages> {
        let mut distinct = self.past.clone();
        for pages in self.spaces.values() {
            distinct.add(pages.iter().map(|(&vpn, &row)| (vpn, self.rows[row as usize].flags)));
        }
        self.levels.iter().map(|level| level.pages(&distinct)).collect()
    }

    /// The pages of each size that were touched in the part of the run that is under way, in the order of the sizes.
    pub fn working_sets(&self) -> Vec<WorkingSet> {
        let mut distinct = self.past_now.clone();
        for pages in self.spaces.values() {
            distinct.add(pages.iter().map(|(&vpn, &row)| (vpn, self.rows[row as usize].flags >> NOW)));
        }
        let of = |order: usize| WorkingSet {
            fetched: distinct.fetched[order],
            data: distinct.data[order],
            all: distinct.all[order],
        };
        self.levels.iter().map(|level| of(level.order as usize)).collect()
    }

    /// Another part of the run begins.
    pub fn begin_part(&mut self) {
        self.past_now = Distinct::new();
        self.rows.iter_mut().for_each(|row| row.flags &= !(FETCHED_NOW | DATA_NOW));
    }

    /// 4 KB pages touched.
    pub fn touched(&self) -> u64 {
        self.past.all[0] + self.spaces.values().map(|pages| pages.len() as u64).sum::<u64>()
    }
}

impl Level {
    fn id(&mut self, asid: Asid, page: u64) -> u32 {
        let Level { ids, is_live, spare, .. } = self;
        *ids.entry((asid, page)).or_insert_with(|| {
            spare.pop().unwrap_or_else(|| {
                is_live.push(false);
                u32::try_from(is_live.len() - 1).expect("fewer than 2^32 pages fit in memory")
            })
        })
    }

    fn begin(&mut self, id: u32) {
        if !std::mem::replace(&mut self.is_live[id as usize], true) {
            self.allocations += 1;
            self.live += 1;
            self.peak = self.peak.max(self.live);
        }
    }

    fn pages(&self, distinct: &Distinct) -> Pages {
        let order = self.order as usize;
        // Nodes of all levels below the root, which every address space has.
        let nodes = (order + FANOUT..TRANSLATED).step_by(FANOUT).map(|shift| distinct.all[shift]);
        Pages {
            fetched: distinct.fetched[order],
            data: distinct.data[order],
            stored: distinct.stored[order],
            all: distinct.all[order],
            table_nodes: nodes.sum::<u64>() + distinct.spaces,
            allocations: self.allocations,
            peak: self.peak,
        }
    }
}

/// The pages of `2^order` 4 KB pages whose mapped parts all lie in a range, as 4 KB pages. Only the first and the last
/// can have other parts.
fn reached(range: VpnRange, order: u32, mapped: &Ranges) -> VpnRange {
    let page = 1 << order;
    let (start, end) = (range.start.align_down(order), Vpn(range.end().0.next_multiple_of(page)));
    let start = if mapped.any(VpnRange::between(start, range.start)) { Vpn(start.0 + page) } else { start };
    let end = if mapped.any(VpnRange::between(range.end(), end)) { Vpn(end.0 - page) } else { end };
    // One page that sticks out at both ends is tried at both.
    VpnRange::between(start, end)
}

impl Distinct {
    fn new() -> Distinct {
        let none = [0; PREFIXES];
        Distinct { fetched: none, data: none, stored: none, all: none, spaces: 0 }
    }

    /// Adds an address space by its 4 KB pages and the accesses to them.
    fn add(&mut self, pages: impl Iterator<Item = (u64, u8)>) {
        let mut pages: Vec<(u64, u8)> = pages.collect();
        pages.sort_unstable_by_key(|page| page.0);
        self.spaces += u64::from(!pages.is_empty());
        let of = |flag: u8| pages.iter().filter(move |page| page.1 & flag != 0).map(|page| page.0);
        count_distinct(&mut self.fetched, of(FETCHED));
        count_distinct(&mut self.data, of(DATA));
        count_distinct(&mut self.stored, of(STORED));
        count_distinct(&mut self.all, of(FETCHED | DATA));
    }
}

/// Adds the numbers of distinct prefixes of ascending, distinct page numbers. Two neighbours have different prefixes as
/// long as the highest bit in which they differ is among them.
fn count_distinct(into: &mut ByShift, pages: impl Iterator<Item = u64>) {
    let mut before = None;
    for page in pages {
        let differing = before.map_or(PREFIXES, |before: u64| 64 - (before ^ page).leading_zeros() as usize);
        into[..differing].iter_mut().for_each(|n| *n += 1);
        before = Some(page);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_ended_address_space_had_is_kept_and_its_room_used_again() {
        let mut touched_pages = TouchedPages::new(&[0, 4]);
        for asid in (0..100).map(Asid) {
            for vpn in [5, 6, 40] {
                touched_pages.touch(asid, vpn, DATA);
            }
            let mut dead = Vec::new();
            touched_pages.release(asid, VpnRange { start: Vpn(0), pages: 1 << 52 }, |i, id| dead.push((i, id)));
            assert_eq!((dead.iter().filter(|d| d.0 == 0).count(), dead.len()), (3, 5));
            touched_pages.forget(asid);
        }
        assert_eq!(
            (touched_pages.rows.len(), touched_pages.levels[1].is_live.len(), touched_pages.touched()),
            (3, 2, 300)
        );
        let pages = touched_pages.pages();
        assert_eq!(
            pages.iter().map(|p| (p.all, p.allocations, p.peak)).collect::<Vec<_>>(),
            [(300, 300, 3), (200, 200, 2)]
        );
        // Three levels below the root, one node each.
        assert_eq!((pages[0].table_nodes, pages[0].fetched, pages[0].data), (400, 0, 300));
    }

    #[test]
    fn a_working_set_is_what_a_part_of_the_run_touches() {
        let mut touched_pages = TouchedPages::new(&[0, 4]);
        let sets = |pages: &TouchedPages| pages.working_sets().iter().map(|s| [s.fetched, s.data, s.all]).collect();
        touched_pages.touch(Asid(0), 5, DATA | DATA_NOW);
        touched_pages.touch(Asid(0), 6, FETCHED | FETCHED_NOW);
        touched_pages.touch(Asid(1), 5, DATA | DATA_NOW);
        let all: Vec<[u64; 3]> = sets(&touched_pages);
        assert_eq!(all, [[1, 2, 3], [1, 2, 2]]);
        touched_pages.begin_part();
        assert_eq!(sets(&touched_pages), [[0; 3]; 2]);
        touched_pages.touch(Asid(1), 5, FETCHED | FETCHED_NOW);
        touched_pages.touch(Asid(1), 40, DATA | DATA_NOW);
        // What an address space touched stays, though it has ended.
        touched_pages.forget(Asid(1));
        touched_pages.touch(Asid(0), 6, FETCHED | FETCHED_NOW);
        assert_eq!(sets(&touched_pages), [[2, 1, 3], [2, 1, 3]]);
        assert_eq!(touched_pages.pages()[0].all, 4);
    }

    #[test]
    fn neighbours_differ_up_to_their_highest_differing_bit() {
        let mut counts = [0; PREFIXES];
        count_distinct(&mut counts, [0, 1, 3, 8, 1 << 40].into_iter());
        assert_eq!((counts[..5].to_vec(), counts[40], counts[41]), (vec![5, 4, 3, 3, 2], 2, 1));
    }
}
