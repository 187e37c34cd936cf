//! Interrupts (Ctrl-C, termination, the end of the terminal) while a program is being recorded.
//!
//! A terminal sends its Ctrl-C to the program too, which may end in its own way. A signal from another process (`kill`)
//! reached farreach alone and is passed on.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

static RECEIVED: AtomicU32 = AtomicU32::new(0);
static TO_FORWARD: AtomicU32 = AtomicU32::new(0);
/// Signals since the outermost watch began.
static ALL: AtomicU32 = AtomicU32::new(0);
static FIRST: AtomicU32 = AtomicU32::new(0);
/// How many watches there are, and what was in force before the first.
static WATCHES: Mutex<(u32, Vec<(libc::c_int, libc::sigaction)>)> = Mutex::new((0, Vec::new()));

/// Number of signals at which farreach ends at once: the first two let it finish its files.
const ENOUGH: u32 = 3;

extern "C" fn note(signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    RECEIVED.fetch_add(1, Ordering::SeqCst);
    let _ = FIRST.compare_exchange(0, signal as u32, Ordering::SeqCst, Ordering::SeqCst);
    if ALL.fetch_add(1, Ordering::SeqCst) + 1 >= ENOUGH {
        // SAFETY: both may be called in a handler; the signal is delivered when it returns.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
    }
    // SAFETY: the kernel passes a valid siginfo to SA_SIGINFO handlers.
    let from_process = unsafe { info.as_ref() }.is_some_and(|i| i.si_code <= libc::SI_USER);
    if from_process {
        TO_FORWARD.store(signal as u32, Ordering::SeqCst);
    }
}

fn watches() -> MutexGuard<'static, (u32, Vec<(libc::c_int, libc::sigaction)>)> {
    WATCHES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Until it is dropped, SIGINT, SIGTERM and SIGHUP are recorded instead of ending farreach. Watches may be nested, also
/// on several threads: a command watches from before it makes its first file until its last is whole, a recorder as
/// long as its program runs. After the last, the handlers from before the first are in force again.
pub struct Watch(());

impl Watch {
    /// Begins to watch. Signals that are ignored (`nohup`, background jobs) stay ignored.
    pub fn begin() -> Watch {
        let mut watches = watches();
        watches.0 += 1;
        if watches.0 > 1 {
            return Watch(());
        }
        for count in [&RECEIVED, &TO_FORWARD, &ALL, &FIRST] {
            count.store(0, Ordering::SeqCst);
        }
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            // SAFETY: all-zero is a valid sigaction; the handler only touches atomics and calls what a handler may
            // call.
            unsafe {
                let mut old: libc::sigaction = std::mem::zeroed();
                if libc::sigaction(signal, std::ptr::null(), &mut old) != 0 || old.sa_sigaction == libc::SIG_IGN {
                    continue;
                }
                let mut new: libc::sigaction = std::mem::zeroed();
                new.sa_sigaction = note as *const () as usize;
                new.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
                if libc::sigaction(signal, &new, std::ptr::null_mut()) == 0 {
                    watches.1.push((signal, old));
                }
            }
        }
        Watch(())
    }

    /// Signals received since the last call, and one that is to be passed on.
    pub fn take(&self) -> (u32, Option<i32>) {
        let forward = TO_FORWARD.swap(0, Ordering::SeqCst);
        (RECEIVED.swap(0, Ordering::SeqCst), (forward != 0).then_some(forward as i32))
    }

    /// The first signal since the outermost watch began.
    pub fn first(&self) -> Option<i32> {
        let first = FIRST.load(Ordering::SeqCst);
        (first != 0).then_some(first as i32)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut watches = watches();
        watches.0 -= 1;
        if watches.0 == 0 {
            for (signal, old) in watches.1.drain(..) {
                // SAFETY: restores what `begin` found.
                unsafe { libc::sigaction(signal, &old, std::ptr::null_mut()) };
            }
        }
    }
}

/// Lets a write beyond the file size limit (`ulimit -f`) fail with an error, which can be reported, instead of ending
/// farreach. Programs that farreach starts are not touched: handlers do not survive exec.
pub fn full_files_are_errors() {
    extern "C" fn nothing(_signal: libc::c_int) {}
    // SAFETY: all-zero is a valid sigaction; the handler does nothing.
    unsafe {
        let mut old: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(libc::SIGXFSZ, std::ptr::null(), &mut old) == 0 && old.sa_sigaction == libc::SIG_DFL {
            let mut new: libc::sigaction = std::mem::zeroed();
            new.sa_sigaction = nothing as *const () as usize;
            new.sa_flags = libc::SA_RESTART;
            libc::sigaction(libc::SIGXFSZ, &new, std::ptr::null_mut());
        }
    }
}

/// Ends farreach by SIGTERM as soon as the process that started it is gone, also by SIGKILL, if the variable `name` holds
/// that process's id. The variable is removed: programs that farreach starts have the environment of a shell's.
///
/// # Safety
/// No other thread runs yet.
pub unsafe fn end_with_parent(name: &str) {
    let Some(value) = std::env::var_os(name) else { return };
    // SAFETY: there is one thread.
    unsafe { std::env::remove_var(name) };
    let parent = || u32::try_from(unsafe { libc::getppid() }).ok();
    let named = value.to_str().and_then(|text| text.parse().ok());
    // Another parent: the variable came by inheritance, from a process that means another child.
    if named.is_none() || named != parent() {
        return;
    }
    // SAFETY: neither call touches memory.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM, 0, 0, 0);
        // It may have gone before the call.
        if named != parent() {
            libc::raise(libc::SIGTERM);
        }
    }
}

/// Sends a signal; a process that is gone is no error.
pub fn send(pid: u32, signal: i32) {
    // SAFETY: plain system call.
    unsafe { libc::kill(pid as libc::pid_t, signal) };
}

/// Locks a file as long as it is open.
pub fn lock(file: &std::fs::File) -> std::io::Result<()> {
    use std::os::fd::AsRawFd;
    // SAFETY: plain numbers.
    let done = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) };
    if done == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Extends a file to this length, with memory reserved for all of it.
pub fn reserve(file: &std::fs::File, bytes: u64) -> std::io::Result<()> {
    use std::os::fd::AsRawFd;
    if file.metadata()?.len() >= bytes {
        return Ok(());
    }
    // SAFETY: plain numbers.
    let done = unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, bytes as libc::off_t) };
    if done == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Bytes free for files in a directory.
pub fn free_bytes(dir: &std::path::Path) -> Option<u64> {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(dir.as_os_str().as_bytes()).ok()?;
    // SAFETY: all-zero is a valid statvfs; the path ends in a zero byte.
    unsafe {
        let mut stat: libc::statvfs = std::mem::zeroed();
        (libc::statvfs(path.as_ptr(), &mut stat) == 0).then(|| stat.f_bavail * stat.f_frsize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_inside_another_loses_no_signal() {
        // Background processes ignore some signals, and a watch leaves ignored signals alone.
        for signal in [libc::SIGINT, libc::SIGTERM] {
            // SAFETY: plain system call.
            assert_ne!(unsafe { libc::signal(signal, libc::SIG_DFL) }, libc::SIG_ERR);
        }
        // SAFETY: plain system call.
        let raise = |signal| assert_eq!(unsafe { libc::raise(signal) }, 0);
        let outer = Watch::begin();
        raise(libc::SIGTERM);
        {
            let inner = Watch::begin();
            assert_eq!(inner.take().0, 1, "what came before the inner one began");
        }
        raise(libc::SIGINT); // does not end this process
        assert_eq!((outer.take().0, outer.take().0, outer.first()), (1, 0, Some(libc::SIGTERM)));
        drop(outer);
        assert_eq!(Watch::begin().first(), None);
    }
}
