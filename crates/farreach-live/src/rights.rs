//! What would allow a thing that the kernel refused: root, or, where this is root already, what root lacks.

use std::fs;

/// A right that root has, and that a container may take from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Right {
    /// To look into processes of others.
    Ptrace,
    /// To see frames, and more.
    Admin,
    /// To open files of others.
    Files,
}

impl Right {
    /// Name, and number (Linux, `capability.h`).
    fn capability(self) -> (&'static str, u32) {
        match self {
            Right::Files => ("CAP_DAC_OVERRIDE", 1),
            Right::Ptrace => ("CAP_SYS_PTRACE", 19),
            Right::Admin => ("CAP_SYS_ADMIN", 21),
        }
    }
}

/// What would allow it. `or_else`: who else may do it, behind `as root`.
pub fn wanted(right: Right, or_else: &str) -> String {
    // SAFETY: it only returns a number.
    let is_root = unsafe { libc::geteuid() } == 0;
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let set = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("CapEff:")?.trim(), 16).ok());
    said(right, is_root, set.unwrap_or(u64::MAX), or_else)
}

/// `set`: capabilities as bits.
fn said(right: Right, is_root: bool, set: u64, or_else: &str) -> String {
    let (name, number) = right.capability();
    match (is_root, set >> number & 1 == 1) {
        (false, _) => format!("run farreach as root{or_else}"),
        (true, false) => format!(
            "root lacks {name} here, as in a container: run farreach outside of it, or start the container with \
             --cap-add {}",
            name.trim_start_matches("CAP_")
        ),
        (true, true) => format!(
            "root is refused here although it has {name}: a security module, or what runs this container, forbids it"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_not_told_to_be_root() {
        let all = u64::MAX;
        assert_eq!(said(Right::Ptrace, false, all, ", or as x"), "run farreach as root, or as x");
        let without = said(Right::Ptrace, true, all & !(1 << 19), "");
        assert!(without.starts_with("root lacks CAP_SYS_PTRACE here") && without.ends_with("--cap-add SYS_PTRACE"));
        assert!(said(Right::Files, true, all & !(1 << 1), "").starts_with("root lacks CAP_DAC_OVERRIDE"));
        assert!(
            said(Right::Admin, true, 1 << 21, "").starts_with("root is refused here although it has CAP_SYS_ADMIN")
        );
    }
}
