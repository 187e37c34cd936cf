//! Allocators by themselves: frames are allocated once, lie in memory and are not pinned, every free frame can be
//! allocated, and each allocation counts its steps.

use super::need;
use farreach_os::frames::{FrameAllocator, keys};
use farreach_types::addr::{Pfn, Vpn};
use farreach_types::params::{Allowed, Params};
use libtest_mimic::Trial;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde_json::{Map, Value as Json};
use std::collections::BTreeSet;

const MEMORIES: &[&str] = &[
    "memory=64K",
    "memory=1M",
    "memory=4100K",
    "memory=4M,fragmentation=0.4",
    "memory=16M,max_order=6,fragmentation=0.05,colours=5",
    "memory=8M,address_ordered=true,colours=64",
    "memory=16M,fragmentation=0.5,movable=0.5",
    "",
];
const STEPS: usize = 6000;

/// A test for each word of the key `allocator`, with each memory that it does not refuse.
pub fn trials() -> Vec<Trial> {
    let allocator = keys::KEYS.iter().find(|key| key.name == "allocator").expect("there are allocators");
    let Allowed::OneOf(words) = allocator.allowed else { panic!("the key 'allocator' is one of some words") };
    let trial = |(word, memory): (&'static str, &'static str)| {
        build(word, memory).ok()?;
        let test = move || {
            let first = stream(word, memory, 5)?;
            Ok(need(first == stream(word, memory, 5)?, || "equal seeds give different frames".into())?)
        };
        Some(Trial::test(format!("allocator/{word}/{}", if memory.is_empty() { "unlimited" } else { memory }), test))
    };
    words.iter().flat_map(|word| MEMORIES.iter().map(move |memory| (*word, *memory))).filter_map(trial).collect()
}

fn build(word: &str, memory: &str) -> Result<Box<dyn FrameAllocator>, String> {
    let mut given: Map<String, Json> = Map::new();
    for (name, value) in memory.split(',').filter_map(|pair| pair.split_once('=')) {
        given.insert(name.into(), value.into());
    }
    given.insert("allocator".into(), word.into());
    let all: Vec<_> = keys::KEYS.iter().collect();
    keys::build(&Params::resolve(&all, &given)?, 12, 3)
}

/// The frames in the order in which they were allocated.
fn stream(word: &str, memory: &str, seed: u64) -> Result<Vec<u64>, String> {
    let mut a = build(word, memory)?;
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut below = |n: u64| rng.next_u64() % n;
    let mut out: BTreeSet<u64> = a.movable().ranges().flatten().collect();
    let mut given = Vec::new();
    for n in 0..STEPS {
        let steps = a.steps();
        // Memory fills up and empties again.
        let frees = if n / 1000 % 2 == 0 { 30 } else { 60 };
        let taken: Vec<u64> = match below(100) {
            p if p < frees => {
                let from = below(1 << 14);
                let Some(&first) = out.range(from..).next().or(out.first()) else { continue };
                let most = 1 + below(40);
                let run = (first..first + most).take_while(|frame| out.contains(frame)).count() as u64;
                (first..first + run).for_each(|frame| _ = out.remove(&frame));
                if run == 1 {
                    a.free(Pfn(first))
                } else {
                    a.free_run(Pfn(first), run)
                }
                Vec::new()
            }
            p if p < 80 => {
                let free = a.free_frames();
                let one = if p % 2 == 0 { a.alloc() } else { a.alloc_near(Vpn(below(1 << 20))) };
                need(one.is_some() || free == Some(0), || {
                    format!("step {n}: no frame was to be had, and {free:?} are free")
                })?;
                need(one.is_none() || a.steps() > steps, || format!("step {n}: a frame was found without a step"))?;
                one.map(|pfn| pfn.0).into_iter().collect()
            }
            p if p < 95 => group(&mut *a, below(7) as u32, below(3), n)?,
            _ => {
                let (first, frames) = (below(1 << 12), 1 + below(20));
                let are_free = (first..first + frames).all(|frame| is_free(&*a, frame));
                let took = a.take(Pfn(first), frames);
                need(!took || are_free, || {
                    format!("step {n}: {frames} frames from {first:#x} were taken, and not all were free")
                })?;
                if took { (first..first + frames).collect() } else { Vec::new() }
            }
        };
        for &frame in &taken {
            need(out.insert(frame), || format!("step {n}: frame {frame:#x} was allocated twice"))?;
            need(a.is_open(frame..frame + 1), || format!("step {n}: frame {frame:#x} belongs to others, or is none"))?;
            need(!is_free(&*a, frame), || format!("step {n}: frame {frame:#x} was allocated and is free"))?;
        }
        need(a.steps() >= steps, || format!("step {n}: {} steps after {steps}", a.steps()))?;
        given.extend(taken);
        counted(&*a, &out).map_err(|what| format!("step {n}: {what}"))?;
    }
    while let Some(frame) = out.pop_first() {
        a.free(Pfn(frame));
    }
    counted(&*a, &out)?;
    Ok(given)
}

/// An aligned group of which some frames are taken: all of it was free.
fn group(a: &mut dyn FrameAllocator, order: u32, which: u64, step: usize) -> Result<Vec<u64>, String> {
    let size = 1u64 << order;
    let covered: Vec<u64> = match which {
        0 => (0..size).collect(),
        1 => (0..size).filter(|i| i % 3 == 0).collect(),
        _ => (size / 2..size).collect(),
    };
    let before: Vec<u64> = (0..64).map(|word| a.free_of(word)).collect();
    let Some(base) = a.alloc_group(order, &covered) else { return Ok(Vec::new()) };
    need(base.0.is_multiple_of(size), || format!("step {step}: a group of {size} frames begins at {base:?}"))?;
    for frame in base.0..base.0 + size {
        let was_free = before.get((frame / 64) as usize).is_none_or(|word| word >> (frame % 64) & 1 != 0);
        need(was_free, || format!("step {step}: {frame:#x} of the group at {base:?} was not free"))?;
        let wanted = covered.contains(&(frame - base.0));
        need(is_free(a, frame) != wanted, || {
            format!("step {step}: {frame:#x} of the group at {base:?}: wanted is {wanted}")
        })?;
    }
    Ok(covered.iter().map(|offset| base.0 + offset).collect())
}

fn is_free(a: &dyn FrameAllocator, frame: u64) -> bool {
    a.free_of(frame / 64) >> (frame % 64) & 1 != 0
}

/// XC-6.
fn counted(a: &dyn FrameAllocator, out: &BTreeSet<u64>) -> Result<(), String> {
    let (allocated, n) = (a.allocated(), out.len() as u64);
    need(allocated == n, || format!("{n} frames are out, and {allocated} are counted"))?;
    let sum = a.free_frames().map(|free| free + allocated + a.pinned());
    need(sum == a.total(), || format!("frames are lost: {sum:?} of {:?}", a.total()))
}
