//! Tables in two dimensions (NEC, NFL, L5, DM-2): references and steps by hand, and whole machines against radix trees
//! nested in radix trees.

use super::*;
use crate::nested::{Dimension, references};
use farreach_types::counts::HOST_TABLE as HOST_PART;

/// A guest.
struct Vm {
    tlb: Box<dyn Tlb>,
    system: System,
}

/// References and steps of a walk, in both dimensions, and references in the background.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Made {
    references: u64,
    steps: u64,
    background: u64,
}

fn joined(a: &Json, b: &Json) -> Json {
    let mut all = a.clone();
    all.as_object_mut().unwrap().extend(b.as_object().unwrap().clone());
    all
}

impl Vm {
    fn new(given: Json) -> Vm {
        let small = json!({"guest": "walk", "l1d": "4K:1+2M:1+1G:1", "l1i": "4K:1", "l2": "none"});
        Vm { tlb: machine(&joined(&small, &given)), system: System { next: 1 << 20, ..System::default() } }
    }

    fn made(&self) -> Made {
        let counts = self.tlb.counts();
        Made {
            references: counts.table_references(),
            steps: counts.table_steps(),
            background: counts.of_tables(|memory| memory.made.background_references),
        }
    }

    /// Maps pages.
    fn map(&mut self, pages: &[u64], order: u8) {
        for &page in pages {
            self.system.map(Asid(0), Vpn(page), order);
            self.tlb.mapped(Asid(0), VpnRange { start: Vpn(page), pages: 1 << order }, &self.system);
        }
    }

    /// What a miss of this page makes. The TLB has one entry.
    fn walk(&mut self, page: u64) -> Made {
        let (at, before) = (Lookup { asid: Asid(0), vpn: Vpn(page), kind: Kind::Load }, self.made());
        let misses = self.tlb.counts().misses;
        step(&mut *self.tlb, &Event::Lookup(at), &self.system);
        assert_eq!(self.tlb.counts().misses, misses + 1, "{page} is in the TLB");
        let now = self.made();
        self.laws();
        Made {
            references: now.references - before.references,
            steps: now.steps - before.steps,
            background: now.background - before.background,
        }
    }

    /// The last of several walks, once caches are warm.
    fn warm(&mut self) -> Made {
        self.map(&[0, 1, 2], 0);
        (0..6).map(|i| self.walk(i % 3)).last().unwrap()
    }

    fn laws(&self) {
        laws(&*self.tlb, "a walk");
    }

    fn count(&self, part: &str, name: &str) -> u64 {
        self.tlb.counts().parts.count(part, name)
    }
}

/// DS13-42: each line of the guest's table is translated, or known, and each page is.
fn laws(tlb: &dyn Tlb, what: &str) {
    let counts = tlb.counts();
    let Some(host) = counts.parts.get(HOST_PART) else { return };
    let of = of_host("cuckoo").unwrap();
    for law in of.laws {
        let (left, right) = (law.sides)(host, counts);
        assert_eq!(left, right, "{what}: {}", law.name);
    }
}

fn made(references: u64, steps: u64) -> Made {
    Made { references, steps, background: 0 }
}

/// NEC: three steps, of 9, 3 and 3 references if all sizes are known.
#[test]
fn cuckoo_tables_walk_in_three_steps() {
    for table in ["cuckoo", "me-hpt"] {
        let mut vm = Vm::new(json!({"table": table, "host_table": table}));
        vm.map(&[0, 1, 2], 0);
        // No row is known to the guest's walker: the ways of base pages, of which alone there are tables. Nor to the
        // host's, for the first line, and for the page, which lies far from the table.
        let first = vm.walk(0);
        assert_eq!((first.references, first.steps), (9 + 3 + 3, 3), "{table}");
        // Both rows of the guest, translated, and each dimension's own rows: two for the first line, two for the page.
        // The guest's rows lie in pages that are new to the host, but not to its rows.
        assert_eq!(first.background, 2 + 2 + 2 * 3 + 2, "{table}");
        assert_eq!(vm.walk(1), made(15, 3), "{table}");
        assert_eq!(vm.walk(2), made(15, 3), "{table}");
        assert_eq!([PART, HOST_PART].map(|part| vm.count(part, "size")), [2, 2 + 2 + 2 * 4], "{table}");
        assert_eq!(vm.count(HOST_PART, "complete"), 2, "{table}");
        // The cached rows are looked up for three lines at once, and for the page.
        assert_eq!((vm.count(PART, "cwc_lookups"), vm.count(HOST_PART, "cwc_lookups")), (3, 6), "{table}");
    }
    // EC-6 in the guest: the way of a superpage is known, so that one line is read.
    let mut vm = Vm::new(json!({"table": "cuckoo", "host_table": "cuckoo", "host_page": "2M"}));
    vm.map(&[0, 512], 9);
    let walks = [0, 512, 1, 513].map(|page| vm.walk(page));
    // The host has pages of 2 MB only, each in a way that is known.
    assert_eq!(walks[3], made(1 + 1 + 1, 3));
}

/// NEC: ways by dimension, and caches of rows by dimension.
#[test]
fn dimensions_have_keys_and_caches_of_their_own() {
    let warm = |more: Json| Vm::new(joined(&json!({"table": "cuckoo", "host_table": "cuckoo"}), &more)).warm();
    assert_eq!(warm(json!({"ec_ways": 2, "host_ec_ways": 4})), made(2 * 4 + 2 + 4, 3));
    assert_eq!(warm(json!({"ec_ways": 4, "host_ec_ways": 2})), made(4 * 2 + 4 + 2, 3));
    // Without cached rows a walk is complete; no rows are fetched. There is one size.
    assert_eq!(warm(json!({"host_cwc_pmd": 0, "host_cwc_pud": 0})), made(15, 3));
    let mut vm = Vm::new(json!({"table": "cuckoo", "host_table": "cuckoo", "host_cwc_pmd": 0, "host_cwc_pud": 0}));
    vm.warm();
    assert_eq!((vm.count(PART, "complete"), vm.count(HOST_PART, "complete")), (1, 6 * 4 + 2));
    assert_eq!(vm.count(HOST_PART, "cwc_lookups"), 0);
    // A nested TLB has all translations.
    assert_eq!(warm(json!({"nested_tlb": 16})), made(3, 1));
}

/// The rule of NEC with tables that read one line after the other, and with trees of the host: what the host does for
/// lines that are read at once is done at once.
#[test]
fn each_step_of_the_guest_waits_for_the_host() {
    let warm = |more: Json| Vm::new(more).warm();
    // HT: a bucket for the line, the line, a bucket for the page.
    let hashed = warm(json!({"table": "hashed", "host_table": "hashed", "ht_hash": "identity"}));
    assert_eq!(hashed, made(3, 3));
    // CL: head and node, each behind head and node.
    let clustered = json!({"table": "clustered", "cl_buckets": 1, "host_table": "clustered"});
    assert_eq!(warm(clustered), made(2 * 3 + 2, 8));
    // Three lines at once behind four nodes of each.
    assert_eq!(warm(json!({"table": "cuckoo"})), made(3 * 4 + 3 + 4, 4 + 1 + 4));
    assert_eq!(warm(json!({"table": "cuckoo", "host_page": "2M"})), made(3 * 3 + 3 + 3, 3 + 1 + 3));
    // The tree of the guest, and a step of three lines for each node and for the page.
    assert_eq!(warm(json!({"host_table": "cuckoo"})), made(4 * (3 + 1) + 3, 4 * 2 + 1));
    // A host that adds.
    assert_eq!(warm(json!({"table": "cuckoo", "host": "segment"})), made(3, 1));
}

/// The hand-worked case of FL-6, NFL and L5: `g(h+1)+h`, which is the same rule with a line a step.
#[test]
fn trees_in_trees() {
    let flat = |guest: &str, host: &str| {
        json!({
            "table": "flat", "flatten": guest, "host_table": "flat", "host_flatten": host,
        })
    };
    for (given, g, h) in [
        (flat("l4l3+l2l1", "l4l3+l2l1"), 2, 2),
        (flat("l2l1", "l4l3+l2l1"), 3, 2),
        (flat("none", "none"), 4, 4),
        (json!({"table": "flat"}), 2, 4),
        (json!({"host_table": "flat"}), 4, 2),
        (json!({}), 4, 4),
        (json!({"walk_levels": 5, "host_levels": 5}), 5, 5),
        (json!({"table": "flat", "flatten": "none", "walk_levels": 5, "host_levels": 5}), 5, 5),
        (json!({"table": "flat", "host_page": "2M"}), 2, 3),
    ] {
        let mut vm = Vm::new(given.clone());
        vm.map(&[7], 0);
        let [guest, host] = [g, h].map(|levels| Dimension::Walk { levels });
        let all = references(guest, host);
        assert_eq!(vm.walk(7), made(all, all), "{given}");
    }
    assert_eq!([(2, 2), (2, 4), (4, 4), (5, 5)].map(|(g, h)| g * (h + 1) + h), [8, 14, 24, 35]);
}

/// DM-2: the guest's entry, then the host's; and three if the host has the guest's arrays in pages.
#[test]
fn dmt_makes_two_references() {
    let warm = |more: Json| Vm::new(joined(&json!({"table": "dmt", "host_table": "dmt"}), &more)).warm();
    assert_eq!(warm(json!({})), made(2, 2));
    assert_eq!(warm(json!({"dmt_guest_arrays": "paged"})), made(3, 3));
    // The guest's registers alone.
    assert_eq!(warm(json!({"host_table": "radix"})), made(1 + 4, 5));
    assert_eq!(warm(json!({"dmt_registers": 0, "host_dmt_registers": 0})), made(24, 24));
    let mut vm = Vm::new(json!({"table": "dmt", "host_table": "dmt"}));
    vm.warm();
    assert_eq!(vm.count(HOST_PART, "known"), 6);
    assert_eq!((vm.count(PART, "covered"), vm.count(HOST_PART, "covered")), (6, 6));
}

/// FL-3: a cached entry has the system address of the node it leads to.
#[test]
fn walk_caches_of_both_dimensions() {
    let keys = json!({"table": "flat", "host_table": "flat", "pwc_pdpt": 4, "host_pwc_pdpt": 4});
    let mut vm = Vm::new(keys);
    vm.map(&[0, 1], 0);
    // The host's first reference is saved where it walked in the same GB before: for the lower node, whose line lies
    // in 2 MB of its own.
    assert_eq!(vm.walk(0).references, (2 + 1) + (1 + 1) + 2);
    // The lower node is known. The page is in a GB that the host knows.
    assert_eq!(vm.walk(1), made(1 + 1, 2));
    assert_eq!(vm.count(HOST_PART, "known"), 1);
}

/// HW-7: with caches the references go out in the order of the steps.
#[test]
fn references_go_out_in_the_order_of_steps() {
    let mut vm = Vm::new(json!({"table": "cuckoo", "host_table": "cuckoo", "walk_cost": "caches"}));
    vm.warm();
    vm.tlb.port().unwrap().recorded().for_each(drop);
    vm.walk(0);
    let read: Vec<u64> = vm.tlb.port().unwrap().recorded().map(|read| read.address).collect();
    let of_host: Vec<bool> = read.iter().map(|address| *address >= Places::FIRST).collect();
    assert_eq!(of_host, [[true; 9].as_slice(), &[false; 3], &[true; 3]].concat());
    assert!(read.iter().all(|address| *address >= Places::GUEST_FIRST));
    // All lines that are read at once are first translated, first line first: lines in one page are translated alike.
    let (lines, host) = (&read[9..12], &read[..9]);
    for (a, b) in [(0, 1), (1, 2)] {
        let same = lines[a] >> 15 == lines[b] >> 15;
        assert_eq!(host[3 * a..3 * a + 3] == host[3 * b..3 * b + 3], same);
    }
    // A tree of the host for three lines: level by level.
    let mut vm = Vm::new(json!({"table": "cuckoo", "walk_cost": "caches"}));
    vm.warm();
    vm.tlb.port().unwrap().recorded().for_each(drop);
    vm.walk(0);
    let read: Vec<u64> = vm.tlb.port().unwrap().recorded().map(|read| read.address).collect();
    assert_eq!((read[0] >> 12, read[0] >> 12), (read[1] >> 12, read[2] >> 12), "the root of the host");
    assert!(read[..12].iter().all(|address| *address >= Places::FIRST));
    assert!(read[12..15].iter().all(|address| *address < Places::FIRST));
}

/// PT-2: memory of both dimensions.
#[test]
fn memory_of_both_dimensions() {
    let mut vm = Vm::new(json!({"table": "hashed", "host_table": "clustered", "ht_buckets": 8, "host_cl_buckets": 2}));
    vm.map(&[0], 0);
    vm.walk(0);
    assert_eq!(vm.count(PART, "table_bytes"), 8 * 64);
    // A bucket of 8 bytes each; a node for the page of the bucket that was read, and one for the page.
    assert_eq!(vm.count(HOST_PART, "table_bytes"), 2 * 8 + 2 * 144);
    assert_eq!(vm.count(HOST_PART, "table_writes"), 2);
}

/// Pairs of tables, small.
fn pairs() -> Vec<Json> {
    let guests = [
        json!({}),
        json!({"table": "hashed", "ht_buckets": 4}),
        json!({"table": "clustered", "cl_buckets": 8}),
        json!({"table": "cuckoo", "ec_entries": 8, "cwc_pmd": 1}),
        json!({"table": "me-hpt", "ec_entries": 2, "ec_ways": 2, "ec_chunk": "4K+8K"}),
        json!({"table": "flat", "pwc_pdpt": 2}),
        json!({"table": "dmt", "dmt_registers": 2, "pwc_pd": 4}),
    ];
    let hosts = [
        json!({"host_page": "2M"}),
        json!({"host_table": "hashed", "host_ht_buckets": 4, "host_ht_sizes": "all"}),
        json!({"host_table": "clustered", "host_cl_buckets": 8, "host_cl_inline": true, "nested_tlb": 4}),
        json!({"host_table": "cuckoo", "host_ec_entries": 4, "host_cwc_pmd": 1, "host_page": "2M"}),
        json!({"host_table": "me-hpt", "host_ec_entries": 2, "host_ec_ways": 2, "nested_tlb": 2}),
        json!({"host_table": "flat", "host_pwc_pdpt": 2, "host_page": "1G"}),
        json!({"host_table": "dmt", "host_dmt_registers": 2, "host_pwc_pd": 1, "dmt_guest_arrays": "paged"}),
    ];
    let all = guests.iter().flat_map(|guest| hosts.iter().map(|host| joined(guest, host)));
    all.map(|mut given| {
        if given["table"] != "dmt" {
            given.as_object_mut().unwrap().remove("dmt_guest_arrays");
        }
        given
    })
    .collect()
}

/// HW-3, PT-1: TLBs do not notice which tables they are, in either dimension. HW-5 is checked by the tables.
#[test]
fn tlbs_are_those_of_nested_radix_trees() {
    for (i, given) in pairs().into_iter().enumerate() {
        let with = |more: &Json| machine(&joined(&json!({"guest": "walk", "process_ids": i % 3 != 0}), more));
        let page = given.get("host_page").cloned().unwrap_or("4K".into());
        let (mut radix, mut other) = (with(&json!({"host_page": page})), with(&given));
        count_alike([&mut *radix, &mut *other], 300 + i as u64, 2500, &given);
        laws(&*other, &given.to_string());
        let counts = other.counts();
        assert!(counts.walk.walks > 500 && counts.host_walk.walks > 500, "{given}");
        for (part, key, walks) in
            [(PART, "table", counts.walk.walks), (HOST_PART, "host_table", counts.host_walk.walks)]
        {
            let Some(name) = given.get(key).and_then(Json::as_str) else { continue };
            for law in listed(name).unwrap().laws {
                let (left, right) = (law.sides)(counts.parts.get(part).unwrap(), walks);
                assert_eq!(left, right, "{given}: {}", law.name);
            }
        }
    }
}

/// The general rule is that of radix trees: references, walks of the host and hits of the nested TLB are the same.
#[test]
fn trees_of_single_levels_are_nested_as_the_walker_does_it() {
    for caches in [
        json!({}),
        json!({"nested_tlb": 8}),
        json!({"pwc_pd": 2, "pwc_pdpt": 2, "pwc_pml4": 1, "nested_tlb": 3}),
        json!({"pwc_pdpt": 3, "walk_levels": 5, "host_levels": 5}),
    ] {
        let with = |more: Json| machine(&joined(&joined(&caches, &json!({"guest": "walk"})), &more));
        let mut all = [
            with(json!({})),
            with(json!({"table": "flat", "flatten": "none"})),
            with(json!({"host_table": "flat", "host_flatten": "none"})),
            with(json!({"table": "flat", "flatten": "none", "host_table": "flat", "host_flatten": "none"})),
        ];
        // Nothing is unmapped: which memory new nodes get then is each table's own matter.
        let mut random = Random(Pcg64Mcg::seed_from_u64(7));
        let (mut system, mut asid) = (System::default(), Asid(0));
        for i in 0..4000 {
            let (page, order) = random.page();
            let (vpn, kind) = (Vpn(page), Kind::Load);
            let mut events = vec![Event::Lookup(Lookup { asid, vpn, kind })];
            let inside = system.pages.range((asid, page)..(asid, page + (1 << order))).next();
            match system.of(asid, vpn) {
                None if inside.is_some() => continue,
                None => {
                    system.map(asid, vpn, order);
                    events.insert(0, Event::Mapped(asid, VpnRange { start: vpn, pages: 1 << order }));
                }
                Some(_) => {}
            }
            if i % 50 == 0 {
                asid = Asid(1 - asid.0);
                events.push(Event::Switched(asid));
            }
            events.iter().for_each(|event| all.iter_mut().for_each(|tlb| step(&mut **tlb, event, &system)));
        }
        let of = |tlb: &dyn Tlb| {
            let counts = tlb.counts();
            let host = &counts.host_walk;
            [counts.table_references(), counts.table_steps(), host.walks, host.nested_tlb_hits]
        };
        let radix = of(&*all[0]);
        assert!(radix[0] > 10_000);
        all.iter().for_each(|tlb| assert_eq!(of(&**tlb), radix, "{caches}"));
    }
}

/// HW-12: what no rule defines is refused, with the rule.
#[test]
fn refusals() {
    let refusal = |given: Json| {
        let (given, design) = (given.as_object().unwrap().clone(), design("hierarchy").unwrap());
        let params = Params::resolve(&keys_of(design, &given), &given)?;
        (design.build)(&params).map(|_| ())
    };
    for (given, begins, says) in [
        (json!({"table": "htab", "guest": "walk"}), "table = htab is not allowed with guest = walk", "HW-12"),
        (json!({"table": "learned", "guest": "walk"}), "table = learned is not allowed with guest = walk", "HW-12"),
        (json!({"table": "hashed", "guest": "walk", "cores": 2}), "table = hashed is not allowed with cores", "HW-12"),
        (json!({"table": "hashed", "guest": "walk", "host": "shadow"}), "table = hashed is not allowed", "SHD-1"),
        (json!({"host_table": "cuckoo"}), "host_table = cuckoo is not allowed with guest = none", "must be walk"),
        (json!({"host_table": "htab", "guest": "walk"}), "host_table = htab is not allowed", "HW-12"),
        (
            json!({"host_table": "flat", "guest": "walk", "host": "segment"}),
            "host_table = flat is not allowed with host = segment",
            "must be walk",
        ),
        (json!({"host_table": "flat", "guest": "walk", "cores": 2}), "host_table = flat is not allowed with", "HW-12"),
        (
            json!({"host_table": "flat", "guest": "walk", "host_flatten": "l5l4"}),
            "host_table = flat: its flatten = l5l4 is not allowed",
            "needs more levels",
        ),
        (json!({"ec_ways": 2, "guest": "walk", "host_table": "cuckoo"}), "unknown key 'ec_ways'", ""),
    ] {
        let why = refusal(given.clone()).unwrap_err();
        assert!(why.starts_with(begins) && why.contains(says), "{given}: {why}");
    }
}
