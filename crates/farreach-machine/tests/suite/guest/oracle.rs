//! Fully associative TLBs with LRU on the page tables of random guests, against the oracle's, which obey registers and
//! invalidations and know nothing of an operating system.

use crate::common::run_batches;
use farreach_oracle::dice::seeds;
use farreach_oracle::guest::Mistake;
use farreach_oracle::guest::kernel::format::{FORMATS, Format};
use farreach_oracle::guest::kernel::{Kernel, KernelConfig};
use farreach_oracle::guest::system::System;
use farreach_oracle::guest::tlb::{TlbConfig, TlbCounts, Tlbs};
use farreach_types::event::{Arch, Batch};

const STEPS: usize = 250;
const ENTRIES: usize = 12;

fn config(seed: u64, late: bool, processors: usize) -> KernelConfig {
    let round = seed as usize / FORMATS.len();
    KernelConfig {
        format: FORMATS[seed as usize % FORMATS.len()],
        processors,
        late,
        tags: round.is_multiple_of(2),
        local_kernel: !round.is_multiple_of(2) && FORMATS[seed as usize % FORMATS.len()].arch == Arch::X86,
        processes: [2, 5][round / 2 % 2],
    }
}

/// The sizes that leaves of a format have, up to 1 GB.
fn sizes(format: Format) -> &'static str {
    match (format.arch, format.granule) {
        (Arch::X86, _) => "4K+2M+1G",
        (_, 12) => "4K+64K+2M+32M+1G",
        (_, 14) => "16K+2M+32M+1G",
        _ => "64K+2M+512M",
    }
}

fn machine(format: Format, mixed: bool, stale: &str) -> String {
    let page = format!("{}K", 1 << (format.granule - 10));
    let design = if mixed { format!("superpage,sizes={}", sizes(format)) } else { "single".into() };
    format!("t94/single:kind={design},entries={ENTRIES},replacement=lru,page_size={page},placement=guest,stale={stale}")
}

fn play(config: KernelConfig, seed: u64) -> Vec<Batch> {
    Kernel::new(config, seed).play(STEPS)
}

/// Programs and kernel: lookups and misses.
type Halves = [(u64, u64); 2];

fn by_oracle(batches: &[Batch], tlb: TlbConfig, mistake: Option<Mistake>) -> (Halves, u64) {
    let (mut system, mut tlbs) = (System::new(mistake), Tlbs::new(tlb, mistake));
    for batch in batches {
        system.read(batch, |system, heard| tlbs.hear(system, heard));
    }
    let sums = tlbs.sums();
    (sums.map(|TlbCounts { lookups, misses, .. }| (lookups, misses)), sums[0].stale + sums[1].stale)
}

fn by_machines(batches: &[Batch], machines: &[String]) -> Vec<(Halves, u64)> {
    let machines: Vec<&str> = machines.iter().map(String::as_str).collect();
    let outcome = run_batches(&machines, batches, false, 1);
    let counts = |i| {
        let guest = outcome.machine(i).guest.as_ref().expect("a whole system");
        let halves = [false, true].map(|kernel| (guest.of(kernel).lookups, guest.of(kernel).misses));
        (halves, outcome.machine(i).counts.os.guest.stale_lookups)
    };
    (0..machines.len()).map(counts).collect()
}

/// What differs between a system of this seed and the oracle's TLBs.
fn differences(config: KernelConfig, seed: u64, stales: &[&str], mistake: Option<Mistake>) -> Vec<String> {
    let batches = play(config, seed);
    let cases: Vec<(bool, &str)> =
        [false, true].into_iter().flat_map(|mixed| stales.iter().map(move |s| (mixed, *s))).collect();
    let machines: Vec<String> = cases.iter().map(|(mixed, stale)| machine(config.format, *mixed, stale)).collect();
    let counts = by_machines(&batches, &machines);
    let mut wrong = Vec::new();
    for ((mixed, stale), (halves, met)) in cases.into_iter().zip(counts) {
        let tlb =
            TlbConfig { entries: ENTRIES, mixed, shift: config.format.granule, drops: stale == "dropped", pcid: false };
        let (expected, stale_lookups) = by_oracle(&batches, tlb, mistake);
        if halves != expected || met != stale_lookups {
            let what =
                format!("the oracle has {expected:?} and {stale_lookups} stale, the machine {halves:?} and {met}");
            wrong.push(format!("seed {seed}, mixed {mixed}, stale {stale}, {config:?}: {what}"));
        }
    }
    wrong
}

/// A late kernel's stale pages are those of the page table, for all designs alike: a page is stale until the guest
/// invalidates it, whether or not a TLB had it, and a miss fills the old translation. Hardware fills the new one. So
/// the counts are near those of hardware, and stale pages more.
#[test]
fn late_kernels_with_stale_entries_come_near() {
    let (mut misses, mut expected, mut met, mut stale) = (0, 0, 0, 0);
    for seed in seeds(26) {
        let config = config(seed, true, 1);
        let batches = play(config, seed);
        let (halves, used) = by_machines(&batches, &[machine(config.format, false, "guest")])[0];
        let tlb = TlbConfig { entries: ENTRIES, mixed: false, shift: config.format.granule, drops: false, pcid: false };
        let (right, lookups) = by_oracle(&batches, tlb, None);
        assert_eq!(halves.map(|half| half.0), right.map(|half| half.0), "seed {seed}");
        misses += halves[0].1 + halves[1].1;
        expected += right[0].1 + right[1].1;
        (met, stale) = (met + used, stale + lookups);
    }
    assert!(u64::abs_diff(misses, expected) * 200 < expected, "{misses} misses, and {expected} of hardware");
    assert!(met > stale && stale > 0, "{met} stale pages used, and {stale} stale lookups of hardware");
}

fn check(late: bool, processors: usize, stales: &[&str]) {
    let (mut wrong, mut cases) = (Vec::new(), 0);
    for seed in seeds(26) {
        wrong.extend(differences(config(seed, late, processors), seed, stales, None));
        cases += 2 * stales.len();
    }
    assert!(wrong.is_empty(), "{} of {cases} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn right_kernels_on_one_processor() {
    check(false, 1, &["dropped", "guest"]);
}

#[test]
fn right_kernels_on_three_processors() {
    check(false, 3, &["dropped", "guest"]);
}

#[test]
fn late_kernels_on_one_processor() {
    check(true, 1, &["dropped"]);
}

#[test]
fn late_kernels_on_three_processors() {
    check(true, 3, &["dropped"]);
}

#[test]
fn planted_mistakes_are_found() {
    for mistake in Mistake::ALL {
        // Frames and rights are compared by the tests of farreach-os.
        if [Mistake::PatInAddress, Mistake::LeafRights].contains(&mistake) {
            continue;
        }
        let found = (0..52).any(|seed| {
            let config = config(seed, false, if mistake == Mistake::NoBroadcast { 3 } else { 1 });
            !differences(config, seed, &["guest"], Some(mistake)).is_empty()
        });
        assert!(found, "{mistake:?}");
    }
}

/// `tags = pcid` with pages of the kernel that are not global: each space has entries of its own for them (OZ-12).
#[test]
fn pcids_that_linux_would_deal_out() {
    let (mut wrong, mut local) = (Vec::new(), 0);
    let x86 = FORMATS.iter().filter(|format| format.arch == Arch::X86).copied();
    for ((seed, format), (late, processors)) in (0..12).flat_map(|seed| {
        let formats: Vec<Format> = x86.clone().collect();
        let cases = [(false, 1), (true, 1), (false, 3)];
        formats.into_iter().flat_map(move |format| cases.map(|case| ((seed, format), case)))
    }) {
        let config = KernelConfig { format, processors, late, tags: false, local_kernel: true, processes: 9 };
        let batches = play(config, seed);
        let machines = [false, true].map(|mixed| machine(format, mixed, "dropped,tags=pcid"));
        let counts = by_machines(&batches, &machines);
        for (mixed, (halves, _)) in [false, true].into_iter().zip(counts) {
            let tlb = TlbConfig { entries: ENTRIES, mixed, shift: format.granule, drops: true, pcid: true };
            let (expected, _) = by_oracle(&batches, tlb, None);
            let (shared, _) = by_oracle(&batches, TlbConfig { pcid: false, ..tlb }, None);
            local += u64::from(shared != expected);
            if halves != expected {
                let what = format!("the oracle has {expected:?}, the machine {halves:?}");
                wrong.push(format!("seed {seed}, mixed {mixed}, {config:?}: {what}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(local > 0, "PCIDs change something");
}
