//! Fragmentation, page colouring, keys.

use super::{conserved, pins};
use farreach_os::frames::{
    BlockAllocator, Buddy, Colouring, Fragmentation, FrameAllocator, PhysicalMemory, Pick, keys,
};
use farreach_types::addr::{Pfn, Vpn};
use farreach_types::params::Params;
use proptest::prelude::*;
use std::collections::HashSet;
use std::path::PathBuf;

fn file(name: &str, text: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn counts(memory: PhysicalMemory, max_order: u32) -> Vec<u64> {
    let buddy = Buddy::new(memory, max_order, Pick::LastFreed);
    (0..max_order).filter_map(|o| buddy.free_blocks(o)).collect()
}

#[test]
fn a_fraction_pins_exactly_so_many_everywhere() {
    let pin = |fraction, seed, frames| Fragmentation::Fraction { fraction, seed }.resolve(Some(frames)).unwrap();
    for (fraction, frames, pinned) in
        [(0.29, 100, 29), (0.5, 1 << 20, 1 << 19), (0.99, 1000, 990), (0.0, 10, 0), (0.3, 1, 0)]
    {
        assert_eq!(pin(fraction, 7, frames).pinned().count(), pinned);
    }
    assert_eq!(pin(0.5, 7, 4096), pin(0.5, 7, 4096));
    assert_ne!(pin(0.5, 7, 4096), pin(0.5, 8, 4096));
    // Uniform: each sixteenth of a million frames holds its share, give or take six standard deviations.
    let memory = pin(0.25, 1, 1 << 20);
    for part in 0..16u64 {
        let held = (part << 16..(part + 1) << 16).filter(|&f| memory.pinned().contains(f)).count() as f64;
        assert!((held - 16384.0).abs() < 6.0 * 111.0, "{part}: {held}");
    }
    // Half pinned at random: a quarter of the pairs, a sixteenth of the fours are wholly free, and they join.
    let n = counts(pin(0.5, 3, 1 << 20), 11);
    assert!((n[1] as f64 / (1 << 19) as f64 - 0.25 * 0.75).abs() < 0.01, "{n:?}");
}

#[test]
fn a_pattern_file_pins_what_it_lists() {
    let path = file("pattern", "# who is where\n17\n32-35 # four\n\nevery 16 offset 3\n  17  \n");
    let memory = Fragmentation::Pattern(path).resolve(Some(64)).unwrap();
    assert_eq!(memory.pinned().ranges().collect::<Vec<_>>(), [3..4, 17..18, 19..20, 32..36, 51..52]);
}

#[test]
fn pattern_errors_name_file_line_value_and_what_is_allowed() {
    for (text, words) in [
        ("1\nx\n", ["line 2", "'x'", "every 16 offset 3"]),
        ("5-2", ["line 1", "'5-2'", "lower"]),
        ("\n\n64", ["line 3", "'64'", "64 frames"]),
        ("every 4 offset 4", ["line 1", "every 4 offset 4", "K below N"]),
        ("every 0 offset 0", ["line 1", "every 0", "K below N"]),
        ("-3", ["line 1", "'-3'", "32-47"]),
        ("1 2", ["line 1", "'1 2'", "32-47"]),
    ] {
        let e = Fragmentation::Pattern(file("bad-pattern", text)).resolve(Some(64)).unwrap_err();
        assert!(words.iter().all(|w| e.contains(w)) && e.contains("bad-pattern"), "{e}");
    }
    let e = Fragmentation::Pattern("no/such/file".into()).resolve(Some(64)).unwrap_err();
    assert!(e.contains("no/such/file"), "{e}");
}

#[test]
fn fragmentation_wants_an_end_of_memory() {
    for f in [Fragmentation::Fraction { fraction: 0.3, seed: 0 }, Fragmentation::Pattern("p".into())] {
        let e = f.resolve(None).unwrap_err();
        assert!(e.contains("memory=1G"), "{e}");
        assert!(f.resolve(Some(1 << 33)).unwrap_err().contains("at most"));
    }
    assert_eq!(Fragmentation::None.resolve(None), Ok(PhysicalMemory::unlimited()));
}

const REAL: &str = "\
Node 0, zone      DMA      1      1      1      0      2      1      1      0      1      1      3
Node 0, zone    DMA32   3173    856    529    350    189    106     44     28     12      4    470
Node 0, zone   Normal    216     55    189    101     84     38     12      5      3      3    450
Node 1, zone   Normal  12005   7120   1003    404    211     82     41     12      9      3      0
";

#[test]
fn buddyinfo_of_a_real_machine_gives_its_counts() {
    let path = file("buddyinfo", REAL);
    let wanted = [15395, 8032, 1722, 855, 486, 227, 98, 45, 25, 11, 923];
    let own = Fragmentation::BuddyInfo { path: path.clone(), seed: 5 }.resolve(None).unwrap();
    let frames = own.frames().unwrap();
    assert_eq!(counts(own, 11), wanted);
    for (frames, seed) in [(Some(frames), 6), (Some(frames + 1), 6), (Some(1 << 22), 6), (Some(1 << 22), 7)] {
        let memory = Fragmentation::BuddyInfo { path: path.clone(), seed }.resolve(frames).unwrap();
        assert_eq!((memory.frames(), counts(memory, 11)), (frames, wanted.to_vec()));
    }
    let e = Fragmentation::BuddyInfo { path: path.clone(), seed: 5 }.resolve(Some(frames - 1)).unwrap_err();
    assert!(e.contains(&format!("at least {frames} frames")) && e.contains("buddyinfo"), "{e}");
    let at = |seed| Fragmentation::BuddyInfo { path: path.clone(), seed }.resolve(Some(1 << 22)).unwrap();
    assert!(at(1) == at(1) && at(1) != at(2));
}

#[test]
fn buddyinfo_errors_name_file_line_value_and_what_is_allowed() {
    for (text, words) in [
        ("Node 0, zone DMA 1 2\nNode 0, zone Normal 1 2 3\n", ["line 2", "Normal has 3 orders", "not 2"]),
        ("Node 0, zone DMA 1 x\n", ["line 1", "'x'", "0 to"]),
        ("Node 0, zone DMA 1 -1\n", ["line 1", "'-1'", "0 to"]),
        ("Node 0, zone DMA\n", ["line 1", "0 orders", "1 to 32"]),
        ("hello\n", ["line 1", "'hello'", "zone Normal"]),
        ("Node 0, zone DMA 0 0\n", ["", "no free block", "zone Normal"]),
        ("", ["", "no free block", "zone Normal"]),
    ] {
        let e = Fragmentation::BuddyInfo { path: file("bad-buddyinfo", text), seed: 0 }.resolve(None).unwrap_err();
        assert!(words.iter().all(|w| e.contains(w)) && e.contains("bad-buddyinfo"), "{e}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn buddyinfo_counts_are_the_counts(
        wanted in prop::collection::vec(prop_oneof![2 => Just(0u64), 3 => 0u64..40], 1..8),
        seed: u64, more in 0u64..3000
    ) {
        prop_assume!(wanted.iter().any(|&n| n > 0));
        let words: Vec<String> = wanted.iter().map(u64::to_string).collect();
        let path = file("random-buddyinfo", &format!("Node 0, zone Normal {}\n", words.join(" ")));
        let f = Fragmentation::BuddyInfo { path, seed };
        let own = f.resolve(None).unwrap();
        let frames = own.frames().unwrap() + more;
        prop_assert_eq!(counts(own, wanted.len() as u32), wanted.clone());
        prop_assert_eq!(counts(f.resolve(Some(frames)).unwrap(), wanted.len() as u32), wanted);
    }

    #[test]
    fn t94_61_colouring_conserves_frames(
        (total, pins) in (1u64..300).prop_flat_map(|n| (Just(n), pins(n))), colours in 1u64..20,
        steps in prop::collection::vec((any::<u64>(), 0..5u8), 1..600), seed: u64,
    ) {
        let memory = PhysicalMemory::with_pins(total, pins);
        let mut a = Colouring::new(memory.clone(), colours, seed);
        let mut out: Vec<u64> = Vec::new();
        for (x, what) in steps {
            if what == 0 && !out.is_empty() {
                a.free(Pfn(out.swap_remove(x as usize % out.len())));
            } else {
                let open = |c: u64| {
                    (0..total).any(|f| f % colours == c && !memory.pinned().contains(f) && !out.contains(&f))
                };
                let own = open(x % colours);
                let got = if what == 1 { a.alloc() } else { a.alloc_near(Vpn(x)) };
                prop_assert_eq!(got.is_none(), a.free_frames() == Some(0) && (0..colours).all(|c| !open(c)));
                if let Some(Pfn(f)) = got {
                    prop_assert!(f < total && !memory.pinned().contains(f) && !out.contains(&f));
                    prop_assert!(what == 1 || !own || f % colours == x % colours);
                    out.push(f);
                }
            }
            prop_assert!(conserved(&a) && a.allocated() as usize == out.len());
        }
    }
}

#[test]
fn t94_61_colouring_keeps_colours_and_makes_no_neighbours() {
    for memory in [PhysicalMemory::unlimited(), PhysicalMemory::of(1 << 18)] {
        let mut a = Colouring::new(memory, 16, 3);
        let got: Vec<u64> = (0..100_000).map(|v| a.alloc_near(Vpn(v)).unwrap().0).collect();
        assert!(got.iter().zip(0..).all(|(f, v): (_, u64)| f % 16 == v % 16));
        assert_eq!(got.iter().collect::<HashSet<_>>().len(), got.len());
        assert!(got.windows(2).filter(|w| w[1] == w[0] + 1).count() < 40, "neighbours beyond chance");
        assert_eq!(a.alloc_group(4, &[0, 1]), None);
    }
    let first = |seed| Colouring::new(PhysicalMemory::of(1 << 18), 16, seed).alloc();
    assert!(first(1) == first(1) && (2..6).any(|s| first(s) != first(1)));
}

/// A step for each colour looked at and for each pinned frame drawn.
#[test]
fn t94_61_colouring_counts_its_steps() {
    let mut a = Colouring::new(PhysicalMemory::with_pins(8, std::iter::once(6..8)), 4, 1);
    let mut cost = |vpn| {
        let before = a.steps();
        (a.alloc_near(Vpn(vpn)).map(|frame| frame.0 % 4), a.steps() - before)
    };
    assert_eq!([cost(0), cost(4)], [(Some(0), 1), (Some(0), 1)]);
    assert_eq!(cost(8), (Some(1), 2), "colour 0 has no frame");
    assert_eq!(cost(1), (Some(1), 1));
    // Of each of the colours 2 and 3 one frame is pinned; it is drawn once at most.
    let rest = [cost(2), cost(3)];
    assert!(matches!(rest, [(Some(2), 1 | 2), (Some(3), 1 | 2)]), "{rest:?}");
    let pinned = 4 - rest[0].1 - rest[1].1;
    assert_eq!(cost(0), (None, 4 + pinned), "memory is full: every colour, and the pinned frames not drawn yet");
}

fn build(given: serde_json::Value) -> Result<Box<dyn FrameAllocator>, String> {
    let keys: Vec<_> = keys::KEYS.iter().collect();
    keys::build(&Params::resolve(&keys, given.as_object().unwrap()).unwrap(), 12, 1)
}

#[test]
fn keys_build_what_they_say() {
    let mut fifo = build(serde_json::json!({})).unwrap();
    assert_eq!((fifo.total(), fifo.alloc_near(Vpn(9)), fifo.blocks_mut().is_none()), (None, Some(Pfn(0)), true));
    let mut buddy =
        build(serde_json::json!({"allocator": "buddy", "memory": "1T", "max_order": 20, "address_ordered": true}))
            .unwrap();
    assert_eq!((buddy.total(), buddy.blocks_mut().map(|b| b.max_order())), (Some(1 << 28), Some(20)));
    let mut colouring = build(serde_json::json!({"allocator": "colouring", "colours": 8, "memory": "1M"})).unwrap();
    assert_eq!(colouring.alloc_near(Vpn(13)).map(|p| p.0 % 8), Some(5));
    assert_eq!(build(serde_json::json!({"memory": "4M", "fragmentation": 0.25})).unwrap().pinned(), 256);
    let every = file("every", "every 2 offset 0");
    let mut pinned = build(serde_json::json!({"memory": "32K", "pattern": every.to_str()})).unwrap();
    assert_eq!(std::iter::from_fn(|| pinned.alloc()).map(|p| p.0).collect::<Vec<_>>(), [1, 3, 5, 7]);
    let real = file("real", REAL);
    assert!(build(serde_json::json!({"buddyinfo": real.to_str()})).unwrap().pinned() > 0);
}

#[test]
fn keys_refuse_with_key_value_and_what_is_allowed() {
    for (given, words) in [
        (serde_json::json!({"memory": 5000}), ["memory", "5000", "base pages of 4K"]),
        (serde_json::json!({"fragmentation": 0.5}), ["fragmentation", "0.5", "memory=1G"]),
        (
            serde_json::json!({"fragmentation": 0.5, "pattern": "p"}),
            ["fragmentation = 0.5", "pattern = 'p'", "only one"],
        ),
    ] {
        let Err(e) = build(given) else { panic!("{words:?} is accepted") };
        assert!(words.iter().all(|w| e.contains(w)), "{e}");
    }
}
