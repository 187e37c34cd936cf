//! Programs of several threads or processes that change their mappings: what cores must tell each other.

use super::pages::{Batches, Pages};
use farreach_types::addr::{Asid, BASE_SHIFT};
use farreach_types::event::{Backing, Batch, Op, Source};

/// Sixteen threads that share 32 pages. In turn each maps a buffer of four pages, uses it and unmaps it (H-OS-29,
/// H-OS-36).
pub const UNMAPS: &str = "micro/unmaps";
/// The same, with each buffer at addresses that are not used again, as a kernel with LATR sees to (H-OS-33).
pub const UNMAPS_APART: &str = "micro/unmaps-apart";
/// Threads of [`UNMAPS`].
pub const THREADS: u64 = 16;
/// Unmaps of [`UNMAPS`]: twenty times as many as it takes until Linux looks at a process (OS-SHD-9).
pub const ROUNDS: u64 = 640;

/// Two to eight processes, which take turns (H-OS-34).
pub const TURNS_OF: [&str; 7] = [
    "micro/turns-of-2",
    "micro/turns-of-3",
    "micro/turns-of-4",
    "micro/turns-of-5",
    "micro/turns-of-6",
    "micro/turns-of-7",
    "micro/turns-of-8",
];

/// A loop over 256 pages, between whose rounds a buffer of 64 pages is mapped, used and unmapped (H-OS-35).
pub const REFILLS: &str = "micro/refills";

/// Four threads on superpages that each of them touched first in turn. The first two use eight pages in the first half
/// of each, the others eight in the second (H-OS-32).
pub const HALVES: &str = "micro/halves-of-superpages";
/// Superpages of [`HALVES`]: more than the entries of a second-level TLB.
const SUPERPAGES: u64 = 1200;

/// First page of what all share, and of the buffers.
const SHARED: u64 = 1 << 22;
const BUFFERS: u64 = 1 << 23;

/// The program of this name.
pub fn source(name: &str) -> Option<Box<dyn Source + Send>> {
    let batches = match name {
        UNMAPS => vec![unmaps(|thread, _| thread)],
        UNMAPS_APART => vec![unmaps(|_, round| round)],
        REFILLS => vec![refills()],
        HALVES => vec![halves()],
        name => turns(2 + TURNS_OF.iter().position(|own| *own == name)? as u32),
    };
    Some(Batches::of(batches))
}

fn unmap(p: &mut Pages, page: u64, pages: u64) {
    p.op(Op::Unmap { start: page << BASE_SHIFT, len: pages << BASE_SHIFT });
}

/// `place`: which buffer a thread takes in a round.
fn unmaps(place: fn(u64, u64) -> u64) -> Batch {
    let mut p = Pages::new(0);
    p.op(Op::ThreadStart { thread: 1 });
    p.map(SHARED, 32, Backing::Heap);
    (2..=THREADS as u32).for_each(|thread| p.op(Op::ThreadStart { thread }));
    for round in 0..THREADS + ROUNDS {
        let thread = round % THREADS;
        p.op(Op::Switch { thread: 1 + thread as u32 });
        p.load(SHARED..SHARED + 32);
        // All have run before the first buffer.
        if round >= THREADS {
            // 2 MB from the next one: each has a page of the page table of its own.
            let buffer = BUFFERS + (place(thread, round) << 9);
            p.map(buffer, 4, Backing::Anonymous);
            p.store(buffer..buffer + 4);
            unmap(&mut p, buffer, 4);
        }
    }
    p.ended()
}

fn halves() -> Batch {
    let mut p = Pages::new(0);
    p.op(Op::ThreadStart { thread: 1 });
    p.map(SHARED, SUPERPAGES << 9, Backing::Anonymous);
    (2..=4).for_each(|thread| p.op(Op::ThreadStart { thread }));
    // The pages of a thread in a superpage.
    let page = |superpage: u64, thread: u64, at: u64| SHARED + 512 * superpage + 256 * ((thread - 1) / 2) + at % 8;
    for superpage in 0..SUPERPAGES {
        let thread = 1 + superpage % 4;
        p.op(Op::Switch { thread: thread as u32 });
        p.store(std::iter::once(page(superpage, thread, 0)));
    }
    for round in 0..80 {
        for thread in 1..=4 {
            p.op(Op::Switch { thread: thread as u32 });
            p.load((0..SUPERPAGES).map(|superpage| page(superpage, thread, round)));
        }
    }
    p.ended()
}

fn refills() -> Batch {
    let mut p = Pages::new(0);
    p.map(SHARED, 256, Backing::Heap);
    for _ in 0..50 {
        p.load(SHARED..SHARED + 256);
        p.map(BUFFERS, 64, Backing::Anonymous);
        p.store(BUFFERS..BUFFERS + 64);
        unmap(&mut p, BUFFERS, 64);
    }
    p.load(SHARED..SHARED + 256);
    p.ended()
}

/// Ten turns for each of these processes.
fn turns(processes: u32) -> Vec<Batch> {
    let begin = |asid: u32| {
        let mut p = if asid == 0 { Pages::new(0) } else { Pages::begin(asid) };
        p.map(SHARED, 16, Backing::Heap);
        p.0
    };
    let turn = |turn: u32| {
        let mut p = Pages(Batch::new(Asid(turn % processes)));
        p.store(SHARED..SHARED + 16);
        p.0
    };
    let begun = (0..processes).map(begin);
    let ended = (0..processes).map(|asid| Pages(Batch::new(Asid(asid))).ended());
    begun.chain((0..10 * processes).map(turn)).chain(ended).collect()
}
