//! CPU time, of this process and of a child that ended.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

/// Waits for a child to end: its status, and the user and system time of it and of all its descendants that were waited
/// for.
pub fn wait(pid: u32) -> io::Result<(ExitStatus, Duration)> {
    loop {
        let mut status = 0;
        // SAFETY: all-zero is a valid rusage; both places are valid for the kernel to write.
        let (got, usage) = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            (libc::wait4(pid as libc::pid_t, &mut status, 0, &mut usage), usage)
        };
        if got >= 0 {
            return Ok((ExitStatus::from_raw(status), time(usage.ru_utime) + time(usage.ru_stime)));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Whether a child has exited, not been killed by a signal. It remains to be waited for, so its process id is not
/// reused.
pub fn has_exited(pid: u32) -> bool {
    // SAFETY: all-zero is a valid siginfo, which the kernel may overwrite.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let how = libc::WEXITED | libc::WNOWAIT | libc::WNOHANG;
        libc::waitid(libc::P_PID, pid, &mut info, how) == 0 && info.si_code == libc::CLD_EXITED
    }
}

/// User and system time of this process so far.
pub fn own_cpu() -> Duration {
    let usage = own();
    time(usage.ru_utime) + time(usage.ru_stime)
}

/// User time of this process so far.
pub fn own_user() -> Duration {
    time(own().ru_utime)
}

fn own() -> libc::rusage {
    // SAFETY: all-zero is a valid rusage, which the call overwrites.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    }
}

fn time(t: libc::timeval) -> Duration {
    Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000)
}
