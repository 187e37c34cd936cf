//! Walks by reuse distance (`walk_distances`): by hand, and against a list on random pages.

use crate::common::{Stream, run};
use farreach_types::counts::{TlbCounts, WalkDistances};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

/// Loads on a machine whose TLB has one entry: a walk whenever the page is another.
fn counted(keys: &str, pages: impl IntoIterator<Item = u64>) -> TlbCounts {
    let mut s = Stream::new();
    s.start().anon(0x10000, 0x8000).loads(pages);
    run(&[&format!("ds13/4k:l1d=4K:1,l1i=4K:1,l2=none,{keys}")], &s).machine(0).counts.tlb.clone()
}

#[test]
fn a_line_is_as_far_as_the_lines_since() {
    let line = |line: u64| 0x10000 + 8 * line;
    // 300 lines, then again: distance 300. Then the newest 200 backwards, the newest itself without a walk: 2 to 200.
    let pages = (0..300).chain(0..300).chain((100..300).rev()).map(line);
    let found = counted("walk_distances=true", pages).walk_distances;
    let expected = WalkDistances { lines_256: 199, lines_1k: 300, beyond: 300, ..WalkDistances::default() };
    assert_eq!(found, expected);
    // Pages of one line: its walk before is the last one.
    let found = counted("walk_distances=true", (0..8).map(|page| 0x10000 + page)).walk_distances;
    assert_eq!(found, WalkDistances { lines_256: 7, beyond: 1, ..WalkDistances::default() });
    // They are counted where they are asked for, and change nothing else.
    let pages = || (0..300).map(line);
    assert!(counted("walk_distances=false", pages()).walk_distances.is_empty());
    let with = TlbCounts { walk_distances: WalkDistances::default(), ..counted("walk_distances=true", pages()) };
    assert_eq!(with, counted("walk_distances=false", pages()));
}

#[test]
fn walks_to_superpages_are_not_counted() {
    let mut s = Stream::new();
    s.start().anon(0x10000, 0x8000).loads([0x10000, 0x10200, 0x10008]);
    let keys = "walk_distances=true,placement=thp,thp=always";
    let counts = run(&[&format!("ds13/4k:{keys}")], &s).machine(0).counts.tlb.clone();
    assert_eq!((counts.walk.walks, counts.superpage_misses), (2, 2));
    assert!(counts.walk_distances.is_empty());
}

/// The classes by their definition: a list of lines by last walk.
#[test]
fn random_pages_against_a_list() {
    for seed in 0..8 {
        let mut rng = Pcg64::seed_from_u64(seed);
        let mut pages = Vec::new();
        for _ in 0..12_000 {
            let most: u64 = [8, 300, 3_000, 0x8000][rng.random_range(0..4)];
            pages.push(0x10000 + rng.random_range(0..most));
        }
        let (mut lines, mut expected, mut last) = (Vec::new(), WalkDistances::default(), 0);
        for &page in &pages {
            if page == last {
                continue;
            }
            last = page;
            let at = lines.iter().rposition(|line| *line == page / 8);
            let distance = at.map(|at| {
                lines.remove(at);
                (lines.len() - at + 1) as u32
            });
            lines.push(page / 8);
            let class = distance.and_then(|d| WalkDistances::ENDS.iter().position(|end| d <= *end));
            *expected.class(class.unwrap_or(WalkDistances::ENDS.len())) += 1;
        }
        let found = counted("walk_distances=true", pages).walk_distances;
        assert_eq!(found, expected, "seed {seed}");
        assert!(found.lines_256 > 0 && found.lines_1k > 0 && found.lines_4k > 0 && found.beyond > 0, "{found:?}");
    }
}
