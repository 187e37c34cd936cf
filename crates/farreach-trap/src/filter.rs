//! Which system calls of the program stop for the monitor: a seccomp filter, written out as the kernel takes it.
//! (Crates that compile filters know no condition on the instruction pointer. The agent inherits the filter, and by it
//! its calls are told from those of the program.)

use crate::agent::SITE;

/// System calls that stop, so that the monitor can follow, change or refuse them.
const STOPPED: [i64; 17] = [
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mprotect,
    libc::SYS_pkey_mprotect,
    libc::SYS_brk,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_process_madvise,
    libc::SYS_shmat,
    libc::SYS_shmdt,
    libc::SYS_remap_file_pages,
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_set_tid_address,
    libc::SYS_sched_getaffinity,
    libc::SYS_userfaultfd,
    libc::SYS_ptrace,
];

/// System calls that succeed without doing anything. A locked page cannot be unmapped, and the program stays on its
/// processor.
const GRANTED: [i64; 6] = [
    libc::SYS_mlock,
    libc::SYS_mlock2,
    libc::SYS_munlock,
    libc::SYS_mlockall,
    libc::SYS_munlockall,
    libc::SYS_sched_setaffinity,
];

/// System calls that this kernel does not seem to have. A trap restarts a restartable sequence, and programs that have
/// none go on in another way.
const ABSENT: [i64; 2] = [libc::SYS_rseq, 453 /* map_shadow_stack */];

/// Of `seccomp_data`: number, architecture, instruction pointer.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const POINTER: u32 = 8;
const X86_64: u32 = 0xc000_003e;
/// Numbers from here on are of the x32 interface.
const X32: u32 = 1 << 30;

const LOAD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
const IF_EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
const IF_AT_LEAST: u16 = 0x35; // BPF_JMP | BPF_JGE | BPF_K
const RETURN: u16 = 0x06; // BPF_RET | BPF_K

/// An instruction.
fn op(code: u16, k: u32, if_true: u8, if_false: u8) -> libc::sock_filter {
    libc::sock_filter { code, jt: if_true, jf: if_false, k }
}

/// The filter. What is looked at first is the number, so that the kernel remembers of all other calls that they are
/// allowed.
pub fn program() -> Vec<libc::sock_filter> {
    let ret = |value: u32| op(RETURN, value, 0, 0);
    let absent = ret(libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32);
    let mut code = vec![
        op(LOAD, ARCHITECTURE, 0, 0),
        op(IF_EQUAL, X86_64, 1, 0),
        absent,
        op(LOAD, NUMBER, 0, 0),
        op(IF_AT_LEAST, X32, 0, 1),
        absent,
    ];
    for number in ABSENT {
        code.extend([op(IF_EQUAL, number as u32, 0, 1), absent]);
    }
    for number in GRANTED {
        code.extend([op(IF_EQUAL, number as u32, 0, 1), ret(libc::SECCOMP_RET_ERRNO)]);
    }
    // Each jumps behind the list and the way out of it.
    for (at, number) in STOPPED.iter().enumerate() {
        code.push(op(IF_EQUAL, *number as u32, (STOPPED.len() - at) as u8, 0));
    }
    code.extend([
        ret(libc::SECCOMP_RET_ALLOW),
        op(LOAD, POINTER + 4, 0, 0),
        op(IF_EQUAL, (SITE >> 32) as u32, 0, 3),
        op(LOAD, POINTER, 0, 0),
        op(IF_AT_LEAST, SITE as u32, 0, 1),
        op(IF_AT_LEAST, SITE as u32 + 4096, 0, 1),
        ret(libc::SECCOMP_RET_TRACE),
        ret(libc::SECCOMP_RET_ALLOW),
    ]);
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's answer to a call.
    fn run(code: &[libc::sock_filter], number: u64, architecture: u32, pointer: u64) -> u32 {
        let (mut at, mut value) = (0, 0);
        loop {
            let op = code[at];
            at += 1;
            match op.code {
                LOAD => {
                    value = match op.k {
                        NUMBER => number as u32,
                        ARCHITECTURE => architecture,
                        POINTER => pointer as u32,
                        12 => (pointer >> 32) as u32,
                        other => panic!("offset {other}"),
                    }
                }
                IF_EQUAL => at += usize::from(if value == op.k { op.jt } else { op.jf }),
                IF_AT_LEAST => at += usize::from(if value >= op.k { op.jt } else { op.jf }),
                RETURN => return op.k,
                other => panic!("code {other:#x}"),
            }
        }
    }

    #[test]
    fn calls_that_change_mappings_stop_unless_they_are_the_agents() {
        let code = program();
        let absent = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
        for number in 0..500 {
            let of_program = match number {
                n if ABSENT.contains(&n) => absent,
                n if GRANTED.contains(&n) => libc::SECCOMP_RET_ERRNO,
                n if STOPPED.contains(&n) => libc::SECCOMP_RET_TRACE,
                _ => libc::SECCOMP_RET_ALLOW,
            };
            for pointer in [0x40_1000, 0x7fff_f7dd_5000, SITE - 1, SITE + 4096, SITE + (1 << 32)] {
                assert_eq!(run(&code, number as u64, X86_64, pointer), of_program, "call {number} from {pointer:#x}");
            }
            let of_agent = if STOPPED.contains(&number) { libc::SECCOMP_RET_ALLOW } else { of_program };
            for pointer in [SITE, SITE + 2, SITE + 4095] {
                assert_eq!(run(&code, number as u64, X86_64, pointer), of_agent, "call {number} of the agent");
            }
        }
        assert_eq!(run(&code, libc::SYS_mmap as u64, 0x4000_0003, SITE), absent, "32-bit programs");
        assert_eq!(run(&code, libc::SYS_mmap as u64 | u64::from(X32), X86_64, SITE), absent, "x32");
    }
}
