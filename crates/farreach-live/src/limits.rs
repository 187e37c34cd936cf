//! Limits of this process (`ulimit`) that decide whether a program can be recorded.

use farreach_types::{Error, Result};

/// A resource with a limit.
#[derive(Clone, Copy)]
pub enum Limit {
    /// Bytes of addresses (`ulimit -v`).
    AddressSpace,
    /// Open files (`ulimit -n`).
    OpenFiles,
    /// Bytes of the stack (`ulimit -s`).
    Stack,
}

/// Descriptors that Valgrind reserves for itself above those of the program.
const RESERVED_FILES: u64 = 12;
/// Open files that every program may rely on: `_POSIX_OPEN_MAX`.
const FEWEST_FILES: u64 = 20;

/// The limit in force and the one up to which it may be raised.
fn both(limit: Limit) -> Option<(u64, u64)> {
    let resource = match limit {
        Limit::AddressSpace => libc::RLIMIT_AS,
        Limit::OpenFiles => libc::RLIMIT_NOFILE,
        Limit::Stack => libc::RLIMIT_STACK,
    };
    let mut found = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the place is valid for the kernel to write.
    (unsafe { libc::getrlimit(resource, &mut found) } == 0).then_some((found.rlim_cur, found.rlim_max))
}

/// The limit in force, if there is one.
pub fn soft(limit: Limit) -> Option<u64> {
    both(limit).map(|(soft, _)| soft).filter(|&soft| soft != libc::RLIM_INFINITY)
}

/// Refuses a limit of open files under which the recorder would leave the program too few.
pub fn check_open_files() -> Result<()> {
    match both(Limit::OpenFiles).and_then(|(soft, hard)| too_few_files(soft, hard)) {
        None => Ok(()),
        Some(what) => {
            Err(Error::Trace { file: "recorder".into(), place: "limit of open files (ulimit -n)".into(), what })
        }
    }
}

/// Bytes of the stack that farreach needs.
const STACK: u64 = 512 << 10;

/// Refuses a limit of the stack under which this process could not even read its arguments.
pub fn check_stack() -> Result<()> {
    at_least("limit of the stack (ulimit -s)", Limit::Stack, STACK)
}

/// Refuses a limit of addresses below what is needed.
pub fn check_addresses(needed: u64) -> Result<()> {
    at_least("limit of addresses (ulimit -v)", Limit::AddressSpace, needed)
}

fn at_least(name: &str, limit: Limit, needed: u64) -> Result<()> {
    match soft(limit).filter(|&bytes| bytes < needed) {
        None => Ok(()),
        Some(bytes) => Err(Error::Trace {
            file: name.into(),
            place: format!("{} KiB", bytes >> 10),
            what: format!("at least {} KiB are needed", needed >> 10),
        }),
    }
}

fn too_few_files(soft: u64, hard: u64) -> Option<String> {
    let left = hard.saturating_sub(RESERVED_FILES);
    (left < soft && left < FEWEST_FILES).then(|| {
        format!(
            "{soft}, which can be raised to {hard}: the recorder needs {RESERVED_FILES} for itself, which leaves the \
             program {left}; a hard limit of at least {} is needed",
            FEWEST_FILES + RESERVED_FILES
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_keeps_its_files_or_has_as_many_as_posix_promises() {
        for (soft, hard) in [(1024, 1 << 20), (1024, 1024), (32, 32), (12, 24), (10, 22), (u64::MAX, u64::MAX)] {
            assert_eq!(too_few_files(soft, hard), None, "{soft}, {hard}");
        }
        for (soft, hard) in [(10, 10), (16, 16), (31, 31), (12, 23)] {
            assert!(too_few_files(soft, hard).is_some_and(|why| why.contains("at least 32")), "{soft}, {hard}");
        }
    }
}
