//! Frame allocators against naive models (CA-7, CA-32, XC-6).

mod buddy;
mod fifo;
mod inputs;

use farreach_os::frames::FrameAllocator;
use farreach_types::addr::Pfn;
use proptest::prelude::*;
use std::ops::Range;

/// One operation on an allocator.
#[derive(Clone, Debug)]
enum Op {
    Alloc,
    Group(u32, Range<u64>),
    Block(u32),
    /// Frames that lie together, by place.
    Take(u64, u64),
    /// The first operand selects among the frames that are allocated, the second is the number to return.
    Free(usize, usize),
}

fn ops(largest: u32, blocks: bool) -> impl Strategy<Value = Vec<Op>> {
    let group = (0..=largest).prop_flat_map(|order| {
        let size = 1u64 << order;
        prop_oneof![
            3 => Just(Op::Group(order, 0..size)),
            2 => (0..size, 0..size).prop_map(move |(a, b)| Op::Group(order, a.min(b)..a.max(b) + 1)),
        ]
    });
    let op = prop_oneof![
        4 => Just(Op::Alloc),
        3 => group,
        if blocks { 3 } else { 0 } => (0..=largest).prop_map(Op::Block),
        2 => (0u64..300, 1u64..20).prop_map(|(first, n)| Op::Take(first, n)),
        6 => any::<usize>().prop_map(|at| Op::Free(at, 1)),
        2 => (any::<usize>(), 1usize..40).prop_map(|(at, n)| Op::Free(at, n)),
    ];
    prop::collection::vec(op, 1..400)
}

/// Ranges of pinned frames below `frames`.
fn pins(frames: u64) -> impl Strategy<Value = Vec<Range<u64>>> {
    let range = (0..frames, 1u64..9).prop_map(move |(start, n)| start..(start + n).min(frames));
    prop_oneof![Just(Vec::new()), prop::collection::vec(range, 0..12)]
}

/// XC-6.
fn conserved(a: &dyn FrameAllocator) -> bool {
    match (a.total(), a.free_frames()) {
        (Some(total), Some(free)) => free + a.allocated() + a.pinned() == total,
        (None, None) => true,
        _ => false,
    }
}

fn frames(range: Range<u64>) -> Vec<Pfn> {
    range.map(Pfn).collect()
}
