//! Memory: memfd, page tables as files, huge pages that are set aside, swapping; and the kernel's version.

use crate::rights::{self, Right};
use std::io;

use procfs::process::{MemoryPageFlags, PageInfo, Process};
use rustix::fd::OwnedFd;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::pipe::{PipeFlags, pipe_with};

use super::raw::Memory;
use super::{Failure, Tried, setting};
use crate::advice::{page_out, populate};
use crate::scan::huge_pages;

const PAGE: usize = 4096;

/// A memfd of one page with contents, its mapping, which was not touched yet, and a pipe.
pub(super) struct Page {
    file: OwnedFd,
    pub memory: Memory,
    /// Ends of the pipe.
    pub from: OwnedFd,
    pub into: OwnedFd,
}

const CONTENTS: [u8; PAGE] = [0x5a; PAGE];
const OTHER: [u8; PAGE] = [0xa5; PAGE];

impl Page {
    pub fn new() -> Result<Page, Failure> {
        let file = memfd_create("farreach-try", MemfdFlags::CLOEXEC).map_err(|e| Failure::of("memfd_create", e))?;
        ftruncate(&file, PAGE as u64).map_err(|e| Failure::of("ftruncate of a memfd", e))?;
        let written = rustix::io::pwrite(&file, &CONTENTS, 0).map_err(|e| Failure::of("write to a memfd", e))?;
        if written != PAGE {
            return Err(Failure::new(format!("write to a memfd: {written} of {PAGE} bytes")));
        }
        let memory = Memory::of_file(&file, PAGE).map_err(|e| Failure::of("mmap of a memfd", e))?;
        let (from, into) = pipe_with(PipeFlags::CLOEXEC).map_err(|e| Failure::of("a pipe", e))?;
        Ok(Page { file, memory, from, into })
    }

    /// Compares what is in the pipe with the contents.
    pub fn check(&self) -> Result<(), Failure> {
        let mut bytes = [0; PAGE];
        let got = rustix::io::read(&self.from, &mut bytes).map_err(|e| Failure::of("read from a pipe", e))?;
        if bytes[..got] == CONTENTS { Ok(()) } else { Err(Failure::new("the mapped page has other contents")) }
    }

    /// Loads the page, and compares.
    pub fn check_loads(&self) -> Result<(), Failure> {
        self.memory.write_to(&self.into).map_err(|e| Failure::of("a load from a memfd", e))?;
        self.check()
    }

    /// Fills the pipe with other contents.
    pub fn send_other(&self) -> Result<(), Failure> {
        rustix::io::write(&self.into, &OTHER).map(drop).map_err(|e| Failure::of("write to a pipe", e))
    }

    /// Compares the file with the other contents.
    pub fn check_other(&self) -> Result<(), Failure> {
        let mut bytes = [0; PAGE];
        rustix::io::pread(&self.file, &mut bytes, 0).map_err(|e| Failure::of("read from a memfd", e))?;
        if bytes == OTHER { Ok(()) } else { Err(Failure::new("a store into the mapping is not in the file")) }
    }
}

/// A memfd as shared memory: loads and stores of the mapping are those of the file.
pub fn memfd() -> Tried {
    let page = Page::new()?;
    page.check_loads()?;
    page.send_other()?;
    page.memory.read_from(&page.from).map_err(|e| Failure::of("a store into a memfd", e))?;
    page.check_other()?;
    Ok("mapped shared, loaded from and stored into".into())
}

/// `PAGEMAP_SCAN`, which tells 2 MB pages.
pub fn page_map_scan() -> Tried {
    let byte = 0u8;
    let page = (&raw const byte).addr() as u64 / PAGE as u64;
    let scanned = huge_pages(std::process::id() as i32, page..page + 1);
    scanned.map_err(|e| Failure::of("PAGEMAP_SCAN", e).or_turn_on("a kernel of Linux 6.7 or newer"))?;
    Ok("a page of this process was scanned".into())
}

/// A page of hugetlbfs, of the default size.
pub fn hugetlb() -> Tried {
    let size = setting("/proc/meminfo").unwrap_or_default();
    let size = size.lines().find_map(|line| line.strip_prefix("Hugepagesize:"));
    let kilobytes = size.and_then(|text| text.split_whitespace().next()?.parse::<usize>().ok());
    let kilobytes =
        kilobytes.ok_or_else(|| Failure::new("/proc/meminfo names no size: the kernel has no hugetlbfs"))?;
    let failed = |call, error: io::Error| {
        let none_free = error.raw_os_error() == Some(libc::ENOMEM);
        let failure = Failure::of(call, error);
        if none_free { failure.or_turn_on("sudo sysctl vm.nr_hugepages=64") } else { failure }
    };
    let memory = Memory::huge(kilobytes << 10).map_err(|e| failed("mmap with MAP_HUGETLB", e))?;
    populate(&memory.addresses()).map_err(|e| failed("the first store into it", e))?;
    Ok(format!("a page of {} MB was mapped", kilobytes >> 10))
}

/// Pages of this process are swapped out.
pub fn swap_out() -> Tried {
    const PAGES: usize = 256;
    let memory = vec![0x5au8; (PAGES + 1) * PAGE];
    let at = memory.as_ptr().addr()..memory.as_ptr().addr() + memory.len();
    page_out(&at).map_err(|e| Failure::of("MADV_PAGEOUT", e))?;
    let first = at.start.div_ceil(PAGE);
    let infos = Process::myself()
        .and_then(|process| process.pagemap()?.get_range_info(first..first + PAGES))
        .map_err(|e| Failure::new(format!("pagemap: {e}")))?;
    let swapped = infos.iter().filter(|info| matches!(info, PageInfo::SwapPage(_))).count();
    if std::hint::black_box(&memory).iter().any(|byte| *byte != 0x5a) {
        return Err(Failure::new("memory that came back has other contents"));
    }
    match swapped {
        0 => Err(Failure::new("no page was swapped out").or_turn_on(
            "sudo fallocate -l 4G /swapfile && sudo chmod 600 /swapfile && sudo mkswap /swapfile && \
                         sudo swapon /swapfile",
        )),
        n => Ok(format!("{n} of {PAGES} pages were swapped out and came back")),
    }
}

/// The frame of a page of this process, which the kernel shows to CAP_SYS_ADMIN alone.
pub fn frames() -> Tried {
    let memory = [1u8];
    let page = std::hint::black_box(&memory).as_ptr().addr() / PAGE;
    let infos = Process::myself()
        .and_then(|process| process.pagemap()?.get_range_info(page..page + 1))
        .map_err(|e| Failure::new(format!("pagemap: {e}")))?;
    let Some(PageInfo::MemoryPage(flags)) = infos.first() else {
        return Err(Failure::new("pagemap: a page in use is not there"));
    };
    if !flags.contains(MemoryPageFlags::PRESENT) {
        return Err(Failure::new("pagemap: a page in use is not present"));
    }
    match flags.get_page_frame_number().0 {
        0 => Err(Failure::new("pagemap shows no frames: CAP_SYS_ADMIN is missing")
            .or_turn_on(rights::wanted(Right::Admin, ""))),
        _ => Ok("pagemap shows frames".into()),
    }
}

/// The version of the kernel: whether it is new enough for all that farreach may use.
pub fn kernel() -> Tried {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|part| part.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version >= OLDEST {
        return Ok(format!("Linux {release}"));
    }
    Err(Failure::new(format!("Linux {release}; {}.{} or newer is needed", OLDEST.0, OLDEST.1)))
}

/// Write protection of shared memory by userfaultfd, and its device.
const OLDEST: (u32, u32) = (5, 19);
