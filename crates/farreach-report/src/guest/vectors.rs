//! Names of exceptions and interrupts.

use crate::format::{count, counted};
use farreach_types::counts::{ExceptionCount, GuestUse};
use farreach_types::event::Arch;

/// Kinds that the head of a text report names.
const NAMED: usize = 4;

/// The name of a vector.
pub(crate) fn vector(arch: Arch, vector: u32) -> String {
    match arch {
        Arch::X86 => {
            let name = match vector {
                0 => "divide error",
                1 => "debug",
                2 => "NMI",
                3 => "breakpoint",
                6 => "invalid opcode",
                7 => "device not available",
                8 => "double fault",
                13 => "general protection",
                14 => "page fault",
                16 => "x87 error",
                17 => "alignment check",
                18 => "machine check",
                19 => "SIMD error",
                4 | 5 | 9..=12 | 15 | 20..32 => return format!("exception {vector}"),
                _ => return format!("interrupt {vector}"),
            };
            name.to_owned()
        }
        // Four groups of four vectors, 0x80 bytes each.
        Arch::Aarch64 if vector < 0x800 && vector.is_multiple_of(0x80) => {
            let kind = ["exception", "IRQ", "FIQ", "SError"][(vector >> 7 & 3) as usize];
            let from = ["the kernel on SP_EL0", "the kernel", "user", "32-bit user"][(vector >> 9) as usize];
            format!("{kind} from {from}")
        }
        Arch::Aarch64 => format!("vector {vector:#x}"),
        Arch::Riscv64 => {
            let (interrupt, cause) = (vector >> 31 == 1, vector & 0x7fff_ffff);
            let name = match (interrupt, cause) {
                (false, 2) => "illegal instruction",
                (false, 3) => "breakpoint",
                (false, 8) => "system call",
                (false, 12) => "page fault of a fetch",
                (false, 13) => "page fault of a load",
                (false, 15) => "page fault of a store",
                (true, 1) => "software interrupt",
                (true, 5) => "timer interrupt",
                (true, 9) => "external interrupt",
                (true, 13) => "counter overflow",
                (false, _) => return format!("exception {cause}"),
                (true, _) => return format!("interrupt {cause}"),
            };
            name.to_owned()
        }
    }
}

/// Those that happened, most first.
pub(crate) fn kinds(guest: &GuestUse) -> Vec<&ExceptionCount> {
    let mut kinds: Vec<&ExceptionCount> = guest.exceptions.iter().filter(|kind| kind.count > 0).collect();
    kinds.sort_by_key(|kind| std::cmp::Reverse(kind.count));
    kinds
}

/// How often the guest was interrupted, and by what most; nothing if it never was.
pub(crate) fn exceptions(guest: &GuestUse) -> Option<String> {
    let all = guest.events.exceptions;
    let kinds = kinds(guest);
    let kind = |kind: &ExceptionCount| format!("{} × {}", vector(guest.arch, kind.vector), count(kind.count));
    let mut named: Vec<String> = kinds.iter().take(NAMED).map(|of| kind(of)).collect();
    let rest: u64 = kinds.iter().skip(NAMED).map(|kind| kind.count).sum();
    if rest > 0 {
        named.push(format!("others × {}", count(rest)));
    }
    let what = if named.is_empty() { String::new() } else { format!(": {}", named.join(", ")) };
    (all > 0).then(|| counted(all, "exception") + &what)
}
