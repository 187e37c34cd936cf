//! The example PGC-A and the edges of PGC-1 to PGC-5, by hand.

use super::*;
use std::collections::BTreeMap;

const LIMITS: Limits = Limits { pages: 32, max_order: 9, huge_order: 9, exec_order: 4 };

/// A file that is read a page at a time, with memory for all folios.
struct File {
    limits: Limits,
    end: u64,
    readahead: Readahead,
    /// By first page: log2 of the pages.
    folios: BTreeMap<u64, u32>,
    marked: Vec<u64>,
    /// First pages of marked folios that were accessed and made the system read.
    fired: Vec<u64>,
}

impl File {
    fn new(limits: Limits, end: u64) -> File {
        let readahead = Readahead::default();
        File { limits, end, readahead, folios: BTreeMap::new(), marked: Vec::new(), fired: Vec::new() }
    }

    fn folio(&self, page: u64) -> Option<Range<u64>> {
        let (&first, order) = self.folios.range(..=page).next_back()?;
        Some(first..first + (1 << order)).filter(|folio| folio.contains(&page))
    }

    fn add(&mut self, window: Window) {
        for (first, order) in window.folios(self.end) {
            let folio = first..first + (1 << order);
            self.marked.extend(window.marker.filter(|marker| folio.contains(marker)).map(|_| first));
            self.folios.insert(first, order);
        }
    }

    fn read(&mut self, page: u64, asked: u64) {
        match self.folio(page) {
            None => {
                let window = self.readahead.miss(&self.limits, page, asked);
                self.add(window);
            }
            Some(folio) if self.marked.contains(&folio.start) => {
                self.marked.retain(|first| *first != folio.start);
                if let Some(window) = self.readahead.marked(&self.limits, folio.clone()) {
                    self.fired.push(folio.start);
                    self.add(window);
                }
            }
            Some(_) => {}
        }
        self.readahead.accessed(page + asked - 1);
    }
}

#[test]
fn pgc_a_folios_of_a_file_that_is_read_page_by_page() {
    let mut file = File::new(LIMITS, 1 << 20);
    (0..128).for_each(|page| file.read(page, 1));
    let of = |order: u32, firsts: &[u64]| firsts.iter().map(|first| (*first, order)).collect::<Vec<_>>();
    let mut expected = of(0, &[0, 1, 2, 3]);
    expected.extend(of(2, &[4, 8, 12]));
    expected.extend(of(3, &[16, 24]));
    expected.extend(of(4, &[32, 48]));
    expected.extend(of(5, &[64, 96, 128]));
    assert_eq!(file.folios.into_iter().collect::<Vec<_>>(), expected);
    assert_eq!(file.fired, [1, 4, 12, 16, 24, 32, 48, 64, 96]);
}

#[test]
fn pgc_1_without_large_folios_windows_grow_and_folios_do_not() {
    let mut file = File::new(Limits { max_order: 0, ..LIMITS }, 1 << 20);
    (0..200).for_each(|page| file.read(page, 1));
    assert!(file.folios.values().all(|order| *order == 0));
    // The remembered order is 0 each time, so that ends are aligned to four pages.
    assert_eq!(file.fired, [1, 4, 12, 28, 60, 92, 124, 156, 188]);
}

#[test]
fn pgc_2_the_first_window_grows_with_what_is_asked_for() {
    let window = |asked: u64| {
        let window = Readahead::default().miss(&LIMITS, 0, asked);
        (window.pages, window.marker)
    };
    assert_eq!([1, 2, 3, 8].map(window), [(4, Some(1)), (4, Some(2)), (8, Some(3)), (16, Some(8))]);
    assert_eq!([9, 31, 32, 40].map(window), [(32, Some(9)), (32, Some(31)), (32, Some(16)), (32, Some(16))]);
    // In small windows no request is a 32nd.
    let small = Limits { pages: 8, ..LIMITS };
    assert_eq!(Readahead::default().miss(&small, 0, 1).pages, 2);
    assert_eq!(Readahead::default().miss(&Limits { pages: 1, ..LIMITS }, 0, 1).pages, 1);
}

#[test]
fn pgc_2_random_small_reads_are_just_these_pages_and_leave_the_state() {
    let mut file = File::new(LIMITS, 1 << 20);
    (0..5).for_each(|page| file.read(page, 1));
    let window = file.readahead.miss(&LIMITS, 1000, 3);
    assert_eq!(window, Window { start: 1000, pages: 3, order: 0, marker: None });
    file.readahead.accessed(1002);
    assert_eq!(file.readahead.miss(&LIMITS, 500, 1).pages, 1, "backwards, too");
    // The stream goes on where it was: its marker is at page 12.
    file.readahead.accessed(500);
    (5..13).for_each(|page| file.read(page, 1));
    assert_eq!(file.fired, [1, 4, 12]);
    // The page behind the last one, and the same page, continue it.
    file.readahead.accessed(999);
    assert_eq!(file.readahead.miss(&LIMITS, 1000, 1).pages, 4);
    assert_eq!(file.readahead.miss(&LIMITS, 999, 1).pages, 4);
}

#[test]
fn pgc_3_a_marker_that_is_not_where_it_is_expected_reads_nothing() {
    let mut readahead = Readahead::default();
    assert_eq!(readahead.around(&LIMITS, 100).marker, Some(84 + 24));
    assert_eq!(readahead.around(&LIMITS, 1000).marker, Some(984 + 24));
    assert_eq!(readahead.marked(&LIMITS, 108..109), None);
    let next = readahead.marked(&LIMITS, 1008..1009).unwrap();
    // 1016 to 1047, cut to a multiple of 4.
    assert_eq!(next, Window { start: 1016, pages: 32, order: 2, marker: Some(1016) });
}

#[test]
fn pgc_3_the_end_of_a_window_is_aligned_unless_that_empties_it() {
    let state = |start, size, async_size, order| Readahead { start, size, async_size, order, previous: None };
    let ends = |mut state: Readahead| {
        let at = state.marker();
        let window = state.marked(&LIMITS, at..at + 1).unwrap();
        (window.start, window.pages, window.order)
    };
    // 12 to 27, a multiple of 16: 12 to 15, and folios of four pages.
    assert_eq!(ends(state(4, 8, 8, 2)), (12, 4, 2));
    // 16 to 23: a multiple of 16 would be none.
    assert_eq!(ends(state(12, 4, 4, 2)), (16, 8, 3));
    // An order above that of the largest window aligns to that window.
    assert_eq!(ends(state(40, 24, 24, 9)), (64, 32, 5));
}

#[test]
fn pgc_4_folios_end_inside_window_and_file_and_begin_at_multiples_of_their_size() {
    let window = Window { start: 6, pages: 26, order: 3, marker: None };
    let folios = |end: u64| window.folios(end).collect::<Vec<_>>();
    assert_eq!(folios(1000), [(6, 1), (8, 3), (16, 3), (24, 3)]);
    assert_eq!(folios(21), [(6, 1), (8, 3), (16, 2), (20, 0)]);
    assert_eq!((folios(7), folios(6)), (vec![(6, 0)], vec![]));
    let (around, from_0) = (Window { pages: 3, ..window }, Window { start: 0, ..window });
    assert_eq!(around.folios(u64::MAX).collect::<Vec<_>>(), [(6, 1), (8, 0)]);
    assert_eq!(from_0.folios(10).collect::<Vec<_>>(), [(0, 3), (8, 1)]);
}

#[test]
fn pgc_5_a_miss_of_a_mapping_reads_around_it() {
    let mut readahead = Readahead::default();
    let window = |start, marker| Window { start, pages: 32, order: 0, marker: Some(marker) };
    assert_eq!(readahead.around(&LIMITS, 100), window(84, 108));
    assert_eq!(readahead.around(&LIMITS, 15), window(0, 24), "the file begins at page 0");
}

#[test]
fn pgc_5_memory_with_advice_gets_folios_of_2_mb() {
    let mut readahead = Readahead::default();
    let window = readahead.huge(&LIMITS, 700);
    assert_eq!(window, Window { start: 512, pages: 1024, order: 9, marker: Some(1024) });
    assert_eq!(window.folios(1 << 20).collect::<Vec<_>>(), [(512, 9), (1024, 9)]);
    assert_eq!(window.folios(1030).collect::<Vec<_>>(), [(512, 9), (1024, 2), (1028, 1)]);
    let next = readahead.marked(&LIMITS, 1024..1536).unwrap();
    assert_eq!(next, Window { start: 1536, pages: 1024, order: 9, marker: Some(1536) }, "as large as before");
    assert_eq!(readahead.huge(&Limits { max_order: 4, ..LIMITS }, 700).order, 4);
}

#[test]
fn pgc_5_text_on_arm64_gets_folios_of_64_kb_cut_to_the_mapping() {
    let mut readahead = Readahead::default();
    let window = |start, pages, order| Window { start, pages, order, marker: None };
    assert_eq!(readahead.exec(&LIMITS, 100, 0..1000), window(96, 32, 4));
    assert_eq!(readahead.exec(&LIMITS, 100, 98..1000), window(98, 46, 4), "98 to 143");
    assert_eq!(readahead.exec(&LIMITS, 100, 0..110), window(96, 14, 3));
    assert_eq!(readahead.exec(&LIMITS, 100, 100..101), window(100, 1, 0));
    // A window smaller than a folio ends at a multiple of it, too.
    assert_eq!(readahead.exec(&Limits { pages: 4, ..LIMITS }, 100, 0..1000), window(96, 16, 4));
    assert_eq!(readahead.marked(&LIMITS, 112..113), None);
}

/// What holds of any windows, PGC-1 to PGC-5: they begin where the one before ends or at a miss, are no larger than
/// allowed, and fall into aligned folios that fill them up to the end of the file.
#[test]
fn pgc_3_pgc_4_laws_of_random_reads() {
    let mut x = 7u64;
    let mut below = |n: u64| {
        x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (x >> 33) % n
    };
    for turn in 0..400 {
        let limits = Limits {
            pages: 1 + below(80),
            max_order: below(10) as u32,
            huge_order: 1 + below(9) as u32,
            exec_order: below(6) as u32,
        };
        let (end, mut readahead) = (1 + below(5000), Readahead::default());
        for _ in 0..60 {
            let page = below(end);
            let window = match below(5) {
                0 => readahead.miss(&limits, page, 1 + below(9)),
                1 => readahead.around(&limits, page),
                2 => readahead.huge(&limits, page),
                3 => readahead.exec(&limits, page, page.saturating_sub(below(50))..page + 1 + below(50)),
                _ => {
                    let (marker, after) = (readahead.marker(), readahead.start + readahead.size);
                    let had_marker = readahead.async_size > 0;
                    let Some(window) = readahead.marked(&limits, marker..marker + 1) else {
                        assert!(!had_marker, "turn {turn}");
                        continue;
                    };
                    assert_eq!(window.start, after);
                    assert_eq!(window.marker, Some(after), "the whole window is read ahead");
                    window
                }
            };
            readahead.accessed(page);
            let largest = limits.pages.max(9).max(2 << limits.huge_order).max(limits.pages + (2 << limits.exec_order));
            assert!((1..=largest).contains(&window.pages), "turn {turn}: {window:?} of {limits:?}");
            assert!(window.order <= limits.max_order && 1 << window.order <= window.pages, "{window:?}");
            let inside = window.start..window.start + window.pages;
            assert!(window.marker.is_none_or(|marker| inside.contains(&marker)), "{window:?}");
            let mut at = window.start;
            for (first, order) in window.folios(end) {
                assert!(first == at && order <= window.order && first.is_multiple_of(1 << order));
                at += 1 << order;
            }
            assert_eq!(at, inside.end.min(end).max(window.start), "turn {turn}: {window:?} up to {end}");
        }
    }
}
