//! Does a trace that is cut give all records before the cut, and then the error?

use crate::archive::pack;
use crate::writers::written;
use farreach_trace::{Input, generate, open_input};
use farreach_types::event::*;
use std::io::{Cursor, Read};

/// Fetches before the error, if there is one.
fn read(bytes: &[u8]) -> (u64, Option<String>) {
    let input = Input::from_stream(Box::new(Cursor::new(bytes.to_vec())), "t").expect("memory");
    let mut source = match open_input(input, None) {
        Ok(opened) => opened.source,
        Err(e) => return (0, Some(e.to_string())),
    };
    let (mut blocks, mut fetches) = (Blocks::default(), 0);
    loop {
        match source.next_batch() {
            Ok(Some(batch)) => {
                let expanded = blocks.expand(&batch, |item| {
                    fetches += u64::from(matches!(item, Item::Access(a) if a.kind == Kind::Fetch));
                    true
                });
                expanded.expect("a sound stream");
            }
            Ok(None) => return (fetches, None),
            Err(e) => {
                assert!(matches!(source.next_batch(), Ok(None)), "nothing follows an error");
                return (fetches, Some(e.to_string()));
            }
        }
    }
}

/// What a decoder gives of bytes that are cut.
fn unpacked(kind: &str, bytes: &[u8]) -> Vec<u8> {
    let mut decoder: Box<dyn Read> = match kind {
        "gz" => Box::new(flate2::read::GzDecoder::new(bytes)),
        "xz" => Box::new(liblzma::read::XzDecoder::new(bytes)),
        _ => Box::new(bytes),
    };
    let (mut all, mut byte) = (Vec::new(), [0]);
    while matches!(decoder.read(&mut byte), Ok(1)) {
        all.push(byte[0]);
    }
    all
}

/// Instructions in whole records.
fn champsim(bytes: &[u8]) -> u64 {
    bytes.len() as u64 / 64
}

fn lackey(bytes: &[u8]) -> u64 {
    let whole = bytes.iter().rposition(|&b| b == b'\n').map_or(0, |last| last + 1);
    bytes[..whole].split(|&b| b == b'\n').filter(|line| line.starts_with(b"I")).count() as u64
}

/// Records of twelve bytes; instructions have the types 10 to 15, 29 of those that are not fetched, and others.
fn drmemtrace(bytes: &[u8]) -> u64 {
    let types = bytes.chunks_exact(12).map(|record| u16::from_le_bytes([record[0], record[1]]));
    types.filter(|ty| matches!(ty, 10..=15 | 31 | 48 | 49)).count() as u64
}

/// A format, a trace, and how many fetches some bytes of such a trace have.
type Given = (&'static str, Vec<u8>, fn(&[u8]) -> u64);

/// Records of ChampSim with one load each, lines of Lackey, and what the writer makes of a generated stream.
fn traces() -> [Given; 3] {
    let (mut records, mut lines) = (Vec::new(), String::new());
    for i in 0..60_000_u64 {
        let (pc, addr) = (0x40_0000 + 4 * (i % 5000), 0x7000_0000 + (i.wrapping_mul(0x9e37_79b9) & 0xff_fff8));
        let mut record = [0; 64];
        record[..8].copy_from_slice(&pc.to_le_bytes());
        record[32..40].copy_from_slice(&addr.to_le_bytes());
        records.extend(record);
        lines += &format!("I  {pc:x},4\n L {addr:x},8\n");
    }
    let mut source = generate::uniform(1, 500, 60_000);
    let mut batches = Vec::new();
    while let Ok(Some(batch)) = source.next_batch() {
        batches.push(batch);
    }
    let (stored, _) = written(&batches, "drmemtrace").expect("memory");
    [("champsim", records, champsim), ("lackey", lines.into_bytes(), lackey), ("drmemtrace", stored, drmemtrace)]
}

#[test]
fn all_that_is_whole_before_a_cut_is_given() {
    let mut cuts = 0;
    for (format, plain, count) in traces() {
        for kind in ["plain", "gz", "xz"] {
            let bytes = if kind == "plain" { plain.clone() } else { pack(kind, &[&plain]) };
            assert_eq!(read(&bytes), (count(&plain), None), "{format}, {kind}");
            for tenth in 1..10 {
                // In the middle of a record, and of a line.
                let cut = (bytes.len() * tenth / 10) | 1;
                let (fetches, failure) = read(&bytes[..cut]);
                let whole = count(&unpacked(kind, &bytes[..cut]));
                assert_eq!(fetches, whole, "{format}, {kind}, cut at {cut} of {}: {failure:?}", bytes.len());
                assert!(failure.is_some(), "{format}, {kind}, cut at {cut}");
                cuts += u64::from(whole > 0);
            }
        }
    }
    assert!(cuts > 60, "{cuts}");
}
