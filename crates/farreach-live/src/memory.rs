//! The end of this process when it is out of memory; whether it began without standard output.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fmt::{Display, Formatter};
use std::io::{self, Cursor, ErrorKind, Write};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use super::limits::{self, Limit};

/// The system's allocator, except when memory is exhausted: then the process prints a message and exits with a status
/// of its own, where the standard library would abort. For `#[global_allocator]`.
pub struct Allocator;

/// Status of a process that ran out of memory.
static STATUS: AtomicI32 = AtomicI32::new(1);

impl Allocator {
    /// The exit status of a process that runs out of memory from now on; 1 before.
    pub fn set_exit_status(status: u8) {
        STATUS.store(status.into(), Ordering::Relaxed);
    }
}

// SAFETY: every call is passed on to the system's allocator as it is; nothing returns where that gives no memory.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract, which is the same.
        given(unsafe { System.alloc(layout) }, layout.size())
    }
    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        given(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }
    #[inline]
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        given(unsafe { System.realloc(memory, layout, size) }, size)
    }
    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[inline]
fn given(memory: *mut u8, size: usize) -> *mut u8 {
    if memory.is_null() {
        out_of_memory(size);
    }
    memory
}

/// Ends the process. Files being written still have their partial names.
#[cold]
fn out_of_memory(size: usize) -> ! {
    // Other threads may come here too; only the first prints.
    static REPORTED: AtomicBool = AtomicBool::new(false);
    if !REPORTED.swap(true, Ordering::SeqCst) {
        // On the stack, since there is no heap memory.
        let mut text = [0; 256];
        let used = message(&mut text, size, limits::soft(Limit::AddressSpace));
        // SAFETY: the bytes live through the call.
        unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), used) };
    }
    // SAFETY: ends the process at once; nothing of it runs any more.
    unsafe { libc::_exit(STATUS.load(Ordering::Relaxed)) }
}

/// Writes the message; its length.
fn message(to: &mut [u8], size: usize, limit: Option<u64>) -> usize {
    let mut text = Cursor::new(to);
    // Truncated if it does not fit.
    let _ = writeln!(text, "farreach: {}", Refused { size, limit });
    text.position() as usize
}

/// Bytes that the system refused, and the limit of addresses.
struct Refused {
    size: usize,
    limit: Option<u64>,
}

impl Display for Refused {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "out of memory: the system refused {} bytes", self.size)?;
        match self.limit {
            Some(bytes) => write!(f, "; the limit of this process is {} KiB (ulimit -v)", bytes >> 10),
            None => Ok(()),
        }
    }
}

/// The error of a mapping of `size` bytes, with the limit if the system refused it for want of memory.
pub(crate) fn explained(error: io::Error, size: usize) -> io::Error {
    if error.raw_os_error() != Some(libc::ENOMEM) {
        return error;
    }
    io::Error::new(ErrorKind::OutOfMemory, Refused { size, limit: limits::soft(Limit::AddressSpace) }.to_string())
}

/// Standard output was closed when the process began.
static CLOSED: AtomicBool = AtomicBool::new(false);

/// Whether standard output was closed when this process began. The standard library puts /dev/null in its place before
/// `main`, so what is printed there is lost without an error.
pub fn stdout_was_closed() -> bool {
    CLOSED.load(Ordering::Relaxed)
}

extern "C" fn look_at_stdout() {
    // SAFETY: plain numbers; an atomic needs no initialisation.
    let closed = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) } == -1;
    CLOSED.store(closed, Ordering::Relaxed);
}

// SAFETY: the loader calls the functions of this section before `main`, with arguments that this one ignores; it uses
// nothing that is set up later.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = look_at_stdout;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_names_what_was_asked_for_and_the_limit() {
        let mut text = [0; 256];
        let used = message(&mut text, 96, Some(40_000 << 10));
        let expected = "farreach: out of memory: the system refused 96 bytes; the limit of this process is 40000 KiB \
                        (ulimit -v)\n";
        assert_eq!(str::from_utf8(&text[..used]), Ok(expected));
        let used = message(&mut text, usize::MAX, None);
        assert!(text[..used].ends_with(b"18446744073709551615 bytes\n"));
        assert_eq!(message(&mut text[..10], 1, None), 10);
    }
}
