//! Packet traces of gem5.

use super::{golden, opened, program, read, references, target, written};
use farreach_trace::{Header, write_to};
use farreach_types::event::Kind;

/// A number of protobuf.
fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let (byte, rest) = bytes.split_first().expect("a number");
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return value;
        }
    }
    unreachable!()
}

/// The header's bytes, and the fields of each packet by number.
fn packets(mut bytes: &[u8]) -> (Vec<u8>, Vec<[u64; 8]>) {
    assert_eq!(&bytes[..4], b"gem5");
    bytes = &bytes[4..];
    let mut messages = Vec::new();
    while !bytes.is_empty() {
        let length = varint(&mut bytes) as usize;
        messages.push(&bytes[..length]);
        bytes = &bytes[length..];
    }
    let packet = |mut message: &[u8]| {
        let mut fields = [0; 8];
        while !message.is_empty() {
            let tag = varint(&mut message);
            assert_eq!(tag & 7, 0, "a number");
            fields[(tag >> 3) as usize] = varint(&mut message);
        }
        fields
    };
    (messages[0].to_vec(), messages[1..].iter().map(|&message| packet(message)).collect())
}

#[test]
fn golden_packets() {
    let (bytes, said) = written(&golden(), "gem5").expect("good");
    let (header, packets) = packets(&bytes);
    // Field 1, 16 bytes of text; field 3, 10^12.
    let expected = [&b"\x0a\x10farreach.virtual"[..], &[0x18, 0x80, 0xa0, 0x94, 0xa5, 0x8d, 0x1d]].concat();
    assert_eq!(header, expected);
    assert_eq!(packets.len(), 33);
    assert_eq!(packets[0], [0, 0, 1, 0x1000, 3, 0x100, 0, 0x1000]);
    assert_eq!(packets[1], [0, 1000, 1, 0x7000, 8, 0, 0, 0x1000]);
    assert_eq!(packets[3], [0, 3000, 4, 0x7ffe_fff8, 8, 0, 0, 0x1003]);
    assert_eq!(packets[32], [0, 32_000, 1, 0x102d, 1, 0x100, 0, 0x102d]);
    assert_eq!(said.lost.last().expect("times"), "ticks count references: a trace has no times");
}

#[test]
fn what_is_read_back_is_what_was_written() {
    for seed in 0..4 {
        let batches = if seed == 0 { golden() } else { program(seed) };
        let (bytes, _) = written(&batches, "gem5").expect("good");
        let expected = references(super::Given(batches.into_iter()));
        let without_spaces = |r: &super::Ref| (r.2, r.3, r.4);
        let back = read(&bytes, "gem5");
        assert!(back.iter().map(without_spaces).eq(expected.iter().map(without_spaces)), "seed {seed}");
        let pcs = packets(&bytes).1;
        let mut pc = 0;
        for (packet, r) in pcs.iter().zip(&expected) {
            pc = if r.2 == Kind::Fetch { r.3 } else { pc };
            assert_eq!((packet[7], packet[3]), (pc, r.3));
        }
    }
}

/// Which addresses they are stays with them.
#[test]
fn physical_addresses_stay_physical() {
    let mut given = opened(golden());
    let more = [("addresses".to_owned(), "physical".into())].into_iter().collect();
    given.info.header = Some(Header { more, ..Header::default() });
    let mut bytes = Vec::new();
    write_to(given, target("gem5"), &mut bytes, "memory").expect("good");
    assert!(bytes.windows(17).any(|part| part == b"farreach.physical"));
    assert_eq!(read(&bytes, "gem5").len(), 33);
}
