//! What the tests of readers of text share.

use std::io::Cursor;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use farreach_trace::{Input, Opened, Report, check, open_input};
use farreach_types::event::{Blocks, Item, Kind, Op};

/// Address space, kind, address, size.
pub type Ref = (u32, Kind, u64, u32);

pub fn open(text: &[u8], format: Option<&str>) -> Result<Opened, String> {
    let input = Input::from_stream(Box::new(Cursor::new(text.to_vec())), "t").map_err(|e| e.to_string())?;
    open_input(input, format).map_err(|e| e.to_string())
}

/// All references of a text.
pub fn read(text: impl AsRef<[u8]>, format: &str) -> Result<Vec<Ref>, String> {
    references(open(text.as_ref(), Some(format))?)
}

/// All references of what is found by content, and the format.
pub fn found(text: impl AsRef<[u8]>) -> Result<(&'static str, Vec<Ref>), String> {
    let opened = open(text.as_ref(), None)?;
    Ok((opened.info.format, references(opened)?))
}

/// A hundred damaged copies: a bit flipped, a byte lost, a byte more.
pub fn damaged(good: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let mut dice = Pcg64Mcg::seed_from_u64(1);
    (0..100).map(move |round| {
        let mut bytes = good.to_vec();
        let at = dice.random_range(0..bytes.len());
        match round % 3 {
            0 => bytes[at] ^= 1 << dice.random_range(0..8),
            1 => drop(bytes.remove(at)),
            _ => bytes.insert(at, dice.random_range(0..=255)),
        }
        bytes
    })
}

/// What is counted of bytes that are not refused. They must be a sound stream.
pub fn checked(bytes: &[u8], format: &str) -> Option<Report> {
    let mut source = open(bytes, Some(format)).ok()?.source;
    let report = check(&mut *source).ok()?;
    assert_eq!(report.violation, None);
    Some(report)
}

fn references(opened: Opened) -> Result<Vec<Ref>, String> {
    let mut source = opened.source;
    let mut blocks = Blocks::default();
    let mut all = Vec::new();
    while let Some(batch) = source.next_batch().map_err(|e| e.to_string())? {
        let expanded = blocks.expand(&batch, |item| {
            match item {
                Item::Access(a) => all.push((batch.asid.0, a.kind, a.addr, a.size)),
                Item::Op(Op::Define { .. } | Op::Samples | Op::ThreadStart { .. } | Op::Switch { .. }) => {}
                Item::Op(op) => panic!("no such event in a text: {op:?}"),
            }
            true
        });
        expanded.expect("a sound stream");
    }
    Ok(all)
}

/// Damages a text a hundred times: bytes replaced, taken out, put in, and the end cut off. Each must be refused, or be
/// a sound stream with as many references. What a text cannot tell is left out: a cut behind a line, and damage that
/// turns lines into comments or out of them, or gives a word of another kind.
pub fn damages(text: &str, format: &str) {
    let whole = read(text, format).expect("the text itself");
    let mut dice = Pcg64Mcg::seed_from_u64(text.len() as u64);
    let (mut refused, mut read_on) = (0, 0);
    for round in 0..100 {
        let mut bytes = text.as_bytes().to_vec();
        let at = dice.random_range(0..bytes.len());
        let byte = *b"0gxR ,\n\0\xff9".get(dice.random_range(0..10)).expect("ten");
        match round % 4 {
            0 => bytes[at] = byte,
            1 => drop(bytes.remove(at)),
            2 => bytes.insert(at, byte),
            _ => bytes.truncate(at),
        }
        let lines = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes).into_owned();
            text.lines().filter(|l| !l.trim().is_empty() && !l.trim_start().starts_with('#')).count()
        };
        if lines(&bytes) != lines(text.as_bytes()) && round % 4 == 3 && bytes.last().is_none_or(|&b| b == b'\n') {
            continue;
        }
        match checked(&bytes, format) {
            None => refused += 1,
            Some(report) => {
                read_on += 1;
                if lines(&bytes) == lines(text.as_bytes()) {
                    let damaged = String::from_utf8_lossy(&bytes).into_owned();
                    // Another instruction before a store is another fetch, which only the instruction tells.
                    let told = |kind| format != "pinatrace" || kind != Kind::Fetch;
                    let (read, fetched) = (report.totals.references(), report.totals.instructions);
                    let read = if told(Kind::Fetch) { read } else { read - fetched };
                    assert_eq!(read, whole.iter().filter(|r| told(r.1)).count() as u64, "{damaged}");
                }
            }
        }
    }
    assert!(refused > 40, "{refused} refused, {read_on} read");
}
