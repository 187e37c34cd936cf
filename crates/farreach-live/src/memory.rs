//! The end of this process when it is out of memory; whether it began without standard output.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fmt::{Display, Formatter};
use std::io::{self, Cursor, ErrorKind, Write};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, Ordering};

use super::limits::{self, Limit};
use super::room::{Room, deadly};

/// The system's allocator, except when memory is exhausted: then the process prints a message and exits with a status
/// of its own, where the standard library would abort, or the kernel would kill the process because its control group
/// may not take more. For `#[global_allocator]`.
pub struct Allocator;

/// Status of a process that ran out of memory.
static STATUS: AtomicI32 = AtomicI32::new(1);

impl Allocator {
    /// The exit status of a process that runs out of memory from now on; 1 before.
    pub fn set_exit_status(status: u8) {
        STATUS.store(status.into(), Ordering::Relaxed);
    }

    /// From now on the allocator looks how much memory there is, each time that this process has taken a good deal of
    /// it.
    pub fn look_ahead() {
        if let Some(room) = deadly() {
            NEXT_LOOK.store(TAKEN.load(Ordering::Relaxed) + step(&room), Ordering::Relaxed);
        }
    }
}

/// Bytes that are in use, but for those that threads have not reported yet.
static TAKEN: AtomicI64 = AtomicI64::new(0);
/// How many are in use when it is time to look.
static NEXT_LOOK: AtomicI64 = AtomicI64::new(i64::MAX);
/// A thread reports what it took when it is so much.
const REPORTED: i64 = 256 << 10;

thread_local! {
    /// Bytes that this thread took, less those that it freed, since its last report.
    static OWN: Cell<i64> = const { Cell::new(0) };
}

/// So much is left for what cannot be refused: stacks, tables of the kernel, the message.
fn least(room: &Room) -> u64 {
    (room.bytes / 64).min(6 << 20)
}

/// Bytes to take until the next look: a quarter of what is left, but no more than what can be taken in an instant.
fn step(room: &Room) -> i64 {
    (room.left.saturating_sub(least(room)) / 4).clamp(1 << 20, 64 << 20) as i64
}

/// Notes that this thread takes so many bytes, or frees them. `at_once`: bytes of that which are touched now.
#[inline]
fn take(bytes: i64, at_once: usize) {
    // A thread that ends need not report.
    let _ = OWN.try_with(|own| {
        let sum = own.get() + bytes;
        if (-REPORTED..REPORTED).contains(&sum) {
            own.set(sum);
        } else {
            own.set(0);
            report(sum, at_once);
        }
    });
}

#[cold]
fn report(bytes: i64, at_once: usize) {
    let taken = TAKEN.fetch_add(bytes, Ordering::Relaxed) + bytes;
    if bytes > 0 && taken >= NEXT_LOOK.load(Ordering::Relaxed) {
        look(taken, at_once);
    }
}

/// Looks whether enough memory is left. It takes a little memory itself, which does not come here again: it is less
/// than what a thread reports.
fn look(taken: i64, at_once: usize) {
    static LOOKING: AtomicBool = AtomicBool::new(false);
    if LOOKING.swap(true, Ordering::Acquire) {
        return;
    }
    let room = deadly();
    if let Some(room) = room.as_ref().filter(|room| room.left < least(room) + at_once as u64) {
        end(&Refused::Soon { size: at_once.max(REPORTED as usize), room });
    }
    NEXT_LOOK.store(room.map_or(i64::MAX, |room| taken + step(&room)), Ordering::Relaxed);
    LOOKING.store(false, Ordering::Release);
}

// SAFETY: every call is passed on to the system's allocator as it is; nothing returns where that gives no memory.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        take(layout.size() as i64, layout.size());
        // SAFETY: the caller keeps the contract, which is the same.
        given(unsafe { System.alloc(layout) }, layout.size())
    }
    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // Zeros are not touched yet.
        take(layout.size() as i64, 0);
        // SAFETY: as above.
        given(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }
    #[inline]
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        take(size as i64 - layout.size() as i64, size.saturating_sub(layout.size()));
        // SAFETY: as above.
        given(unsafe { System.realloc(memory, layout, size) }, size)
    }
    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        take(-(layout.size() as i64), 0);
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

/// Ends the process.
#[cold]
fn out_of_memory(size: usize) -> ! {
    end(&Refused::Now { size, limit: limits::soft(Limit::AddressSpace) })
}

/// Ends the process with a message. Files being written still have their partial names.
fn end(refused: &Refused<'_>) -> ! {
    // Other threads may come here too; only the first prints.
    static ENDED: AtomicBool = AtomicBool::new(false);
    if !ENDED.swap(true, Ordering::SeqCst) {
        // On the stack, since there may be no heap memory.
        let mut text = [0; 512];
        let used = message(&mut text, refused);
        // SAFETY: the bytes live through the call.
        unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), used) };
    }
    // SAFETY: ends the process at once; nothing of it runs any more.
    unsafe { libc::_exit(STATUS.load(Ordering::Relaxed)) }
}

/// Writes the message; its length.
fn message(to: &mut [u8], refused: &Refused<'_>) -> usize {
    let mut text = Cursor::new(to);
    // Truncated if it does not fit.
    let _ = writeln!(text, "farreach: {refused}");
    text.position() as usize
}

/// Why there is no memory.
enum Refused<'a> {
    /// Bytes that the system refused, and the limit of addresses.
    Now { size: usize, limit: Option<u64> },
    /// Bytes that it would give, but not let this process use.
    Soon { size: usize, room: &'a Room },
}

impl Display for Refused<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Refused::Now { size, limit } => {
                write!(f, "out of memory: the system refused {size} bytes")?;
                match limit {
                    Some(bytes) => write!(f, "; the limit of this process is {} KiB (ulimit -v)", bytes >> 10),
                    None => Ok(()),
                }
            }
            Refused::Soon { size, room } => {
                write!(f, "out of memory: {} KiB more are needed; {room}", size >> 10)
            }
        }
    }
}

/// The error of a mapping of `size` bytes, with the limit if the system refused it for want of memory.
pub(crate) fn explained(error: io::Error, size: usize) -> io::Error {
    if error.raw_os_error() != Some(libc::ENOMEM) {
        return error;
    }
    let refused = Refused::Now { size, limit: limits::soft(Limit::AddressSpace) };
    io::Error::new(ErrorKind::OutOfMemory, refused.to_string())
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
    use crate::room::Bound;

    #[test]
    fn the_message_names_what_was_asked_for_and_the_limit() {
        let mut text = [0; 256];
        let used = message(&mut text, &Refused::Now { size: 96, limit: Some(40_000 << 10) });
        let expected = "farreach: out of memory: the system refused 96 bytes; the limit of this process is 40000 KiB \
                        (ulimit -v)\n";
        assert_eq!(str::from_utf8(&text[..used]), Ok(expected));
        let used = message(&mut text, &Refused::Now { size: usize::MAX, limit: None });
        assert!(text[..used].ends_with(b"18446744073709551615 bytes\n"));
        assert_eq!(message(&mut text[..10], &Refused::Now { size: 1, limit: None }), 10);
        let bound = Bound::Group("/cg/memory.max".into());
        let room = Room { bound, bytes: 512 << 20, left: 7 << 20 };
        let used = message(&mut text, &Refused::Soon { size: 64 << 20, room: &room });
        let expected = "farreach: out of memory: 65536 KiB more are needed; 7 MiB of the 512 MiB that the control \
                        group allows (/cg/memory.max) are left\n";
        assert_eq!(str::from_utf8(&text[..used]), Ok(expected));
    }
}
