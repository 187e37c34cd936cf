//! Are packet traces of gem5 read as the user says they are, and is anything else refused with its packet?

use std::io::Write;

use crate::texts::{Ref, checked, damaged, open, read};
use farreach_types::event::Kind::{Fetch, Load, Store};

const VIRTUAL: &str = "gem5:addresses=virtual";

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// A message of these numbers.
fn message(fields: &[(u64, u64)]) -> Vec<u8> {
    fields.iter().flat_map(|&(number, value)| [varint(number << 3), varint(value)].concat()).collect()
}

fn text(number: u64, text: &[u8]) -> Vec<u8> {
    [varint(number << 3 | 2), varint(text.len() as u64), text.to_vec()].concat()
}

fn header() -> Vec<u8> {
    let names = [&message(&[(1, 0)])[..], &text(2, b"writebacks")].concat();
    [text(1, b"system.cpu.monitor"), message(&[(3, 1_000_000_000_000)]), text(4, &names)].concat()
}

fn with_header(header: &[u8], packets: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = b"gem5".to_vec();
    for message in std::iter::once(header).chain(packets.iter().map(Vec::as_slice)) {
        bytes.extend(varint(message.len() as u64));
        bytes.extend(message);
    }
    bytes
}

/// A trace of these packets, with the header that gem5 writes.
pub fn trace(packets: &[Vec<u8>]) -> Vec<u8> {
    with_header(&header(), packets)
}

/// Tick, command, address, size, flags, id, instruction.
fn packet(tick: u64, command: u64, addr: u64, size: u64, flags: u64) -> Vec<u8> {
    message(&[(1, tick), (2, command), (3, addr), (4, size), (5, flags), (6, 7)])
}

/// What a processor asks for.
pub fn packets() -> Vec<Vec<u8>> {
    vec![
        packet(0, 1, 0x40_1000, 4, 0x100),
        packet(500, 1, 0x7fff_0010, 8, 0),
        packet(500, 4, 0x7fff_0018, 8, 2),
        [packet(1000, 1, 0x7fff_0020, 64, 0x0100_0000), message(&[(7, 0x40_1000)])].concat(),
        packet(1000, 1, 0x8000, 8, 0x2000_0000),
        message(&[(1, 1500), (2, 1), (3, 0xffff_ffff_8000_0000), (4, 1)]),
    ]
}

/// What a cache asks for, with other commands.
pub fn behind_a_cache() -> Vec<Vec<u8>> {
    vec![packet(0, 22, 0x1000, 64, 0), packet(1, 7, 0x2000, 64, 0), packet(2, 11, 0x3000, 64, 0)]
}

fn references() -> Vec<Ref> {
    vec![
        (0, Fetch, 0x40_1000, 4),
        (0, Load, 0x7fff_0010, 8),
        (0, Store, 0x7fff_0018, 8),
        (0, Load, 0xffff_ffff_8000_0000, 1),
    ]
}

#[test]
fn packets_of_a_processor_and_of_a_cache() {
    let bytes = trace(&packets());
    assert_eq!(read(&bytes, VIRTUAL).expect("good"), references());
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gz.write_all(&bytes).expect("memory");
    let gz = gz.finish().expect("memory");
    let opened = open(&gz, Some(VIRTUAL)).expect("good");
    let header = opened.info.header.expect("a header");
    assert_eq!((&header.recorder[..], &header.more["addresses"]), ("gem5, system.cpu.monitor", &"virtual".into()));
    assert_eq!(read(&gz, VIRTUAL).expect("good"), references());
    assert!(read(&gz[..gz.len() - 12], VIRTUAL).expect_err("cut").contains("the file is cut"));
    let cache = read(trace(&behind_a_cache()), "gem5:addresses=physical,load=22,store=7,skip=11").expect("good");
    assert_eq!(cache, [(0, Load, 0x1000, 64), (0, Store, 0x2000, 64)]);
    // More than the buffer holds.
    let many: Vec<_> = (0..200_000).map(|i| packet(i, 1, 0x1000 + i, 8, 0)).collect();
    assert_eq!(read(trace(&many), VIRTUAL).expect("good").len(), 200_000);
}

#[test]
fn what_is_not_said_or_wrong_is_refused() {
    let good = trace(&packets());
    for (spec, expected) in [
        ("gem5", "t: format gem5: the trace does not tell whether its addresses are virtual: say --addresses virtual"),
        ("gem5:addresses=linear", "addresses = linear is not allowed"),
        ("gem5:addresses=virtual,load=x", "load = x is not allowed: allowed are numbers"),
        ("gem5:addresses=virtual,store=1", "command 1 is of two kinds"),
        ("gem5:addresses=virtual,fetch=1", "there is no 'fetch'"),
    ] {
        let e = read(&good, spec).expect_err(spec);
        assert!(e.contains(expected), "{spec}: {e}");
    }
    assert!(open(&good, None).err().expect("nothing is said").contains("say --addresses virtual"));
    for (second, expected) in [
        (packet(1, 22, 0x10, 8, 0), "packet 1, byte 62: command 22 is not known: known are 1, 4"),
        (packet(1, 1, 0x10, 0, 0), "size 0 is not allowed: size must be from 1 to 65536"),
        (packet(1, 1, 0x10, 65537, 0), "size must be from 1 to 65536"),
        (packet(1, 1, 0x10, 65, 0x100), "size must be from 1 to 64"),
        (packet(1, 1, 0x10, 1 << 32 | 8, 0), "field 4 is 4294967304, which has more than 32 bits"),
        (packet(1, 1 << 32 | 1, 0x10, 8, 0), "field 2 is 4294967297, which has more than 32 bits"),
        (packet(1, 1, u64::MAX, 1, 0), "the last byte must lie below 2^64-1"),
        (message(&[(1, 1), (2, 1), (4, 8)]), "the packet lacks tick, command, address or size"),
        (message(&[(1, 1), (1, 1)]), "field 1 stands twice"),
        (message(&[(9, 1)]), "field 9, with this type, is none of a packet"),
        (text(3, b"x"), "field 3, with this type, is none of a packet"),
        (vec![0x0d, 1, 2, 3, 4], "field 1 is of type 5; 0 and 2 are allowed"),
        (vec![0x08], "the message ends within a number"),
        ([&[0x08][..], &[0xff; 9], &[2]].concat(), "a number has more than 64 bits"),
        ([&[0x08][..], &[0xff; 12]].concat(), "a number has more than 64 bits"),
        (vec![], "a message of 0 bytes is not allowed: allowed are 1 to 1048576"),
        (vec![0; 1 << 20 | 1], "a message of 1048577 bytes is not allowed"),
    ] {
        let e = read(trace(&[packet(1, 1, 0x10, 8, 0), second]), VIRTUAL).expect_err(expected);
        assert!(e.starts_with("t: packet 1, byte ") && e.contains(expected), "{expected}: {e}");
    }
    let e = read(trace(&[packet(2, 1, 0x10, 8, 0), packet(1, 1, 0x10, 8, 0)]), VIRTUAL).expect_err("back");
    assert!(e.contains("tick 1 is before that of the packet before, 2"), "{e}");
    // Other traces of gem5 begin with the same magic.
    for (header, expected) in [
        ([text(1, b"x"), message(&[(3, 1), (4, 128)])].concat(), "field 4, with this type, is none of a packet trace"),
        (text(1, b"x"), "it lacks the name of its object, or how many ticks a second has"),
        ([text(1, b"x"), message(&[(2, 1), (3, 1)])].concat(), "version 1 is not known, only 0 is"),
    ] {
        let e = read(with_header(&header, &packets()), VIRTUAL).expect_err(expected);
        assert!(e.contains("the header is that of no packet trace") && e.contains(expected), "{expected}: {e}");
    }
    assert!(read(b"gem5", VIRTUAL).expect_err("short").contains("cut before its header"));
    assert!(read(b"gem6 and so on", VIRTUAL).expect_err("other").contains("does not begin with 'gem5'"));
    assert!(read(trace(&[]), VIRTUAL).expect_err("nothing").contains("has no references"));
}

/// A cut is found but between two packets. Other damage may make another trace, as there is no checksum: none may hang,
/// panic, or break the rules of a stream.
#[test]
fn damage_ends_in_an_error_or_in_a_sound_stream() {
    let good = trace(&packets());
    let mut ends = vec![5 + header().len()];
    packets().iter().for_each(|packet| ends.push(ends.last().expect("one") + 1 + packet.len()));
    for cut in 0..good.len() {
        let result = read(&good[..cut], VIRTUAL);
        assert_eq!(result.is_ok(), ends[1..].contains(&cut), "{cut}: {result:?}");
    }
    let (mut refused, mut other) = (0, 0);
    for bytes in damaged(&good) {
        match checked(&bytes, VIRTUAL) {
            None => refused += 1,
            Some(report) => other += u64::from(report.totals.references() != references().len() as u64),
        }
    }
    // A flag of a prefetch or a walk may come or go.
    assert!(refused > 50 && other < 4, "{refused} refused, {other} with other counts");
}
