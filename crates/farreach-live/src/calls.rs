//! Names of system calls that the recorder does not pass on.

/// The name of a system call of x86-64, if it is one of those that Valgrind may not know or passes on in part.
pub fn call_name(number: u64) -> String {
    const NAMED: [(u64, &str); 47] = [
        (25, "mremap"),
        (101, "ptrace"),
        (134, "uselib"),
        (139, "sysfs"),
        (153, "vhangup"),
        (160, "setrlimit"),
        (163, "acct"),
        (167, "swapon"),
        (168, "swapoff"),
        (169, "reboot"),
        (179, "quotactl"),
        (246, "kexec_load"),
        (279, "move_pages"),
        (302, "prlimit64"),
        (304, "open_by_handle_at"),
        (317, "seccomp"),
        (320, "kexec_file_load"),
        (321, "bpf"),
        (323, "userfaultfd"),
        (324, "membarrier"),
        (333, "io_pgetevents"),
        (424, "pidfd_send_signal"),
        (434, "pidfd_open"),
        (436, "close_range"),
        (437, "openat2"),
        (438, "pidfd_getfd"),
        (439, "faccessat2"),
        (440, "process_madvise"),
        (441, "epoll_pwait2"),
        (442, "mount_setattr"),
        (443, "quotactl_fd"),
        (444, "landlock_create_ruleset"),
        (445, "landlock_add_rule"),
        (446, "landlock_restrict_self"),
        (447, "memfd_secret"),
        (448, "process_mrelease"),
        (449, "futex_waitv"),
        (450, "set_mempolicy_home_node"),
        (451, "cachestat"),
        (452, "fchmodat2"),
        (453, "map_shadow_stack"),
        (454, "futex_wake"),
        (455, "futex_wait"),
        (456, "futex_requeue"),
        (457, "statmount"),
        (458, "listmount"),
        (462, "mseal"),
    ];
    match NAMED.binary_search_by_key(&number, |&(n, _)| n) {
        Ok(at) => NAMED[at].1.to_owned(),
        Err(_) => format!("system call {number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::call_name;

    #[test]
    fn calls_are_named_as_the_system_numbers_them() {
        for (number, name) in [
            (libc::SYS_mremap, "mremap"),
            (libc::SYS_prlimit64, "prlimit64"),
            (libc::SYS_seccomp, "seccomp"),
            (libc::SYS_userfaultfd, "userfaultfd"),
            (libc::SYS_pidfd_open, "pidfd_open"),
            (libc::SYS_process_madvise, "process_madvise"),
            (libc::SYS_landlock_create_ruleset, "landlock_create_ruleset"),
            (libc::SYS_fchmodat2, "fchmodat2"),
            (libc::SYS_mseal, "mseal"),
            (libc::SYS_acct, "acct"),
            (libc::SYS_open_by_handle_at, "open_by_handle_at"),
            (1_000_000, "system call 1000000"),
        ] {
            assert_eq!(call_name(number as u64), name);
        }
    }
}
