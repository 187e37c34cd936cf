//! A zip archive as a stream: its members in their order, one behind the other, deflated or stored.
//!
//! The headers before and behind each member suffice to read it, so an archive may come from a pipe, and takes no
//! memory for its contents. The directory at the end must list exactly these members in this order: an archive in which
//! members were replaced, or that was cut between two, is refused.
//!
//! The stream reader of the crate `zip` 9.8.1 refuses members whose sizes follow their data, and does not read the
//! directory: it does not notice a missing member, or bytes behind the end. That of `rc-zip-sync` 4.4.2 reads neither
//! such members nor the directory, takes anything that it cannot read for the end, and does not end on an archive that
//! was cut between two members.

use std::fmt;
use std::io::{self, BufRead, ErrorKind, Read};

use flate2::{Crc, Decompress, FlushDecompress, Status};
use xxhash_rust::xxh3::Xxh3;

const LOCAL: u32 = 0x0403_4b50;
const DESCRIPTOR: u32 = 0x0807_4b50;
const LISTED: u32 = 0x0201_4b50;
const END_64: u32 = 0x0606_4b50;
const LOCATOR_64: u32 = 0x0706_4b50;
const END: u32 = 0x0605_4b50;
/// The value of a 32-bit size or place that refers to the extra field of archives beyond 4 GB.
const SEE_EXTRA: u64 = 0xffff_ffff;
const EXTRA_64: u16 = 1;
/// Bits of a member's flags: encrypted (two ways); checksum and sizes follow the data.
const ENCRYPTED: u16 = 1 | 1 << 6 | 1 << 13;
const DESCRIBED_BEHIND: u16 = 1 << 3;

/// Reads the members of an archive.
pub(super) struct Unzip<R> {
    from: R,
    /// Bytes of the archive that were read.
    at: u64,
    inflate: Decompress,
    member: Option<Member>,
    /// Hashes of place, checksum and sizes of all members: as they were read, and as the directory lists them.
    seen: Xxh3,
    over: bool,
}

/// The member being read.
struct Member {
    name: String,
    place: u64,
    stored: bool,
    /// Checksum and sizes from its header, if it has them.
    known: Option<Sums>,
    /// Sizes behind the data have 64 bits.
    wide: bool,
    crc: Crc,
    packed: u64,
    whole: bool,
}

/// What the archive states about a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Sums {
    crc: u32,
    packed: u64,
    size: u64,
}

impl Sums {
    fn note(self, place: u64, into: &mut Xxh3) {
        for n in [place, u64::from(self.crc), self.packed, self.size] {
            into.update(&n.to_le_bytes());
        }
    }
}

impl fmt::Display for Sums {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes, {} packed, with checksum {:08x}", self.size, self.packed, self.crc)
    }
}

fn damaged(what: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}
fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// Reads the values that did not fit 32 bits, in their order, from the extra field of a member. True if there is such a
/// field.
fn widen(mut extra: &[u8], values: &mut [&mut u64]) -> bool {
    while extra.len() >= 4 {
        let (id, len) = (u16_at(extra, 0), usize::from(u16_at(extra, 2)));
        let Some(field) = extra.get(4..4 + len) else { return false };
        if id == EXTRA_64 {
            let narrow = values.iter_mut().filter(|v| ***v == SEE_EXTRA);
            for (value, wide) in narrow.zip(field.chunks_exact(8)) {
                **value = u64::from_le_bytes(wide.try_into().expect("eight bytes"));
            }
            return true;
        }
        extra = &extra[4 + len..];
    }
    false
}

impl<R: BufRead> Unzip<R> {
    pub fn new(from: R) -> Unzip<R> {
        Unzip { from, at: 0, inflate: Decompress::new(false), member: None, seen: Xxh3::new(), over: false }
    }

    fn bytes<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.from.read_exact(&mut bytes)?;
        self.at += N as u64;
        Ok(bytes)
    }
    fn some(&mut self, n: u16) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; usize::from(n)];
        self.from.read_exact(&mut bytes)?;
        self.at += u64::from(n);
        Ok(bytes)
    }
    fn skip(&mut self, n: u64) -> io::Result<()> {
        let skipped = io::copy(&mut (&mut self.from).take(n), &mut io::sink())?;
        self.at += skipped;
        if skipped < n { Err(ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }

    /// Behind a member: the next one begins, or the archive ends.
    fn next(&mut self) -> io::Result<()> {
        let place = self.at;
        match u32::from_le_bytes(self.bytes()?) {
            LOCAL => self.begin(place),
            kind @ (LISTED | END_64 | END) => self.directory(kind),
            other => Err(damaged(format!(
                "at byte {place} of the archive stands {other:#010x}; a member or the directory is allowed"
            ))),
        }
    }

    fn begin(&mut self, place: u64) -> io::Result<()> {
        let head: [u8; 26] = self.bytes()?;
        let (flags, method) = (u16_at(&head, 2), u16_at(&head, 4));
        let name = self.some(u16_at(&head, 22))?;
        let extra = self.some(u16_at(&head, 24))?;
        let name = name[..name.len().min(100)].escape_ascii().to_string();
        let refuse = |why: String| {
            Err(io::Error::new(ErrorKind::Unsupported, format!("member '{name}' at byte {place} of the archive {why}")))
        };
        if flags & ENCRYPTED != 0 {
            return refuse("is encrypted".into());
        }
        let stored = match method {
            0 => true,
            8 => false,
            other => {
                return refuse(format!("is packed by method {other}; stored (0) and deflated (8) members can be read"));
            }
        };
        let behind = flags & DESCRIBED_BEHIND != 0;
        if stored && behind {
            return refuse("is stored without its size before it".into());
        }
        let mut sums =
            Sums { crc: u32_at(&head, 10), packed: u32_at(&head, 14).into(), size: u32_at(&head, 18).into() };
        let wide = widen(&extra, &mut [&mut sums.size, &mut sums.packed]);
        self.inflate.reset(false);
        let (known, crc) = ((!behind).then_some(sums), Crc::new());
        self.member = Some(Member { name, place, stored, known, wide, crc, packed: 0, whole: false });
        Ok(())
    }

    /// Some bytes of the current member; none at its end.
    fn data(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let member = self.member.as_mut().expect("there is a current member");
        loop {
            let left = member.known.map_or(u64::MAX, |k| k.packed - member.packed);
            if member.whole || member.stored && left == 0 {
                return Ok(0);
            }
            let there = self.from.fill_buf()?;
            if there.is_empty() && left > 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            let there = &there[..there.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
            let (taken, made) = if member.stored {
                let n = there.len().min(out.len());
                out[..n].copy_from_slice(&there[..n]);
                (n, n)
            } else {
                let before = (self.inflate.total_in(), self.inflate.total_out());
                let status = self.inflate.decompress(there, out, FlushDecompress::None).map_err(|e| {
                    damaged(format!("member '{}' at byte {} of the archive: {e}", member.name, member.place))
                })?;
                member.whole = status == Status::StreamEnd;
                ((self.inflate.total_in() - before.0) as usize, (self.inflate.total_out() - before.1) as usize)
            };
            self.from.consume(taken);
            self.at += taken as u64;
            member.packed += taken as u64;
            member.crc.update(&out[..made]);
            if made > 0 {
                return Ok(made);
            }
            if taken == 0 && !member.whole {
                let (name, place, packed) = (&member.name, member.place, member.packed);
                return Err(damaged(format!(
                    "member '{name}' at byte {place} of the archive does not end after its {packed} packed bytes"
                )));
            }
        }
    }

    /// At the end of the current member: compares it with what the archive states.
    fn close(&mut self) -> io::Result<()> {
        let member = self.member.take().expect("there is a current member");
        let size = if member.stored { member.packed } else { self.inflate.total_out() };
        let sums = Sums { crc: member.crc.sum(), packed: member.packed, size };
        let said = match member.known {
            Some(known) => known,
            None => self.behind(member.wide)?,
        };
        if said != sums {
            return Err(damaged(format!(
                "member '{}' at byte {} of the archive has {sums}, it should have {said}",
                member.name, member.place
            )));
        }
        sums.note(member.place, &mut self.seen);
        Ok(())
    }

    /// The descriptor behind the data of a member.
    fn behind(&mut self, wide: bool) -> io::Result<Sums> {
        let mut crc = u32::from_le_bytes(self.bytes()?);
        if crc == DESCRIPTOR {
            crc = u32::from_le_bytes(self.bytes()?);
        }
        let mut size = || -> io::Result<u64> {
            Ok(if wide { u64::from_le_bytes(self.bytes()?) } else { u32::from_le_bytes(self.bytes()?).into() })
        };
        Ok(Sums { crc, packed: size()?, size: size()? })
    }

    /// Reads from the first signature behind the members, `kind`, which was read already, to the end of the archive.
    fn directory(&mut self, mut kind: u32) -> io::Result<()> {
        let mut listed = Xxh3::new();
        loop {
            match kind {
                LISTED => self.entry(&mut listed)?,
                END_64 => {
                    let size = u64::from_le_bytes(self.bytes()?);
                    self.skip(size)?;
                }
                LOCATOR_64 => self.skip(16)?,
                END => break,
                _ => {
                    return Err(damaged(format!(
                        "the directory of the archive has {kind:#010x} before byte {}",
                        self.at
                    )));
                }
            }
            kind = u32::from_le_bytes(self.bytes()?);
        }
        let end: [u8; 18] = self.bytes()?;
        self.skip(u16_at(&end, 16).into())?;
        if listed.digest() != self.seen.digest() {
            return Err(damaged(
                "the directory of the archive does not list just the members before it, in their order".into(),
            ));
        }
        if !self.from.fill_buf()?.is_empty() {
            return Err(damaged(format!("the archive ends at byte {}, but the file goes on", self.at)));
        }
        self.over = true;
        Ok(())
    }

    /// A member in the directory.
    fn entry(&mut self, listed: &mut Xxh3) -> io::Result<()> {
        let entry: [u8; 42] = self.bytes()?;
        self.skip(u16_at(&entry, 24).into())?;
        let extra = self.some(u16_at(&entry, 26))?;
        self.skip(u16_at(&entry, 28).into())?;
        let mut sums =
            Sums { crc: u32_at(&entry, 12), packed: u32_at(&entry, 16).into(), size: u32_at(&entry, 20).into() };
        let mut place = u32_at(&entry, 38).into();
        widen(&extra, &mut [&mut sums.size, &mut sums.packed, &mut place]);
        sums.note(place, listed);
        Ok(())
    }
}

impl<R: BufRead> Read for Unzip<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while !self.over && !out.is_empty() {
            if self.member.is_none() {
                self.next()?;
                continue;
            }
            match self.data(out)? {
                0 => self.close()?,
                made => return Ok(made),
            }
        }
        Ok(0)
    }
}
