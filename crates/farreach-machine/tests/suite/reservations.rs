//! Machines on reservations (NAV, FBR): the loop with shortcuts and without, with superpages that stores split, and by
//! hand what hardware sees of them.

use crate::common::{RandomProcesses, Stream, run};
use farreach_types::counts::{MachineResult, OsCounts};
use farreach_types::event::{Backing, Prot};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Processes that map, unmap, protect, advise, fork and touch, and a shared file that is read, and then stored to.
fn stream(seed: u64) -> Stream {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut below = move |n: u64| rng.random_range(0..n);
    let mut s = Stream::new();
    let mut processes = RandomProcesses::new(&mut s, Prot::RW, true);
    for round in 0..120 {
        if !processes.act(&mut s, &mut below) {
            continue;
        }
        if round % 10 == 0 {
            s.map(0x800, 64, Prot::RW, true, Backing::File { path: "/shared".into(), offset: 0 });
            s.loads(0x800..0x800 + 16 * (1 + below(4)));
        }
        let first = 0x100 + 16 * below(40);
        for page in first..first + 16 * (1 + below(2)) {
            if below(2) == 0 {
                s.load(page)
            } else {
                s.store(page)
            };
        }
        for _ in 0..20 {
            let page = if below(4) == 0 { 0x800 + below(64) } else { 0x100 + below(0x300) };
            if below(3) == 0 {
                s.store(page)
            } else {
                s.load(page)
            };
        }
    }
    s
}

#[test]
fn shortcuts_change_nothing_on_reservations() {
    let kinds = ["t94/superpage:entries=8", "t94/integrated:entries=8", "t94/superpage:entries=64"];
    let policies = [
        ("promote=none,placement=navarro,nav_sizes=1+16,nav_dirty_rule=all", "demotions_16"),
        ("promote=none,placement=navarro,nav_sizes=1+4+16,nav_preempt=oldest", "promotions_16"),
        ("promote=none,placement=navarro,nav_sizes=1+16,nav_dirty_rule=off", "promotions_16"),
        ("promote=none,placement=freebsd,fbr_pages=16", "promotion_failures"),
        ("promote=none,placement=freebsd,fbr_pages=16,fbr_tick=1", "demotions"),
    ];
    for (seed, (policy, counter)) in (0..).zip(policies) {
        for memory in ["unlimited", "6M"] {
            let machines = kinds.map(|kind| format!("{kind},{policy},memory={memory}"));
            let out = run(&machines.each_ref().map(String::as_str), &stream(seed));
            let os: &OsCounts = &out.machine(0).counts.os;
            assert!(os.policy.get(counter) > 5, "{policy} {memory}: {:?}", os.policy);
            assert!(out.misses()[0] > out.misses()[2], "{policy} {memory}: {:?}", out.misses());
        }
    }
}

fn hand(keys: &str, s: &Stream) -> MachineResult {
    run(&[&format!("t94/superpage:promote=none,{keys}")], s).machine(0).clone()
}

/// NAV-7, NAV-9: 16 pages of a file that are read miss once each, and once as a superpage; a store splits it, so that
/// its own page and another one miss again.
#[test]
fn nav_9_a_store_splits_what_hardware_has_as_one() {
    let mut s = Stream::new();
    s.start().map(0x1000, 16, Prot::RW, true, Backing::File { path: "/f".into(), offset: 0 });
    s.loads(0x1000..0x1010).loads(0x1000..0x1010);
    let clean = |rule: &str, s: &Stream| hand(&format!("placement=navarro,nav_sizes=1+16,nav_dirty_rule={rule}"), s);
    let before = clean("file", &s).counts.tlb.misses;
    s.store(0x1003).load(0x1004);
    let (split, whole) = (clean("file", &s), clean("off", &s));
    assert_eq!((split.counts.os.policy.get("demotions_16"), split.counts.os.dirty_pages), (1, 1));
    assert_eq!((whole.counts.os.policy.get("demotions_16"), whole.counts.os.dirty_pages), (0, 16));
    assert_eq!(whole.counts.tlb.misses, before);
    assert_eq!(split.counts.tlb.misses, before + 2);
}

/// What the policy counts is in results, by name; nothing is there where a policy counts nothing.
#[test]
fn results_have_the_counters_of_policies() {
    let mut s = Stream::new();
    s.start().anon(0x1000, 16).loads(0x1000..0x1010);
    let json = |keys: &str| serde_json::to_value(&hand(keys, &s).counts).unwrap()["policy"].clone();
    let navarro = json("placement=navarro,nav_sizes=1+16");
    assert_eq!((&navarro["reservations_16"], &navarro["promotions_16"]), (&1.into(), &1.into()));
    assert_eq!(json("placement=freebsd,fbr_pages=16")["fullpop"], 1);
    assert!(json("placement=demand").is_null());
}

/// The machines of `since-os` are today/skylake, with another policy.
#[test]
fn presets_are_the_processor_of_today() {
    let mut s = Stream::new();
    s.start().anon(0x200, 512).loads((0x200..0x400).chain(0x200..0x400));
    let out = run(&["today/skylake", "since-os/navarro", "since-os/freebsd"], &s);
    let of = |at: usize| (out.machine(at).counts.os.promotions, out.machine(at).counts.os.page_faults);
    assert_eq!([of(0), of(1), of(2)], [(0, 512), (1, 512), (1, 512)]);
    let differ = |at: usize| {
        let (today, other) = (&out.machine(0).config, &out.machine(at).config);
        let own = |key: &&String| key.starts_with("nav_") || key.starts_with("fbr_");
        let keys = other.keys().filter(|key| !own(key) && today.get(*key) != other.get(*key));
        keys.cloned().collect::<Vec<_>>()
    };
    assert_eq!(differ(1), ["placement", "allocator"]);
    assert_eq!(differ(2), ["placement", "allocator"]);
}
