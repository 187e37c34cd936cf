//! The worked examples of the specification, in hardware: `fixtures/golden_vectors.json` and `fixtures/t94`.

use super::cases::{compiler, folder};
use farreach_hw::tlb::{EntryView, Lookup, Tlb, Unfiltered, design};
use farreach_oracle::driver::{Table, params};
use farreach_rtl::{Checker, Compiler};
use farreach_types::addr::{Asid, Vpn};
use farreach_types::event::Kind;
use serde_json::{Value as Json, json};

fn golden(name: &str) -> Json {
    let all: Json = serde_json::from_str(include_str!("../../../../fixtures/golden_vectors.json")).unwrap();
    all[name].clone()
}

/// Loads from these pages through a design and its module, with all bits compared after each.
fn loads(compiler: &Compiler, kind: &str, keys: &str, table: &Table, pages: &[u64]) -> Vec<EntryView> {
    let checker = Checker::new(compiler.clone(), folder(), 1);
    let params = params(kind, keys);
    let tlb = (design(kind).unwrap().build)(&params).unwrap();
    let mut tlb: Box<dyn Tlb> = checker.observe("golden", kind, &params, tlb).unwrap_or_else(|e| panic!("{e}"));
    for &page in pages {
        let at = Lookup { asid: Asid(0), vpn: Vpn(page), kind: Kind::Load };
        tlb.access(at, table.0[&(Asid(0), Vpn(page))], table, &mut Unfiltered::default());
    }
    let entries = tlb.entries();
    drop(tlb);
    let outcome = checker.outcome();
    assert!(outcome.difference.is_none() && outcome.failure.is_none(), "{outcome:?}");
    assert_eq!(outcome.parts[0].2.lookups, pages.len() as u64);
    entries
}

/// T94's Figure 2: four pages of a region in each form of entry.
#[test]
fn figure_2() {
    let Some(compiler) = compiler() else { return };
    let pages = [(0b110100, 16), (0b110101, 27), (0b110111, 3), (0b110110, 2)];
    let table = Table::of(&pages);
    let order: Vec<u64> = pages.iter().map(|page| page.0).collect();
    let figure = golden("fig2");
    for (name, kind, keys) in [
        ("single", "single", "entries=4"),
        ("complete", "complete", "entries=4,factor=4"),
        ("partial", "partial", "entries=4,factor=4"),
    ] {
        let entries = loads(&compiler, kind, keys, &table, &order);
        let frames: Vec<u64> = entries.iter().flat_map(|e| e.pages.iter().map(|page| page.1.pfn.0)).collect();
        let mut drawn: Vec<u64> = figure[name].as_array().unwrap().iter().flat_map(frames_of).collect();
        let mut held = frames.clone();
        drawn.sort_unstable();
        held.sort_unstable();
        assert_eq!(held, drawn, "{name}");
        assert_eq!(entries.len(), figure[name].as_array().unwrap().len(), "{name}");
    }
}

/// The frames in an entry as the figure has it.
fn frames_of(entry: &Json) -> Vec<u64> {
    let frame = |json: &Json| json.as_u64().unwrap();
    match &entry.as_array().unwrap()[..] {
        [_, _, frames] if frames.is_array() => frames.as_array().unwrap().iter().map(frame).collect(),
        [_, pfn, _] => vec![frame(pfn)],
        [_, valid, pfn, _, sb] => {
            let set = valid.as_str().unwrap().bytes().zip(0..).filter(|(bit, _)| *bit == b'1').map(|(_, i)| i);
            let joined = sb == &json!("sb_enabled");
            set.map(|offset: u64| frame(pfn) + if joined { offset } else { 0 }).collect()
        }
        other => panic!("{other:?}"),
    }
}

/// T94-14: which entry goes, with used bits that the access that missed sets (AMB-3), and without.
#[test]
fn used_bits() {
    let Some(compiler) = compiler() else { return };
    let pages: Vec<u64> = "ABCDEBFAGE".bytes().map(u64::from).collect();
    let table = Table::of(&pages.iter().map(|&page| (page, page + 1000)).collect::<Vec<_>>());
    let text = golden("gods");
    for (name, keys) in
        [("replay_sets_used", "entries=4"), ("fill_leaves_used_clear", "entries=4,fill_sets_used=false")]
    {
        // What the module fills is compared with the simulator at each step; the last state is that of the figure.
        let entries = loads(&compiler, "single", keys, &table, &pages);
        let mut slots = [None; 4];
        for step in text[name].as_str().unwrap().split(' ') {
            if let Some((page, slot)) = step.split_once("->") {
                slots[slot.parse::<usize>().unwrap()] = page.bytes().next().map(u64::from);
            }
        }
        let held: Vec<Option<u64>> =
            (0..4).map(|slot| entries.iter().find(|e| e.slot == slot).map(|e| e.base.0)).collect();
        assert_eq!(held, slots, "{name}");
    }
}
