//! System calls by which this process chooses its memory: transparent huge pages of one size, or none; whether freed
//! memory stays.

use std::io;
use std::ops::Range;

/// Mappings that a process may have by default, less a reserve for its other mappings.
const MAPPINGS: u64 = 60_000;

fn done(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// This process gets no transparent huge pages from now on, even if it asks for them.
///
/// # Errors
/// The system refuses the call, which Linux does not.
pub fn no_huge_pages() -> io::Result<()> {
    // SAFETY: plain numbers.
    done(unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) })
}

/// Whole base pages of a piece of this process's memory.
fn pages(at: &Range<usize>) -> Range<u64> {
    const PAGE: u64 = 4096;
    (at.start as u64).next_multiple_of(PAGE)..at.end as u64 / PAGE * PAGE
}

fn advise(at: &Range<u64>, advice: libc::c_int) -> io::Result<()> {
    let (start, length) = (at.start as usize as *mut libc::c_void, (at.end - at.start) as usize);
    // SAFETY: no advice that is given here changes what is in memory.
    done(unsafe { libc::madvise(start, length, advice) })
}

/// Populates memory of this process as by stores. Where the first access is a load, Linux maps the one page of zeros,
/// and a later store gets a base page, never one of multi-size THP.
///
/// # Errors
/// There is not enough memory. A kernel without this advice (before Linux 5.14) is no error: memory is populated when
/// it is used.
pub fn populate(at: &Range<usize>) -> io::Result<()> {
    let at = pages(at);
    if at.is_empty() {
        return Ok(());
    }
    match advise(&at, libc::MADV_POPULATE_WRITE) {
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) => Ok(()),
        result => result,
    }
}

/// Asks for memory of this process to be swapped out.
///
/// # Errors
/// A kernel without this advice (before Linux 5.4).
pub fn page_out(at: &Range<usize>) -> io::Result<()> {
    advise(&pages(at), libc::MADV_PAGEOUT)
}

/// Places at which mappings must be cut so that no mapping holds an aligned block of `larger` bytes, while every
/// aligned block of half that size lies in one mapping.
fn cuts(at: &Range<u64>, larger: u64) -> impl Iterator<Item = Range<u64>> {
    // Not the start, which is a boundary already.
    let first = (at.start + 1).saturating_sub(larger / 2).div_ceil(larger) * larger + larger / 2;
    let mut starts = std::iter::once(at.start).chain((first..at.end).step_by(larger as usize)).peekable();
    let end = at.end;
    std::iter::from_fn(move || starts.next().map(|start| start..starts.peek().copied().unwrap_or(end)))
}

/// Asks for transparent huge pages for memory of this process at `at` that was not touched yet: of the largest size
/// below `larger`, if that is given. The kernel takes the largest size that fits into a mapping. So the memory is cut
/// into mappings into which `larger` does not fit: every other one is excluded from core dumps, which keeps them apart.
///
/// # Errors
/// The kernel has no transparent huge pages, or `larger` would make too many mappings.
pub fn huge_pages_for(at: &Range<usize>, larger: Option<u64>) -> io::Result<()> {
    let at = pages(at);
    if at.is_empty() {
        return Ok(());
    }
    advise(&at, libc::MADV_HUGEPAGE)?;
    let Some(larger) = larger else { return Ok(()) };
    let pieces = (at.end - at.start) / larger;
    if pieces > MAPPINGS {
        return Err(io::Error::other(format!("{pieces} mappings are too many")));
    }
    cuts(&at, larger).step_by(2).try_for_each(|piece| advise(&piece, libc::MADV_DONTDUMP))
}

/// Freed memory of this process stays with it. The words of a recording are buffers that one thread allocates and
/// another frees; by default the allocator gives such memory back to the kernel, and every page of the next buffer is
/// faulted in and cleared again.
pub fn keep_freed_memory() {
    const BUFFER: i32 = 4 << 20;
    // SAFETY: both calls only set parameters of the allocator.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, i32::MAX);
        libc::mallopt(libc::M_MMAP_THRESHOLD, BUFFER);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_block_of_the_larger_size_is_left_whole() {
        let (mega, page) = (1u64 << 20, 4096);
        for at in [0..32 * mega, 3 * page..9 * mega + page, mega..2 * mega, mega + page..3 * mega, 5 * page..6 * page] {
            let pieces: Vec<Range<u64>> = cuts(&at, 2 * mega).collect();
            assert_eq!((pieces[0].start, pieces[pieces.len() - 1].end), (at.start, at.end));
            assert!(pieces.windows(2).all(|two| two[0].end == two[1].start && two[1].start % mega == 0), "{pieces:?}");
            for piece in &pieces {
                let block = piece.start.next_multiple_of(2 * mega);
                assert!(!piece.is_empty() && block + 2 * mega > piece.end, "{piece:?}");
            }
        }
    }

    #[test]
    fn memory_keeps_its_contents() {
        let memory = vec![7u8; 5 << 20];
        let start = memory.as_ptr().addr();
        // A kernel without huge pages refuses; nothing else may.
        if huge_pages_for(&(start..start + memory.len()), Some(2 << 20)).is_ok() {
            assert!(memory.iter().all(|&byte| byte == 7));
        }
        populate(&(start..start + memory.len())).unwrap();
        assert!(memory.iter().all(|&byte| byte == 7));
        assert!(
            huge_pages_for(&(0..1), None).is_ok() && populate(&(0..1)).is_ok(),
            "no whole page: nothing to ask for"
        );
    }
}
