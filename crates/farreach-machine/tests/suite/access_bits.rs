//! Machines whose system looks at accessed bits (OSC-2): walks reach it with shortcuts and without, and what clears the
//! bits decides what it sees.

use crate::common::{Stream, run};
use crate::linux::stream;
use farreach_machine::{Lab, MachineSpec, Options, Sample};

/// A scan of the bits in 70 references, a wake of the promoter in 40.
const KEYS: &str = "placement=ingens,thp_size=64K,util_threshold=40,pages_to_scan=32,ticks_per_ms=1,\
                    promote_sleep_ms=40,scan_sleep_ms=70";
const BITS: [&str; 3] = ["walk", "walk+flush", "exact"];

#[test]
fn osc_2_shortcuts_change_nothing_when_the_system_looks_at_accessed_bits() {
    let kinds = ["t94/superpage:entries=8", "t94/superpage:entries=64", "today/zen2:"];
    for seed in 0..3 {
        for bits in BITS {
            for more in ["memory=unlimited", "memory=4M,fairness=true"] {
                let joint = |kind: &str| if kind.ends_with(':') { "" } else { ",promote=none," };
                let machines = kinds.map(|kind| format!("{kind}{}{KEYS},access_bits={bits},{more}", joint(kind)));
                // With shortcuts and without, on one thread and on several.
                let out = run(&machines.each_ref().map(String::as_str), &stream(seed));
                let counts = &out.machine(0).counts.os;
                let own = ["promoter_wakes", "tracker_scans", "accessed_bits_cleared"].map(|n| counts.policy.get(n));
                assert!(counts.collapses > 3 && own.iter().all(|n| *n > 20), "{bits},{more}: {counts:?}");
                let flushed = counts.policy.get("accessed_bits_flushed");
                assert_eq!(flushed, if bits == "walk+flush" { own[2] } else { 0 }, "{bits},{more}");
            }
        }
    }
}

/// Half of a group is in use for long, in a TLB that holds it. The promoter comes after a scan cleared the bits: it
/// sees an access only if the TLB lost the entries, or if every access counts.
#[test]
fn osc_2_entries_that_stay_hide_what_is_accessed() {
    let keys = "placement=ingens,thp_size=64K,util_threshold=50,ticks_per_ms=1,scan_sleep_ms=100,hot_sample=100,\
                promote_sleep_ms=250";
    let collapses = |bits: &str, entries: u64| {
        let mut s = Stream::new();
        s.start().anon(0x100, 16).loads(0x100..0x107);
        (0..130).for_each(|_| _ = s.load(0x101));
        // The eighth page queues the group. By then the bits were cleared, but for its own.
        s.loads(0x107..0x108);
        (0..400).for_each(|i| _ = s.load(0x101 + i % 2));
        let out = run(&[&format!("t94/single:promote=none,entries={entries},{keys},access_bits={bits}")], &s);
        let counts = &out.machine(0).counts;
        (counts.os.collapses, counts.os.policy.get("accessed_bits_cleared"), counts.tlb.invalidations)
    };
    let [walk, flush, exact] = BITS.map(|bits| collapses(bits, 32));
    // The eighth page is walked to, so the group qualifies; two scans after it find what the TLB lets them see.
    assert_eq!((walk.0, flush.0, exact.0), (1, 1, 1));
    assert!(walk.1 < flush.1 && flush.1 == exact.1, "{walk:?} {flush:?} {exact:?}");
    assert!(walk.2 < flush.2 && walk.2 == exact.2, "clearing with a flush drops entries: {walk:?} {flush:?} {exact:?}");
    // One entry, for two pages in turn: each access is a walk.
    let [walk, exact] = ["walk", "exact"].map(|bits| collapses(bits, 1));
    assert_eq!(walk, exact);
}

fn lab(machine: &str, options: Options) -> Result<Lab, String> {
    let spec = MachineSpec::parse(machine, 7).map_err(|e| e.to_string())?;
    Lab::new(vec![spec], options).map_err(|e| e.to_string())
}

#[test]
fn osc_2_walks_must_reach_the_system() {
    let machine = |bits: &str, more: &str| format!("today/zen2:{KEYS},access_bits={bits}{more}");
    let plain = || Options::default();
    let sample = || Options { sample: Some(Sample { one_in: 4, window: 100 }), ..Options::default() };
    for bits in ["walk", "walk+flush"] {
        let caches = lab(&machine(bits, ",walk_cost=caches"), plain()).map(drop).unwrap_err();
        let says = format!("access_bits = {bits} is not allowed on a machine with caches");
        assert!(caches.contains(&says) && caches.contains("must be exact"), "{caches}");
        let sampled = lab(&machine(bits, ""), sample()).map(drop).unwrap_err();
        assert!(sampled.contains("--sample is not allowed"), "{sampled}");
    }
    for (more, options) in [(",walk_cost=caches", plain()), ("", sample())] {
        assert_eq!(lab(&machine("exact", more), options).map(drop), Ok(()), "{more}");
    }
}

/// Who sees every access needs no walks: machines with caches and others share what happens.
#[test]
fn osc_2_exact_bits_do_not_depend_on_the_machine() {
    let machines = ["t94/single:promote=none,", "today/zen2:", "today/zen2:walk_cost=caches,"];
    let counts = machines.map(|kind| {
        let spec = MachineSpec::parse(&format!("{kind}{KEYS},memory=4M,access_bits=exact"), 7).unwrap();
        let mut lab = Lab::new(vec![spec], Options::default()).unwrap();
        stream(1).batches.iter().for_each(|batch| _ = lab.feed(batch).unwrap());
        lab.finish().unwrap();
        lab.result("test", None).machines[0].counts.os.clone()
    });
    assert!(counts[0].collapses > 3, "{:?}", counts[0]);
    assert_eq!((&counts[0], &counts[1]), (&counts[1], &counts[2]));
}
