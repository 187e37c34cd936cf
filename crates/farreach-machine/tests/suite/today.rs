//! Do the caches of the processors of today have the geometry that their presets state (`walk_cost = caches`)? Found by
//! simulation, from the footprints that fit.

use crate::common::{Outcome, Stream, run, run_batches};
use farreach_machine::MachineSpec;
use farreach_types::event::{Backing, Prot};

/// KB and ways of instructions, data, second level and a slice; slices; whether walkers ask the first level; cycles.
type Shape = ([(u64, u64); 4], u64, bool, [u64; 4]);

const PRESETS: [(&str, Shape); 4] = [
    ("today/golden-cove", ([(32, 8), (48, 12), (1280, 10), (3072, 12)], 10, true, [5, 15, 44, 200])),
    ("today/zen5", ([(32, 8), (48, 12), (1024, 16), (4096, 16)], 8, true, [4, 14, 50, 200])),
    ("today/neoverse-n1", ([(64, 4), (64, 4), (1024, 8), (1024, 16)], 32, false, [4, 11, 75, 203])),
    ("today/neoverse-v2", ([(64, 4), (64, 4), (2048, 8), (1024, 16)], 36, false, [4, 10, 84, 280])),
];

fn with_caches(preset: &str) -> String {
    format!("{preset}:walk_cost=caches")
}

/// Loads of every line of this number of bytes in a row, twice.
fn twice(bytes: u64) -> Stream {
    let mut s = Stream::new();
    s.start().map(0x1000, bytes.div_ceil(4096), Prot::RW, false, Backing::Anonymous);
    for _ in 0..2 {
        for line in 0..bytes / 64 {
            s.batches.last_mut().unwrap().push_block(1, &[(0x1000 << 12) + 64 * line]);
        }
    }
    s
}

/// Misses of the program's loads in the three levels, beyond the first time round.
fn again(out: &Outcome, bytes: u64) -> [i64; 3] {
    let data = &out.machine(0).caches.as_ref().unwrap().data;
    [data.l1_misses, data.l2_misses, data.llc_misses].map(|n| n as i64 - (bytes / 64) as i64)
}

#[test]
fn the_presets_say_what_they_are() {
    for (preset, (levels, slices, walker_l1, cycles)) in PRESETS {
        let spec = MachineSpec::parse(preset, 1).unwrap();
        let shape = |key: &str| spec.params.text(key).to_owned();
        let text = |(kb, ways): (u64, u64)| {
            if kb % 1024 == 0 { format!("{}M/{ways}", kb / 1024) } else { format!("{kb}K/{ways}") }
        };
        let keys = ["cache_l1i", "cache_l1d", "cache_l2", "cache_llc"].map(shape);
        assert_eq!(keys, levels.map(text), "{preset}");
        assert_eq!(spec.params.int("cache_slices"), slices, "{preset}");
        assert_eq!(spec.params.text("walker_reads"), if walker_l1 { "l1d" } else { "l2" }, "{preset}");
        let keys = ["cache_l1_cycles", "cache_l2_cycles", "cache_llc_cycles", "cache_memory_cycles"];
        assert_eq!(keys.map(|key| spec.params.number(key)), cycles.map(|n| n as f64), "{preset}");
    }
}

#[test]
fn what_fits_is_there_the_second_time() {
    for (preset, (levels, slices, ..)) in PRESETS {
        let machine = with_caches(preset);
        let [_, (l1, l1_ways), (l2, l2_ways), (slice, _)] = levels.map(|(kb, ways)| (kb << 10, ways));
        // A level of the program's size holds all of it but for the lines of walkers; with one way more of footprint,
        // LRU keeps nothing.
        for (level, size, ways) in [(0, l1, l1_ways), (1, l2, l2_ways)] {
            let more = size + size / ways;
            let fits = again(&run_batches(&[&machine], &twice(size).batches, false, 1), size)[level];
            assert!(fits < (size / 64 / 8) as i64, "{preset}: level {} misses {fits} lines again", level + 1);
            let lost = again(&run_batches(&[&machine], &twice(more).batches, false, 1), more)[level];
            assert_eq!(lost, (more / 64) as i64, "{preset}: level {} with a way too many", level + 1);
        }
        // Lines are spread over slices by a hash, not evenly.
        let all = slice * slices;
        for (bytes, at_least, at_most) in [(all / 2, 0, 2), (all * 3 / 2, 80, 100)] {
            let lines = (bytes / 64) as i64;
            let lost = 100 * again(&run_batches(&[&machine], &twice(bytes).batches, false, 1), bytes)[2] / lines;
            assert!((at_least..=at_most).contains(&lost), "{preset}: {lost} % of {bytes} bytes are lost");
        }
    }
}

/// The first lines of pages all lie in a few sets: the number of pages that fit gives the size of the cache.
#[test]
fn the_first_level_of_instructions() {
    for (preset, (levels, ..)) in PRESETS {
        let pages = levels[0].0 / 4;
        let misses = |pages: u64| {
            let mut s = Stream::new();
            s.start();
            (0..3).for_each(|_| (0..pages).for_each(|page| _ = s.fetch(0x400 + page)));
            run(&[&with_caches(preset)], &s).machine(0).caches.as_ref().unwrap().fetch.l1_misses
        };
        assert_eq!(misses(pages), pages, "{preset}");
        assert!(misses(pages + 1) > pages + 1, "{preset}");
    }
}

#[test]
fn a_walk_costs_what_its_caches_cost() {
    for (preset, (_, _, walker_l1, cycles)) in PRESETS {
        let mut s = Stream::new();
        s.start().anon(0x1000, 0x8000);
        // Far more pages than TLBs have, in leaps, so that walks go all over their tables.
        (0..60_000u64).for_each(|i| _ = s.load(0x1000 + i * 40_503 % 0x8000));
        let out = run(&[&with_caches(preset)], &s);
        let a = out.machine(0).counts.tlb.walk_caches.page_tables();
        assert_eq!(a.l1 > 0, walker_l1, "{preset}: {a:?}");
        assert!(a.l2 > 1000 && a.memory > 100, "{preset}: {a:?}");
        let [l1, l2, llc, memory] = cycles;
        let sum = l1 * a.l1 + l2 * a.l2 + llc * a.llc + memory * a.memory;
        assert_eq!(out.machine(0).cost.walk_cycles, Some(sum), "{preset}");
    }
}
