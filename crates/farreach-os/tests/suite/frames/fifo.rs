//! T94-43 to T94-50 against a list.

use super::{Op, conserved, frames, ops, pins};
use farreach_os::frames::{Fifo, FrameAllocator, PhysicalMemory};
use farreach_types::addr::Pfn;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::ops::Range;

/// The allocator as T94 describes it: a list.
struct List(VecDeque<u64>);

impl List {
    fn group(&mut self, order: u32, covered: Range<u64>) -> Option<u64> {
        let highest = *self.0.iter().max()?;
        let mut free = vec![false; highest as usize + 1];
        self.0.iter().for_each(|&f| free[f as usize] = true);
        let size = 1 << order;
        let base = (0..=highest)
            .step_by(size)
            .find(|&b| free.get(b as usize..b as usize + size).is_some_and(|g| g.iter().all(|&f| f)))?;
        self.0.retain(|&f| !(base + covered.start..base + covered.end).contains(&f));
        Some(base)
    }
}

/// Runs `ops` on both; `end` is where the list of the model ends.
fn replay(mut fifo: Fifo, end: u64, pinned: &[Range<u64>], ops: &[Op]) -> Result<(), TestCaseError> {
    let mut list = List((0..end).filter(|f| !pinned.iter().any(|r| r.contains(f))).collect());
    let all = list.0.len();
    let mut out: Vec<u64> = Vec::new();
    for op in ops {
        match op {
            Op::Alloc | Op::Block(_) => {
                let got = fifo.alloc();
                prop_assert_eq!(got, list.0.pop_front().map(Pfn));
                out.extend(got.map(|p| p.0));
            }
            Op::Group(order, covered) => {
                let got = fifo.alloc_group(*order, &covered.clone().collect::<Vec<_>>());
                prop_assert_eq!(got, list.group(*order, covered.clone()).map(Pfn));
                out.extend(got.into_iter().flat_map(|p| covered.clone().map(move |o| p.0 + o)));
            }
            Op::Take(first, n) => {
                let free = (*first..first + n).all(|f| list.0.contains(&f));
                prop_assert_eq!(fifo.take(Pfn(*first), *n), free);
                if free {
                    list.0.retain(|f| !(*first..first + n).contains(f));
                    out.extend(*first..first + n);
                }
            }
            Op::Free(at, n) => {
                for _ in 0..(*n).min(out.len()) {
                    let frame = out.swap_remove(at % out.len());
                    fifo.free(Pfn(frame));
                    list.0.push_back(frame);
                }
            }
        }
        prop_assert_eq!(fifo.allocated() as usize, out.len());
        for word in 0..if end < 400 { 5 } else { 0 } {
            let bits = (0..64).filter(|at| list.0.contains(&(64 * word + at))).fold(0, |bits, at| bits | 1 << at);
            prop_assert_eq!(fifo.free_of(word), bits);
        }
        prop_assert!(conserved(&fifo) && list.0.len() + out.len() == all);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn t94_44_finite_memory_is_the_list(total in 1u64..300, ops in ops(6, false)) {
        replay(Fifo::new(PhysicalMemory::of(total)), total, &[], &ops)?;
    }

    #[test]
    fn t94_44_pinned_memory_is_the_list(
        (total, pins) in (1u64..300).prop_flat_map(|n| (Just(n), pins(n))), ops in ops(5, false)
    ) {
        replay(Fifo::new(PhysicalMemory::with_pins(total, pins.clone())), total, &pins, &ops)?;
    }

    #[test]
    fn t94_44_endless_memory_is_a_list_that_never_ends(ops in ops(6, false)) {
        replay(Fifo::new(PhysicalMemory::unlimited()), 64 * 401, &[], &ops)?;
    }
}

/// The golden trace of T94-46 as its allocator sees it: four groups of 16, then pages stolen from reservations.
/// The offsets of the first `n` frames of a group.
fn first(n: u64) -> Vec<u64> {
    (0..n).collect()
}

#[test]
fn t94_46_golden_trace() {
    let mut fifo = Fifo::new(PhysicalMemory::of(64));
    let groups: Vec<_> = (0..4).map(|_| fifo.alloc_group(4, &first(16))).collect();
    assert_eq!(groups, [Some(Pfn(0)), Some(Pfn(16)), Some(Pfn(32)), Some(Pfn(48))]);
    assert_eq!((fifo.alloc(), fifo.alloc_group(4, &first(16))), (None, None));
    for stolen in [0, 3, 4] {
        fifo.free(Pfn(stolen));
        assert_eq!(fifo.alloc(), Some(Pfn(stolen)));
    }
}

#[test]
fn t94_50_clipping_leaves_the_rest_free() {
    let mut fifo = Fifo::new(PhysicalMemory::of(64));
    assert_eq!(fifo.alloc_group(4, &first(15)), Some(Pfn(0)));
    assert_eq!(fifo.free_frames(), Some(49));
    assert_eq!(fifo.alloc_group(4, &first(16)), Some(Pfn(16)), "the clipped group is no longer wholly free");
    assert_eq!((fifo.alloc(), fifo.alloc()), (Some(Pfn(15)), Some(Pfn(32))), "frame 15 kept its place");
}

#[test]
fn t94_44_holes_keep_their_place() {
    let mut fifo = Fifo::new(PhysicalMemory::of(8));
    assert_eq!(fifo.alloc_group(2, &[1, 3]), Some(Pfn(0)));
    assert_eq!([fifo.alloc(), fifo.alloc(), fifo.alloc()], [Some(Pfn(0)), Some(Pfn(2)), Some(Pfn(4))]);
}

#[test]
fn t94_48_freed_frames_complete_a_group_again() {
    let mut fifo = Fifo::new(PhysicalMemory::of(32));
    let out: Vec<_> = (0..32).filter_map(|_| fifo.alloc()).collect();
    assert_eq!(out, frames(0..32));
    frames(17..32).into_iter().for_each(|f| fifo.free(f));
    assert_eq!((fifo.alloc_group(4, &first(16)), fifo.alloc_group(3, &first(8))), (None, Some(Pfn(24))));
    frames(24..32).into_iter().for_each(|f| fifo.free(f));
    fifo.free(Pfn(16));
    assert_eq!(fifo.alloc_group(4, &first(16)), Some(Pfn(16)));
}

#[test]
fn a_terabyte_is_as_cheap_as_a_megabyte() {
    let mut fifo = Fifo::new(PhysicalMemory::of(1 << 28));
    for i in 0..1000 {
        assert_eq!(fifo.alloc_group(9, &first(512)), Some(Pfn(512 * i)));
    }
    assert_eq!(fifo.alloc(), Some(Pfn(512_000)));
    assert_eq!(fifo.alloc_group(9, &first(512)), Some(Pfn(512_512)));
    assert!(fifo.steps() < 600_000);
}

#[test]
#[should_panic(expected = "not allocated")]
fn a_frame_is_given_back_once() {
    let mut fifo = Fifo::new(PhysicalMemory::of(4));
    let frame = fifo.alloc().unwrap();
    fifo.free(frame);
    fifo.free(frame);
}

#[test]
#[should_panic(expected = "not allocated")]
fn a_pinned_frame_is_not_given_back() {
    let mut fifo = Fifo::new(PhysicalMemory::with_pins(4, std::iter::once(0..1)));
    assert_eq!(fifo.alloc(), Some(Pfn(1)));
    fifo.free(Pfn(0));
}
