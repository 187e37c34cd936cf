//! Synthesis of a small module, and the cells at work.

use super::cases::folder;
use farreach_rtl::excerpt::Excerpt;
use farreach_rtl::request::{Op, Request};
use farreach_rtl::synth::configurations::configurations;
use farreach_rtl::synth::flow::LIBRARIES;
use farreach_rtl::synth::results::csv;
use farreach_rtl::synth::run::{Excerpts, Synthesis};

/// A segment that is loaded, and lookups inside and outside of it.
fn excerpt() -> Excerpt {
    let mut excerpt = Excerpt::default();
    excerpt.see(&Request { limit: 0x9000, frame: 0x12345, attr: 7, ..Request::new(Op::Fill, 0, 0x1000) });
    (0..64).for_each(|i| excerpt.see(&Request::new(Op::Lookup, 0, 0x200 * i)));
    excerpt
}

#[test]
fn a_segment_in_cells() {
    let synthesis = match Synthesis::new(&LIBRARIES[0], &folder().join("synth")) {
        Ok(synthesis) => synthesis,
        Err(why) => return eprintln!("skipped: {why}"),
    };
    let all = configurations();
    let segment = all.iter().find(|of| of.name == "segment").unwrap();
    let excerpts: Excerpts = vec![("made".into(), vec![("segment".into(), excerpt())])];
    let row = synthesis.row(segment, &excerpts).unwrap_or_else(|why| panic!("{why}"));
    // BASE and LIMIT, OFFSET and attributes, and what the pipeline holds at the least: the page, twice.
    assert!(row.flip_flops >= 36 * 3 + 8 + 2 * 36, "{row:?}");
    assert!(row.area > 0.0 && row.nand2 > row.flip_flops as f64 && (0.5..50.0).contains(&row.period), "{row:?}");
    let [(_, energies)] = &row.energies[..] else { panic!("{row:?}") };
    // From 0x1000 to 0x9000 in steps of 0x200, of 64 such steps from 0.
    assert_eq!(energies.hits, 56.0 / 64.0);
    assert!(energies.clock > 0.0 && energies.lookup > 0.0 && energies.idle < energies.lookup, "{energies:?}");
    // The same again, from the netlist that was kept.
    assert_eq!(csv(&[synthesis.row(segment, &excerpts).unwrap()]).unwrap(), csv(&[row]).unwrap());
}

#[test]
fn cells_that_do_something_else_are_told() {
    let Ok(synthesis) = Synthesis::new(&LIBRARIES[0], &folder().join("synth-other")) else {
        return eprintln!("skipped: Yosys, OpenSTA or their libraries are missing");
    };
    let all = configurations();
    let segment = all.iter().find(|of| of.name == "segment").unwrap();
    // A segment without pages serves none, not even the page it was loaded with.
    let mut wrong = excerpt();
    wrong.contents[0].limit = 0x1000;
    let excerpts: Excerpts = vec![("made".into(), vec![("segment".into(), wrong)])];
    let why = synthesis.row(segment, &excerpts).unwrap_err();
    assert!(why.contains("segment, made") && why.contains("0 hits"), "{why}");
}
