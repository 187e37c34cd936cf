//! RISC-V: Sv39, Sv48 and Sv57; leaves at every level, and Svnapot.

use super::super::registers::Registers;
use super::{Format, Leaf, Reading, Rights, Root, known};

/// Bits of an entry.
const VALID: u64 = 1;
const READ: u64 = 1 << 1;
const WRITE: u64 = 1 << 2;
const EXEC: u64 = 1 << 3;
const GLOBAL: u64 = 1 << 5;
const NAPOT: u64 = 1 << 63;

/// The format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Riscv;

pub(super) fn root(registers: &Registers, upper: bool) -> Result<Root, String> {
    let satp = known(registers.root0, "satp")?;
    let (bits, height) = match satp >> 60 {
        8 => (39, 2),
        9 => (48, 3),
        10 => (57, 4),
        mode => {
            return Err(format!("a reference while satp has mode {mode}: it must be 8, 9 or 10 (Sv39, Sv48, Sv57)"));
        }
    };
    Ok(Root::half((satp & 0xfff_ffff_ffff) << 12, bits, height, Format::Riscv(Riscv), upper))
}

impl Riscv {
    /// See [`Format::read`].
    pub fn read(self, word: u64, at: usize, height: u8, above: Rights) -> Reading {
        let has = |bit: u64| word & bit != 0;
        let frame = word >> 10 & 0xfff_ffff_ffff;
        let leaf = word & (READ | WRITE | EXEC) != 0;
        // No guest has 512 GB in one leaf, or 256 TB. Such a word is none: a frame that was a root is another table
        // now.
        if !has(VALID) || height == 0 && !leaf || has(WRITE) && !has(READ) || leaf && height > 2 {
            return Reading::Absent;
        }
        if !leaf {
            // All that is below a global table is global.
            return Reading::Table(frame << 12, above.without(Rights::LOCAL, has(GLOBAL)));
        }
        let rights = above
            .without(Rights::READ, !has(READ))
            .without(Rights::WRITE, !has(WRITE))
            .without(Rights::USER_EXEC, !has(EXEC))
            .without(Rights::KERNEL_EXEC, !has(EXEC));
        let global = has(GLOBAL) || !above.has(Rights::LOCAL);
        let order = 9 * height;
        let pfn = match self.run(word, height) {
            0 => frame >> order << order,
            // The low bits come from the address.
            run => frame >> run << run | at as u64 & ((1 << run) - 1),
        };
        Reading::Leaf(Leaf { pfn, order, attr: rights.attributes(), global })
    }

    /// See [`Format::run`]: 64 KB are marked by 1000 in the low bits of the frame.
    pub fn run(self, word: u64, height: u8) -> u32 {
        if word & NAPOT != 0 && height == 0 && word >> 10 & 15 == 8 { 4 } else { 0 }
    }
}
