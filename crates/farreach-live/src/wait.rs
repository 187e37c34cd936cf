//! CPU time of this process.

use std::time::Duration;

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
