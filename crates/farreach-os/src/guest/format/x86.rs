//! x86-64: four or five levels; pages of 4 KB, 2 MB and 1 GB.

use super::super::registers::Registers;
use super::{Format, Leaf, Reading, Rights, Root, known};

/// Bits of CR4.
pub(crate) const PGE: u64 = 1 << 7;
pub(crate) const LA57: u64 = 1 << 12;
pub(crate) const PCIDE: u64 = 1 << 17;
pub(crate) const SMEP: u64 = 1 << 20;
pub(crate) const PSE: u64 = 1 << 4;
pub(crate) const PAE: u64 = 1 << 5;

/// Bits of an entry.
const PRESENT: u64 = 1;
const WRITABLE: u64 = 1 << 1;
const LARGE: u64 = 1 << 7;
const GLOBAL: u64 = 1 << 8;
const NO_EXEC: u64 = 1 << 63;
/// Physical addresses of tables and pages, bits 51:12.
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

/// The format. CR4.PGE, without which no entry is global, is taken to be set: kernels clear it only for a moment, to
/// flush everything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct X86;

pub(super) fn root(registers: &Registers, upper: bool) -> Result<Root, String> {
    let (cr3, cr4) = (known(registers.root0, "CR3")?, known(registers.control, "CR4")?);
    let (bits, height) = if cr4 & LA57 != 0 { (57, 4) } else { (48, 3) };
    Ok(Root::half(cr3 & ADDRESS, bits, height, Format::X86(X86), upper))
}

impl X86 {
    /// See [`Format::read`]. A large leaf above 1 GB does not exist.
    pub fn read(self, word: u64, height: u8, above: Rights) -> Reading {
        let large = word & LARGE != 0 && height > 0;
        if word & PRESENT == 0 || large && height > 2 {
            return Reading::Absent;
        }
        let rights = above
            .without(Rights::WRITE, word & WRITABLE == 0)
            .without(Rights::USER_EXEC, word & NO_EXEC != 0)
            .without(Rights::KERNEL_EXEC, word & NO_EXEC != 0);
        if height > 0 && !large {
            return Reading::Table(word & ADDRESS, rights);
        }
        let order = 9 * height;
        let pfn = (word & ADDRESS) >> 12 >> order << order;
        Reading::Leaf(Leaf { pfn, order, attr: rights.attributes(), global: word & GLOBAL != 0 })
    }
}
