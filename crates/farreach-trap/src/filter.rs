//! Which system calls of the program stop for the monitor: a seccomp filter, written out as the kernel takes it.
//! (Crates that compile filters know no condition on the instruction pointer. The agent inherits the filter, and by it
//! its calls are told from those of the program.)

use crate::agent::SITE;

/// System calls that stop, so that the monitor can follow, change or refuse them.
const STOPPED: [i64; 19] = [
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
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_yield,
    libc::SYS_userfaultfd,
    libc::SYS_ptrace,
];

/// Those that stop with some arguments only.
struct If {
    number: i64,
    /// These bits of the lower half of this argument decide.
    argument: u32,
    bits: u32,
    /// First and last values with which it stops.
    values: &'static [(u32, u32)],
}

const STOPPED_IF: [If; 3] = [
    // Operations that change a word in one step, from FUTEX_WAKE_OP to FUTEX_LOCK_PI2, but for waits and wakes.
    If { number: libc::SYS_futex, argument: 1, bits: 127, values: &[(5, 8), (11, 13)] },
    // With __WALL or __WCLONE: the agent is a child that only these see.
    If { number: libc::SYS_wait4, argument: 2, bits: OTHER_CHILDREN, values: &[(1, u32::MAX)] },
    If { number: libc::SYS_waitid, argument: 3, bits: OTHER_CHILDREN, values: &[(1, u32::MAX)] },
];
/// `__WALL`, `__WCLONE`.
pub const OTHER_CHILDREN: u32 = (libc::__WALL | libc::__WCLONE) as u32;

/// System calls that succeed without doing anything. A locked page cannot be unmapped.
const GRANTED: [i64; 5] =
    [libc::SYS_mlock, libc::SYS_mlock2, libc::SYS_munlock, libc::SYS_mlockall, libc::SYS_munlockall];

/// System calls that this kernel does not seem to have. A trap restarts a restartable sequence, and programs that have
/// none go on in another way.
const ABSENT: [i64; 2] = [libc::SYS_rseq, 453 /* map_shadow_stack */];

/// Of `seccomp_data`: number, architecture, instruction pointer.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const POINTER: u32 = 8;
const ARGUMENTS: u32 = 16;
const X86_64: u32 = 0xc000_003e;
/// Numbers from here on are of the x32 interface.
const X32: u32 = 1 << 30;

const LOAD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
const IF_EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
const IF_AT_LEAST: u16 = 0x35; // BPF_JMP | BPF_JGE | BPF_K
const IF_ABOVE: u16 = 0x25; // BPF_JMP | BPF_JGT | BPF_K
const AND: u16 = 0x54; // BPF_ALU | BPF_AND | BPF_K
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
    for If { number, argument, bits, values } in &STOPPED_IF {
        code.push(op(IF_EQUAL, *number as u32, 0, 3 * values.len() as u8 + 3));
        code.extend([op(LOAD, ARGUMENTS + 8 * argument, 0, 0), op(AND, *bits, 0, 0)]);
        for (first, last) in *values {
            let stop = ret(libc::SECCOMP_RET_TRACE);
            code.extend([op(IF_AT_LEAST, *first, 0, 2), op(IF_ABOVE, *last, 1, 0), stop]);
        }
        code.push(ret(libc::SECCOMP_RET_ALLOW));
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
        run_with(code, number, architecture, pointer, [0; 6])
    }

    fn run_with(code: &[libc::sock_filter], number: u64, architecture: u32, pointer: u64, words: [u64; 6]) -> u32 {
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
                        other => words[(other as usize - ARGUMENTS as usize) / 8] as u32,
                    }
                }
                IF_EQUAL => at += usize::from(if value == op.k { op.jt } else { op.jf }),
                IF_AT_LEAST => at += usize::from(if value >= op.k { op.jt } else { op.jf }),
                IF_ABOVE => at += usize::from(if value > op.k { op.jt } else { op.jf }),
                AND => value &= op.k,
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

    #[test]
    fn some_calls_stop_with_some_arguments() {
        let code = program();
        let stops = |number: i64, words: [u64; 6]| {
            let answer = run_with(&code, number as u64, X86_64, 0x40_1000, words);
            assert!([libc::SECCOMP_RET_TRACE, libc::SECCOMP_RET_ALLOW].contains(&answer), "{answer:#x}");
            answer == libc::SECCOMP_RET_TRACE
        };
        const FLAGS: u64 = (libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME) as u64;
        for op in 0..128 {
            let expected = [5, 6, 7, 8, 11, 12, 13].contains(&op);
            assert_eq!(stops(libc::SYS_futex, [9, op, 9, 9, 9, 9]), expected, "futex {op}");
            assert_eq!(stops(libc::SYS_futex, [9, op | FLAGS, 9, 9, 9, 9]), expected, "futex {op}");
        }
        for bit in 0..32 {
            let expected = [30, 31].contains(&bit);
            assert_eq!(stops(libc::SYS_wait4, [!0, !0, 1 << bit, !0, !0, !0]), expected, "option {bit}");
            assert_eq!(stops(libc::SYS_waitid, [!0, !0, !0, 1 << bit, !0, !0]), expected, "option {bit}");
        }
    }
}
