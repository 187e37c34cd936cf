//! Contents of the memory file of an address space: finding, copying and dropping them.

use rustix::fd::AsFd;
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
use rustix::io::{Errno, Result, pread, pwrite};
use std::ops::Range;

/// Bytes moved at a time.
const CHUNK: usize = 1 << 18;

/// The next piece of these bytes that has contents.
fn next(memory: impl AsFd, bytes: Range<u64>) -> Result<Option<Range<u64>>> {
    let start = match seek(&memory, SeekFrom::Data(bytes.start)) {
        Ok(start) if start < bytes.end => start,
        Ok(_) | Err(Errno::NXIO) => return Ok(None),
        Err(error) => return Err(error),
    };
    let end = seek(&memory, SeekFrom::Hole(start))?;
    Ok(Some(start..end.min(bytes.end)))
}

/// Whether this page has contents.
pub fn is_there(memory: impl AsFd, page: u64) -> Result<bool> {
    Ok(next(memory, page..page + 4096)?.is_some())
}

/// Drops the contents of these bytes.
pub fn drop_contents(memory: impl AsFd, bytes: Range<u64>) -> Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(memory, how, bytes.start, bytes.end - bytes.start)
}

/// Copies the contents of these bytes to another memory, `offset` bytes further. Returns the number of bytes.
pub fn copy(from: impl AsFd, bytes: Range<u64>, to: impl AsFd, offset: u64) -> Result<u64> {
    let mut buffer = vec![0; CHUNK];
    let (mut at, mut copied) = (bytes.start, 0);
    while let Some(piece) = next(&from, at..bytes.end)? {
        at = piece.start;
        while at < piece.end {
            let many = CHUNK.min((piece.end - at) as usize);
            let got = pread(&from, &mut buffer[..many], at)?;
            if got == 0 {
                break;
            }
            write_all(&to, &buffer[..got], at.wrapping_add(offset))?;
            at += got as u64;
            copied += got as u64;
        }
        at = piece.end;
    }
    Ok(copied)
}

/// Writes all of it.
pub fn write_all(to: impl AsFd, mut bytes: &[u8], mut at: u64) -> Result<()> {
    while !bytes.is_empty() {
        let written = pwrite(&to, bytes, at)?;
        (bytes, at) = (&bytes[written..], at + written as u64);
    }
    Ok(())
}

/// Reads the first page of these bytes from a file, and pages behind it up to the next one with contents. Returns the
/// number of pages: 0 if the first lies behind the end of the file.
pub fn read_file(memory: impl AsFd, at: Range<u64>, file: impl AsFd, offset: u64) -> Result<u64> {
    let free = match next(&memory, at.clone())? {
        Some(piece) if piece.start == at.start => return Ok(1),
        Some(piece) => at.start..piece.start,
        None => at,
    };
    let mut buffer = [0; 1 << 14];
    let want = buffer.len().min((free.end - free.start) as usize);
    let mut got = 0;
    while got < want {
        match pread(&file, &mut buffer[got..want], offset + got as u64)? {
            0 => break,
            more => got += more,
        }
    }
    // The rest of the last page is zeros.
    let pages = got.div_ceil(4096);
    write_all(memory, &buffer[..pages * 4096], free.start)?;
    Ok(pages as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::OwnedFd;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    fn memory(pages: &[(u64, u8)]) -> OwnedFd {
        let memory = memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&memory, 1 << 40).unwrap();
        pages.iter().for_each(|(page, byte)| write_all(&memory, &[*byte; 4096], page * 4096).unwrap());
        memory
    }

    /// The first bytes of the pages that have contents.
    fn pages(memory: &OwnedFd) -> Vec<(u64, u8)> {
        let (mut found, mut at) = (Vec::new(), 0);
        while let Some(piece) = next(memory, at..1 << 40).unwrap() {
            for page in piece.start / 4096..piece.end / 4096 {
                let mut byte = [0];
                pread(memory, &mut byte, page * 4096).unwrap();
                found.push((page, byte[0]));
            }
            at = piece.end;
        }
        found
    }

    #[test]
    fn holes_stay_holes() {
        let from = memory(&[(3, 1), (4, 2), (1 << 20, 3), (1 << 27, 4)]);
        let to = memory(&[(5, 9)]);
        assert_eq!(copy(&from, 4 * 4096..1 << 39, &to, 2 * 4096).unwrap(), 2 * 4096);
        assert_eq!(pages(&to), [(5, 9), (6, 2), ((1 << 20) + 2, 3)]);
        drop_contents(&to, 5 * 4096..7 * 4096).unwrap();
        assert_eq!(pages(&to), [((1 << 20) + 2, 3)]);
    }

    #[test]
    fn pages_of_files_never_replace_contents() {
        let file = memfd_create("file", MemfdFlags::CLOEXEC).unwrap();
        write_all(&file, &[7; 3 * 4096 + 10], 0).unwrap();
        let to = memory(&[(12, 9)]);
        let read = |page: u64, offset: u64| read_file(&to, page * 4096..20 * 4096, &file, offset * 4096).unwrap();
        assert_eq!((read(12, 1), read(10, 0), read(14, 3), read(15, 4)), (1, 2, 1, 0));
        assert_eq!(pages(&to), [(10, 7), (11, 7), (12, 9), (14, 7)]);
    }
}
