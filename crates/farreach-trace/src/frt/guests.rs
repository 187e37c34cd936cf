//! Events of whole systems in the event column.

use std::sync::Arc;

use super::MAX_STRING_BYTES;
use super::wire::{Cursor, put_string, put_varint, unzigzag, zigzag};
use farreach_types::event::{Arch, Guest, Invalidate, Register};

pub(super) const MACHINE: u8 = 15;
const PRIVILEGE: u8 = 16;
const REGISTER: u8 = 17;
const ENTRIES: u8 = 18;
const INVALIDATE: u8 = 19;
const EXCEPTION: u8 = 20;
const NAME: u8 = 21;
pub(super) const STALE: u8 = 22;

/// Bytes of a frame, which words of a table do not cross.
const FRAME: u64 = 4096;
/// Equal distances from which on words are a run.
const LEAST_RUN: usize = 3;

const TAGGED: u8 = 1;
const ADDRESSED: u8 = 2;
const GLOBAL: u8 = 4;
const LEAVES: u8 = 8;
const BROADCAST: u8 = 16;

/// What table entries are coded against; it begins anew with every chunk.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TableState {
    /// Address behind the last words.
    next: u64,
    /// The last word that was not zero.
    last: u64,
}

impl TableState {
    /// Appends an event. The error says why no file can hold it.
    pub fn put(&mut self, out: &mut Vec<u8>, guest: &Guest) -> Result<(), String> {
        match guest {
            Guest::Machine { arch, processors, memory } => {
                let number = Arch::ALL.iter().position(|known| known == arch).expect("all are listed") + 1;
                out.extend_from_slice(&[MACHINE, number as u8]);
                put_varint(out, u64::from(*processors));
                put_varint(out, *memory);
            }
            Guest::Privilege { kernel } => out.extend_from_slice(&[PRIVILEGE, u8::from(*kernel)]),
            Guest::Register { register, value } => {
                let number = Register::ALL.iter().position(|known| known == register).expect("all are listed");
                out.extend_from_slice(&[REGISTER, number as u8]);
                put_varint(out, *value);
            }
            Guest::Entries { address, values } => {
                check_entries(*address, values.len() as u64)?;
                out.push(ENTRIES);
                put_varint(out, zigzag((address.wrapping_sub(self.next) as i64) / 8));
                put_varint(out, values.len() as u64);
                self.put_words(out, values);
                self.next = address.wrapping_add(8 * values.len() as u64);
            }
            Guest::Invalidate(i) => {
                check_invalidation(i)?;
                let bit = |is: bool, flag: u8| if is { flag } else { 0 };
                let flags = [
                    bit(i.tag.is_some(), TAGGED),
                    bit(i.bytes.is_some(), ADDRESSED),
                    bit(i.global, GLOBAL),
                    bit(i.leaves, LEAVES),
                    bit(i.broadcast, BROADCAST),
                ];
                out.extend_from_slice(&[INVALIDATE, flags.into_iter().sum()]);
                i.tag.iter().for_each(|&tag| put_varint(out, tag.into()));
                let pages = i.bytes.iter().flat_map(|&(start, len)| [start / FRAME, len / FRAME]);
                pages.for_each(|n| put_varint(out, n));
            }
            Guest::Exception { vector } => {
                out.push(EXCEPTION);
                put_varint(out, u64::from(*vector));
            }
            Guest::Name(name) => {
                if name.len() > MAX_STRING_BYTES {
                    return Err(format!("a name of {} bytes; a file takes {MAX_STRING_BYTES}", name.len()));
                }
                out.push(NAME);
                put_string(out, name);
            }
            Guest::Stale { page, address } => {
                if page % FRAME != 0 || address % FRAME != 0 {
                    return Err(format!(
                        "a page at {page:#x}, in memory at {address:#x}; multiples of {FRAME} are allowed"
                    ));
                }
                out.push(STALE);
                [page, address].into_iter().for_each(|n| put_varint(out, n / FRAME));
            }
        }
        Ok(())
    }

    /// Words as runs: of zeros, or of words at one distance.
    fn put_words(&mut self, out: &mut Vec<u8>, words: &[u64]) {
        let mut at = 0;
        while at < words.len() {
            let rest = &words[at..];
            let zeros = rest.iter().take_while(|&&word| word == 0).count();
            if zeros > 0 {
                put_varint(out, (zeros as u64) << 1);
                at += zeros;
                continue;
            }
            let step = rest.get(1).map_or(0, |second| second.wrapping_sub(rest[0]));
            let equal = |pair: &[u64]| pair[1] != 0 && pair[1].wrapping_sub(pair[0]) == step;
            let run = 1 + rest.windows(2).take_while(|pair| equal(pair)).count();
            let run = if run < LEAST_RUN { 1 } else { run };
            put_varint(out, (run as u64) << 1 | 1);
            put_varint(out, zigzag(rest[0].wrapping_sub(self.last) as i64));
            if run > 1 {
                put_varint(out, zigzag(step as i64));
            }
            self.last = rest[run - 1];
            at += run;
        }
    }

    /// Reads the event with this tag.
    pub fn take(&mut self, tag: u8, c: &mut Cursor) -> Result<Guest, String> {
        Ok(match tag {
            MACHINE => {
                let number = c.byte()?;
                let arch = Arch::ALL.get(usize::from(number).wrapping_sub(1)).copied();
                let arch = arch.ok_or(format!("instruction set {number}; 1 to {} are known", Arch::ALL.len()))?;
                Guest::Machine { arch, processors: c.u32("number of processors")?, memory: c.varint()? }
            }
            PRIVILEGE => match c.byte()? {
                kernel @ 0..=1 => Guest::Privilege { kernel: kernel == 1 },
                n => return Err(format!("privilege {n}; 0 and 1 are known")),
            },
            REGISTER => {
                let number = c.byte()?;
                let register = Register::ALL.get(usize::from(number)).copied();
                let register = register.ok_or(format!("register {number}; 0 to 2 are known"))?;
                Guest::Register { register, value: c.varint()? }
            }
            ENTRIES => {
                let address = self.next.wrapping_add((unzigzag(c.varint()?) as u64).wrapping_mul(8));
                let words = c.varint()?;
                check_entries(address, words)?;
                let values = self.take_words(c, words as usize)?;
                self.next = address.wrapping_add(8 * words);
                Guest::Entries { address, values }
            }
            INVALIDATE => Guest::Invalidate(take_invalidation(c)?),
            EXCEPTION => Guest::Exception { vector: c.u32("vector")? },
            NAME => Guest::Name(c.string()?.into()),
            STALE => Guest::Stale { page: take_page(c)?, address: take_page(c)? },
            other => unreachable!("{other} is no tag of a guest's event"),
        })
    }

    fn take_words(&mut self, c: &mut Cursor, words: usize) -> Result<Arc<[u64]>, String> {
        let mut values = Vec::with_capacity(words);
        while values.len() < words {
            let run = c.varint()?;
            let n = run >> 1;
            if n == 0 || n > (words - values.len()) as u64 {
                return Err(format!("a run of {n} of {} words of a table", words - values.len()));
            }
            if run & 1 == 0 {
                values.resize(values.len() + n as usize, 0);
                continue;
            }
            let mut word = self.last.wrapping_add(unzigzag(c.varint()?) as u64);
            let step = if n > 1 { unzigzag(c.varint()?) as u64 } else { 0 };
            for _ in 0..n {
                self.last = word;
                values.push(word);
                word = word.wrapping_add(step);
            }
        }
        Ok(values.into())
    }
}

fn check_entries(address: u64, words: u64) -> Result<(), String> {
    if !address.is_multiple_of(8) || words == 0 || words > (FRAME - address % FRAME) / 8 {
        return Err(format!("{words} words of a table at {address:#x}, which are not aligned, or not in one frame"));
    }
    Ok(())
}

fn check_invalidation(i: &Invalidate) -> Result<(), String> {
    match i.bytes {
        Some((start, len)) if start % FRAME != 0 || len % FRAME != 0 => {
            Err(format!("an invalidation of {len:#x} bytes at {start:#x}; multiples of {FRAME} are allowed"))
        }
        _ => Ok(()),
    }
}

fn take_invalidation(c: &mut Cursor) -> Result<Invalidate, String> {
    let flags = c.byte()?;
    if flags > (TAGGED | ADDRESSED | GLOBAL | LEAVES | BROADCAST) {
        return Err(format!("an invalidation with flags {flags}; five bits are known"));
    }
    let has = |flag| flags & flag != 0;
    let tag = match has(TAGGED).then(|| c.varint()).transpose()? {
        Some(tag) => Some(u16::try_from(tag).map_err(|_| format!("tag {tag} does not fit 16 bits"))?),
        None => None,
    };
    let bytes = if has(ADDRESSED) { Some((take_page(c)?, take_page(c)?)) } else { None };
    Ok(Invalidate { tag, bytes, global: has(GLOBAL), leaves: has(LEAVES), broadcast: has(BROADCAST) })
}

/// The address of a page, from its number.
fn take_page(c: &mut Cursor) -> Result<u64, String> {
    let n = c.varint()?;
    n.checked_mul(FRAME).ok_or(format!("page {n} does not fit 64 bits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_take_little_room() {
        let bytes = |values: Vec<u64>| {
            let (mut state, mut out) = (TableState::default(), Vec::new());
            state.put(&mut out, &Guest::Entries { address: 0x1000, values: values.clone().into() }).unwrap();
            let mut cursor = Cursor::at(&out, 1);
            let back = TableState::default().take(ENTRIES, &mut cursor).unwrap();
            assert_eq!(back, Guest::Entries { address: 0x1000, values: values.into() });
            assert_eq!(cursor.at, out.len());
            out.len()
        };
        let direct = |n: u64| 1 << 63 | n << 21 | 0x1e3;
        // Tag, address, count, then the run: its length, its first word, its step.
        assert_eq!(bytes((0..512).map(direct).collect()), 1 + 2 + 2 + 2 + 10 + 4);
        assert_eq!(bytes(vec![0; 512]), 1 + 2 + 2 + 2);
        assert!(bytes((0..100).map(|n| direct(n * n * 7919 % 512)).collect()) < 100 * 6);
        bytes([vec![0, 0, 5, 0, 7, 8, 9, 0], vec![u64::MAX; 3], vec![1, u64::MAX, 0, 1 << 63]].concat());
    }

    #[test]
    fn what_is_damaged_is_refused() {
        let take = |tag: u8, bytes: &[u8]| TableState::default().take(tag, &mut Cursor::at(bytes, 0)).unwrap_err();
        for (tag, bytes, why) in [
            (MACHINE, &[4, 1, 1][..], "instruction set 4"),
            (MACHINE, &[0, 1, 1], "instruction set 0"),
            (PRIVILEGE, &[2], "privilege 2"),
            (REGISTER, &[3, 0], "register 3"),
            (ENTRIES, &[0, 0], "0 words of a table"),
            (ENTRIES, &[0, 0x81, 0x04], "513 words of a table"),
            (ENTRIES, &[0, 2, 6], "a run of 3 of 2 words"),
            (ENTRIES, &[0, 2, 0], "a run of 0 of 2 words"),
            (ENTRIES, &[0, 2, 2], "ends too early"),
            (INVALIDATE, &[32], "flags 32"),
            (INVALIDATE, &[1, 0x80, 0x80, 0x04], "tag 65536"),
            (INVALIDATE, &[2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], "does not fit 64 bits"),
            (EXCEPTION, &[0xff, 0xff, 0xff, 0xff, 0x7f], "vector"),
            (STALE, &[1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], "does not fit 64 bits"),
        ] {
            let said = take(tag, bytes);
            assert!(said.contains(why), "{why}: {said}");
        }
    }
}
