//! The models against the numbers printed in the papers: area (CA-1) and arithmetic (CA-2). Each exception is named.

use farreach_cost::area::{area_rbe, entries_for_area};
use farreach_cost::cycles::{
    ProtectionSweep, RangeTable, event_cpi, linear_model, percent_of_user_time, renormalised_model,
};
use farreach_hw::tlb::EntryBits;
use farreach_oracle::entry_bits::entry_bits;
use std::collections::HashMap;

type Row = HashMap<String, String>;

fn table(name: &str) -> Vec<Row> {
    let path = format!("{}/../../papers/{name}.csv", env!("CARGO_MANIFEST_DIR"));
    let mut reader = csv::Reader::from_path(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    reader.deserialize().map(|row| row.unwrap()).collect()
}

fn number(row: &Row, column: &str) -> f64 {
    row[column].parse().unwrap_or_else(|_| panic!("{column} = {}", row[column]))
}

/// Half up, to one decimal, as the paper rounds.
fn tenth(x: f64) -> f64 {
    (x * 10.0 + 0.5).floor() / 10.0
}

/// Cells of Table 7 in area ratios, and those that the accounting `bits` does not give.
fn table_7(bits: impl Fn(&str) -> EntryBits) -> (usize, Vec<String>) {
    let unit = area_rbe(64, bits("superpage"));
    let (mut cells, mut wrong) = (0, Vec::new());
    for row in table("t94_table7") {
        for (kind, entries, ratio) in [
            ("single", "single_entries_lo", "single_area_lo"),
            ("single", "single_entries_hi", "single_area_hi"),
            ("partial", "partial_entries", "partial_area"),
            ("complete", "complete_entries", "complete_area"),
        ] {
            // Only fftpde has an interval; elsewhere both ends are one cell.
            if entries == "single_entries_hi" && row["single_entries_hi"] == row["single_entries_lo"] {
                continue;
            }
            cells += 1;
            let computed = area_rbe(number(&row, entries) as u64, bits(kind)) / unit;
            if (tenth(computed) - number(&row, ratio)).abs() > 1e-9 {
                wrong.push(format!("{} {} {computed:.3}", row["benchmark"], kind));
            }
        }
    }
    (cells, wrong)
}

/// CA-1, AREA-1, AREA-4.
#[test]
fn ca_1_table_7_but_for_one_misprint() {
    assert_eq!(table_7(|kind| entry_bits(kind, 16)), (31, vec!["spice complete 2.528".to_owned()]));
}

/// AREA-6: the table distinguishes the accountings, so the test above can fail.
#[test]
fn ca_1_other_accountings_fit_worse() {
    let other = |changed: &'static str, tag, data| {
        move |kind: &str| if kind == changed { EntryBits { tag, data, status: 1 } } else { entry_bits(kind, 16) }
    };
    for (name, (cells, wrong)) in [
        ("valid bits of partial entries in the data", table_7(other("partial", 60, 77))),
        ("valid bits of complete entries in the tag", table_7(other("complete", 76, 720))),
        ("attributes of complete entries shared", table_7(other("complete", 60, 616))),
        ("page size in the data", table_7(other("superpage", 64, 50))),
    ] {
        assert!(cells == 31 && wrong.len() > 2, "{name}: {wrong:?}");
    }
}

/// AREA-5: no area that is linear in the number of entries gives the printed cell and the rest of its column.
#[test]
fn ca_1_the_misprint_is_one() {
    let cells: HashMap<String, (f64, f64)> = table("t94_table7")
        .iter()
        .map(|row| (row["benchmark"].clone(), (number(row, "complete_entries"), number(row, "complete_area"))))
        .collect();
    let (spice, fftpde, wave5) = (cells["spice"], cells["fftpde"], cells["wave5"]);
    // A printed ratio stands for anything within 0.05.
    let steepest = (fftpde.1 - spice.1 + 0.1) / (fftpde.0 - spice.0);
    let flattest = (wave5.1 - fftpde.1 - 0.1) / (wave5.0 - fftpde.0);
    assert!(steepest < flattest, "{steepest} {flattest}");
    let with_35 = (fftpde.1 - spice.1 + 0.1) / (fftpde.0 - 35.0);
    assert!(with_35 > flattest, "35 entries would fit");
}

/// AREA-3: the area of zero entries, and of each further one.
#[test]
fn area_3_area_is_linear_in_the_entries() {
    for (kind, none, each) in [
        ("single", "668.235", "113.6912"),
        ("superpage", "688.599", "118.4912"),
        ("partial", "783.329", "137.0912"),
        ("complete", "3131.870", "522.8912"),
    ] {
        let area = |entries| area_rbe(entries, entry_bits(kind, 16));
        assert_eq!([format!("{:.3}", area(0)), format!("{:.4}", area(1) - area(0))], [none, each], "{kind}");
        assert!((area(1000) - area(0) - 1000.0 * (area(1) - area(0))).abs() < 1e-6, "{kind}");
    }
}

/// AREA-7 with its neighbours.
#[test]
fn ca_1_areas_and_ratios() {
    for (kind, at_64) in
        [("single", "7944.47"), ("superpage", "8272.03"), ("partial", "9557.16"), ("complete", "36596.90")]
    {
        assert_eq!(format!("{:.2}", area_rbe(64, entry_bits(kind, 16))), at_64, "{kind}");
    }
    let ratio = |a, b| format!("{:.3}", area_rbe(64, entry_bits(a, 16)) / area_rbe(64, entry_bits(b, 16)));
    assert_eq!(ratio("complete", "superpage"), "4.424", "about 4.5 times, says the text");
    assert_eq!(ratio("complete", "single"), "4.607");
    assert_eq!(ratio("complete", "partial"), "3.829");
    assert_eq!(ratio("partial", "superpage"), "1.155");
}

/// AREA-8, Table 10: 80 single, 64 complete of two and 45 complete of four pages take the same area.
#[test]
fn ca_1_equal_area() {
    let single = area_rbe(80, entry_bits("single", 1));
    assert_eq!(format!("{single:.1}"), "9763.5");
    for (factor, entries, more, exact) in [(2, 64, "+0.32", "63.78"), (4, 45, "+1.28", "44.35")] {
        let bits = entry_bits("complete", factor);
        assert_eq!(format!("{:+.2}", 100.0 * (area_rbe(entries, bits) / single - 1.0)), more);
        assert_eq!(format!("{:.2}", entries_for_area(single, bits)), exact);
    }
}

/// CA-2, T94-73.
#[test]
fn ca_2_table_5_at_40_mhz() {
    let at = |mhz: f64| {
        let percent = |row: &Row| {
            let misses = 1000.0 * number(row, "user_tlb_misses_k_64e_fa_4k");
            let computed = percent_of_user_time(misses as u64, 40.0, number(row, "user_s"), mhz);
            (computed.round() - number(row, "pct_user_time_40cycle")).abs() < 1e-9
        };
        table("t94_table5").iter().filter(|row| percent(row)).count()
    };
    assert_eq!(at(40.0), 10);
    assert!(at(36.0) < 5 && at(50.0) < 5, "another clock must not fit");
}

#[test]
fn ca_2_table_6_percentages_but_for_coral() {
    let mut wrong = Vec::new();
    let mut cells = 0;
    for row in table("t94_table6") {
        for (misses, percent) in [
            ("super64_k", "super_pct"),
            ("partial64_k", "partial_pct"),
            ("complete64_k", "complete_pct"),
            ("sa256_4way_4k_k", "sa256_pct"),
        ] {
            cells += 1;
            let computed = 100.0 * number(&row, misses) / number(&row, "single64_k");
            if (computed - number(&row, percent)).abs() > 0.0501 {
                wrong.push(format!("{} {percent} {computed:.1}", row["benchmark"]));
            }
        }
    }
    assert_eq!((cells, wrong), (40, vec!["coral super_pct 63.1".to_owned()]));
}

#[test]
fn ca_2_tables_6_and_9_agree_at_64_entries() {
    let nine: HashMap<String, Row> =
        table("t94_table9").into_iter().map(|row| (row["benchmark"].clone(), row)).collect();
    let six = table("t94_table6");
    assert_eq!((six.len(), nine.len()), (10, 10));
    for row in six {
        let other = &nine[&row["benchmark"]];
        for (a, b) in
            [("single64_k", "single_64_k"), ("super64_k", "super64KB_64_k"), ("partial64_k", "partial16_64_k")]
        {
            assert_eq!(row[a], other[b], "{} {a}", row["benchmark"]);
        }
    }
}

/// CA-2, AMB-47.
#[test]
fn ca_2_sv97_overheads() {
    let rows = table("sv97_table4");
    let (total, events) = rows.split_last().unwrap();
    let mut sum = 0.0;
    for row in events {
        let cpi = event_cpi(number(row, "freq_per_instr"), number(row, "penalty_cycles"));
        assert!((cpi - number(row, "cpi")).abs() < 1e-9, "{}", row["event"]);
        sum += cpi;
    }
    assert!((sum - 0.09695).abs() < 1e-9 && (sum - number(total, "cpi")).abs() < 1e-9, "{sum}");

    let rows = table("sv97_table5");
    let (mean, programs) = rows.split_last().unwrap();
    let changes: f64 = programs.iter().map(|row| number(row, "modifications")).sum();
    let millions: f64 =
        programs.iter().map(|row| number(row, "modifications") / number(row, "per_million_instr")).sum();
    assert_eq!(format!("{:.2}", changes / millions), "11.28");
    assert_eq!(tenth(changes / millions), number(mean, "per_million_instr"));
}

#[test]
fn ca_2_protection_sweep() {
    let sweep = ProtectionSweep::SV97;
    assert_eq!(sweep.cycles(), 6908);
    let rates: Vec<f64> = table("sv97_table5").iter().map(|row| number(row, "per_million_instr")).collect();
    let cpi = |rate: Option<&f64>| format!("{:.3}", sweep.cpi(*rate.unwrap()));
    assert_eq!([cpi(rates.first()), cpi(rates.get(6)), cpi(rates.last())], ["0.019", "0.164", "0.078"]);
    // With no line to change the page is still swept: 256 lines in either cache.
    assert_eq!(ProtectionSweep { l1_changed: 0, l2_changed: 0, ..sweep }.cycles(), 256 * 23);
}

/// CA-2, DS13-31, AMB-66.
#[test]
fn ca_2_direct_segment_linear_model() {
    let inside: HashMap<String, f64> = table("ds13_table5")
        .iter()
        .map(|row| (row["workload"].clone(), number(row, "pct_dtlb_misses_in_segment")))
        .collect();
    let mut anchors = Vec::new();
    for row in table("ds13_table4") {
        let (overhead, share) = (number(&row, "dtlb_4k_pct"), inside[&row["workload"]] / 100.0);
        let (linear, renormalised) = (linear_model(overhead, share), renormalised_model(overhead, share));
        assert!(linear < 0.5 && linear < renormalised && renormalised < 0.5, "{}", row["workload"]);
        if ["graph500", "MySQL", "GUPS"].contains(&row["workload"].as_str()) {
            anchors.push(format!("{linear:.4} {renormalised:.4}"));
        }
    }
    assert_eq!(anchors, ["0.0051 0.0104", "0.4560 0.4828", "0.0083 0.0491"]);
}

#[test]
fn ca_2_range_table_capacity() {
    let table = RangeTable::RMM15;
    assert_eq!((table.node_bytes(), table.ranges_in_levels(3), table.ranges_in_bytes(4096)), (108, 124, 128));
    assert!(table.node_bytes() <= table.node_size, "a node fits in its two cache lines");
}
