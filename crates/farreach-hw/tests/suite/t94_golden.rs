//! Do the designs make the entries, victims and misses that the specification works out by hand? (CA-3, CA-4, CA-8,
//! CA-11, CA-12, CA-13, as far as the TLB decides.)

use farreach_hw::tlb::{EntryView, Outcome, Tlb};
use farreach_oracle::driver::*;
use farreach_types::addr::{Asid, Vpn};
use farreach_types::event::Kind;

const FIG2: &str = include_str!("../../../../fixtures/t94/fig2_vectors.csv");
const FIG3: &str = include_str!("../../../../fixtures/t94/fig3_vectors.csv");

/// Rows of a CSV file whose cells may be quoted.
fn rows(text: &str) -> Vec<Vec<String>> {
    let cells = |line: &str| {
        let (mut row, mut quoted) = (vec![String::new()], false);
        for c in line.chars() {
            match c {
                '"' => quoted = !quoted,
                ',' if !quoted => row.push(String::new()),
                c => row.last_mut().unwrap().push(c),
            }
        }
        row
    };
    text.lines().skip(1).filter(|line| !line.is_empty()).map(cells).collect()
}

fn binary(text: &str) -> u64 {
    u64::from_str_radix(text, 2).unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// Attributes are letters in the figures.
fn attr(letter: &str) -> u8 {
    letter.as_bytes()[0]
}

/// The cells that a figure draws for an entry: tag, size or valid bits, frames, attributes, SB.
fn drawn(e: &EntryView, kind: &str) -> [String; 5] {
    let letters = |a: u8| char::from(a).to_string();
    if kind == "single" || kind == "superpage" {
        let (_, t, _) = e.pages[0];
        let tag = format!("{:06b}", e.base.0 >> e.order);
        return [tag, format!("{}KB", 4 << e.order), format!("{:05b}", t.pfn.0), letters(t.attr.0), String::new()];
    }
    let valid: String = (0..4).map(|o| if e.pages.iter().any(|p| p.0 == o) { '1' } else { '0' }).collect();
    let tag = format!("{:04b}", e.base.0 >> 2);
    if kind == "complete" {
        let frames: Vec<String> = e.pages.iter().map(|p| format!("{:05b}", p.1.pfn.0)).collect();
        let attrs: Vec<String> = e.pages.iter().map(|p| letters(p.1.attr.0)).collect();
        return [tag, valid, frames.join("|"), attrs.join("|"), String::new()];
    }
    // Low frame bits of an enabled entry are drawn as zeros (AMB-14); SB is drawn inverted (AMB-1).
    let enabled = e.sb_enabled.unwrap();
    let first = e.pages[0].1;
    let frame = if enabled { first.pfn.0 >> 2 << 2 } else { first.pfn.0 };
    let sb = if enabled { "0" } else { "1" };
    [tag, valid, format!("{frame:06b}"), letters(first.attr.0), sb.into()]
}

/// CA-3, T94-8, T94-12.
#[test]
fn ca_3_figure_2() {
    let mut table = Table::default();
    for (vpn, pfn) in [("110100", "10000"), ("110101", "11011"), ("110110", "00010"), ("110111", "00011")] {
        table.map(binary(vpn), binary(pfn), b'a', 0);
    }
    for (kind, name, keys, entries) in [
        ("single", "single", "entries=4", 4),
        ("superpage", "superpage 4K/16K", "entries=4,sizes=4K+16K", 4),
        ("complete", "complete f=4", "entries=4,factor=4", 1),
        ("partial", "partial f=4", "entries=4,factor=4", 3),
    ] {
        let mut design = tlb(kind, keys);
        for vpn in ["110100", "110101", "110111", "110110"] {
            assert_ne!(load(&mut *design, &table, binary(vpn)), Outcome::Hit, "{kind} {vpn}");
        }
        for (&(asid, vpn), pte) in &table.0 {
            assert_eq!(design.probe(asid, vpn, Kind::Load).map(|t| t.pfn), Some(pte.pfn), "{kind} {vpn:?}");
        }
        let mut got: Vec<[String; 5]> = design.entries().iter().map(|e| drawn(e, kind)).collect();
        let want = rows(FIG2).into_iter().filter(|r| r[0] == name);
        let mut want: Vec<[String; 5]> =
            want.map(|r| [r[2].clone(), r[3].clone(), r[4].clone(), r[5].clone(), r[6].clone()]).collect();
        if kind == "partial" {
            want.iter_mut().for_each(|r| r[2] = format!("0{}", r[2]));
        }
        assert_eq!(want.len(), entries);
        // The figure numbers its pages in another order than they are touched in.
        got.sort();
        want.sort();
        assert_eq!(got, want, "{kind}");
    }
}

#[test]
fn ca_3_figure_3() {
    let all = rows(FIG3);
    let examples: Vec<&Vec<String>> = all.iter().filter(|r| r[1] != "(same)").collect();
    assert_eq!(examples.len(), 4);
    for example in examples {
        let mut design = tlb("partial", "entries=8,factor=4");
        let mut table = Table::default();
        let mut touched = Vec::new();
        for mapping in example[1].split(' ') {
            let (vpn, rest) = mapping.split_once('>').unwrap();
            let (pfn, letter) = rest.split_once(':').unwrap();
            table.map(binary(vpn), binary(pfn), attr(letter), 0);
            touched.push(binary(vpn));
        }
        for &vpn in &touched {
            assert_ne!(load(&mut *design, &table, vpn), Outcome::Hit);
        }
        let got: Vec<[String; 5]> = design.entries().iter().map(|e| drawn(e, "partial")).collect();
        let want = all.iter().filter(|r| r[0] == example[0]);
        let want: Vec<[String; 5]> =
            want.map(|r| [r[3].clone(), r[4].clone(), r[5].clone(), r[6].clone(), r[7].clone()]).collect();
        assert_eq!(got, want, "{}", example[0]);
        for vpn in touched {
            assert_eq!(load(&mut *design, &table, vpn), Outcome::Hit);
        }
    }
}

/// Writes the golden strings of T94-14: the slot that each miss fills.
fn victims(design: &mut dyn Tlb, pages: &str) -> String {
    let table = Table::of(&pages.bytes().map(|b| (b.into(), b.into())).collect::<Vec<_>>());
    let mut log = Vec::new();
    for page in pages.bytes() {
        let outcome = load(design, &table, page.into());
        let slot = design.entries().iter().find(|e| e.base == Vpn(page.into())).map(|e| e.slot).unwrap();
        let how = if outcome == Outcome::Hit { "=hit".to_owned() } else { format!("->{slot}") };
        log.push(format!("{}{how}", char::from(page)));
    }
    log.join(" ")
}

/// CA-4, AMB-5.
#[test]
fn ca_4_used_bit_replacement() {
    for kind in ["single", "superpage", "complete", "partial", "integrated"] {
        // Neighbouring letters would share the entry of a region; with factor 1 and 4K alone all designs agree.
        let one = match kind {
            "complete" | "partial" => ",factor=1",
            "superpage" => ",sizes=4K",
            "integrated" => ",factor=1,sizes=4K",
            _ => "",
        };
        let mut replay = tlb(kind, &format!("entries=4{one}"));
        assert_eq!(victims(&mut *replay, "ABCDEBFAGE"), "A->0 B->1 C->2 D->3 E->0 B=hit F->2 A->3 G->0 E->1");
        let mut plain = tlb(kind, &format!("entries=4,fill_sets_used=false{one}"));
        assert_eq!(victims(&mut *plain, "ABCDEBFAGE"), "A->0 B->1 C->2 D->3 E->0 B=hit F->0 A->0 G->0 E->0");
    }
}

#[test]
fn ca_4_lru_and_fifo() {
    assert_eq!(
        victims(&mut *tlb("single", "entries=3,replacement=lru"), "ABCADBA"),
        "A->0 B->1 C->2 A=hit D->1 B->2 A=hit"
    );
    assert_eq!(
        victims(&mut *tlb("single", "entries=3,replacement=fifo"), "ABCADBA"),
        "A->0 B->1 C->2 A=hit D->0 B=hit A->1"
    );
}

#[test]
fn ca_8_one_region_two_passes() {
    let two: Vec<u64> = (0..16).chain(0..16).collect();
    for (kind, keys, promote, misses, entries, populated) in [
        ("single", "", None, 16, 16, 0),
        ("superpage", "", Some(16), 16, 1, 0),
        ("superpage", "", Some(8), 8, 1, 8),
        ("superpage", "", Some(12), 12, 1, 4),
        ("partial", "", None, 16, 1, 0),
        ("complete", "", None, 16, 1, 0),
        ("integrated", "", None, 16, 1, 0),
    ] {
        let promotions = u64::from(promote.is_some());
        let want = Tally { misses, faults: misses, populated, promotions, entries };
        assert_eq!(run(kind, keys, 16, &two, promote, None), want, "{kind} {promote:?}");
    }
}

/// CA-11, F-10.
#[test]
fn ca_11_preload() {
    for (kind, keys, order, misses, preloaded, reads) in [
        ("superpage", "", 4, 1, 0, 0),
        ("partial", "", 0, 16, 0, 0),
        ("partial", "preload=same-entry", 0, 1, 15, 15),
        ("partial", "preload=region", 0, 1, 15, 15),
        ("partial", "preload=same-entry,assisted_check=true", 0, 1, 15, 1),
        ("partial", "all_valid=true", 0, 1, 15, 15),
        ("complete", "", 0, 16, 0, 0),
        ("complete", "preload=region", 0, 1, 15, 15),
        ("complete", "preload=same-entry,assisted_check=true", 0, 1, 15, 1),
        ("integrated", "preload=same-entry", 0, 1, 15, 15),
        ("integrated", "", 4, 1, 0, 0),
    ] {
        let mut table = Table::default();
        (0..16).for_each(|v| table.map(v, v + 1024, 7, order));
        let mut design = tlb(kind, keys);
        for vpn in 0..16 {
            load(&mut *design, &table, vpn);
        }
        let c = design.counts();
        assert_eq!((c.misses, c.preloaded, c.extra_pte_reads), (misses, preloaded, reads), "{kind} {keys}");
        assert_eq!((c.fills, c.superpage_misses), (misses, if order > 0 { misses } else { 0 }), "{kind} {keys}");
    }
}

/// Preload reads the page table and skips unmapped pages: nothing faults, and the pages miss later.
#[test]
fn ca_11_preload_leaves_unmapped_pages_alone() {
    for (kind, keys) in
        [("partial", "preload=region"), ("partial", "preload=same-entry"), ("complete", "preload=region")]
    {
        let mut table = Table::of(&[(0, 64), (1, 65), (9, 73)]);
        let mut design = tlb(kind, keys);
        load(&mut *design, &table, 1);
        assert_eq!((design.counts().preloaded, design.counts().extra_pte_reads), (2, 15), "{kind} {keys}");
        assert_eq!(design.probe(Asid(0), Vpn(2), Kind::Load), None);
        table.map(2, 66, 7, 0);
        assert_eq!(load(&mut *design, &table, 2), Outcome::SubblockMiss);
    }
}

/// `region` takes further entries for pages out of place, `same-entry` does not; neither takes the slot of the page
/// that missed.
#[test]
fn t94_22_preload_of_pages_that_cannot_share() {
    let table = Table::of(&[(0, 64), (1, 99), (2, 66), (3, 50)]);
    for (keys, entries, preloaded) in [
        ("preload=same-entry", 1, 1),
        ("preload=region", 3, 3),
        ("preload=region,entries=2", 2, 3),
        ("preload=region,entries=1", 1, 0),
        ("preload=region,entries=1,replacement=lru", 1, 0),
        ("preload=region,entries=2,fill_sets_used=false", 2, 3),
    ] {
        let mut design = tlb("partial", &format!("factor=4,{keys}"));
        load(&mut *design, &table, 0);
        assert_eq!((design.entries().len(), design.counts().preloaded), (entries, preloaded), "{keys}");
        assert!(design.probe(Asid(0), Vpn(0), Kind::Load).is_some(), "{keys}");
    }
}

#[test]
fn ca_12_half_used_regions() {
    let round: Vec<u64> =
        (0..4).flat_map(|r| (0..8).map(move |i| r * 16 + i)).chain((0..40).map(|k| 1000 + 16 * k)).collect();
    let trace: Vec<u64> = (0..10).flat_map(|_| round.clone()).collect();
    for (kind, keys, region, promote, misses, promotions, entries) in [
        ("superpage", "sizes=4K+16K", 4, Some(4), 72, 8, 48),
        ("superpage", "sizes=4K+32K", 8, Some(8), 72, 4, 44),
        ("superpage", "sizes=4K+64K", 16, Some(16), 720, 0, 64),
        ("partial", "factor=16", 16, None, 72, 0, 44),
        ("partial", "factor=8", 8, None, 72, 0, 44),
    ] {
        let want = Tally { misses, faults: 72, populated: 0, promotions, entries };
        assert_eq!(run(kind, keys, region, &trace, promote, None), want, "{kind} {keys}");
    }
}

#[test]
fn ca_13_object_of_60_kb() {
    let touches = |pages: u64| (0..3).flat_map(|_| 0..pages).collect::<Vec<u64>>();
    assert_eq!(run("superpage", "", 16, &touches(15), Some(16), Some(15)).entries, 15);
    assert_eq!(run("partial", "", 16, &touches(15), None, Some(15)).entries, 1);
    assert_eq!(run("superpage", "", 16, &touches(16), Some(16), Some(16)).entries, 1);
}
