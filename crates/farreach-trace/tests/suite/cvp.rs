//! Are traces of the championship in value prediction read to the last reference, and is anything else refused with its
//! record?

use std::io::Write;

use crate::texts::{Ref, checked, damaged, found, read};
use farreach_types::event::Kind::{Fetch, Load, Store};

/// A record: what is between address and registers, those read, those written with the bytes of their values.
fn record(pc: u64, ty: u8, middle: &[&[u8]], reads: &[u8], writes: &[(u8, usize)]) -> Vec<u8> {
    let names: Vec<u8> = writes.iter().map(|w| w.0).collect();
    let values = vec![0xa5; writes.iter().map(|w| w.1).sum()];
    let (many_read, many_written) = ([reads.len() as u8], [writes.len() as u8]);
    [&pc.to_le_bytes()[..], &[ty], &middle.concat(), &many_read, reads, &many_written, &names, &values].concat()
}

fn address(addr: u64) -> [u8; 8] {
    addr.to_le_bytes()
}

pub fn records() -> Vec<Vec<u8>> {
    vec![
        record(0x40_0000, 0, &[], &[1, 2], &[(3, 8), (64, 8)]),
        record(0x40_0004, 1, &[&address(0x7fff_0ff8), &[8]], &[31], &[(0, 8)]),
        record(0x40_0008, 1, &[&address(0xb400_7fff_0000_1000), &[16]], &[0], &[(32, 16), (0, 8)]),
        record(0x40_000c, 2, &[&address(0xffff_8000_0000_0ff0), &[4]], &[0, 63], &[]),
        record(0x40_0010, 3, &[&[0]], &[64], &[]),
        record(0x40_0014, 5, &[&[1], &address(0x41_0000)], &[30], &[(30, 8)]),
        record(0x41_0000, 2, &[&address(0x5025), &[64]], &[5], &[]),
        record(0x41_0004, 1, &[&address(0x6000), &[8]], &[5], &[]),
        record(0x41_0008, 6, &[], &[33, 34, 35], &[(63, 16)]),
        record(0x41_000c, 1, &[&address(0x9000), &[0]], &[], &[(7, 8)]),
        record(0x41_0010, 4, &[&[1], &address(0x40_0000)], &[], &[]),
        record(0x40_0000, 7, &[], &[1, 2, 3, 4], &[(3, 8)]),
    ]
}

/// Worked out by hand.
fn references() -> Vec<Ref> {
    vec![
        (0, Fetch, 0x40_0000, 4),
        (0, Fetch, 0x40_0004, 4),
        (0, Load, 0x7fff_0ff8, 8),
        (0, Fetch, 0x40_0008, 4),
        (0, Load, 0x7fff_0000_1000, 16),
        (0, Fetch, 0x40_000c, 4),
        (0, Store, 0xffff_8000_0000_0ff0, 4),
        (0, Fetch, 0x40_0010, 4),
        (0, Fetch, 0x40_0014, 4),
        (0, Fetch, 0x41_0000, 4),
        (0, Store, 0x5000, 64),
        (0, Fetch, 0x41_0004, 4),
        (0, Fetch, 0x41_0008, 4),
        (0, Fetch, 0x41_000c, 4),
        (0, Load, 0x9000, 1),
        (0, Fetch, 0x41_0010, 4),
        (0, Fetch, 0x40_0000, 4),
    ]
}

#[test]
fn golden_records() {
    let bytes = records().concat();
    assert_eq!(found(&bytes).expect("good"), ("cvp", references()));
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gz.write_all(&bytes).expect("memory");
    assert_eq!(found(gz.finish().expect("memory")).expect("good"), ("cvp", references()));
    // More than the buffer holds.
    assert_eq!(read(bytes.repeat(5000), "cvp").expect("good"), references().repeat(5000));
    // Too few records to know it by.
    assert!(found(records()[..3].concat()).is_err());
    assert_eq!(read(records()[..3].concat(), "cvp").expect("good"), references()[..5]);
    // Instructions that do not follow one another.
    let mut other = records();
    other.swap(1, 3);
    assert!(found(other.concat()).is_err());
}

#[test]
fn what_is_no_record_is_refused_where_it_is() {
    let good = records().concat().repeat(4000);
    let end = good.len();
    for (bad, expected) in [
        (record(0x40_0000, 8, &[], &[], &[]), "type 8; 0 to 7 are allowed"),
        (record(0x40_0000, 3, &[&[2]], &[], &[]), "whether the branch was taken is 2; 0 and 1 are allowed"),
        (record(0x40_0000, 0, &[], &[65], &[]), "register 65 read; allowed are 0 to 64"),
        (record(0x40_0000, 0, &[], &[], &[(200, 8)]), "register 200 written; allowed are 0 to 64"),
        (record(0x40_0000, 0, &[], &[0; 66], &[]), "66 registers read; at most 65 are possible"),
        (record(u64::MAX - 3, 0, &[], &[], &[]), "the last byte must lie below 2^64-1"),
        (record(0x40_0000, 1, &[&address(u64::MAX), &[8]], &[], &[(1, 8)]), "the last byte must lie below 2^64-1"),
        (records()[0][..20].to_vec(), "the last record, of which there are 20 bytes, is cut"),
    ] {
        let e = read([&good[..], &bad].concat(), "cvp").expect_err(expected);
        assert!(e.starts_with(&format!("t: record 48000, byte {end}: ")) && e.contains(expected), "{expected}: {e}");
    }
}

/// A cut is found but between two records. Other damage may make another trace, as there is no checksum: none may hang,
/// panic, or break the rules of a stream.
#[test]
fn damage_ends_in_an_error_or_in_a_sound_stream() {
    let good = records().concat();
    let mut ends = vec![0];
    records().iter().for_each(|record| ends.push(ends.last().expect("one") + record.len()));
    for cut in 0..good.len() {
        let result = read(&good[..cut], "cvp");
        assert_eq!(result.is_ok(), ends[1..].contains(&cut), "{cut}: {result:?}");
    }
    let (mut refused, mut known) = (0, 0);
    for bytes in damaged(&good) {
        refused += u32::from(checked(&bytes, "cvp").is_none());
        known += u32::from(found(&bytes).is_ok());
    }
    // A bit of a value, of a register or of an address changes no other.
    assert!(refused > 50 && known < 45, "{refused} refused, {known} taken for such a trace");
}
