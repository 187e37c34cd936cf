//! Programs made by hand for claims about large memory: scattered ranges, sparse arenas, processes that take turns,
//! pages that change.

use super::pages::{Batches, Pages};
use farreach_types::addr::{Asid, BASE_SHIFT};
use farreach_types::event::{Backing, Batch, Op, Prot, Source};
use rand::{Rng as _, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Uniformly random pages of 62 mappings that do not touch (H-RM-5, CA-37).
pub const SCATTERED: &str = "micro/62-ranges";
/// Eight adjacent mappings of 64 MB. The first 256 KB of each are used (H-DS-11).
pub const ARENAS: &str = "micro/arenas";
/// Two processes with memory at equal addresses, which take turns (H-DS-14).
pub const TURNS: &str = "micro/two-processes";
/// A mapping of 64 pages, in two rounds, between which one page becomes read-only (H-RM-17).
pub const PROTECT: &str = "micro/protect-one-page";
/// A mapping of 64 pages; a child stores to one of them, then both read all (H-RM-18).
pub const FORK: &str = "micro/store-after-fork";
/// One word in each GB of a mapping of 6 GB, in ten rounds (H-DS-5).
pub const SPARSE: &str = "micro/sparse";
/// Eight large mappings and 256 of four pages, at random (H-RM-21).
pub const TINY: &str = "micro/tiny-mappings";

/// Loads of [`SCATTERED`] and [`TINY`].
pub const LOADS: u64 = 200_000;
/// Mappings of [`SCATTERED`], and pages of each.
pub const RANGES: u64 = 62;
const RANGE_PAGES: u64 = 512;

/// First page of what is mapped: where the address is a multiple of 1 GB.
const BASE: u64 = 1 << 22;

/// The program of this name.
pub fn source(name: &str) -> Option<Box<dyn Source + Send>> {
    let mut rng = Pcg64Mcg::seed_from_u64(15);
    let mut below = |n: u64| ((u128::from(rng.next_u64()) * u128::from(n)) >> 64) as u64;
    let mut p = Pages::new(0);
    match name {
        SCATTERED => {
            let at = |range: u64| BASE + range * (RANGE_PAGES + 1);
            (0..RANGES).for_each(|r| p.map(at(r), RANGE_PAGES, Backing::Anonymous));
            let random = (0..LOADS).map(|_| (below(RANGES), below(RANGE_PAGES)));
            p.load(random.map(|(range, page)| at(range) + page));
        }
        ARENAS => {
            // Each below the one before, as mmap places them.
            (0..8).rev().for_each(|arena| p.map(BASE + (arena << 14), 1 << 14, Backing::Anonymous));
            (0..8).for_each(|arena| p.store((0..64).map(|page| BASE + (arena << 14) + page)));
        }
        TURNS => return Some(Batches::of(turns())),
        PROTECT => {
            p.map(BASE, 64, Backing::Anonymous);
            p.load(BASE..BASE + 64);
            let prot = Prot { write: false, ..Prot::RW };
            p.op(Op::Protect { start: (BASE + 5) << BASE_SHIFT, len: 1 << BASE_SHIFT, prot });
            p.load(BASE..BASE + 64);
        }
        FORK => return Some(Batches::of(fork())),
        SPARSE => {
            p.map(BASE, 6 << 18, Backing::Anonymous);
            (0..10).for_each(|_| p.load((0..6).map(|i| BASE + (i << 18) + 1000 * i)));
        }
        TINY => {
            let (large, tiny) = (|i: u64| BASE + i * 5000, |i: u64| BASE + (1 << 20) + i * 16);
            (0..8).for_each(|i| p.map(large(i), 4096, Backing::Anonymous));
            (0..256).for_each(|i| p.map(tiny(i), 4, Backing::Anonymous));
            // Three of four loads go to the large mappings.
            let pages = (0..LOADS).map(|_| match below(4) {
                0 => tiny(below(256)) + below(4),
                _ => large(below(8)) + below(4096),
            });
            p.load(pages);
        }
        _ => return None,
    }
    Some(Batches::of([p.ended()]))
}

/// A turn for each of two processes, ten times.
fn turns() -> Vec<Batch> {
    let mut batches = Vec::new();
    for asid in [0, 1] {
        let mut p = if asid == 0 { Pages::new(0) } else { Pages::begin(asid) };
        p.map(BASE, 1024, Backing::Heap);
        batches.push(p.0);
    }
    for turn in 0..20 {
        let mut p = Pages(Batch::new(Asid(turn % 2)));
        p.store(BASE..BASE + 1024);
        batches.push(p.0);
    }
    batches.extend([0, 1].map(|asid| Pages(Batch::new(Asid(asid))).ended()));
    batches
}

fn fork() -> Vec<Batch> {
    let mut parent = Pages::new(0);
    parent.map(BASE, 64, Backing::Anonymous);
    parent.store(BASE..BASE + 64);
    parent.op(Op::Fork { child: Asid(1) });
    let mut child = Pages(Batch::new(Asid(1)));
    child.store([BASE + 5].into_iter());
    child.load(BASE..BASE + 64);
    let mut again = Pages(Batch::new(Asid(0)));
    again.load(BASE..BASE + 64);
    vec![parent.0, child.ended(), again.ended()]
}
