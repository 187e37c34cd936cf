//! Random loads and stores through mappings of files against a plain model of PGC-1 to PGC-6 and CPT-1, in a memory
//! without limit: which pages are mapped and how, what is in memory, windows, folios and faults.

use super::*;
use std::collections::BTreeMap;

/// 64 KB windows, folios up to 128 KB, superpages of 64 KB, contiguous bits of 16 KB, faults around of 32 KB.
const KEYS: &str = "readahead=64K,file_folios=128K,thp_size=64K,contpte=16K,fault_around=32K,exec_folio=16K";
const WINDOW: u64 = 16;
const LARGEST: u32 = 5;
const LEAF: u32 = 4;
const BIT: u32 = 2;
const AROUND: u32 = 3;
const TEXT: u32 = 2;

/// A mapping: its first page, pages, the page of the file at its start, and what it is.
struct Area(u64, u64, u64, What);

#[derive(Clone, Copy, PartialEq)]
enum What {
    Private,
    Shared,
    Text,
    Advised,
}

/// All of one file of 700 pages. The last one lies otherwise in memory than in the file.
const AREAS: [Area; 5] = [
    Area(4096, 700, 0, What::Private),
    Area(8192, 400, 64, What::Shared),
    Area(12288, 130, 32, What::Text),
    Area(16384, 512, 128, What::Advised),
    Area(20480, 300, 77, What::Private),
];
const END: u64 = 700;

#[derive(Default)]
struct Plain {
    ahead: bool,
    /// First page, log2 of the pages, marker.
    folios: Vec<(u64, u32, bool)>,
    /// Start, size, pages read ahead, order.
    state: (u64, u64, u64, u32),
    last: Option<u64>,
    /// By page of memory, log2 of the pages of its entry.
    mapped: BTreeMap<u64, u32>,
    windows: u64,
    faults: u64,
}

impl Plain {
    fn folio(&self, page: u64) -> Option<usize> {
        self.folios.iter().position(|&(first, order, _)| (first..first + (1 << order)).contains(&page))
    }

    /// PGC-4.
    fn read(&mut self) {
        self.windows += 1;
        let (start, size, ahead, wanted) = self.state;
        let order = (0..=wanted.min(LARGEST)).rev().find(|order| 1 << order <= size).unwrap();
        self.state.3 = order;
        let (end, mut at, mut large) = ((start + size).min(END), start, order > 0);
        while at < end {
            let fits = |order: &u32| at.is_multiple_of(1 << order) && at + (1 << order) <= end;
            let order = if large { (0..=order).rev().find(fits).unwrap() } else { 0 };
            let pages = at..at + (1 << order);
            if pages.clone().any(|page| self.folio(page).is_some()) {
                // A window of folios goes on by single pages.
                large = false;
                at += u64::from(order == 0);
                continue;
            }
            let marker = ahead > 0 && pages.contains(&(start + size - ahead));
            self.folios.push((at, order, marker));
            at = pages.end;
        }
    }

    /// PGC-2, PGC-5.
    fn miss(&mut self, page: u64, area: &Area) {
        let Area(_, pages, first, what) = area;
        self.state = match what {
            What::Advised => (page - page % 16, 32, 16, LEAF),
            _ if self.ahead => {
                let near = page == 0 || self.last.is_some_and(|last| page == last || page == last + 1);
                if !near {
                    let kept = std::mem::replace(&mut self.state, (page, 1, 0, 0));
                    self.read();
                    self.state = kept;
                    return;
                }
                // One of sixteen pages is no 32nd, but a quarter at most.
                (page, 2, 1, 0)
            }
            What::Text => {
                let start = (page - page % 4).max(*first);
                let end = (start + WINDOW).div_ceil(4) * 4;
                (start, end.min(first + pages) - start, 0, TEXT)
            }
            _ => (page.saturating_sub(WINDOW / 2), WINDOW, WINDOW / 4, 0),
        };
        self.read();
    }

    /// PGC-3.
    fn meets_marker(&mut self, at: usize) {
        self.folios[at].2 = false;
        let ((first, order, _), (start, size, ahead, old)) = (self.folios[at], self.state);
        if ahead == 0 || !(first..first + (1 << order)).contains(&(start + size - ahead)) {
            return;
        }
        let next = if size <= WINDOW / 2 { 2 * size } else { WINDOW.max(size) };
        let (start, align) = (start + size, WINDOW.min(1 << (old + 2)));
        let cut = (start + next) % align;
        let size = if cut < next { next - cut } else { next };
        self.state = (start, size, size, old + 2);
        self.read();
    }

    fn touch(&mut self, area: &Area, vpn: u64, store: bool) {
        let &Area(base, pages, first, what) = area;
        if self.mapped.contains_key(&vpn) {
            return;
        }
        let page = first + vpn - base;
        self.faults += 1;
        if self.folio(page).is_none() {
            self.miss(page, area);
        }
        let at = self.folio(page).unwrap();
        if self.folios[at].2 {
            self.meets_marker(at);
        }
        self.last = Some(page);
        let order = self.folios[at].1;
        if store && what == What::Private {
            self.mapped.insert(vpn, 0);
            return;
        }
        let group = vpn - vpn % 16;
        let alike = (first + group).wrapping_sub(base).is_multiple_of(16);
        if order >= LEAF && alike && group >= base && group + 16 <= base + pages {
            let free = self.mapped.range(group..group + 16).next().is_none();
            if free {
                self.mapped.extend((group..group + 16).map(|vpn| (vpn, LEAF)));
                return;
            }
        }
        if store {
            self.mapped.insert(vpn, 0);
            return;
        }
        let window =
            (vpn - vpn % (1 << AROUND)).max(base)..(vpn - vpn % (1 << AROUND) + (1 << AROUND)).min(base + pages);
        let new: Vec<u64> = window
            .filter(|vpn| !self.mapped.contains_key(vpn))
            .filter(|vpn| self.folio(first + vpn - base).is_some_and(|at| !self.folios[at].2))
            .collect();
        for &vpn in &new {
            let block = vpn - vpn % 4;
            let folios: Vec<_> = (block..block + 4).map(|vpn| self.folio((first + vpn).wrapping_sub(base))).collect();
            let whole = (block..block + 4).all(|vpn| new.contains(&vpn)) && folios.iter().all(|at| *at == folios[0]);
            // Folios lie in blocks of frames, so that frames are aligned as pages of the file are.
            let aligned = (first + block).wrapping_sub(base).is_multiple_of(4);
            self.mapped.insert(vpn, if whole && aligned { BIT } else { 0 });
        }
    }
}

fn compare(os: &Os, plain: &Plain) {
    let of_model: Vec<(u64, u32)> = plain.mapped.iter().map(|(vpn, order)| (*vpn, *order)).collect();
    let all = AREAS.iter().flat_map(|Area(base, pages, ..)| *base..base + pages);
    let own = all.filter_map(|vpn| Some((vpn, u32::from(os.pte(Asid(0), Vpn(vpn))?.order)))).collect::<Vec<_>>();
    assert_eq!(own, of_model);
    let pages: u64 = plain.folios.iter().map(|(_, order, _)| 1 << order).sum();
    assert_eq!(os.counts().io_bytes, pages << 12);
    let mut by_order = [0; 6];
    plain.folios.iter().for_each(|(_, order, _)| by_order[*order as usize] += 1);
    assert_eq!((folios(os), counts(os, ["readahead_windows"])), (by_order, [plain.windows]));
    assert_eq!(os.counts().page_faults, plain.faults);
}

fn follows(ahead: bool, seed: u64) {
    let keys = format!("{KEYS},file_miss={}", if ahead { "ahead" } else { "around" });
    let mut os = os("linux", &format!("ticks_per_ms=1,address_ordered=true,pages_to_scan=0,{keys}"));
    for &Area(base, pages, first, what) in &AREAS {
        let (start, len, backing) = (base << 12, pages << 12, file("/data", first));
        let (write, exec, shared) = (what != What::Text, what == What::Text, what == What::Shared);
        let prot = Prot { read: true, write, exec };
        os.apply(Asid(0), &Op::Map(Mapping { start, len, prot, shared, backing }));
    }
    advise(&mut os, 16384, 512, Advice::HugePage);
    let (mut plain, mut x) = (Plain { ahead, ..Plain::default() }, seed);
    let mut below = |n: u64| {
        x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (x >> 33) % n
    };
    let mut at = AREAS.map(|Area(base, ..)| base);
    for _ in 0..1500 {
        let number = below(5) as usize;
        let area = &AREAS[number];
        let &Area(base, pages, _, what) = area;
        if below(40) == 0 {
            // Whole superpages.
            let first = base + below(pages / 16) * 16;
            advise(&mut os, first, 64, Advice::DontNeed);
            plain.mapped.retain(|vpn, _| !(first..first + 64).contains(vpn));
        }
        // Mostly the next page.
        at[number] = if below(12) > 0 { at[number] + 1 } else { base + below(pages) };
        at[number] = if at[number] < base + pages { at[number] } else { base };
        let vpn = at[number];
        // A store to what a load mapped in a private mapping makes a copy, which is of no interest here.
        let free = what == What::Private && !plain.mapped.contains_key(&vpn) || what == What::Shared;
        let store = free && below(4) == 0;
        os.touch(Asid(0), Vpn(vpn), if store { Kind::Store } else { Kind::Load }).unwrap();
        plain.touch(area, vpn, store);
        compare(&os, &plain);
    }
    os.check();
    let orders = plain.folios.iter().map(|(_, order, _)| *order).collect::<std::collections::BTreeSet<_>>();
    assert!(orders.len() >= 4 && [BIT, LEAF].iter().all(|order| plain.mapped.values().any(|of| of == order)));
}

/// PGC-1 to PGC-6, CPT-1.
#[test]
fn pgc_1_pgc_6_random_accesses_follow_the_plain_model() {
    for seed in 0..6 {
        follows(false, seed);
        follows(true, seed);
    }
}
