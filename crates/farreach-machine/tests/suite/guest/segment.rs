//! H-DS-12, DS13-43: a segment for the direct map of a guest's kernel, against a rule of two lines and plain TLBs.

use super::run;
use super::system::{DIRECT_MAP, System, in_stream};
use crate::common::run_batches;
use farreach_oracle::guest::system::{Heard, System as Plain};
use farreach_oracle::guest::tlb::{TlbConfig, Tlbs};
use farreach_types::event::{Access, Batch, Kind};

const ENTRIES: usize = 12;

/// A random system with a direct map, which its kernel uses from the beginning on.
fn stream(seed: u64, processors: u32) -> Vec<Batch> {
    let mut system = System::new(seed, processors);
    system.direct_map();
    let page = |number: u64| in_stream(DIRECT_MAP) + 512 + number * 7 % 1536;
    let there = |page: &u64| !(page - in_stream(DIRECT_MAP)).is_multiple_of(13) || page - in_stream(DIRECT_MAP) >= 1024;
    (0..1200).map(page).filter(there).for_each(|page| system.load(page, 1));
    for number in 0..250 {
        system.act();
        (0..20).map(|i| page(number * 11 + i * i)).filter(there).for_each(|page| system.load(page, 2));
    }
    system.batches
}

/// The rule: data of the direct map that may be written never misses. All other data goes by TLBs.
fn misses_of_data(batches: &[Batch]) -> u64 {
    let mut system = Plain::new(None);
    let mut tlbs = Tlbs::new(TlbConfig { entries: ENTRIES, mixed: false, shift: 12, drops: true, pcid: false }, None);
    for batch in batches {
        system.read(batch, |system, heard| {
            let is_served = |Access { kind, addr, .. }: Access| {
                let number = (addr >> 12).wrapping_sub(in_stream(DIRECT_MAP));
                kind == Kind::Fetch
                    || (1024..2048).contains(&number)
                    || (512..1024).contains(&number) && number % 11 > 0
            };
            if !matches!(heard, Heard::Access(access) if is_served(access)) {
                tlbs.hear(system, heard);
            }
        });
    }
    tlbs.sums().iter().map(|half| half.misses).sum()
}

#[test]
fn h_ds_12_the_direct_map_never_misses() {
    let levels = format!("l1d=4K:{ENTRIES},l1i=4K:4,l2=none,l1_replacement=lru");
    let machines =
        ["kernel_segment=none", "kernel_segment_covers=all", "kernel_segment=shared,kernel_segment_covers=all"]
            .map(|keys| format!("ds13/kernel:{levels},{keys}"));
    let machines = machines.each_ref().map(String::as_str);
    for (seed, processors) in [(1, 1), (2, 1), (3, 1), (4, 3), (5, 3)] {
        let batches = stream(seed, processors);
        let outcome = run(&machines, &batches);
        let data = |i: usize| outcome.machine(i).counts.tlb.data_misses;
        assert_eq!(data(1), misses_of_data(&batches), "seed {seed}");
        assert_eq!(outcome.machine(1).counts, outcome.machine(2).counts, "no program has a segment");
        assert!(data(1) + 3000 < data(0), "seed {seed}: {} of {}", data(1), data(0));
    }
}

/// DS13-10: registers with one set of rights hold the longest part that has it, here the pages of 2 MB; what the TLBs
/// hold of the rest is as without. Emulation counts the misses inside, and changes nothing else (DS13-25).
#[test]
fn ds13_10_uniform_rights() {
    let batches = stream(7, 1);
    let outcome = run(
        &[
            "ds13/kernel:kernel_segment=none",
            "ds13/kernel",
            "ds13/kernel:kernel_segment_covers=all",
            "ds13/kernel:segment_served_by=pages",
        ],
        &batches,
    );
    let tlb = |i: usize| &outcome.machine(i).counts.tlb;
    let misses = [0, 1, 2].map(|i| tlb(i).data_misses);
    assert!(misses[0] > misses[1] && misses[1] > misses[2], "{misses:?}");
    assert_eq!((tlb(3).misses, tlb(3).walk.walks), (tlb(0).misses, tlb(0).walk.walks));
    assert!(tlb(3).segment.misses_inside > 0);
}

/// Machines with other designs beside it do not change: what the kernel's segment adds are events.
#[test]
fn other_machines_are_as_without() {
    let batches = stream(9, 1);
    let beside = run_batches(&["t94/single:placement=guest", "ds13/kernel"], &batches, false, 1);
    let alone = run_batches(&["t94/single:placement=guest"], &batches, false, 1);
    assert_eq!(beside.machine(0), alone.machine(0));
}
