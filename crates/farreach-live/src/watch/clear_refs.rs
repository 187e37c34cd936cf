//! `/proc/PID/clear_refs`: clears the used bits of a process, or the soft-dirty bits. It flushes the TLB only with
//! the latter.

use super::{Present, Seen, Watcher};
use crate::advice::populate;
use crate::rights::{self, Right};
use crate::scan::{Category, scan};
use crate::tries::raw::Memory;
use crate::tries::{Failure, Tried};
use rustix::pipe::{PipeFlags, pipe_with};
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::ops::Range;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

const PAGE: u64 = 4096;
/// What is written: clears used bits of all pages; clears soft-dirty bits.
pub(super) const USED: &[u8] = b"1";
pub(super) const SOFT_DIRTY: &[u8] = b"4";

/// The file of a process, and how long the process's page faults had to wait for its calls.
struct Clear {
    file: File,
    longest: Duration,
    all: Duration,
}

impl Clear {
    fn open(pid: i32) -> Result<Clear, Failure> {
        let path = format!("/proc/{pid}/clear_refs");
        let file = File::options().write(true).open(&path).map_err(|error| {
            let denied = error.kind() == ErrorKind::PermissionDenied;
            let failure = Failure::of(&path, error);
            let wanted = || rights::wanted(Right::Ptrace, ", or as the user of the process");
            if denied { failure.or_turn_on(wanted()) } else { failure }
        })?;
        Ok(Clear { file, longest: Duration::ZERO, all: Duration::ZERO })
    }

    fn write(&mut self, what: &[u8]) -> io::Result<()> {
        let began = Instant::now();
        let written = self.file.write(what);
        let took = began.elapsed();
        self.longest = self.longest.max(took);
        self.all += took;
        written.map(drop)
    }
}

/// Begins intervals for every method that reads used bits: flushes the TLB of a process, so that the processor sets
/// the used bit of each page again that it uses. With soft-dirty bits in the kernel the same call would write-protect
/// pages, which costs the process a fault each, so there it is not done.
pub(super) struct Flush(Option<Clear>);

impl Flush {
    pub(super) fn open(pid: i32) -> Flush {
        Flush(if soft_dirty_works().is_ok() { None } else { Clear::open(pid).ok() })
    }
    pub(super) fn works(&self) -> bool {
        self.0.is_some()
    }
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.0.as_mut().map_or(Ok(()), |clear| clear.write(SOFT_DIRTY))
    }
    pub(super) fn waits(&self) -> [Duration; 2] {
        self.0.as_ref().map_or([Duration::ZERO; 2], |clear| [clear.longest, clear.all])
    }
}

/// Used bits, counted by mapping in smaps.
pub(super) struct ClearRefs {
    clear: Clear,
    flush: Flush,
}

impl ClearRefs {
    pub(super) fn open(pid: i32) -> Result<ClearRefs, Failure> {
        Ok(ClearRefs { clear: Clear::open(pid)?, flush: Flush::open(pid) })
    }
}

impl Watcher for ClearRefs {
    fn begin(&mut self, _: &[Present], _: Duration) -> io::Result<()> {
        self.clear.write(USED)?;
        self.flush.flush()
    }
    fn end(&mut self) -> io::Result<Seen> {
        Ok(Seen::InSmaps)
    }
    fn flushes(&self) -> bool {
        self.flush.works()
    }
    fn waits(&self) -> [Duration; 2] {
        let [longest, all] = self.flush.waits();
        [self.clear.longest.max(longest), self.clear.all + all]
    }
}

/// Pages that were stored into.
pub(super) struct SoftDirty {
    pid: i32,
    clear: Clear,
    present: Vec<Range<u64>>,
}

impl SoftDirty {
    pub(super) fn open(pid: i32) -> Result<SoftDirty, Failure> {
        soft_dirty_works()?;
        Ok(SoftDirty { pid, clear: Clear::open(pid)?, present: Vec::new() })
    }
}

impl Watcher for SoftDirty {
    fn begin(&mut self, present: &[Present], _: Duration) -> io::Result<()> {
        self.present = joined(present);
        self.clear.write(SOFT_DIRTY)
    }
    fn end(&mut self) -> io::Result<Seen> {
        let mut used = Vec::new();
        for pages in &self.present {
            used.extend(scan(self.pid, pages.clone(), Category::SoftDirty)?);
        }
        Ok(Seen::Pages(used))
    }
    fn waits(&self) -> [Duration; 2] {
        [self.clear.longest, self.clear.all]
    }
}

/// Pages in as few ranges as possible; frames need not be neighbours.
fn joined(present: &[Present]) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for Present { pages, .. } in present {
        match ranges.last_mut() {
            Some(last) if last.end == pages.start => last.end = pages.end,
            _ => ranges.push(pages.clone()),
        }
    }
    ranges
}

/// New memory of this process of two pages with contents, of which the first is stored into after `clear_refs`. It was
/// not used before, so no entry of a TLB hides the store.
fn one_of_two(what: &[u8]) -> Result<Memory, Failure> {
    let memory = Memory::anonymous(2 * PAGE as usize).map_err(|e| Failure::of("mmap", e))?;
    let (from, into) = pipe_with(PipeFlags::CLOEXEC).map_err(|e| Failure::of("a pipe", e))?;
    rustix::io::write(&into, b"x").map_err(|e| Failure::of("write to a pipe", e))?;
    populate(&memory.addresses()).map_err(|e| Failure::of("MADV_POPULATE_WRITE", e))?;
    Clear::open(std::process::id() as i32)?.write(what).map_err(|e| Failure::of("clear_refs", e))?;
    memory.read_from(&from).map_err(|e| Failure::of("a store", e))?;
    Ok(memory)
}

/// Its first page.
fn first(memory: &Memory) -> u64 {
    memory.addresses().start as u64 / PAGE
}

/// Tries soft-dirty bits on memory of this process; once, as the kernel does not change.
pub fn soft_dirty_works() -> Tried {
    static TRIED: OnceLock<Tried> = OnceLock::new();
    let attempt = || {
        let memory = one_of_two(SOFT_DIRTY)?;
        let first = first(&memory);
        let dirty = scan(std::process::id() as i32, first..first + 2, Category::SoftDirty)
            .map_err(|e| Failure::of("PAGEMAP_SCAN", e).or_turn_on("a kernel of Linux 6.7 or newer"))?;
        match matches!(&dirty[..], [one] if *one == (first..first + 1)) {
            true => Ok("the page that was stored into was told from the other".to_owned()),
            false => Err(Failure::new("a page that was not stored into is not told from one that was")
                .or_turn_on("a kernel built with CONFIG_MEM_SOFT_DIRTY")),
        }
    };
    TRIED.get_or_init(attempt).clone()
}

/// Tries used bits on this process.
pub fn clear_refs_works() -> Tried {
    let memory = one_of_two(USED)?;
    let first = first(&memory);
    let maps = procfs::process::Process::myself()
        .and_then(|process| process.smaps())
        .map_err(|e| Failure::new(format!("smaps: {e}")))?;
    let here = maps.iter().find(|map| (map.address.0..map.address.1).contains(&(first * PAGE)));
    match here.and_then(|map| map.extension.map.get("Referenced").copied()) {
        None => Err(Failure::new("smaps does not say what was referenced")
            .or_turn_on("a kernel built with CONFIG_PROC_PAGE_MONITOR")),
        Some(0) => Err(Failure::new("a page that was used is not in Referenced of smaps")),
        Some(bytes) => {
            let flushed = if soft_dirty_works().is_ok() { "without" } else { "with" };
            Ok(format!("{} KB of a mapping were used after clear_refs; {flushed} a flush of the TLB", bytes >> 10))
        }
    }
}
