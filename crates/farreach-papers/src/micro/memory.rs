//! Programs for claims about what systems do with memory: files, zeros, hot groups, shares, blocks of 1 GB.

use super::pages::{Batches, Pages};
use farreach_types::addr::{Asid, BASE_SHIFT};
use farreach_types::event::{Advice, Backing, Batch, Mapping, Op, Prot, Source};
use rand::{Rng as _, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// A file of 64 MB is read whole, then each 512th page is stored to (H-OS-5).
pub const FEW_DIRTY: &str = "micro/file-stored-to-now-and-then";
/// Superpages of which all pages are loaded from and 0, 1 or 100 stored to, until memory is short (H-OS-12).
pub const MOSTLY_ZEROS: &str = "micro/mostly-zeros";
/// One page in each of 30 groups of 2 MB (H-OS-21).
pub const SPARSE_GROUPS: &str = "micro/one-page-a-group";
/// 128 groups of base pages, of which the last eight are in use (H-OS-19).
pub const HOT_HIGH: &str = "micro/hot-at-the-end";
/// As [`HOT_HIGH`], where the first eight are in use.
pub const HOT_LOW: &str = "micro/hot-at-the-start";
/// Two programs of 64 groups of base pages each: one goes through its own in order, sixteen loads a page; the other one
/// loads pages at random (H-OS-20).
pub const STREAM_BESIDE: &str = "micro/stream-beside-random";
/// Two equal programs, one in a heap and one in anonymous memory, by groups of each and blocks for both. There is no
/// block until both have all of their pages (H-OS-18).
pub const EQUALS: [&str; 9] = [
    "micro/two-of-8-share-4",
    "micro/two-of-8-share-8",
    "micro/two-of-8-share-12",
    "micro/two-of-16-share-8",
    "micro/two-of-16-share-16",
    "micro/two-of-16-share-24",
    "micro/two-of-32-share-16",
    "micro/two-of-32-share-32",
    "micro/two-of-32-share-48",
];
/// 4 GB in base pages, of which some are dropped again, so that no block of 1 GB is free; then a page that wants one
/// (H-OS-26).
pub const GIGABYTE: &str = "micro/wants-a-gigabyte";
/// Pages at random until 256 MB are full (H-OS-31).
pub const FILL: &str = "micro/fill-at-random";
/// 4 GB that are mapped at once, at random (H-OS-38).
pub const WIDE: &str = "micro/four-gigabytes";
/// As [`WIDE`], 5 GB in sixteen mappings.
pub const MANY: &str = "micro/sixteen-mappings";

/// Groups of [`SPARSE_GROUPS`].
const GROUPS: u64 = 30;
/// Frames of the memory that [`FILL`] fills.
const FRAMES: u64 = 1 << 16;

/// A file of 16 MB is read from its start to its end (H-OS-14).
pub const FILE_IN_ORDER: &str = "micro/file-in-order";

/// 8 MB are mapped, stored to once a page and unmapped, eight times (H-OS-4).
pub const USED_ONCE: &str = "micro/each-page-once";

/// First page of what is mapped: where the address is a multiple of 1 GB.
const BASE: u64 = 1 << 22;

/// The program of this name.
pub fn source(name: &str) -> Option<Box<dyn Source + Send>> {
    let batches = match name {
        FEW_DIRTY => vec![few_dirty()],
        FILE_IN_ORDER => vec![file_in_order()],
        USED_ONCE => vec![used_once()],
        MOSTLY_ZEROS => vec![mostly_zeros()],
        SPARSE_GROUPS => vec![sparse_groups()],
        HOT_HIGH => vec![hot(120)],
        HOT_LOW => vec![hot(0)],
        STREAM_BESIDE => stream_beside(),
        GIGABYTE => vec![gigabyte()],
        FILL => vec![fill()],
        WIDE => vec![at_random(1, 4 << 18)],
        MANY => vec![at_random(16, 80 << 10)],
        _ => {
            let at = EQUALS.iter().position(|equals| *equals == name)? as u64;
            let groups = 8 << (at / 3);
            equals(groups << 9, (groups << 9) * (1 + at % 3) / 2)
        }
    };
    Some(Batches::of(batches))
}

fn advise(p: &mut Pages, page: u64, pages: u64, advice: Advice) {
    p.op(Op::Advise { start: page << BASE_SHIFT, len: pages << BASE_SHIFT, advice });
}

/// These numbers in random order.
fn shuffled(numbers: std::ops::Range<u64>) -> Vec<u64> {
    let mut rng = Pcg64Mcg::seed_from_u64(numbers.start);
    let mut all: Vec<u64> = numbers.collect();
    for i in (1..all.len()).rev() {
        all.swap(i, below(&mut rng, i as u64 + 1) as usize);
    }
    all
}

fn below(rng: &mut Pcg64Mcg, n: u64) -> u64 {
    ((u128::from(rng.next_u64()) * u128::from(n)) >> 64) as u64
}

fn few_dirty() -> Batch {
    let mut p = Pages::new(0);
    let pages = 16384;
    let backing = Backing::File { path: "/data/file".into(), offset: 0 };
    let (start, len) = (BASE << BASE_SHIFT, pages << BASE_SHIFT);
    p.op(Op::Map(Mapping { start, len, prot: Prot::RW, shared: true, backing }));
    p.load(BASE..BASE + pages);
    p.store((BASE..BASE + pages).step_by(512));
    p.ended()
}

fn file_in_order() -> Batch {
    let mut p = Pages::new(0);
    let pages = 4096;
    p.map(BASE, pages, Backing::File { path: "/data/file".into(), offset: 0 });
    p.load(BASE..BASE + pages);
    p.ended()
}

fn used_once() -> Batch {
    let mut p = Pages::new(0);
    let pages = 2048;
    for _ in 0..8 {
        p.map(BASE, pages, Backing::Anonymous);
        p.store(BASE..BASE + pages);
        p.op(Op::Unmap { start: BASE << BASE_SHIFT, len: pages << BASE_SHIFT });
    }
    p.ended()
}

fn mostly_zeros() -> Batch {
    let mut p = Pages::new(0);
    p.map(BASE, 30 << 9, Backing::Anonymous);
    for group in 0..30 {
        let first = BASE + (group << 9);
        p.load(first..first + 512);
        p.store(first..first + [100, 0, 1][group as usize % 3]);
    }
    // Two groups are free; this takes three more.
    let further = 2 * BASE;
    p.map(further, 5 << 9, Backing::Anonymous);
    advise(&mut p, further, 5 << 9, Advice::NoHugePage);
    p.store(further..further + (5 << 9) - 64);
    p.ended()
}

/// It does not end, so that what it holds at the end can be seen.
fn sparse_groups() -> Batch {
    let mut p = Pages::new(0);
    p.map(BASE, GROUPS << 9, Backing::Anonymous);
    p.store((BASE..BASE + (GROUPS << 9)).step_by(512));
    p.0
}

/// All pages are base pages at first: a group gets its first page when it may have no superpage.
fn hot(first: u64) -> Batch {
    let (mut p, mut rng) = (Pages::new(0), Pcg64Mcg::seed_from_u64(19));
    let pages = 128 << 9;
    p.map(BASE, pages, Backing::Anonymous);
    advise(&mut p, BASE, pages, Advice::NoHugePage);
    p.store((BASE..BASE + pages).filter(|page| page % 512 != 511));
    advise(&mut p, BASE, pages, Advice::HugePage);
    p.store((BASE..BASE + pages).filter(|page| page % 512 == 511));
    p.load((0..1_000_000).map(|_| BASE + (first << 9) + below(&mut rng, 8 << 9)));
    p.ended()
}

fn stream_beside() -> Vec<Batch> {
    let pages = 64 << 9;
    let mut all = Vec::new();
    for mut p in [Pages::new(0), Pages::begin(1)] {
        p.map(BASE, pages, Backing::Anonymous);
        p.store(BASE..BASE + pages);
        all.push(p.0);
    }
    let mut rng = Pcg64Mcg::seed_from_u64(20);
    for turn in 0..600 {
        let [mut stream, mut random] = [0, 1].map(|asid| Pages(Batch::new(Asid(asid))));
        stream.load((turn * 1000..(turn + 1) * 1000).map(|load| BASE + load / 16 % pages));
        random.load((0..1000).map(|_| BASE + below(&mut rng, pages)));
        all.extend([stream.0, random.0]);
    }
    all.extend([0, 1].map(|asid| Pages(Batch::new(Asid(asid))).ended()));
    all
}

/// Two programs of `pages` pages, that get `whole` pages in blocks. A third process has all of memory first. It drops
/// half of a part, in runs of eight pages, which the two get in turns; the other half stays, so that a superpage that
/// is made gives back no block. When both have their pages it drops the rest.
fn equals(pages: u64, whole: u64) -> Vec<Batch> {
    let mut all = Vec::new();
    let mut holder = Pages::new(0);
    let mixed = 4 * pages;
    holder.map(BASE, mixed + whole, Backing::Anonymous);
    advise(&mut holder, BASE, mixed + whole, Advice::NoHugePage);
    advise(&mut holder, BASE, mixed + whole, Advice::Populate);
    (BASE..BASE + mixed).step_by(16).for_each(|page| advise(&mut holder, page, 8, Advice::DontNeed));
    all.push(holder.0);
    for (asid, backing) in [(1, Backing::Heap), (2, Backing::Anonymous)] {
        let mut p = Pages::begin(asid);
        p.map(BASE, pages, backing);
        all.push(p.0);
    }
    for first in (BASE..BASE + pages).step_by(8) {
        for asid in [1, 2] {
            let mut p = Pages(Batch::new(Asid(asid)));
            p.store(first..first + 8);
            all.push(p.0);
        }
    }
    let mut holder = Pages(Batch::new(Asid(0)));
    advise(&mut holder, BASE + mixed, whole, Advice::DontNeed);
    all.push(holder.0);
    let mut rng = Pcg64Mcg::seed_from_u64(18);
    for turn in 0..400 {
        let mut p = Pages(Batch::new(Asid(1 + turn % 2)));
        p.load((0..1000).map(|_| BASE + below(&mut rng, pages)));
        all.push(p.0);
    }
    all.extend([0, 1, 2].map(|asid| Pages(Batch::new(Asid(asid))).ended()));
    all
}

/// Free pages by GB are as in the example of TRI-3, in memory of four.
fn gigabyte() -> Batch {
    let mut p = Pages::new(0);
    let gb = 1 << 18;
    p.map(BASE, 4 * gb, Backing::Anonymous);
    advise(&mut p, BASE, 4 * gb, Advice::NoHugePage);
    advise(&mut p, BASE, 4 * gb - 64, Advice::Populate);
    for (block, free) in (0..4).zip([10_000, 200_000, 60_000, 150_000]) {
        // Runs of 16 pages, evenly over the GB.
        let runs = free / 16;
        for run in 0..runs {
            let first = BASE + block * gb + (run * (gb / 16) / runs) * 16;
            advise(&mut p, first, 16, Advice::DontNeed);
        }
    }
    // Faults, after which a system looks at its memory.
    let small = 2 * BASE;
    p.map(small, 1 << 13, Backing::Anonymous);
    advise(&mut p, small, 1 << 13, Advice::NoHugePage);
    p.store(small..small + (1 << 13));
    let large = 3 * BASE;
    p.map(large, gb, Backing::Anonymous);
    advise(&mut p, large, gb, Advice::HugePage);
    // Long enough for khugepaged.
    (0..100).for_each(|_| p.store(large..large + 512));
    p.ended()
}

/// Mappings of `pages` pages each, which are there at once, and loads from any of them.
fn at_random(mappings: u64, pages: u64) -> Batch {
    let (mut p, mut rng) = (Pages::new(0), Pcg64Mcg::seed_from_u64(38));
    let first = |mapping: u64| BASE + (mapping << 18);
    for mapping in 0..mappings {
        p.map(first(mapping), pages, Backing::Anonymous);
        advise(&mut p, first(mapping), pages, Advice::Populate);
    }
    p.load((0..200_000).map(|_| first(below(&mut rng, mappings)) + below(&mut rng, pages)));
    p.ended()
}

/// A page that finds no place is left out, as the system call that asks for it goes on without.
fn fill() -> Batch {
    let mut p = Pages::new(0);
    p.map(BASE, 16 * FRAMES, Backing::Anonymous);
    for page in shuffled(BASE..BASE + 16 * FRAMES).into_iter().take(FRAMES as usize) {
        advise(&mut p, page, 1, Advice::Populate);
    }
    p.ended()
}
