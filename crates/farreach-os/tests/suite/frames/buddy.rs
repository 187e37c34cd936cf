//! RMM15-24 to RMM15-27 against lists, a bitmap, and another buddy allocator.

use super::{Op, conserved, frames, ops, pins};
use farreach_oracle::frames::{Lists, joined};
use farreach_os::frames::{BlockAllocator, Buddy, Eager, FrameAllocator, PhysicalMemory, Pick};
use farreach_types::addr::Pfn;
use proptest::prelude::*;
use std::ops::Range;

/// Orders of most allocators under test.
const ORDERS: u32 = 6;

/// Runs `ops` on the allocator, on the lists and on a bitmap of free frames.
fn replay(buddy: Buddy, lists: Lists, free: Vec<bool>, ops: &[Op]) -> Result<(), TestCaseError> {
    replay_from(buddy, lists, free, Vec::new(), ops)
}

/// As [`replay`], with frames that are allocated from the start.
fn replay_from(
    mut buddy: Buddy,
    mut lists: Lists,
    mut free: Vec<bool>,
    mut out: Vec<u64>,
    ops: &[Op],
) -> Result<(), TestCaseError> {
    let finite = buddy.total().is_some();
    for op in ops {
        let mut got = |buddy: Option<Pfn>, model: Option<u64>, used: Range<u64>| -> Result<(), TestCaseError> {
            prop_assert_eq!(buddy, model.map(Pfn));
            for frame in model.into_iter().flat_map(|b| used.clone().map(move |o| b + o)) {
                prop_assert!(free[frame as usize], "frame {} was not free", frame);
                free[frame as usize] = false;
                out.push(frame);
            }
            Ok(())
        };
        match op {
            Op::Alloc => got(buddy.alloc(), lists.alloc(0), 0..1)?,
            Op::Block(order) => got(buddy.alloc_order(*order), lists.alloc(*order), 0..1 << order)?,
            Op::Group(order, used) => {
                let model = lists.alloc(*order);
                if let Some(base) = model {
                    (base..base + used.start).for_each(|f| lists.release(f, 0));
                    (base + used.end..base + (1 << order)).for_each(|f| lists.release(f, 0));
                }
                got(buddy.alloc_group(*order, &used.clone().collect::<Vec<_>>()), model, used.clone())?;
            }
            Op::Take(first, n) => {
                let run = *first..first + n;
                let whole = run.clone().all(|f| free.get(f as usize).is_some_and(|&free| free));
                prop_assert_eq!(buddy.take(Pfn(*first), *n), whole);
                if whole {
                    lists.take(*first, *n);
                    run.clone().for_each(|f| free[f as usize] = false);
                    out.extend(run);
                }
            }
            Op::Free(at, n) => {
                for _ in 0..(*n).min(out.len()) {
                    let frame = out.swap_remove(at % out.len());
                    free[frame as usize] = true;
                    buddy.free(Pfn(frame));
                    lists.release(frame, 0);
                }
            }
        }
        prop_assert!(conserved(&buddy));
        prop_assert_eq!(buddy.allocated() as usize, out.len());
        for (word, frames) in free.chunks(64).enumerate().take(8) {
            let bits = frames.iter().enumerate().fold(0, |bits, (at, free)| bits | u64::from(*free) << at);
            prop_assert_eq!(buddy.free_of(word as u64), bits);
        }
        let blocks = joined(&free, ORDERS);
        for order in 0..ORDERS {
            // The index by a plain count of the frames that lie in free blocks of this order or above (AMB-84, F-14).
            let useful: usize = (order..ORDERS).map(|o| blocks[o as usize].len() << o).sum();
            let all = free.iter().filter(|&&f| f).count();
            let index = if all == 0 { 1.0 } else { 1.0 - useful as f64 / all as f64 };
            prop_assert!(!finite || (buddy.fragmentation_index(1 << order) - index).abs() < 1e-9, "order {}", order);
            let mut model = lists.free[order as usize].clone();
            model.sort_unstable();
            prop_assert_eq!(&model, &blocks[order as usize], "order {}", order);
            if finite || order + 1 < ORDERS {
                prop_assert_eq!(buddy.free_blocks(order), Some(model.len() as u64), "order {}", order);
            }
        }
    }
    Ok(())
}

fn start(memory: PhysicalMemory, end: u64, pinned: &[Range<u64>], pick: Pick) -> (Buddy, Lists, Vec<bool>) {
    let free: Vec<bool> = (0..end).map(|f| !pinned.iter().any(|r| r.contains(&f))).collect();
    (
        Buddy::new(memory, ORDERS, pick),
        Lists { free: joined(&free, ORDERS), by_address: pick == Pick::LowestAddress },
        free,
    )
}

fn picks() -> impl Strategy<Value = Pick> {
    prop_oneof![Just(Pick::LastFreed), Just(Pick::LowestAddress)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn rmm15_25_finite_memory_is_the_lists(total in 1u64..300, pick in picks(), ops in ops(6, true)) {
        let (buddy, lists, free) = start(PhysicalMemory::of(total), total, &[], pick);
        replay(buddy, lists, free, &ops)?;
    }

    #[test]
    fn rmm15_25_pinned_memory_is_the_lists(
        (total, pins) in (1u64..400).prop_flat_map(|n| (Just(n), pins(n))), pick in picks(), ops in ops(5, true)
    ) {
        let (buddy, lists, free) = start(PhysicalMemory::with_pins(total, pins.clone()), total, &pins, pick);
        replay(buddy, lists, free, &ops)?;
    }

    /// Frames of others that may be moved are allocated from the start, and are returned like any other.
    #[test]
    fn f_14_movable_frames_of_others_are_allocated(
        (total, pins) in (1u64..400).prop_flat_map(|n| (Just(n), pins(n))),
        pick in picks(), moves in any::<u64>(), ops in ops(5, true)
    ) {
        let memory = PhysicalMemory::with_pins(total, pins).with_movable(8, |group| moves >> (group % 64) & 1 == 1);
        let (pinned, movable) = (memory.pinned().clone(), memory.movable().clone());
        prop_assert!((0..total).all(|f| !movable.contains(f) || !pinned.contains(f) && moves >> (f / 8 % 64) & 1 == 1));
        let free: Vec<bool> = (0..total).map(|f| !pinned.contains(f) && !movable.contains(f)).collect();
        let out = (0..total).filter(|&f| movable.contains(f)).collect();
        let buddy = Buddy::new(memory, ORDERS, pick);
        let lists = Lists { free: joined(&free, ORDERS), by_address: pick == Pick::LowestAddress };
        replay_from(buddy, lists, free, out, &ops)?;
    }

    #[test]
    fn rmm15_25_endless_memory_is_long_lists(pick in picks(), ops in ops(5, true)) {
        let ops = &ops[..ops.len().min(120)];
        let end = 32 * 121;
        let (buddy, lists, free) = start(PhysicalMemory::unlimited(), end, &[], pick);
        replay(buddy, lists, free, ops)?;
    }

    /// A third-party allocator, which takes the lowest address, gives the same blocks.
    #[test]
    fn rmm15_27a_another_buddy_allocator_agrees(
        (total, pins) in (1u64..2000).prop_flat_map(|n| (Just(n), pins(n))),
        steps in prop::collection::vec((0u32..8, any::<usize>(), any::<bool>()), 1..400),
    ) {
        let memory = PhysicalMemory::with_pins(total, pins);
        let mut other = buddy_system_allocator::FrameAllocator::<8>::new();
        let mut from = 0;
        for pinned in memory.pinned().ranges() {
            other.add_frame(from, pinned.start as usize);
            from = pinned.end as usize;
        }
        other.add_frame(from, total as usize);
        let mut buddy = Buddy::new(memory, 8, Pick::LowestAddress);
        let mut out: Vec<(Pfn, u32)> = Vec::new();
        for (order, at, give) in steps {
            if give && !out.is_empty() {
                let (block, order) = out.swap_remove(at % out.len());
                buddy.free_order(block, order);
                other.dealloc(block.0 as usize, 1 << order);
            } else {
                let got = buddy.alloc_order(order);
                prop_assert_eq!(got, other.alloc(1 << order).map(|f| Pfn(f as u64)));
                out.extend(got.map(|b| (b, order)));
            }
            prop_assert!(conserved(&buddy));
        }
    }

    /// Every frame that an eager request gets was free, none is given twice, and all of them are returned.
    #[test]
    fn rmm15_24_eager_requests_take_what_there_is(
        (total, pins) in (1u64..600).prop_flat_map(|n| (Just(n), pins(n))),
        pages in prop::collection::vec((1u64..200, any::<bool>()), 1..8), pick in picks(),
    ) {
        let mut buddy = Buddy::new(PhysicalMemory::with_pins(total, pins), ORDERS, pick);
        let before: Vec<_> = (0..ORDERS).map(|o| buddy.free_blocks(o)).collect();
        let mut got = Vec::new();
        for (pages, larger) in pages {
            let free = buddy.free_frames().unwrap();
            let eager = if larger { buddy.eager_from_next_larger(pages) } else { buddy.eager(pages) };
            let Eager { blocks, missing } = eager;
            prop_assert_eq!(missing, pages.saturating_sub(free));
            prop_assert_eq!(blocks.iter().map(|b| b.1).sum::<u64>() + missing, pages);
            got.extend(blocks);
        }
        let mut seen: Vec<u64> = got.iter().flat_map(|&(base, n)| base.0..base.0 + n).collect();
        prop_assert_eq!(seen.len() as u64, buddy.allocated());
        seen.sort_unstable();
        prop_assert!(seen.windows(2).all(|w| w[0] < w[1]));
        got.into_iter().for_each(|(base, n)| buddy.free_range(base, n));
        prop_assert_eq!((0..ORDERS).map(|o| buddy.free_blocks(o)).collect::<Vec<_>>(), before);
    }
}

fn blocks(list: &[(u64, u64)]) -> Vec<(Pfn, u64)> {
    list.iter().map(|&(base, n)| (Pfn(base), n)).collect()
}

/// CA-32, AMB-81.
#[test]
fn ca_32_golden_eager_decompositions() {
    let one_block = || PhysicalMemory::of(32);
    let apart = PhysicalMemory::with_pins(24, std::iter::once(8..16));
    for (memory, pages, golden) in [
        (one_block(), 11, vec![(0, 8), (8, 2), (10, 1)]),
        (apart, 16, vec![(0, 8), (16, 8)]),
        (one_block(), 5, vec![(0, 4), (4, 1)]),
        (one_block(), 8, vec![(0, 8)]),
        (PhysicalMemory::of(3 << 19), (1 << 19) + 8, vec![(0, 1 << 19), (1 << 19, 8)]),
    ] {
        for pick in [Pick::LastFreed, Pick::LowestAddress] {
            let got = Buddy::new(memory.clone(), 20, pick).eager(pages);
            assert_eq!(got, Eager { blocks: blocks(&golden), missing: 0 }, "{pages} pages");
        }
    }
}

/// CA-32, AMB-88.
#[test]
fn ca_32_stock_and_raised_max_order() {
    for (max_order, pages, golden) in [
        (11, 2048, vec![(0, 1024), (1024, 1024)]),
        (20, 2048, vec![(0, 2048)]),
        (20, 1 << 20, vec![(0, 1 << 19), (1 << 19, 1 << 19)]),
    ] {
        let mut buddy = Buddy::new(PhysicalMemory::unlimited(), max_order, Pick::LastFreed);
        assert_eq!(buddy.max_block(), 1 << (max_order - 1));
        assert_eq!(buddy.eager(pages).blocks, blocks(&golden), "{max_order} orders");
        assert_eq!((buddy.alloc_order(max_order), buddy.free_blocks(max_order - 1)), (None, None));
    }
}

#[test]
fn amb_82_memory_that_runs_out_is_reported() {
    let mut buddy = Buddy::new(PhysicalMemory::of(12), 11, Pick::LastFreed);
    assert_eq!(buddy.eager(20), Eager { blocks: blocks(&[(0, 8), (8, 4)]), missing: 8 });
    assert_eq!(buddy.eager(3), Eager { blocks: Vec::new(), missing: 3 });
}

#[test]
fn rmm15_26_fresh_memory_is_allocated_in_ascending_order() {
    for memory in [PhysicalMemory::unlimited(), PhysicalMemory::of(5120)] {
        for pick in [Pick::LastFreed, Pick::LowestAddress] {
            let mut buddy = Buddy::new(memory.clone(), 11, pick);
            assert_eq!((0..5000).filter_map(|_| buddy.alloc()).collect::<Vec<_>>(), frames(0..5000));
        }
    }
    // The remainder at the end of memory is in smaller blocks, and the smallest order that has one is used first.
    let mut buddy = Buddy::new(PhysicalMemory::of(1030), 11, Pick::LowestAddress);
    let got: Vec<_> = (0..1030).filter_map(|_| buddy.alloc()).collect();
    assert!(got == [frames(1028..1030), frames(1024..1028), frames(0..1024)].concat());
}

/// RMM15-27, F-11.
#[test]
fn rmm15_27b_the_remainder_returns_to_the_lists() {
    let mut buddy = Buddy::new(PhysicalMemory::of(64), 6, Pick::LastFreed);
    assert_eq!(buddy.alloc_from_next_larger(11), Some(Pfn(0)));
    assert_eq!((0..6).map(|o| buddy.free_blocks(o).unwrap()).collect::<Vec<_>>(), [1, 0, 1, 0, 1, 1]);
    assert_eq!((buddy.alloc_from_next_larger(33), buddy.alloc_from_next_larger(0)), (None, None));
    assert_eq!(buddy.eager_from_next_larger(43).blocks, blocks(&[(32, 32), (16, 11)]));
    assert_eq!(
        buddy.eager_from_next_larger(11),
        Eager { blocks: blocks(&[(28, 4), (12, 4), (27, 1), (11, 1)]), missing: 1 }
    );
}

#[test]
fn rmm15_27a_the_switch_decides_which_block() {
    for (pick, next) in [(Pick::LastFreed, 9), (Pick::LowestAddress, 3)] {
        let mut buddy = Buddy::new(PhysicalMemory::of(16), 11, pick);
        (0..16).for_each(|_| assert!(buddy.alloc().is_some()));
        [3, 6, 9].into_iter().for_each(|f| buddy.free(Pfn(f)));
        assert_eq!(buddy.alloc(), Some(Pfn(next)));
    }
}

#[test]
fn amb_84_fragmentation_index() {
    // Free: one block of 8 and four single frames.
    let mut buddy = Buddy::new(PhysicalMemory::with_pins(16, [9, 11, 13, 15].map(|f| f..f + 1)), 4, Pick::LastFreed);
    for (request, index) in [(1, 0.0), (2, 1.0 / 3.0), (8, 1.0 / 3.0), (5, 1.0 / 3.0), (1000, 1.0 / 3.0)] {
        assert!((buddy.fragmentation_index(request) - index).abs() < 1e-12, "{request} pages");
    }
    buddy.eager(12);
    assert_eq!(buddy.fragmentation_index(1), 1.0, "nothing is free");
    assert_eq!(Buddy::new(PhysicalMemory::unlimited(), 11, Pick::LastFreed).fragmentation_index(1 << 20), 0.0);
}

#[test]
fn a_terabyte_is_as_cheap_as_a_megabyte() {
    let mut buddy = Buddy::new(PhysicalMemory::with_pins(1 << 28, std::iter::once(0..1)), 11, Pick::LastFreed);
    assert_eq!((buddy.free_blocks(0), buddy.free_blocks(10)), (Some(1), Some((1 << 18) - 1)));
    assert_eq!((buddy.alloc(), buddy.alloc(), buddy.alloc_order(10)), (Some(Pfn(1)), Some(Pfn(2)), Some(Pfn(1024))));
    buddy.free_order(Pfn(1024), 10);
    assert_eq!(buddy.alloc_order(10), Some(Pfn(1024)), "freed blocks come before fresh ones");
}

#[test]
#[should_panic(expected = "not allocated")]
fn a_frame_is_given_back_once() {
    let mut buddy = Buddy::new(PhysicalMemory::of(4), 11, Pick::LastFreed);
    let frame = buddy.alloc().unwrap();
    buddy.free(frame);
    buddy.free(frame);
}
