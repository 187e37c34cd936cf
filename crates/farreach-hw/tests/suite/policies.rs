//! Policies of the second level by hand: the traces of VIC-5, CHI and ITP, what is refused, and the page of the book
//! that lists them. The first level has one entry, so that every change of the page is a lookup of the second.

use farreach_hw::tlb::policies::POLICIES;
use farreach_hw::tlb::{Lookup, Tlb, Unfiltered, keys_of};
use farreach_oracle::driver::{Table, try_tlb};
use farreach_types::addr::{Asid, Vpn};
use farreach_types::event::Kind;
use farreach_types::params::Params;
use farreach_types::translation::PageTableView;
use std::path::Path;

/// A machine with this second level, in which pages 0 to 999 are mapped.
struct Machine {
    tlb: Box<dyn Tlb>,
    table: Table,
}

impl Machine {
    fn new(keys: &str) -> Machine {
        let tlb = try_tlb("hierarchy", &format!("l1d=4K:1,l1i=4K:1,{keys}")).unwrap();
        Machine { tlb, table: Table::of(&(0..1000).map(|page| (page, page + 5000)).collect::<Vec<_>>()) }
    }

    /// The pages in the second level, by slot.
    fn held(&self) -> Vec<u64> {
        self.tlb.entries_in(2..usize::MAX).iter().map(|entry| entry.base.0).collect()
    }

    /// Lookups of one kind. Returns the pages that left the second level, in this order.
    fn look(&mut self, kind: Kind, pages: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let mut left = Vec::new();
        for page in pages {
            let before = self.held();
            let at = Lookup { asid: Asid(0), vpn: Vpn(page), kind };
            let pte = self.table.pte(Asid(0), Vpn(page)).unwrap();
            self.tlb.access(at, pte, &self.table, &mut Unfiltered::default());
            let after = self.held();
            left.extend(before.into_iter().filter(|page| !after.contains(page)));
        }
        left
    }

    fn load(&mut self, pages: impl IntoIterator<Item = u64>) -> Vec<u64> {
        self.look(Kind::Load, pages)
    }
}

/// CHI-2, CHI-3, CHI-4. The third and fourth fills add 1 each to the counter of the one signature, so that the fourth
/// entry is dead, and so are those after it. Each is then the victim of the next, and the third stays.
#[test]
fn chi_by_hand() {
    let mut machine = Machine::new("l2=4K:2,l2_replacement=chirp");
    assert_eq!(machine.load(0..7), [0, 1, 3, 4, 5]);
    assert_eq!(machine.held(), [2, 6]);
    let own = &machine.tlb.counts().replacement;
    assert_eq!((own.get("dead_victims"), own.get("unused_victims")), (3, 5));
    assert_eq!(Machine::new("l2=4K:2,l2_replacement=lru").load(0..7), [0, 1, 2, 3, 4]);
}

/// CHI-5: the first hit takes 1 from the counter of the signature under which the entry was filled, and renews both.
#[test]
fn chi_hits_by_hand() {
    let trace = |keys: &str| {
        let mut machine = Machine::new(&format!("l2=4K:2,l2_replacement=chirp{keys}"));
        // Counter 2 after these; 2 is alive, 3 dead. A hit of 3, its first, takes 1: with counter 1 it is alive.
        let mut left = machine.load(0..4);
        left.extend(machine.load([2, 3]));
        // Both were hit and are alive: the victim is 2, used longest ago.
        left.extend(machine.load([4]));
        left
    };
    assert_eq!(trace(""), [0, 1, 2]);
    // In one set, no hit is in another: 3 stays dead.
    assert_eq!(trace(",chirp_renew=set-change"), [0, 1, 3]);
    assert_eq!(trace(",chirp_dead_at=3"), [0, 1, 2], "2 is used longest ago, and none is dead");
}

/// CHI-1: two loads, of which one is of pages that come back and the other is not. Each has a signature of its own
/// after a while, so that the pages that do not come back leave first.
#[test]
fn chi_tells_instructions_apart() {
    let misses = |policy: &str| {
        let mut machine = Machine::new(&format!("l2=4K:8,l2_replacement={policy}"));
        for round in 0..100 {
            for i in 0..6 {
                machine.tlb.latest_fetch(0x40_0000);
                machine.load([i]);
                machine.tlb.latest_fetch(0x50_1238);
                machine.load([100 + round * 8 + i]);
            }
        }
        machine.tlb.counts().misses
    };
    let (chirp, lru) = (misses("chirp"), misses("lru"));
    assert_eq!(lru, 1200, "12 pages in turn are too many for 8 entries");
    assert!(chirp < 750, "{chirp}: the 6 that come back stay after a few rounds");
}

/// Entries begin at 2, a hit makes 0. No entry at 3: all age until there is; the lowest slot of those at 3 goes.
#[test]
fn vic_5_by_hand() {
    let mut machine = Machine::new("l2=4K:4,l2_replacement=srrip");
    assert!(machine.load([0, 1, 2, 3, 1]).is_empty());
    // 2 0 2 2 ages to 3 1 3 3: three go. 2 1 2 2 ages to 3 2 3 3: three more. 2 2 2 2 ages to 3 3 3 3.
    assert_eq!(machine.load(4..12), [0, 2, 3, 4, 5, 6, 7, 1]);
    // One bit is NRU: all begin at 0, as after a hit.
    let mut one = Machine::new("l2=4K:4,l2_replacement=srrip,srrip_bits=1");
    assert_eq!(one.load([0, 1, 2, 3, 1, 4, 5, 6]), [0, 1, 2]);
}

/// Six entries: data begins at the third place from the newest, and moves up by one place at a hit.
#[test]
fn itp_1_by_hand() {
    let mut machine = Machine::new("l2=4K:6,l2_replacement=itp");
    machine.look(Kind::Fetch, [101, 102]); // 102 101
    machine.load(1..=4); // 102 101 4 3 2 1
    assert!(machine.load([1]).is_empty()); // 102 101 4 3 1 2
    assert_eq!(machine.load([5]), [2]); // 102 101 5 4 3 1
    assert_eq!(machine.look(Kind::Fetch, [103]), [1]); // 103 102 101 5 4 3
    assert!(machine.look(Kind::Fetch, [101]).is_empty()); // 101 103 102 5 4 3
    assert_eq!(machine.load(6..=9), [3, 4, 5, 102]); // 101 103 9 8 7 6
    assert_eq!(machine.load(10..=13), [6, 7, 8, 9], "the fetches in front of them stay");
}

/// Two hits for a place.
#[test]
fn itp_1_hits_for_a_place() {
    let victims = |hits: u64| {
        let mut machine = Machine::new(&format!("l2=4K:3,l2_replacement=itp,itp_from_oldest=1,itp_hits={hits}"));
        machine.load([1, 2, 3]); // 1 2 3: each at the end, behind those before
        machine.load([1, 3, 1]); // one hit of 3: 1 3 2, or as before
        machine.load([4])
    };
    assert_eq!(victims(1), [2]);
    assert_eq!(victims(2), [3]);
}

/// HW-12.
#[test]
fn refusals_name_key_value_and_what_is_allowed() {
    let refused = |keys: &str| try_tlb("hierarchy", keys).err().unwrap_or_else(|| panic!("{keys} is accepted"));
    for (keys, parts) in [
        ("l2_replacement=chirp,cores=2", ["l2_replacement = chirp", "cores = 2", "cores must be 1"]),
        ("l2_replacement=srrip,guest=walk", ["l2_replacement = srrip", "guest = walk", "guest must be none"]),
        ("l2_replacement=itp,guest=walk", ["l2_replacement = itp", "guest = walk", "guest must be none"]),
        ("l2_replacement=plru", ["l2_replacement = plru", "sets of 12 entries", "must be a power of two"]),
    ] {
        let why = refused(&format!("l2=4K:1536/12,{keys}"));
        assert!(parts.iter().all(|part| why.contains(part)), "{why}");
    }
    for keys in
        ["l2_replacement=fifo,cores=2", "l2_replacement=lru,guest=walk", "l2_replacement=srrip,walk_cost=caches"]
    {
        try_tlb("hierarchy", keys).unwrap_or_else(|why| panic!("{keys}: {why}"));
    }
    let design = farreach_hw::tlb::design("hierarchy").unwrap();
    let resolve = |key: &str, value: &str| {
        let whose = key.split('_').next().filter(|policy| POLICIES.iter().any(|listed| listed.name == *policy));
        let policy = whose.map(|policy| ("l2_replacement".to_owned(), policy.into()));
        let given = policy.into_iter().chain([(key.to_owned(), value.into())]).collect();
        Params::resolve(&keys_of(design, &given), &given).err().unwrap_or_else(|| panic!("{key} = {value} is accepted"))
    };
    let unknown = resolve("l2_replacement", "used-bit");
    for part in POLICIES.iter().map(|policy| policy.name).chain(["l2_replacement", "used-bit", "same"]) {
        assert!(unknown.contains(part), "{unknown}");
    }
    for (key, value) in [
        ("chirp_dead_at", "5"),
        ("chirp_dead_at", "0"),
        ("chirp_counters", "100"),
        ("srrip_bits", "9"),
        ("itp_hits", "0"),
    ] {
        let why = resolve(key, value);
        assert!(why.contains(key) && why.contains(value), "{why}");
    }
}

/// A sample of sets says nothing about a policy that learns from all of them.
#[test]
fn sets_of_chirp_are_not_independent() {
    let bits = |policy: &str| {
        let keys = format!("l1d=4K:16/4,l1i=4K:16/4,l2=4K:64/4,l2_replacement={policy}");
        try_tlb("hierarchy", &keys).unwrap().set_bits(0)
    };
    for policy in ["srrip", "itp", "lru"] {
        assert_eq!(bits(policy), Ok(0..2), "{policy}");
    }
    assert!(bits("chirp").unwrap_err().contains("from all sets together"));
}

#[test]
fn the_book_lists_every_policy() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/book/src/reference/hierarchies.md");
    let book = std::fs::read_to_string(&path).unwrap();
    for policy in POLICIES {
        let row = format!("| `{}` | {} |", policy.name, policy.about);
        assert!(book.contains(&row), "{} has no line\n{row}", path.display());
        for key in policy.keys {
            assert!(book.contains(&format!("| `{}` | `{}` |", key.name, key.default)), "{} of {row}", key.name);
        }
        for counter in policy.counters {
            assert!(book.contains(&format!("`replacement.{counter}`")), "{counter} of {row}");
        }
    }
}
