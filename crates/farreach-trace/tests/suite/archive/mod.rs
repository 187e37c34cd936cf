//! Compressed files for tests, of one part or several, and zip archives made by hand.

use std::io::{Read, Write};

/// Every compression that is read.
pub const KINDS: [&str; 7] = ["gz", "bz2", "xz", "zst", "zip", "lz4", "snappy"];

/// The parts one behind the other, each compressed by itself.
pub fn pack(kind: &str, parts: &[&[u8]]) -> Vec<u8> {
    if kind == "zip" {
        let members: Vec<Member> = parts.iter().map(|part| Member { data: part, ..Member::default() }).collect();
        return zip(&members);
    }
    parts.iter().flat_map(|part| pack_one(kind, part)).collect()
}

fn pack_one(kind: &str, data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    match kind {
        "gz" => {
            let mut e = flate2::write::GzEncoder::new(&mut out, flate2::Compression::default());
            e.write_all(data).expect("memory");
            e.finish().expect("memory");
        }
        "bz2" => {
            bzip2::read::BzEncoder::new(data, bzip2::Compression::best()).read_to_end(&mut out).expect("memory");
        }
        "xz" => {
            liblzma::read::XzEncoder::new(data, 6).read_to_end(&mut out).expect("memory");
        }
        "zst" => out = zstd::encode_all(data, 3).expect("memory"),
        "lz4" => {
            let info = lz4_flex::frame::FrameInfo::new().block_size(lz4_flex::frame::BlockSize::Max64KB);
            let mut e = lz4_flex::frame::FrameEncoder::with_frame_info(info, &mut out);
            e.write_all(data).expect("memory");
            e.finish().expect("memory");
        }
        "snappy" => {
            snap::read::FrameEncoder::new(data).read_to_end(&mut out).expect("memory");
        }
        other => panic!("{other} is no compression"),
    }
    out
}

/// A member of a zip archive.
#[derive(Clone, Copy, Default)]
pub struct Member<'a> {
    pub data: &'a [u8],
    /// Stored, not deflated.
    pub stored: bool,
    /// Checksum and sizes behind the data.
    pub behind: bool,
    /// All sizes in the extra fields, as in archives beyond 4 GB.
    pub wide: bool,
    /// Further bits of its flags, and its method if not the usual one.
    pub flags: u16,
    pub method: Option<u16>,
}

/// An archive as any zip program writes it.
pub fn zip(members: &[Member]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    let le16 = |n: u16| n.to_le_bytes();
    for (number, m) in members.iter().enumerate() {
        let name = format!("chunk.{number:04}");
        let mut packed = m.data.to_vec();
        if !m.stored {
            packed.clear();
            flate2::read::DeflateEncoder::new(m.data, flate2::Compression::best())
                .read_to_end(&mut packed)
                .expect("memory");
        }
        let mut crc = flate2::Crc::new();
        crc.update(m.data);
        let sizes = [packed.len() as u64, m.data.len() as u64];
        let place = out.len() as u64;
        let method = m.method.unwrap_or(if m.stored { 0 } else { 8 });
        let flags = m.flags | if m.behind { 8 } else { 0 };
        let narrow = |n: u64| if m.wide { [0xff; 4] } else { (n as u32).to_le_bytes() };
        let extra = |values: &[u64]| -> Vec<u8> {
            // Another field first, which must be passed over.
            let mut extra = [&le16(0x5455)[..], &le16(1), &[7]].concat();
            if m.wide {
                extra.extend([le16(1), le16(8 * values.len() as u16)].concat());
                values.iter().for_each(|v| extra.extend(v.to_le_bytes()));
            }
            extra
        };
        let head = |sums: [[u8; 4]; 3], extra: &[u8]| {
            [
                &le16(45)[..],
                &le16(flags),
                &le16(method),
                &[0; 4],
                &sums.concat(),
                &le16(name.len() as u16),
                &le16(extra.len() as u16),
            ]
            .concat()
        };
        let crc = crc.sum().to_le_bytes();
        let local = extra(&if m.behind { [0, 0] } else { [sizes[1], sizes[0]] });
        let known = if m.behind { [[0; 4]; 3] } else { [crc, narrow(sizes[0]), narrow(sizes[1])] };
        out.extend([b"PK\x03\x04", &head(known, &local)[..], name.as_bytes(), &local, &packed].concat());
        if m.behind {
            out.extend([b"PK\x07\x08", &crc[..]].concat());
            sizes
                .iter()
                .for_each(|n| if m.wide { out.extend(n.to_le_bytes()) } else { out.extend((*n as u32).to_le_bytes()) });
        }
        let listed = extra(&[sizes[1], sizes[0], place]);
        let head = head([crc, narrow(sizes[0]), narrow(sizes[1])], &listed);
        directory.extend(
            [b"PK\x01\x02", &le16(45)[..], &head, &le16(4), &[0; 8], &narrow(place), name.as_bytes(), &listed, b"note"]
                .concat(),
        );
    }
    let place = out.len() as u32;
    out.extend_from_slice(&directory);
    if members.iter().any(|m| m.wide) {
        out.extend([b"PK\x06\x06", &44u64.to_le_bytes()[..], &[0; 44]].concat());
        out.extend([b"PK\x06\x07", &[0; 16][..]].concat());
    }
    let count = le16(members.len() as u16);
    let sizes = [(directory.len() as u32).to_le_bytes(), place.to_le_bytes()].concat();
    out.extend([b"PK\x05\x06", &[0; 4][..], &count, &count, &sizes, &le16(3), b"end"].concat());
    out
}
