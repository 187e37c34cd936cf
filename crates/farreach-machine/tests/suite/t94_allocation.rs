//! The allocation of frames decides which pages subblocks and superpages can share (T94-47, T94-61, H-T94-24, H-T94-26,
//! H-T94-35).

use crate::common::{Stream, run_batches};
use farreach_machine::{Lab, MachineSpec, Options};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Regions of 16 pages in the sharing streams.
const REGIONS: u64 = 64;
const FRAMES: u64 = 8192;

/// Every page of an object of [`REGIONS`] regions once, in random order.
fn scattered(seed: u64) -> Stream {
    let mut pages: Vec<u64> = (0x1000..0x1000 + 16 * REGIONS).collect();
    pages.shuffle(&mut Pcg64Mcg::seed_from_u64(seed));
    let mut s = Stream::new();
    s.start().anon(0x1000, 16 * REGIONS).loads(pages);
    s
}

/// Pages that joined an entry of a neighbour, in a TLB with room for all, so that replacement does not matter.
fn shared(keys: &str, seed: u64, stream: &Stream) -> u64 {
    let machine = format!("t94/partial:entries=4096,memory=32M,seed={seed},{keys}");
    run_batches(&[&machine], &stream.batches, false, 1).machine(0).counts.tlb.merges
}

/// T94-61, H-T94-35: a page of its own colour is aligned, but its neighbours are in the same group of frames by chance
/// only.
#[test]
fn h_t94_35_colouring_shares_by_chance_only() {
    const SEEDS: u64 = 24;
    let (mut colouring, mut fifo, mut reservation) = (0, 0, 0);
    for seed in 0..SEEDS {
        let s = scattered(seed);
        colouring += shared("placement=demand,allocator=colouring,colours=16", seed, &s);
        fifo += shared("placement=demand,allocator=fifo", seed, &s);
        reservation += shared("placement=reservation", seed, &s);
    }
    // Two of the 16 pages of a region share if their frames, each drawn from its colour, are of the same of 512 groups.
    // A page joins if any of those before it is in its group.
    let groups = (FRAMES / 16) as f64;
    let joins = (0..16).map(|before| 1.0 - (1.0 - 1.0 / groups).powi(before)).sum::<f64>();
    let expected = joins * (REGIONS * SEEDS) as f64;
    let deviation = expected.sqrt();
    assert!(
        (colouring as f64 - expected).abs() < 5.0 * deviation,
        "colouring shared {colouring} pages, chance gives {expected:.0} with a deviation of {deviation:.0}"
    );
    let pages = SEEDS * REGIONS * 16;
    assert_eq!(reservation, pages - SEEDS * REGIONS, "all but the first page of each region");
    assert!(colouring * 20 < reservation && fifo * 20 < reservation, "{colouring} and {fifo} of {reservation}");
}

/// Neighbours that are touched one after the other share under demand paging from a list. Colouring takes that away,
/// too.
#[test]
fn t94_61_colouring_makes_no_neighbours_contiguous() {
    let mut s = Stream::new();
    s.start().anon(0x1000, 16 * REGIONS).loads(0x1000..0x1000 + 16 * REGIONS);
    let demand = shared("placement=demand", 1, &s);
    assert_eq!(demand, 15 * REGIONS, "ascending frames from an aligned one on");
    for (colours, seed) in [(1, 3), (4, 4), (16, 5), (64, 6)] {
        let coloured = shared(&format!("placement=demand,allocator=colouring,colours={colours}"), seed, &s);
        assert!(coloured * 10 < demand, "{colours} colours: {coloured} of {demand}");
    }
    // Reserving on top of it finds no groups: it degenerates to ordinary allocation (T94-48).
    let coloured = shared("placement=reservation,allocator=colouring", 7, &s);
    assert!(coloured * 10 < demand, "{coloured} of {demand}");
}

/// Objects that are mapped and unmapped, used in part; at most 512 pages at a time.
fn changing(seed: u64) -> Stream {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut s = Stream::new();
    s.start();
    let mut live: Vec<(u64, u64)> = Vec::new();
    let mut next = 0x10_000;
    let (mut held, mut objects) = (0, 0);
    while objects < 400 {
        let pages = rng.random_range(1..48);
        if held + pages > 512 {
            let (start, pages) = live.swap_remove(rng.random_range(0..live.len()));
            s.unmap(start, pages);
            held -= pages;
            continue;
        }
        s.anon(next, pages);
        live.push((next, pages));
        next += pages + rng.random_range(0..20);
        held += pages;
        objects += 1;
        for _ in 0..rng.random_range(0..60) {
            let (start, pages) = live[rng.random_range(0..live.len())];
            s.load(start + rng.random_range(0..pages));
        }
    }
    s
}

fn faults(machine: &str, s: &Stream) -> Result<(u64, u64), String> {
    let specs = vec![MachineSpec::parse(machine, 7).expect(machine)];
    let mut lab = Lab::new(specs, Options::default()).expect(machine);
    for batch in &s.batches {
        lab.feed(batch).map_err(|e| e.to_string())?;
    }
    let result = lab.result("test", None);
    let os = &result.machines[0].counts.os;
    Ok((os.page_faults, os.reservations_stolen))
}

/// T94-47, T94-49, H-T94-24: for any size of regions, reserved pages never displace busy ones, down to the smallest
/// memory in which the program can run.
#[test]
fn h_t94_24_faults_are_the_same_with_and_without_reservation() {
    for seed in 0..6 {
        let s = changing(seed);
        let fits = |frames: u64| faults(&format!("t94/single:memory={}K", 4 * frames), &s).is_ok();
        let least = (1..=512).find(|&n| fits(n)).expect("512 pages are the most there are");
        let mut stolen = 0;
        for frames in [least, least + 1, least + 8, least + 50, 2 * least, 4 * least, 16 * least] {
            let without = faults(&format!("t94/single:memory={}K", 4 * frames), &s).expect("it fits");
            for region in ["16K", "64K", "256K"] {
                let keys = format!("placement=reservation,region={region},memory={}K", 4 * frames);
                let with = faults(&format!("t94/single:{keys}"), &s).expect("it fits without, so it fits");
                assert_eq!(with.0, without.0, "seed {seed}, {frames} frames, {region}");
                stolen += with.1;
            }
        }
        assert!(stolen > 0, "seed {seed}: there was no want of memory");
        let too_small = format!("t94/single:placement=reservation,memory={}K", 4 * (least - 1));
        assert!(faults(&too_small, &s).is_err(), "seed {seed}: a frame less is too few for both");
    }
}

/// H-T94-25: as others take memory, sharing falls gradually from all to chance.
#[test]
fn h_t94_25_sharing_falls_with_memory() {
    const OTHER: u64 = 0x100_000;
    let shares: Vec<u64> = (0..=11)
        .map(|step| {
            let mut rng = Pcg64Mcg::seed_from_u64(step);
            let mut s = Stream::new();
            s.start().anon(0x1000, 16 * REGIONS).anon(OTHER, 16 * 1024);
            // The first page of each region reserves the whole region; others steal from it; then four more pages of
            // each region.
            s.loads((0..REGIONS).map(|r| 0x1000 + 16 * r));
            s.loads((0..64 * step).map(|i| OTHER + 16 * i + rng.random_range(0..16)));
            let mut pages: Vec<u64> = (0..4 * REGIONS).map(|i| 0x1000 + 16 * (i / 4) + 3 * (i % 4 + 1)).collect();
            pages.shuffle(&mut rng);
            s.loads(pages);
            let machine = format!("t94/partial:entries=4096,memory={}K", 4 * 16 * REGIONS);
            let out = run_batches(&[&machine], &s.batches, false, 1);
            let own = out.entries[0].iter().filter(|e| e.base.0 < OTHER);
            own.map(|e| e.pages.len() as u64 - 1).sum()
        })
        .collect();
    assert_eq!(shares[0], 4 * REGIONS, "everything in place");
    assert!(shares.is_sorted_by(|a, b| a > b), "each step costs: {shares:?}");
    let steepest = shares.windows(2).map(|w| w[0] - w[1]).max().expect("steps");
    assert!(steepest < REGIONS, "and none costs all: {shares:?}");
    assert!(shares[11] < REGIONS, "the remaining ones: {shares:?}");
}

/// Loops over objects of whole regions, as superpages like it.
fn looping(seed: u64) -> Stream {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut s = Stream::new();
    s.start();
    for i in 0..32 {
        s.anon(0x1000 + 64 * i, 64);
    }
    for _ in 0..120 {
        let from = 0x1000 + 16 * rng.random_range(0..120);
        for _ in 0..2 {
            s.loads(from..from + 16 * rng.random_range(1..8));
        }
    }
    s
}

/// H-T94-26: the more frames belong to others, the nearer superpages and partial subblocks come to single pages; never
/// beyond.
#[test]
fn h_t94_26_fragmentation_degrades_to_single() {
    for seed in 0..3 {
        let s = looping(seed);
        // 2048 pages at most, in ten times as many frames: they fit even if nine of ten belong to others.
        let misses = |fragmentation: f64| {
            let keys = format!("memory=100M,fragmentation={fragmentation},seed={seed},replacement=lru");
            let machines = ["single", "superpage", "partial"].map(|m| format!("t94/{m}:{keys}"));
            let names: Vec<&str> = machines.iter().map(String::as_str).collect();
            let out = run_batches(&names, &s.batches, false, 1);
            let faults: Vec<u64> = (0..3).map(|i| out.machine(i).counts.os.page_faults).collect();
            assert!(faults.iter().all(|f| *f == faults[0]), "{faults:?}");
            [out.misses()[0], out.misses()[1], out.misses()[2]]
        };
        let steps = [0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9].map(|f| (f, misses(f)));
        for (fragmentation, [single, superpage, partial]) in steps {
            assert_eq!(single, steps[0].1[0], "frames do not matter to single pages");
            assert!(superpage <= single && partial <= single, "{fragmentation}: {superpage} and {partial} of {single}");
        }
        let relative = |i: usize, design: usize| steps[i].1[design] as f64 / steps[i].1[0] as f64;
        for design in [1, 2] {
            assert!(relative(0, design) < 0.7, "seed {seed}: {steps:?}");
            assert!(relative(6, design) > 0.9, "seed {seed}: {steps:?}");
        }
    }
}
