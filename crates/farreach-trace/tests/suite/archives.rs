//! Are zip archives of all kinds of writers read member by member, and is every damage found?

use std::io::Cursor;

use crate::archive::{KINDS, Member, pack, zip};
use farreach_trace::{Input, open_input, summarize};

/// References of a text in the archive.
fn references(archive: &[u8]) -> Result<u64, String> {
    let input = Input::from_stream(Box::new(Cursor::new(archive.to_vec())), "t.zip").map_err(|e| e.to_string())?;
    let opened = open_input(input, None).map_err(|e| e.to_string())?;
    assert_eq!(opened.info.compression, Some("zip"));
    summarize(opened).map(|s| s.report.totals.references()).map_err(|e| e.to_string())
}

fn refused(archive: &[u8], words: &[&str]) {
    let e = references(archive).expect_err("refused");
    assert!(e.starts_with("t.zip: ") && words.iter().all(|w| e.contains(w)), "{words:?}: {e}");
}

fn text(lines: usize) -> Vec<u8> {
    (0..lines)
        .map(|i| format!(" L {:x},8\n", i.wrapping_mul(0x9e37_79b9_7f4a) & 0xffff_ffff))
        .collect::<String>()
        .into_bytes()
}

#[test]
fn members_of_every_make_follow_each_other() {
    let text = text(9000);
    for bits in 0..16 {
        let member = |data| Member {
            data,
            stored: bits & 1 != 0,
            behind: bits & 2 != 0,
            wide: bits & 4 != 0,
            ..Member::default()
        };
        let (a, b) = text.split_at(text.len() / 3);
        let other = Member { data: b, ..Member::default() };
        let members = [member(a), Member::default(), if bits & 8 != 0 { other } else { member(b) }];
        match references(&zip(&members)) {
            Ok(n) => assert_eq!(n, 9000),
            Err(e) => {
                assert!(bits & 3 == 3 && e.contains("chunk.0000") && e.contains("without its size"), "{bits:b}: {e}")
            }
        }
    }
}

#[test]
fn what_cannot_be_read_is_named() {
    let text = text(50);
    let member = Member { data: &text, ..Member::default() };
    refused(
        &zip(&[Member { flags: 1, ..member }]),
        &["chunk.0000", "byte 0 of the archive", "encrypted", "cannot be read"],
    );
    refused(
        &zip(&[member, Member { method: Some(14), ..member }]),
        &["chunk.0001", "method 14", "stored (0) and deflated (8)"],
    );
}

#[test]
fn an_archive_that_was_changed_is_refused() {
    let text = text(50);
    let member = Member { data: &text, ..Member::default() };
    let archive = zip(&[member, Member { behind: true, ..member }, Member { stored: true, ..member }]);
    assert_eq!(references(&archive), Ok(150));
    for cut in 0..archive.len() {
        if let Ok(n) = references(&archive[..cut]) {
            panic!("{n} references of an archive cut to {cut} of {} bytes", archive.len());
        }
    }
    refused(&[&archive[..], b"x"].concat(), &["goes on"]);
    // A member that is missing, while the directory still lists it; and the other way round.
    let first = zip(&[member]);
    let at = first.windows(4).position(|w| w == b"PK\x01\x02").expect("a directory");
    refused(&archive[at..], &["directory"]);
    refused(&[&first[..at], &first[..]].concat(), &["directory"]);
    let mut bad = archive.clone();
    bad[14] ^= 1;
    refused(&bad, &["byte 0", "chunk.0000", "damaged", "it should have", "checksum"]);
    // Any one bit: found, unless it is in a field that says nothing about the data (names, dates, notes).
    let mut found = 0;
    for at in 0..archive.len() {
        let mut bad = archive.clone();
        bad[at] ^= 1 << (at % 8);
        match references(&bad) {
            Ok(n) => assert_eq!(n, 150, "byte {at}"),
            Err(_) => found += 1,
        }
    }
    assert!(found * 10 > archive.len() * 8, "{found} of {}", archive.len());
}

#[test]
fn an_archive_that_grows_without_end_takes_no_memory() {
    // A thousand times as large unpacked: read in pieces.
    let blank = vec![b'\n'; 16 << 20];
    let archive =
        zip(&[Member { data: b" L 0,1\n", ..Member::default() }, Member { data: &blank, ..Member::default() }]);
    assert!(archive.len() < blank.len() / 500);
    assert_eq!(references(&archive), Ok(1));
}

#[test]
fn every_compression_is_named_in_its_errors() {
    let text = text(120_000);
    for kind in KINDS {
        let packed = pack(kind, &[&text]);
        let input = Input::from_stream(Box::new(Cursor::new(packed[..packed.len() / 4 * 3].to_vec())), "t")
            .expect("a beginning");
        assert_eq!(input.compression, Some(kind));
        let e = summarize(open_input(input, None).expect("text")).expect_err("cut").to_string();
        assert!(e.starts_with("t: after line ") && e.contains(kind) && e.contains("cut"), "{kind}: {e}");
    }
}
