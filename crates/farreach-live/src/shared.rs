//! Memory shared with recorders: the only unsafe code of the reader, together with `signals` and `wait`.

use super::memory;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

/// A file mapped for reading and writing, as words that other processes may change at any time.
pub struct Shared {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to this value until it is dropped; all access is atomic or, for chunks, confined to
// memory that the protocol gives to the reader alone.
unsafe impl Send for Shared {}

impl Shared {
    /// Maps the first `len` bytes, which the file must have.
    pub fn map(file: &File, len: usize) -> io::Result<Shared> {
        if file.metadata()?.len() < len as u64 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, format!("shorter than {len} bytes")));
        }
        // SAFETY: a new mapping at a place of the system's choice; nothing of this process lies there.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(memory::explained(io::Error::last_os_error(), len));
        }
        let base = NonNull::new(at.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))?;
        Ok(Shared { base, len })
    }

    fn at(&self, offset: usize, bytes: usize, align: usize) -> *mut u8 {
        assert!(offset.checked_add(bytes).is_some_and(|end| end <= self.len) && offset.is_multiple_of(align));
        // SAFETY: inside the mapping, as just checked.
        unsafe { self.base.as_ptr().add(offset) }
    }

    /// The 32-bit word at byte `offset`.
    pub fn u32(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: in bounds and aligned (checked by `at`; the mapping itself is page aligned), lives as long as self.
        unsafe { AtomicU32::from_ptr(self.at(offset, 4, 4).cast()) }
    }

    /// The 64-bit word at byte `offset`.
    pub fn u64(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: as for u32.
        unsafe { AtomicU64::from_ptr(self.at(offset, 8, 8).cast()) }
    }

    /// Takes `count` words out of a chunk that belongs to the reader: copies them and leaves zeros.
    pub fn take_words(&self, offset: usize, count: usize) -> Vec<u64> {
        let from: *mut u64 = self.at(offset, 8 * count, 8).cast();
        let mut words = Vec::with_capacity(count);
        // SAFETY: in bounds and aligned; the writer has published this chunk and does not touch it until it is handed
        // back, or is dead.
        unsafe {
            std::ptr::copy_nonoverlapping(from, words.as_mut_ptr(), count);
            std::ptr::write_bytes(from, 0, count);
            words.set_len(count);
        }
        words
    }

    /// Wakes the waiters of the 32-bit word at `offset`.
    pub fn wake(&self, offset: usize) {
        // SAFETY: FUTEX_WAKE only takes the address, which is in bounds.
        unsafe { libc::syscall(libc::SYS_futex, self.at(offset, 4, 4), libc::FUTEX_WAKE, i32::MAX) };
    }

    /// Sleeps until woken, but not if the word at `offset` is no longer `value`, and not longer than `patience`.
    pub fn wait(&self, offset: usize, value: u32, patience: Duration) {
        let time = libc::timespec { tv_sec: patience.as_secs() as i64, tv_nsec: i64::from(patience.subsec_nanos()) };
        // SAFETY: the word is in bounds and the time is valid during the call. Callers check again after every outcome.
        unsafe { libc::syscall(libc::SYS_futex, self.at(offset, 4, 4), libc::FUTEX_WAIT, value, &raw const time) };
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `map`; no reference into it outlives self.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}
