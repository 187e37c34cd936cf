//! What the kernel says is mapped.

use procfs::ProcError;
use procfs::process::{MMPermissions, MMapPath, MemoryMap, Process};
use std::io;
use std::ops::Range;

/// A mapping.
pub struct Mapped {
    pub bytes: Range<u64>,
    /// As for mmap.
    pub prot: i32,
    pub shared: bool,
    pub offset: u64,
    pub inode: u64,
    pub path: MMapPath,
}

/// The mappings of a process, ascending.
pub fn of(process: i32) -> io::Result<Vec<Mapped>> {
    let maps = Process::new(process).and_then(|process| process.maps()).map_err(of_proc)?;
    Ok(maps.into_iter().map(mapped).collect())
}

/// An error in reading /proc: a process that has ended is not there.
pub fn of_proc(error: ProcError) -> io::Error {
    match error {
        ProcError::NotFound(_) => io::ErrorKind::NotFound.into(),
        ProcError::Io(error, _) => error,
        other => io::Error::other(other),
    }
}

fn mapped(map: MemoryMap) -> Mapped {
    let has = |flag, bit| if map.perms.contains(flag) { bit } else { 0 };
    let prot = has(MMPermissions::READ, libc::PROT_READ)
        | has(MMPermissions::WRITE, libc::PROT_WRITE)
        | has(MMPermissions::EXECUTE, libc::PROT_EXEC);
    let shared = map.perms.contains(MMPermissions::SHARED);
    let bytes = map.address.0..map.address.1;
    Mapped { bytes, prot, shared, offset: map.offset, inode: map.inode, path: map.pathname }
}
