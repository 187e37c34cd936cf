//! Copies of `/proc/PID/pagemap` of Linux: 8 bytes for each page, little-endian, in the order of addresses.
//!
//! * Bit 63: the page is present, and bits 0 to 54 are its frame. Bit 62: it is swapped out. Bits 55 to 58 and 61 say
//!   more about it. Bits 59 and 60 are 0 in every version of Linux, so what has them set is no such copy.
//! * A copy does not say where it begins: that is told. Places that were never written, the holes of a sparse file, are
//!   pages that are not present, and are passed over.
//! * It says nothing of mappings. Those are in `/proc/PID/maps`, of which a copy may be named. Without it, pages that
//!   follow each other are one anonymous mapping that allows everything, so that pages are found by their addresses.
//! * It does not say which leaves are 2 MB large: all count as 4 KB.

use super::{Area, Dump, FRAMES, PAGES, Present};
use crate::labels::{ANONYMOUS, HEAP, STACK};
use farreach_types::addr::BASE_SHIFT;
use farreach_types::event::Prot;
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes of a page in the copy.
const ENTRY: u64 = 8;
/// Bytes that are read together.
const PIECE: usize = 1 << 16;
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
const ALWAYS_ZERO: u64 = 3 << 59;
const FRAME: u64 = (1 << 55) - 1;

/// Reads a copy whose first entry is that of the page at address `start`. `maps`: text of a copy of `/proc/PID/maps`.
///
/// # Errors
/// What is wrong, with its place in the copy or in the maps.
pub fn read(path: &Path, start: u64, maps: Option<&str>) -> Result<Dump, String> {
    let io = |e: std::io::Error| e.to_string();
    let file = File::open(path).map_err(io)?;
    let about = file.metadata().map_err(io)?;
    if !about.is_file() {
        return Err("it is no file; a copy of /proc/PID/pagemap must be one".into());
    }
    let bytes = about.len();
    if bytes == 0 {
        return Err("it is empty; a copy of /proc/PID/pagemap is needed, which has 8 bytes for each page".into());
    }
    if !bytes.is_multiple_of(ENTRY) {
        return Err(format!("its {bytes} bytes are no whole number of entries of {ENTRY} bytes: the copy is cut"));
    }
    if !start.is_multiple_of(1 << BASE_SHIFT) {
        return Err(format!("the address {start:#x} is not allowed: it must be that of a page, a multiple of 4096"));
    }
    let first = start >> BASE_SHIFT;
    if bytes / ENTRY > PAGES - first {
        let pages = bytes / ENTRY;
        return Err(format!("{pages:#x} pages from address {start:#x} on do not fit into an address space"));
    }
    let mut pages = match maps {
        Some(text) => Pages { areas: areas(text)?, named: true, at: 0 },
        None => Pages { areas: Vec::new(), named: false, at: 0 },
    };
    each_piece(&file, bytes, |at, entries| {
        for (at, entry) in (at..).step_by(ENTRY as usize).zip(entries.chunks_exact(ENTRY as usize)) {
            let entry = u64::from_le_bytes(entry.try_into().expect("8 bytes"));
            let vpn = first + at / ENTRY;
            let pfn = frame(entry).map_err(|what| format!("byte {at}, address {:#x}: {what}", vpn << BASE_SHIFT))?;
            if let Some(pfn) = pfn {
                pages.add(vpn, pfn).map_err(|what| format!("byte {at}: {what}"))?;
            }
        }
        Ok(())
    })?;
    let mut areas = pages.areas;
    areas.retain(|area| !is_kernel(&area.name));
    Ok(Dump { source: "/proc/PID/pagemap".to_owned(), areas })
}

/// Gives the written parts of the file to `each`, with the byte at which they begin.
fn each_piece(file: &File, bytes: u64, mut each: impl FnMut(u64, &[u8]) -> Result<(), String>) -> Result<(), String> {
    let mut buffer = vec![0; PIECE];
    let mut at = 0;
    while at < bytes {
        // A file system without holes has one part, the whole file.
        let data = match seek(file, SeekFrom::Data(at)) {
            Ok(data) => data / ENTRY * ENTRY,
            Err(Errno::NXIO) => return Ok(()),
            Err(e) => return Err(e.to_string()),
        };
        let hole = seek(file, SeekFrom::Hole(data.max(at))).map_err(|e| e.to_string())?.min(bytes);
        at = data.max(at);
        let end = hole.next_multiple_of(ENTRY);
        while at < end {
            let piece = &mut buffer[..PIECE.min((end - at) as usize)];
            file.read_exact_at(piece, at).map_err(|e| format!("byte {at}: {e}"))?;
            each(at, piece)?;
            at += piece.len() as u64;
        }
    }
    Ok(())
}

/// The frame of a page that is present.
fn frame(entry: u64) -> Result<Option<u64>, String> {
    if entry & ALWAYS_ZERO != 0 || entry & (PRESENT | SWAPPED) == PRESENT | SWAPPED {
        return Err(format!("{entry:#x} is no entry of /proc/PID/pagemap"));
    }
    if entry & PRESENT == 0 {
        return Ok(None);
    }
    match entry & FRAME {
        0 => Err("its frame is 0: only root (CAP_SYS_ADMIN) sees frames; take the copy again with that right".into()),
        pfn if pfn >= FRAMES => {
            Err(format!("its frame {pfn:#x} is not allowed: the last possible is {:#x}", FRAMES - 1))
        }
        pfn => Ok(Some(pfn)),
    }
}

/// Mappings, and where in them the pages are, which come in ascending order.
struct Pages {
    areas: Vec<Area>,
    /// They are those of the process.
    named: bool,
    /// That of the last page.
    at: usize,
}

impl Pages {
    fn add(&mut self, vpn: u64, pfn: u64) -> Result<(), String> {
        if self.named {
            self.at += self.areas[self.at..].iter().take_while(|area| area.end() <= vpn).count();
        } else {
            match self.areas.last_mut() {
                Some(last) if last.end() == vpn => last.pages += 1,
                _ => self.areas.push(area(vpn, 1, Prot::RWX, ANONYMOUS)),
            }
            self.at = self.areas.len() - 1;
        }
        let area = self.areas.get_mut(self.at).filter(|area| area.start <= vpn).ok_or_else(|| {
            let address = vpn << BASE_SHIFT;
            format!("the page at {address:#x} is present, and no mapping has it: pagemap and maps are of other moments")
        })?;
        match area.runs.last_mut() {
            Some(run) if run.vpn + run.pages == vpn && run.pfn.map(|pfn| pfn + run.pages) == Some(pfn) => {
                run.pages += 1;
            }
            _ => area.runs.push(Present { vpn, pages: 1, pfn: Some(pfn), huge: false }),
        }
        Ok(())
    }
}

fn area(start: u64, pages: u64, prot: Prot, name: &str) -> Area {
    Area { start, pages, prot, shared: false, offset: 0, name: name.to_owned(), runs: Vec::new() }
}

/// Memory of the kernel in a process, which has no frames that the process owns.
fn is_kernel(name: &str) -> bool {
    ["[vdso", "[vvar", "[vsyscall"].iter().any(|kernel| name.starts_with(kernel))
}

/// The mappings of `/proc/PID/maps`.
fn areas(text: &str) -> Result<Vec<Area>, String> {
    let mut areas: Vec<Area> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let end = areas.last().map_or(0, Area::end);
        let area = mapping(line, end).map_err(|what| {
            let shown: String = line.chars().take(60).collect();
            format!("maps, line {number}: '{shown}': {what}")
        })?;
        areas.push(area);
    }
    match areas.is_empty() {
        true => Err("maps: there is no mapping in it".into()),
        false => Ok(areas),
    }
}

fn mapping(line: &str, behind: u64) -> Result<Area, String> {
    let form = || "a mapping reads 'START-END rwxp OFFSET DEVICE INODE NAME'".to_owned();
    let mut rest = line;
    let mut word = || {
        let (word, behind) = rest.split_once(' ').unwrap_or((rest, ""));
        rest = behind;
        Some(word).filter(|word| !word.is_empty()).ok_or_else(form)
    };
    let (range, prot, offset) = (word()?, word()?, word()?);
    for _device_and_inode in 0..2 {
        word()?;
    }
    let page = |text: &str| {
        let number = u64::from_str_radix(text, 16).ok().filter(|_| !text.starts_with('+'));
        number.filter(|n| n.is_multiple_of(1 << BASE_SHIFT)).map(|n| n >> BASE_SHIFT)
    };
    let (start, end) = range.split_once('-').and_then(|(a, b)| page(a).zip(page(b))).ok_or_else(form)?;
    let offset = page(offset).ok_or_else(form)?;
    let allowed: [&[u8]; 4] = [b"r-", b"w-", b"x-", b"sp"];
    let bits = prot.as_bytes();
    if bits.len() != 4 || bits.iter().zip(allowed).any(|(bit, allowed)| !allowed.contains(bit)) {
        return Err(format!("the protection '{prot}' is not like 'rw-p' or 'r-xs'"));
    }
    if start < behind || end <= start {
        return Err("mappings ascend, and each has pages".into());
    }
    let name = match rest.trim_start() {
        "" => ANONYMOUS,
        "[heap]" => HEAP,
        name if name == "[stack]" || name.starts_with("[stack:") => STACK,
        name if name.starts_with("[anon:") => ANONYMOUS,
        name => name,
    };
    let on = |at: usize| bits[at] == b"rwxs"[at];
    let prot = Prot { read: on(0), write: on(1), exec: on(2) };
    Ok(Area { shared: on(3), offset, ..area(start, end - start, prot, name) })
}

#[cfg(test)]
mod tests;
