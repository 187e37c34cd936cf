//! Laws of the policies of the second level (REP-1, CHI, ITP): machines that must be equal, on random streams.

use super::drive::apply;
use super::*;
use farreach_hw::tlb::policies::POLICIES;
use farreach_types::counts::TlbCounts;

/// A small hierarchy without walk caches, which would follow `replacement` too.
const SMALL: &str = "l1d=4K:4,l1i=4K:4,l2=4K|2M:16/4+1G:2";

/// A stream through two machines, of which only these lookups are kept. Returns how far they are equal in outcomes and
/// entries, and the counts of both.
fn run_both(one: &str, other: &str, seed: u64, keep: impl Fn(Lookup) -> bool) -> (bool, [TlbCounts; 2]) {
    let mut machines = [one, other].map(|keys| tlb("hierarchy", &format!("{SMALL},seed={seed},{keys}")));
    let mut world = World::new(seed);
    let mut equal = true;
    for n in 0..3000 {
        let step = world.step();
        if matches!(step, Step::Access(at, _) if !keep(at)) {
            continue;
        }
        let [a, b] = machines.each_mut().map(|tlb| apply(&step, &mut **tlb, &world.table, &mut Unfiltered::default()));
        equal &= a.map(|a| a.0) == b.map(|b| b.0);
        if n % 50 == 0 {
            equal &= machines[0].entries() == machines[1].entries();
        }
    }
    (equal, machines.map(|tlb| tlb.counts().clone()))
}

/// Whether two machines are equal on every stream, with the counts of both summed.
fn equal(one: &str, other: &str, keep: impl Fn(Lookup) -> bool) -> (bool, [TlbCounts; 2]) {
    let mut sums = [TlbCounts::default(), TlbCounts::default()];
    let mut all = true;
    for seed in farreach_oracle::dice::seeds(20) {
        let (same, counts) = run_both(one, other, seed, &keep);
        sums.iter_mut().zip(&counts).for_each(|(sum, counts)| *sum += counts);
        all &= same
            && TlbCounts { replacement: Default::default(), ..counts[0].clone() }
                == TlbCounts { replacement: Default::default(), ..counts[1].clone() };
    }
    let hits = sums[0].second_level_data_hits + sums[0].second_level_fetch_hits;
    assert!(sums[0].evictions > 200 && hits > 200, "{:?}", sums[0]);
    (all, sums)
}

/// What `replacement` says for all levels, `l2_replacement` says for the second alone.
#[test]
fn rep_1_policies_of_today_are_those_of_the_whole_hierarchy() {
    let today = ["lru", "plru", "fifo", "random", "lfsr"];
    for policy in today {
        let (same, _) = equal(
            &format!("replacement=lru,l2_replacement={policy}"),
            &format!("replacement={policy},l1_replacement=lru"),
            |_| true,
        );
        assert!(same, "{policy}");
        let (same, _) = equal(&format!("replacement=lru,l2_replacement={policy}"), "replacement=lru", |_| true);
        assert_eq!(same, policy == "lru", "{policy} and lru");
    }
    assert_eq!(POLICIES.iter().map(|p| p.name).take(today.len()).collect::<Vec<_>>(), today);
}

#[test]
fn rep_1_same_is_the_policy_of_the_rest() {
    for policy in ["lru", "plru", "fifo", "random", "lfsr"] {
        let rest = format!("replacement={policy}");
        let (same, _) =
            equal(&format!("{rest},l2_replacement=same"), &format!("{rest},l2_replacement={policy}"), |_| true);
        assert!(same, "{policy}");
    }
}

#[test]
fn chi_with_a_threshold_out_of_reach_is_lru() {
    let (same, [never, _]) = equal("l2_replacement=chirp,chirp_dead_at=4", "l2_replacement=lru", |_| true);
    assert!(same);
    assert_eq!(never.replacement.get("dead_victims"), 0);
    let (same, [dead, _]) = equal("l2_replacement=chirp,chirp_counters=16", "l2_replacement=lru", |_| true);
    assert!(!same && dead.replacement.get("dead_victims") > 100, "{dead:?}");
}

/// Entries of fetches are inserted and promoted to the newest place.
#[test]
fn itp_of_fetches_alone_is_lru() {
    let fetches = |at: Lookup| at.kind == Kind::Fetch;
    assert!(equal("l2_replacement=itp", "l2_replacement=lru", fetches).0);
    assert!(!equal("l2_replacement=itp,itp_from_oldest=2", "l2_replacement=lru", |at| at.kind != Kind::Fetch).0);
}

/// The policy that the law of ITP means, of one set of base pages: the newest first.
struct Insertion {
    pages: Vec<u64>,
    entries: usize,
    at: usize,
}

impl Insertion {
    /// Whether it hits.
    fn load(&mut self, page: u64) -> bool {
        match self.pages.iter().position(|p| *p == page) {
            Some(0) => true,
            Some(place) => {
                self.pages.swap(place - 1, place);
                true
            }
            None => {
                self.pages.truncate(self.entries - 1);
                self.pages.insert(self.at.min(self.pages.len()), page);
                false
            }
        }
    }
}

#[test]
fn itp_of_data_alone_is_insertion_at_a_place() {
    let table = Straight;
    for (entries, from_oldest) in [(12, 4), (8, 4), (6, 1), (4, 4), (3, 4), (1, 4)] {
        let keys = format!("l1d=4K:1,l1i=4K:1,l2=4K:{entries},l2_replacement=itp,itp_from_oldest={from_oldest}");
        let mut machine = tlb("hierarchy", &keys);
        let at = usize::saturating_sub(entries, from_oldest);
        let mut law = Insertion { pages: Vec::new(), entries, at };
        let mut dice = farreach_oracle::dice::Dice::new(entries as u64);
        let (mut last, mut hits) = (u64::MAX, 0);
        for _ in 0..20_000 {
            let page = dice.below(entries as u64) + dice.below(entries as u64 + 2);
            // The only entry of the first level.
            if page == last {
                continue;
            }
            last = page;
            let at = Lookup { asid: Asid(0), vpn: Vpn(page), kind: Kind::Load };
            let outcome = machine.access(at, Straight::entry(page), &table, &mut Unfiltered::default()).outcome;
            let hit = law.load(page);
            assert_eq!(outcome == Outcome::Hit, hit, "{keys}: page {page}");
            hits += u64::from(hit);
        }
        assert!(hits > 1000 || entries == 1, "{keys}: {hits} hits");
    }
}

/// Without hits, what is filled first is predicted to be used again last.
#[test]
fn vic_5_srrip_without_hits_is_fifo() {
    for bits in 1..=4 {
        let keys = "l1d=4K:1,l1i=4K:1,l2=4K:32/4";
        let mut machines = [format!("l2_replacement=srrip,srrip_bits={bits}"), "l2_replacement=fifo".into()]
            .map(|policy: String| tlb("hierarchy", &format!("{keys},{policy}")));
        for page in 0..500u64 {
            // Some sets more often than others, and no page twice.
            let page = page * 8 + page * page % 5;
            for machine in &mut machines {
                let at = Lookup { asid: Asid(0), vpn: Vpn(page), kind: Kind::Load };
                machine.access(at, Straight::entry(page), &Straight, &mut Unfiltered::default());
            }
            assert_eq!(machines[0].entries(), machines[1].entries(), "{bits} bits, page {page}");
        }
        assert!(machines[0].counts().evictions > 400);
    }
}

/// All pages are mapped.
struct Straight;

impl Straight {
    fn entry(vpn: u64) -> Pte {
        Pte { pfn: Pfn(vpn + (1 << 20)), attr: Attr(7), order: 0 }
    }
}

impl PageTableView for Straight {
    fn pte(&self, _: Asid, vpn: Vpn) -> Option<Pte> {
        Some(Straight::entry(vpn.0))
    }
}
