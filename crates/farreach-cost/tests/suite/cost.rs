//! Every count is charged at its own price, and every row of T94's Tables 2 to 4 has its line in the ledger.

use farreach_cost::{COST_KEYS, cost, ledger};
use farreach_oracle::entry_bits::entry_bits;
use farreach_types::counts::{Counts, LedgerLine, MemoryUse, Workload};
use farreach_types::params::{Allowed, Key, Params};
use serde_json::{Map, Value as Json, json};

const ENTRIES: Key = Key { name: "entries", default: "64", allowed: Allowed::Int { min: 1, max: 65536 }, about: "" };

fn params(given: Json) -> Params {
    let mut keys = vec![&ENTRIES];
    keys.extend(COST_KEYS);
    Params::resolve(&keys, given.as_object().unwrap()).unwrap()
}

/// Counts in which every field has another value, so that a mix-up is detected: the n-th field has 1000 + n.
fn distinct() -> (Counts, Map<String, Json>) {
    let fields: Map<String, Json> = serde_json::to_value(Counts::default())
        .unwrap()
        .as_object()
        .unwrap()
        .keys()
        .enumerate()
        .map(|(n, key)| (key.clone(), json!(1000 + n as u64)))
        .collect();
    (serde_json::from_value(Json::Object(fields.clone())).unwrap(), fields)
}

fn line<'a>(lines: &'a [LedgerLine], item: &str) -> &'a LedgerLine {
    lines.iter().find(|l| l.item == item).unwrap_or_else(|| panic!("no line '{item}'"))
}

#[test]
fn t94_26_misses_and_further_entries_have_their_prices() {
    let mut counts = Counts::default();
    (counts.tlb.misses, counts.tlb.extra_pte_reads) = (1000, 70);
    let work = Workload { instructions: 120_000, ..Workload::default() };
    let plain = cost(&counts, &work, &params(json!({})), None, 0);
    assert_eq!((plain.cycles, plain.area_rbe), (1000 * 40 + 70 * 2, None));
    let dear = cost(&counts, &work, &params(json!({"penalty": 60, "pte_cost": 0.5, "cpi": 2})), None, 0);
    assert_eq!(dear.cycles, 60_035);
    assert!((dear.cycles_per_instruction.unwrap() - 60_035.0 / 120_000.0).abs() < 1e-12);
    assert!((dear.percent_of_time.unwrap() - 100.0 * 60_035.0 / 300_035.0).abs() < 1e-9);
    let data_only = cost(&counts, &Workload::default(), &params(json!({})), None, 0);
    assert_eq!((data_only.cycles_per_instruction, data_only.percent_of_time), (None, None));
}

#[test]
fn area_uses_the_entries_of_the_machine() {
    let bits = Some(entry_bits("partial", 16));
    let area = |entries: u64| {
        cost(&Counts::default(), &Workload::default(), &params(json!({ "entries": entries })), bits, 4096)
            .area_rbe
            .unwrap()
    };
    assert_eq!([area(64), area(32)].map(|a| format!("{a:.0}")), ["9557", "5170"]);
}

/// T94-41: a price for every step. Each price is another power of ten, so the digits of the sum are the counts.
#[test]
fn every_step_of_the_operating_system_has_its_price() {
    let mut counts = Counts::default();
    let os = &mut counts.os;
    (os.page_faults, os.protection_faults, os.populated_pages) = (5, 1, 2);
    (os.pt_probes, os.cow_copies, os.gathered_pages, os.io_bytes, os.zeroed_pages) = (9, 1, 2, 3 * 4096, 4);
    let prices = json!({"fault_cycles": 100_000, "populate_cycles": 10_000, "check_cycles": 1000, "copy_cycles": 100,
        "io_cycles": 10, "zero_cycles": 1});
    assert_eq!(cost(&counts, &Workload::default(), &params(prices), None, 0).os_cycles, 629_334);
}

/// A transparent huge page: one fault, and zeros for all of its pages; no page is mapped by itself.
#[test]
fn rmm15_26_a_superpage_that_comes_whole_is_one_fault_and_its_zeros() {
    let mut counts = Counts::default();
    (counts.os.page_faults, counts.os.populated_pages, counts.os.populated_in_superpages) = (1, 511, 511);
    counts.os.zeroed_pages = 512;
    let prices = json!({"fault_cycles": 100_000, "populate_cycles": 1000, "zero_cycles": 1});
    assert_eq!(cost(&counts, &Workload::default(), &params(prices.clone()), None, 0).os_cycles, 100_512);
    let lines = ledger(&counts, &MemoryUse::default(), None, &params(prices));
    let row = |name: &str| lines.iter().find(|l| l.item == name).map(|l| (l.count, l.cycles)).unwrap();
    assert_eq!(row("promotion: populate"), (511, Some(0)));
    assert_eq!(row("page-fault handling: pages filled with zeros"), (512, Some(512)));
}

#[test]
fn t94_78_every_line_reads_its_counter() {
    let (mut counts, fields) = distinct();
    let walk = &mut counts.tlb.walk;
    (walk.walks, walk.pt_references, walk.pdpt_references) = (1, 21, 300);
    counts.tlb.range.sole_hits = 31;
    let of = |key: &str| fields[key].as_u64().unwrap();
    let memory = MemoryUse { resident_bytes: 10, mapped_bytes: 17, wasted_bytes: 5, ..MemoryUse::default() };
    let lines = ledger(&counts, &memory, None, &params(json!({})));
    let expected = [
        ("TLB misses", of("misses")),
        ("misses: page table entries read beyond the first", of("extra_pte_reads")),
        ("misses of a first level: fetches", of("second_level_fetch_hits")),
        ("misses of a first level: loads and stores", of("second_level_data_hits")),
        ("page walks: nodes of page tables read", 321),
        ("misses of page TLBs: answered by a range", 31),
        ("page-fault handling: faults", of("page_faults") + of("protection_faults")),
        ("page-fault handling: read from files", of("io_bytes")),
        ("page-fault handling: pages filled with zeros", of("zeroed_pages")),
        ("page replacement and file writes: pages marked modified", of("dirty_pages")),
        ("physical memory allocation: steps", of("alloc_steps")),
        ("physical memory under pressure: no aligned group free", of("failed_region_allocs")),
        ("physical memory under pressure: reserved frames taken back", of("reservations_stolen")),
        ("data structures: page table entries probed", of("pt_probes")),
        ("promotion: populate", of("populated_pages")),
        ("promotion: populated, never used", of("populated_never_used")),
        ("promotion: check", of("promotions_tried")),
        ("promotion: gather and copy-on-write copies", of("cow_copies") + of("gathered_pages")),
        ("page-size assignment: promotions", of("promotions")),
        ("page-size assignment: demotions", of("demotions")),
        ("file read-ahead: pages read before they were asked for", of("pages_prefetched")),
        ("physical memory and placement: groups reserved", of("reservations_made")),
        ("physical memory and placement: reserved frames used", of("reservations_honoured")),
        ("small objects: promotions refused", of("refused_small_object")),
        ("non-uniform attributes: promotions refused", of("refused_attributes")),
        ("non-uniform attributes: entries of their own", of("split_attributes")),
        ("missing pages: promotions refused", of("refused_not_resident")),
        ("virtual placement: promotions refused for their frames", of("refused_frames")),
        ("virtual placement: entries of their own, unaligned", of("split_unaligned")),
        ("virtual placement: entries of their own, other frames", of("split_frames")),
        ("interfaces: entries dropped because a mapping changed", of("invalidations")),
        ("aliases: mapped more than once", 7),
        ("memory: resident, never referenced", 5),
    ];
    let got: Vec<(&str, u64)> = lines.iter().map(|l| (l.item.as_str(), l.count)).collect();
    assert_eq!(got, expected);
}

/// Which lines follow which row of the tables; the rows are those of the paper.
#[test]
fn t94_78_every_row_of_tables_2_to_4_has_lines() {
    let rows: [(&str, &str, &[&str]); 17] = [
        ("t94_table2", "page replacement and file writes", &["page replacement and file writes: "]),
        ("t94_table2", "page-fault handling", &["page-fault handling: faults", "page-fault handling: read from files"]),
        ("t94_table2", "physical memory allocation for promotion", &["physical memory allocation: steps"]),
        ("t94_table2", "physical memory under pressure", &["physical memory under pressure: "]),
        ("t94_table2", "data structures", &["data structures: "]),
        ("t94_table2", "promotion: populate", &["promotion: populate", "promotion: populated, never used"]),
        ("t94_table2", "promotion: check", &["promotion: check"]),
        ("t94_table2", "promotion: gather", &["promotion: gather"]),
        ("t94_table3", "page-size assignment", &["page-size assignment: promotions"]),
        (
            "t94_table3",
            "page replacement",
            &["page-size assignment: demotions", "physical memory under pressure: reserved"],
        ),
        ("t94_table3", "file read-ahead / clustering vs page size", &["file read-ahead: "]),
        ("t94_table3", "physical memory and page colouring", &["physical memory and placement: "]),
        ("t94_table3", "aliases", &["aliases: "]),
        ("t94_table4", "small objects", &["small objects: "]),
        ("t94_table4", "non-uniform attributes", &["non-uniform attributes: "]),
        ("t94_table4", "virtual placement", &["virtual placement: "]),
        ("t94_table4", "interfaces", &["interfaces: "]),
    ];
    let mut printed = Vec::new();
    for table in ["t94_table2", "t94_table3", "t94_table4"] {
        let path = format!("{}/../../papers/{table}.csv", env!("CARGO_MANIFEST_DIR"));
        let mut reader = csv::Reader::from_path(path).unwrap();
        printed.extend(reader.records().map(|r| (table, r.unwrap()[0].to_owned())));
    }
    let mapped: Vec<(&str, String)> = rows.iter().map(|(table, row, _)| (*table, (*row).to_owned())).collect();
    assert_eq!(mapped, printed);
    let lines = ledger(&Counts::default(), &MemoryUse::default(), None, &params(json!({})));
    for (_, row, items) in rows {
        for item in items {
            assert!(lines.iter().any(|l| l.item.starts_with(item)), "{row}: no line '{item}'");
        }
    }
}

#[test]
fn the_ledger_is_the_difference_from_the_baseline_at_its_own_prices() {
    let (mut base, mut own) = (Counts::default(), Counts::default());
    (base.tlb.misses, own.tlb.misses) = (1000, 300);
    (base.os.page_faults, own.os.page_faults, own.os.populated_pages) = (50, 40, 10);
    let (cheap, dear) = (params(json!({"penalty": 40})), params(json!({"penalty": 60})));
    let lines = ledger(&own, &MemoryUse::default(), Some((&base, &cheap)), &dear);
    let saved = line(&lines, "TLB misses saved");
    assert_eq!((saved.count, saved.unit.as_str(), saved.cycles), (700, "misses", Some(300 * 60 - 1000 * 40)));
    assert_eq!(line(&lines, "page-fault handling: faults").cycles, Some(-10 * 2000));
    assert_eq!(line(&lines, "promotion: populate").cycles, Some(10 * 200));
    assert_eq!(line(&lines, "promotion: check").cycles, None, "no price of its own");

    let worse = ledger(&base, &MemoryUse::default(), Some((&own, &cheap)), &cheap);
    assert_eq!(line(&worse, "TLB misses added").cycles, Some(700 * 40));
    let itself = ledger(&own, &MemoryUse::default(), Some((&own, &cheap)), &cheap);
    assert!(itself.iter().all(|l| l.cycles.unwrap_or(0) == 0));
}

/// Cost and ledger charge the same: without a baseline the priced lines add up to the cost.
#[test]
fn ledger_and_cost_agree() {
    let (counts, _) = distinct();
    let params = params(json!({}));
    let cost = cost(&counts, &Workload::default(), &params, None, 0);
    let lines = ledger(&counts, &MemoryUse::default(), None, &params);
    let charged: i64 = lines.iter().filter_map(|l| l.cycles).sum();
    assert_eq!(charged, (cost.cycles + cost.os_cycles) as i64);
}
