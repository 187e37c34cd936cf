//! Events of a whole system: a kernel and its programs, recorded under an emulator, with the page tables that they make
//! themselves.
//!
//! A stream that has them begins with [`Guest::Machine`], in the address space [`KERNEL`](crate::addr::KERNEL). Every
//! other address space is a root of the guest's page tables. References in the upper half of the addresses
//! ([`kernel_half`](crate::addr::kernel_half)) may be in any of them, and mean the same in all.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Most virtual processors of a system.
pub const MOST_PROCESSORS: u32 = 1 << 16;

/// What a guest does that is no reference. It concerns the virtual processor that runs: see [`Op::Switch`].
///
/// [`Op::Switch`]: super::Op::Switch
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Guest {
    /// The first event: what the guest runs on.
    Machine {
        /// Its instruction set.
        arch: Arch,
        /// Its virtual processors, 1 to [`MOST_PROCESSORS`]. Their numbers are those of threads in
        /// [`Op::Switch`](super::Op::Switch).
        processors: u32,
        /// Bytes of memory.
        memory: u64,
    },
    /// From here on the processor runs the kernel, or a program.
    Privilege {
        /// The kernel.
        kernel: bool,
    },
    /// A register of translation was written, with this value. Also said of a processor before its first reference.
    /// The address space that follows a new root is the next batch's.
    Register {
        /// Which.
        register: Register,
        /// As written, with all bits.
        value: u64,
    },
    /// These 8-byte words of a page table, at this physical address and behind it, have these values from now on. What
    /// was never said is zero. All tables on the way to a page are there before the first reference to it.
    Entries {
        /// Physical address of the first; a multiple of 8. All are in one frame of 4 KB.
        address: u64,
        /// The words.
        values: Arc<[u64]>,
    },
    /// The guest said that translations are no longer valid.
    Invalidate(Invalidate),
    /// Something interrupted the program: an exception or an interrupt, by its number in the instruction set.
    Exception {
        /// x86-64: the vector. AArch64: the offset of the entry in the table of vectors. RISC-V: the cause, with
        /// 1 << 31 for interrupts.
        vector: u32,
    },
    /// The program that the address space runs, as far as the guest's calls tell.
    Name(Arc<str>),
    /// The processor still has this translation of a page of 4 KB, and uses it next. The tables say something else by
    /// now: another processor has changed them, and this one was not told yet. It is said before each block that uses
    /// such a translation.
    Stale {
        /// Address of the page, a multiple of 4096.
        page: u64,
        /// Its physical address, a multiple of 4096.
        address: u64,
    },
}

/// An instruction set.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arch {
    /// x86-64 with page tables of four or five levels.
    #[serde(rename = "x86_64")]
    X86,
    /// AArch64.
    Aarch64,
    /// RISC-V with 64 bits.
    Riscv64,
}

impl Arch {
    /// All of them, by their number in streams and files, from 1.
    pub const ALL: [Arch; 3] = [Arch::X86, Arch::Aarch64, Arch::Riscv64];
    /// Its name, as in `qemu-system-NAME`.
    pub const fn name(self) -> &'static str {
        match self {
            Arch::X86 => "x86_64",
            Arch::Aarch64 => "aarch64",
            Arch::Riscv64 => "riscv64",
        }
    }
}

/// Registers that decide how addresses are translated.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Register {
    /// The root of the lower half, or of both: CR3, TTBR0_EL1, satp.
    Root0,
    /// The root of the upper half: TTBR1_EL1.
    Root1,
    /// The format: CR4, TCR_EL1. None of RISC-V.
    Control,
}

impl Register {
    /// All of them, by their number in streams and files, from 0.
    pub const ALL: [Register; 3] = [Register::Root0, Register::Root1, Register::Control];
}

/// Which translations are no longer valid (INVLPG, INVPCID, TLBI, SFENCE.VMA). Writes of registers have effects of
/// their own: see [`Guest::Register`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Invalidate {
    /// The tag (PCID, ASID) of those concerned; those of any tag if it is absent.
    pub tag: Option<u16>,
    /// The bytes concerned, from the first on: start and length, multiples of 4096. All addresses if absent.
    pub bytes: Option<(u64, u64)>,
    /// Whether global ones are concerned, too.
    pub global: bool,
    /// Whether leaves alone are concerned, and no walk caches.
    pub leaves: bool,
    /// Whether all processors are concerned, and not only this one.
    pub broadcast: bool,
}
