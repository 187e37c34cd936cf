//! Belady's OPT (REP-1): by hand, against all choices there are, against all other policies, and what is refused.

use farreach_hw::tlb::policies::POLICIES;
use farreach_hw::tlb::{Lookup, Outcome, Tlb, Unfiltered};
use farreach_oracle::dice::{Dice, seeds};
use farreach_oracle::driver::try_tlb;
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::counts::TlbCounts;
use farreach_types::event::Kind;
use farreach_types::translation::{Attr, PageTableView, Pte};

/// What happens to a machine.
#[derive(Clone, Copy)]
enum Step {
    Look(Asid, u64, Kind),
    /// Mappings of these pages changed.
    Stale(Asid, VpnRange),
    Gone(Asid),
    Switch(Asid),
}

/// Pages from here on are mapped in 2 MB.
const LARGE: u64 = 1 << 18;

/// Base pages, and large ones behind them. `apart`: until then, all are base pages.
struct Straight {
    apart: bool,
}

impl PageTableView for Straight {
    fn pte(&self, _: Asid, Vpn(vpn): Vpn) -> Option<Pte> {
        let order = if vpn >= LARGE && !self.apart { 9 } else { 0 };
        Some(Pte { pfn: Pfn(vpn + (1 << 20)), attr: Attr(7), order })
    }
}

/// One pass. Returns the outcomes of the lookups.
fn pass(tlb: &mut dyn Tlb, steps: &[Step], table: &Straight) -> Vec<Outcome> {
    let unfiltered = &mut Unfiltered::default();
    let mut outcomes = Vec::new();
    for &step in steps {
        match step {
            Step::Look(asid, page, kind) => {
                let at = Lookup { asid, vpn: Vpn(page), kind };
                outcomes.push(tlb.access(at, table.pte(asid, at.vpn).unwrap(), table, unfiltered).outcome);
            }
            Step::Stale(asid, pages) => tlb.invalidate(asid, pages, unfiltered),
            Step::Gone(asid) => tlb.invalidate_space(asid, unfiltered),
            Step::Switch(to) => tlb.switch(to, unfiltered),
        }
    }
    outcomes
}

/// As many passes as the machine needs. The counts, and the outcomes, of the last.
fn run(keys: &str, steps: &[Step]) -> (TlbCounts, Vec<Outcome>) {
    let new = || try_tlb("hierarchy", keys).unwrap_or_else(|why| panic!("{keys}: {why}"));
    let (mut tlb, table) = (new(), Straight { apart: false });
    if tlb.foresees().is_some() {
        pass(&mut *tlb, steps, &table);
        let foresees = tlb.foresees().unwrap();
        assert_eq!(foresees.failure(), None);
        let future = foresees.learned();
        tlb = new();
        tlb.foresees().unwrap().knows(future);
    }
    let outcomes = pass(&mut *tlb, steps, &table);
    assert_eq!(tlb.foresees().and_then(|foresees| foresees.failure()), None);
    (tlb.counts().clone(), outcomes)
}

fn loads(pages: &[u64]) -> Vec<Step> {
    pages.iter().map(|&page| Step::Look(Asid(0), page, Kind::Load)).collect()
}

/// The string of a textbook (Silberschatz, Galvin, Gagne: Operating System Concepts, on page replacement): with three
/// frames 15 faults by FIFO, 12 by LRU, 9 by OPT. No page comes twice in a row, so the first level of one entry misses
/// each time.
#[test]
fn rep_1_belady_by_hand() {
    let string = loads(&[7, 0, 1, 2, 0, 3, 0, 4, 2, 3, 0, 3, 2, 1, 2, 0, 1, 7, 0, 1]);
    for (policy, misses) in [("fifo", 15), ("lru", 12), ("opt", 9)] {
        assert_eq!(run(&format!("l1d=4K:1,l2=4K:3,l2_replacement={policy}"), &string).0.misses, misses, "{policy}");
    }
    // By hand: 2 takes the place of 7, next used last of 7 0 1; then 3 that of 1, 4 that of 0, 0 that of 4, which never
    // comes back, 1 that of 3, and 7 that of 2.
    let (_, outcomes) = run("l1d=4K:1,l2=4K:3,l2_replacement=opt", &string);
    let missed: Vec<usize> = (0..string.len()).filter(|&i| outcomes[i] != Outcome::Hit).collect();
    assert_eq!(missed, [0, 1, 2, 3, 5, 7, 10, 13, 17]);
}

/// An entry that a change drops before its next use is as good as one that is never used again.
#[test]
fn rep_1_a_use_behind_a_change_is_none() {
    let page = |page| VpnRange { start: Vpn(page), pages: 1 };
    let mut steps = loads(&[0, 1, 2]);
    steps.push(Step::Stale(Asid(0), page(0)));
    steps.extend(loads(&[0, 1]));
    // 0 is used first, but 1 is worth keeping: at 2, 0 goes.
    let (counts, outcomes) = run("l1d=4K:1,l2=4K:2,l2_replacement=opt", &steps);
    assert_eq!((counts.misses, outcomes[4]), (4, Outcome::Hit));
    // A change of another page, or of another process, ends nothing: at 2, 1 goes.
    for other in [Step::Stale(Asid(0), page(3)), Step::Stale(Asid(1), page(0)), Step::Gone(Asid(1))] {
        steps[3] = other;
        let (counts, outcomes) = run("l1d=4K:1,l2=4K:2,l2_replacement=opt", &steps);
        assert_eq!((counts.misses, outcomes[3]), (4, Outcome::Hit));
    }
}

/// The fewest misses that any choice of victims has: what is held, and what comes.
fn fewest(held: &mut Vec<u64>, first: Option<u64>, steps: &[Step], entries: usize) -> u64 {
    let Some((step, rest)) = steps.split_first() else { return 0 };
    match *step {
        Step::Look(_, page, _) if first == Some(page) => fewest(held, first, rest, entries),
        Step::Look(_, page, _) if held.contains(&page) => fewest(held, Some(page), rest, entries),
        Step::Look(_, page, _) if held.len() < entries => {
            held.push(page);
            let misses = fewest(held, Some(page), rest, entries);
            held.retain(|other| *other != page);
            1 + misses
        }
        Step::Look(_, page, _) => {
            let each = (0..entries).map(|victim| {
                let mut held = held.clone();
                held[victim] = page;
                fewest(&mut held, Some(page), rest, entries)
            });
            1 + each.min().unwrap()
        }
        Step::Stale(_, pages) => {
            let keeps = |page: &u64| *page < pages.start.0 || *page >= pages.start.0 + pages.pages;
            let mut held: Vec<u64> = held.iter().copied().filter(keeps).collect();
            fewest(&mut held, first.filter(keeps), rest, entries)
        }
        Step::Gone(_) | Step::Switch(_) => unreachable!("the streams have none"),
    }
}

/// All streams of seven steps over three pages and changes of two of them, and long ones at random.
#[test]
fn rep_1_no_choice_of_victims_misses_less_often() {
    let step = |symbol: u64| match symbol {
        0..5 => Step::Look(Asid(0), symbol, Kind::Load),
        5 => Step::Stale(Asid(0), VpnRange { start: Vpn(0), pages: 1 }),
        _ => Step::Stale(Asid(0), VpnRange { start: Vpn(1), pages: 2 }),
    };
    let is_least = |steps: &[Step], entries: usize| {
        let (counts, _) = run(&format!("l1d=4K:1,l2=4K:{entries},l2_replacement=opt"), steps);
        assert_eq!(counts.misses, fewest(&mut Vec::new(), None, steps, entries));
        counts.misses
    };
    for number in 0..4u64.pow(7) {
        let symbols = (0..7).map(|place| number / 4u64.pow(place) % 4);
        let steps: Vec<Step> = symbols.map(|symbol| step(if symbol == 3 { 5 } else { symbol })).collect();
        is_least(&steps, 2);
    }
    let (mut opt, mut lru) = (0, 0);
    for seed in seeds(300) {
        let mut dice = Dice::new(seed);
        let steps: Vec<Step> = (0..24).map(|_| step(dice.below(5) + if dice.below(12) == 0 { 2 } else { 0 })).collect();
        for entries in [2, 3] {
            opt += is_least(&steps, entries);
            lru += run(&format!("l1d=4K:1,l2=4K:{entries},l2_replacement=lru"), &steps).0.misses;
        }
    }
    assert!(opt * 10 < lru * 9, "{opt} {lru}");
}

/// Two processes, fetches and data, pages of two sizes, changes.
fn stream(seed: u64) -> Vec<Step> {
    let mut dice = Dice::new(seed);
    let mut now = Asid(1);
    let many = 20 + dice.below(100);
    let steps = (0..3000).map(|_| {
        let skewed = dice.below(many).min(dice.below(many));
        let page = if dice.below(4) == 0 { LARGE + skewed * 300 } else { skewed };
        match dice.below(100) {
            0 => {
                now = Asid(1 + dice.below(2) as u32);
                Step::Switch(now)
            }
            1 => Step::Stale(Asid(1 + dice.below(2) as u32), VpnRange { start: Vpn(page), pages: 1 << dice.below(12) }),
            2 if dice.below(10) == 0 => Step::Gone(now),
            n => Step::Look(now, page, [Kind::Load, Kind::Store, Kind::Fetch][(n % 3) as usize]),
        }
    });
    steps.collect()
}

const MACHINES: [&str; 4] = [
    "l1d=4K:4+2M:2,l1i=4K:2+2M:1,l2=4K|2M:16/4",
    "l1d=4K:4/2+2M:2,l1i=4K:4,l2=4K:32/4+2M:8/2,l2i=4K:8",
    "l1d=4K:2,l1i=4K:2,l2=4K:8,process_ids=false",
    "l1d=4K:4,l1i=4K:4,l2=4K|2M:16/2,l2i=4K|2M:8/8,process_ids=false,replacement=random,seed=5",
];

/// HW-3 does not hold, but lookups of the second level are the same: hits and misses together.
#[test]
fn rep_1_no_policy_misses_less_often() {
    for keys in MACHINES {
        let mut sums = vec![0; POLICIES.len()];
        for seed in seeds(40) {
            let steps = stream(seed);
            let of = |policy: &str| {
                let counts = run(&format!("{keys},l2_replacement={policy}"), &steps).0;
                (counts.misses, counts.misses + counts.second_level_data_hits + counts.second_level_fetch_hits)
            };
            let (least, lookups) = of("opt");
            for (policy, sum) in POLICIES.iter().zip(&mut sums) {
                // A tree needs sets of a power of two, which all are.
                let (misses, same) = of(policy.name);
                assert_eq!(same, lookups, "{keys}, {}: lookups of the second level", policy.name);
                assert!(misses >= least, "{keys}, {}: {misses} misses, {least} of opt, seed {seed}", policy.name);
                *sum += misses;
            }
        }
        let opt = POLICIES.iter().position(|policy| policy.name == "opt").unwrap();
        assert!(sums.iter().enumerate().all(|(i, sum)| i == opt || *sum > sums[opt]), "{keys}: {sums:?}");
    }
}

/// REP-1: the reasons for which it cannot go on.
#[test]
fn rep_1_failures_say_why() {
    let steps = stream(1);
    let keys = "l1d=4K:1,l1i=4K:1,l2=4K|2M:16/4,l2_replacement=opt";
    let new = |keys: &str| try_tlb("hierarchy", keys).unwrap();
    let whole = Straight { apart: false };
    let mut tlb = new(&format!("{keys},opt_memory=800"));
    pass(&mut *tlb, &steps, &whole);
    let why = tlb.foresees().unwrap().failure().unwrap();
    assert!(["opt_memory = 800", "100 lookups", "8 bytes each"].iter().all(|part| why.contains(part)), "{why}");

    // Passes that differ.
    let mut tlb = new(keys);
    pass(&mut *tlb, &loads(&[1, 2, 3, 4]), &whole);
    let future = tlb.foresees().unwrap().learned();
    let mut tlb = new(keys);
    tlb.foresees().unwrap().knows(future);
    pass(&mut *tlb, &loads(&[1, 2, 5]), &whole);
    let why = tlb.foresees().unwrap().failure().unwrap();
    assert!(why.contains("at lookup 2 of the second level, of page 0x5"), "{why}");

    // Promoted in place: the old entries stay.
    let mut tlb = new(keys);
    pass(&mut *tlb, &loads(&[LARGE + 1, LARGE + 513]), &Straight { apart: true });
    assert_eq!(tlb.foresees().unwrap().failure(), None);
    pass(&mut *tlb, &loads(&[LARGE + 2]), &whole);
    let why = tlb.foresees().unwrap().failure().unwrap();
    assert!(["0x40002", "mapped in 2M", "entries of 4K"].iter().all(|part| why.contains(part)), "{why}");
    // Nor may pages be taken apart with the old entry in place.
    let mut tlb = new(keys);
    pass(&mut *tlb, &loads(&[LARGE + 1]), &whole);
    pass(&mut *tlb, &loads(&[LARGE + 2]), &Straight { apart: true });
    assert!(tlb.foresees().unwrap().failure().unwrap().contains("mapped in 4K, and entries of 2M"));
}

/// REP-1: machines whose lookups of the second level depend on what it holds.
#[test]
fn rep_1_refusals() {
    for (kind, keys, parts) in [
        ("hierarchy", "behind=dppred", ["dppred", "REP-1", ""]),
        ("range", "l2=4K|2M:16+1G:4", ["range", "REP-1", ""]),
        ("segment", "l2=4K|2M:16+1G:4", ["kind = segment", "REP-1", ""]),
        ("hierarchy", "coalesce=16K,l1d=4K|16K:16,l1i=4K:16,l2=4K|16K:64", ["coalesce = 16K", "coalesce must", ""]),
        ("hierarchy", "l2=4K:16,l1d=4K:4,l1i=4K:4,cores=2", ["cores = 2", "HW-12", "cores must be 1"]),
        (
            "hierarchy",
            "l1d=4K:4+1G:2,l1i=4K:4,l2=4K|2M:16,l2_fracture=true",
            ["l1d = 4K:4+1G:2", "pages of 1G are in l2 in pieces of 2M", "REP-1"],
        ),
    ] {
        let refused = try_tlb(kind, &format!("l2_replacement=opt,{keys}"));
        let why = refused.err().unwrap_or_else(|| panic!("{kind}: {keys} is accepted"));
        assert!(why.contains("l2_replacement = opt") && parts.iter().all(|part| why.contains(part)), "{why}");
    }
    // What leaves the TLBs alone (HW-3) may stand behind it.
    try_tlb("hierarchy", "l1d=4K:4,l1i=4K:4,l2=4K:16,l2_replacement=opt,behind=pom").unwrap();
    // A second level of base pages does not hold large ones at all, unless in pieces.
    try_tlb("hierarchy", "l2=4K:16,l2_replacement=opt").unwrap();
    // The first level has nothing that the second would hold in pieces.
    try_tlb("hierarchy", "l1d=4K:4,l1i=4K:4,l2=4K:16,l2_fracture=true,l2_replacement=opt").unwrap();
}
