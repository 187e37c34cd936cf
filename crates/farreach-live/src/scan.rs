//! Pages of a process by what its page table says of them: the system call.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

const PAGE: u64 = 4096;
/// Regions asked for at a time.
const REGIONS: usize = 512;

/// What the kernel can tell of a page: `PAGE_IS_*` of linux/fs.h.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Category {
    /// A 2 MB leaf, or a page of hugetlbfs.
    Huge = 1 << 6,
    /// Stored into since the soft-dirty bits were cleared.
    SoftDirty = 1 << 7,
}

/// `struct page_region` of linux/fs.h: pages of the same categories, in bytes.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

/// `struct pm_scan_arg` of linux/fs.h.
#[repr(C)]
#[derive(Default)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    regions: u64,
    regions_len: u64,
    max_pages: u64,
    inverted: u64,
    mask: u64,
    any_of: u64,
    wanted: u64,
}

/// `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: libc::c_ulong =
    3 << 30 | (size_of::<Scan>() as libc::c_ulong) << 16 | (b'f' as libc::c_ulong) << 8 | 16;

/// The pages among `pages` that huge leaves map, ascending.
///
/// # Errors
/// The process is gone or not ours, or the kernel is older than Linux 6.7 and cannot say.
pub fn huge_pages(pid: i32, pages: Range<u64>) -> io::Result<Vec<Range<u64>>> {
    scan(pid, pages, Category::Huge)
}

/// The pages among `pages` that are of this category, ascending.
///
/// # Errors
/// As [`huge_pages`].
pub fn scan(pid: i32, pages: Range<u64>, category: Category) -> io::Result<Vec<Range<u64>>> {
    let pagemap = File::open(format!("/proc/{pid}/pagemap"))?;
    let (mut found, mut start) = (Vec::new(), pages.start * PAGE);
    let mut regions = [Region::default(); REGIONS];
    while start < pages.end * PAGE {
        let mut scan = Scan {
            size: size_of::<Scan>() as u64,
            start,
            end: pages.end * PAGE,
            regions: regions.as_mut_ptr() as u64,
            regions_len: REGIONS as u64,
            mask: category as u64,
            wanted: category as u64,
            ..Scan::default()
        };
        // SAFETY: `scan` is laid out as the kernel expects, and it writes at most `regions_len` elements of `regions`.
        let n = unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN, &raw mut scan) };
        let n = usize::try_from(n).map_err(|_| io::Error::last_os_error())?;
        found.extend(regions[..n.min(REGIONS)].iter().map(|r| r.start / PAGE..r.end / PAGE));
        if scan.walk_end <= start {
            return Err(io::Error::other(format!("PAGEMAP_SCAN stopped at {:#x}", scan.walk_end)));
        }
        start = scan.walk_end;
    }
    Ok(found)
}
