//! A whole system, recorded with its page tables: physical memory as a map of words, walks by the book, TLBs that obey
//! what the guest says and nothing else, and a kernel that plays at random.
//!
//! The rules are those of 2.1 (x86-64), 2.2 (AArch64) and 2.3 (RISC-V) of the document on whole systems; numbers in
//! brackets are bits.
//!
//! * OZ-1 A space has the root that the running processor has in TTBR0, CR3 or satp when a batch of the space begins.
//!   The upper half has TTBR1; elsewhere, the root by which it was used last, for the stream may not have the words of
//!   another root yet. The format is that of the processor that used an address last.
//! * OZ-2 A and D decide nothing, but for AF: where hardware does not set it, a leaf without it is not mapped. With HD,
//!   a leaf with DBM may be written: D is bit AP\[2\] there.
//! * OZ-3 A contiguous run counts as one leaf if all its entries say Contiguous, lie in a row from an aligned frame on,
//!   and are alike but for AF and D. Else each entry is a leaf of its own, as hardware may take it.
//! * OZ-4 Rights of upper levels count: W, U, NX; APTable, PXNTable, UXNTable, unless HPD0 or HPD1 says otherwise.
//!   EFER.NXE is set. On RISC-V they have none, but G.
//! * OZ-5 A tag is CR3\[11:0\] if PCIDE is set, else 0; or the ASID of the TTBR that A1 names, 8 bits of it without AS;
//!   or the ASID of satp.
//!   Global entries answer every tag.
//! * OZ-6 An invalidation is obeyed literally, see [`tlb`]. An entry goes if one of its bytes is concerned, or one of
//!   the large leaf that it is a part of: INVLPG and TLBI mean the page of any size. Of a run, the entry alone counts.
//! * OZ-7 The walker cannot fill a page that is not mapped: the lookup is a miss, and nothing changes.
//! * OZ-8 An entry is stale if frame or rights of the page are others now, or there are none. Size and global bit alone
//!   make none stale, for the address is the same.
//! * OZ-9 Kernel or user: the half of the block's first instruction. A block without instructions goes on with what the
//!   block before was, on the same processor.
//! * OZ-10 An exception drops nothing, for the stream does not say at which address it was.
//! * OZ-11 Several entries may have a page where the guest is late. The one used last answers.
//! * OZ-12 `pcid`: a guest whose PCIDE is clear, as it would be with PCIDs (SHD-4). On each processor the last six
//!   spaces that were dealt one have a PCID; the next space without one takes that of the space that has had its own
//!   longest, whose entries go. A write of CR3 drops nothing, but for one with the value that it has: it drops what the
//!   space that ran last has. Entries of the kernel that are not global have the PCID of the space that filled them.
//! * OZ-13 A page that the stream calls stale, and that the walk does not find, is mapped nevertheless: as one page,
//!   with all rights, global in the upper half. The next word of a table, write of a register, invalidation or switch
//!   of processors ends that, and all entries of it go.

mod arm;
pub mod kernel;
mod riscv;
pub mod system;
#[cfg(test)]
mod tests;
pub mod tlb;
mod x86;

use farreach_types::event::{Arch, Register};
use std::collections::HashMap;

/// Words by their physical addresses. What is not there is zero.
pub type Memory = HashMap<u64, u64>;

/// The translation registers of a virtual processor.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Registers {
    pub root0: u64,
    pub root1: u64,
    pub control: u64,
}

impl Registers {
    pub fn set(&mut self, register: Register, value: u64) {
        match register {
            Register::Root0 => self.root0 = value,
            Register::Root1 => self.root1 = value,
            Register::Control => self.control = value,
        }
    }

    /// OZ-5.
    pub fn tag(&self, arch: Arch) -> u16 {
        match arch {
            Arch::X86 => x86::tag(self),
            Arch::Aarch64 => arm::tag(self),
            Arch::Riscv64 => riscv::tag(self),
        }
    }
}

/// What a walk finds for a page of 4 KB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    /// Frame of the page.
    pub frame: u64,
    /// Log2 of the pages of 4 KB in the leaf, or in the contiguous run that it is part of (OZ-3).
    pub order: u32,
    /// The same of the leaf alone.
    pub leaf: u32,
    pub rights: Rights,
    pub global: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rights {
    /// The program may use it.
    pub user: bool,
    pub write: bool,
    /// The program may execute it.
    pub user_exec: bool,
    /// The kernel may execute it. SMEP is not looked at.
    pub kernel_exec: bool,
}

/// Walks to a page of 4 KB, of 57 bits.
pub fn walk(arch: Arch, memory: &Memory, registers: &Registers, page: u64, mistake: Option<Mistake>) -> Option<Found> {
    match arch {
        Arch::X86 => x86::walk(memory, registers, page, mistake),
        Arch::Aarch64 => arm::walk(memory, registers, page, mistake),
        Arch::Riscv64 => riscv::walk(memory, registers, page, mistake),
    }
}

fn word(memory: &Memory, address: u64) -> u64 {
    memory.get(&address).copied().unwrap_or(0)
}

fn bit(word: u64, at: u32) -> bool {
    word >> at & 1 == 1
}

/// Bits high to low of a word, in their places.
fn bits(word: u64, high: u32, low: u32) -> u64 {
    word & (u64::MAX >> (63 - high)) & (u64::MAX << low)
}

/// Mistakes that comparisons must find.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mistake {
    /// Global entries go with the others, and answer one tag.
    IgnoresGlobal,
    /// `mov cr3` drops all that is not global, PCIDE or not.
    ForgetsPcide,
    /// Bit 63 of CR3 keeps nothing.
    ForgetsBit63,
    /// A change of CR4 drops nothing.
    KeepsAtCr4,
    /// Contiguous runs are single entries.
    DropsContiguous,
    /// INVLPG spares global entries.
    SparesGlobal,
    /// A broadcast is heard at home alone.
    NoBroadcast,
    /// PAT in a large leaf is taken for a bit of the address.
    PatInAddress,
    /// Rights of upper levels do not count.
    LeafRights,
    /// An entry that is larger than the bytes of an invalidation stays, unless it begins there.
    FirstPageOnly,
    /// An invalidation of one tag drops those of all.
    AnyTag,
}

impl Mistake {
    pub const ALL: [Mistake; 11] = [
        Mistake::IgnoresGlobal,
        Mistake::ForgetsPcide,
        Mistake::ForgetsBit63,
        Mistake::KeepsAtCr4,
        Mistake::DropsContiguous,
        Mistake::SparesGlobal,
        Mistake::NoBroadcast,
        Mistake::PatInAddress,
        Mistake::LeafRights,
        Mistake::FirstPageOnly,
        Mistake::AnyTag,
    ];
}
