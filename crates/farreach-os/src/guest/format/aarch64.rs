//! AArch64: granules of 4, 16 and 64 KB, up to 52 bits of addresses, blocks, and runs of entries with the Contiguous
//! bit.

use super::super::registers::Registers;
use super::{Format, Leaf, Reading, Rights, Root, known};
use farreach_types::addr::GUEST_ADDRESS_BITS;

/// Bits of an entry.
const VALID: u64 = 1;
const TABLE_OR_PAGE: u64 = 1 << 1;
const READ_ONLY: u64 = 1 << 7;
const NOT_GLOBAL: u64 = 1 << 11;
const DIRTY_MODIFIER: u64 = 1 << 51;
const CONTIGUOUS: u64 = 1 << 52;
const KERNEL_NO_EXEC: u64 = 1 << 53;
const USER_NO_EXEC: u64 = 1 << 54;
/// Bits of an entry for a table, which hold for all below it.
const TABLE_KERNEL_NO_EXEC: u64 = 1 << 59;
const TABLE_USER_NO_EXEC: u64 = 1 << 60;
const TABLE_READ_ONLY: u64 = 1 << 62;

/// The format of one half.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Aarch64 {
    /// log2 of the bytes of a page: 12, 14 or 16.
    granule: u8,
    /// TCR.DS: addresses of 52 bits with granules of 4 and 16 KB.
    ds: bool,
    /// TCR.IPS says 52 bits.
    wide: bool,
    /// TCR.HD: hardware makes pages with the modifier bit writable at the first store.
    sets_dirty: bool,
    /// TCR.HPD is 0: entries for tables restrict what is below.
    hierarchical: bool,
}

fn field(value: u64, low: u32, bits: u32) -> u64 {
    value >> low & ((1 << bits) - 1)
}

pub(super) fn root(registers: &Registers, upper: bool) -> Result<Root, String> {
    let tcr = known(registers.control, "TCR_EL1")?;
    let (half, root, granule, size, off, hpd) = if upper {
        let granule = [None, Some(14), Some(12), Some(16)][field(tcr, 30, 2) as usize];
        (1, known(registers.root1, "TTBR1_EL1")?, granule, field(tcr, 16, 6), field(tcr, 23, 1), field(tcr, 42, 1))
    } else {
        let granule = [Some(12), Some(16), Some(14), None][field(tcr, 14, 2) as usize];
        (0, known(registers.root0, "TTBR0_EL1")?, granule, field(tcr, 0, 6), field(tcr, 7, 1), field(tcr, 41, 1))
    };
    let refused = |what: &str| format!("a reference while TCR_EL1 is {tcr:#x}, whose {what}");
    let granule: u8 = granule.ok_or_else(|| refused(&format!("TG{half} is none of the three granules")))?;
    if off == 1 {
        return Err(refused(&format!("EPD{half} forbids walks")));
    }
    let (shift, bits, index_bits) = (u32::from(granule), 64 - size as u32, u32::from(granule) - 3);
    if !(shift + 1..=52).contains(&bits) {
        return Err(refused(&format!("T{half}SZ stands for addresses of {bits} bits")));
    }
    let ds = field(tcr, 59, 1) == 1 && granule < 16;
    let wide = field(tcr, 32, 3) == 6;
    let format = Aarch64 {
        granule,
        ds,
        wide: wide && granule == 16,
        sets_dirty: field(tcr, 40, 1) == 1,
        hierarchical: hpd == 0,
    };
    let height = (bits - shift).div_ceil(index_bits) - 1;
    let words = 1 << (bits - shift - height * index_bits);
    let high = if wide && (ds || granule == 16) { field(root, 2, 4) << 48 } else { 0 };
    // A root is as aligned as it is large, and to 64 bytes at least.
    let align = (8u64 * words).max(64);
    let address = (field(root, 0, 48) / align * align) | high;
    let first = if upper { ((1 << GUEST_ADDRESS_BITS) - (1u64 << bits)) >> shift } else { 0 };
    Ok(Root { address, words, first, height: height as u8, format: Format::Aarch64(format) })
}

impl Aarch64 {
    pub fn page_shift(self) -> u32 {
        self.granule.into()
    }

    /// Whether an entry at this height may map a block.
    fn has_blocks(self, height: u8) -> bool {
        let most = match self.granule {
            12 => 2 + u8::from(self.ds),
            14 => 1 + u8::from(self.ds),
            _ => 1 + u8::from(self.wide),
        };
        (1..=most).contains(&height)
    }

    /// The physical address in an entry.
    fn address(self, word: u64) -> u64 {
        let low = |bits: u32| field(word, self.page_shift(), bits - self.page_shift()) << self.page_shift();
        if self.ds {
            low(50) | field(word, 8, 2) << 50
        } else if self.wide {
            low(48) | field(word, 12, 4) << 48
        } else {
            low(48)
        }
    }

    /// See [`Format::read`].
    pub fn read(self, word: u64, height: u8, above: Rights) -> Reading {
        let has = |bit: u64| word & bit != 0;
        if !has(VALID) || height == 0 && !has(TABLE_OR_PAGE) {
            return Reading::Absent;
        }
        if height > 0 && has(TABLE_OR_PAGE) {
            let restricts = |bit: u64| self.hierarchical && has(bit);
            let rights = above
                .without(Rights::WRITE, restricts(TABLE_READ_ONLY))
                .without(Rights::USER_EXEC, restricts(TABLE_USER_NO_EXEC))
                .without(Rights::KERNEL_EXEC, restricts(TABLE_KERNEL_NO_EXEC));
            return Reading::Table(self.address(word), rights);
        }
        if height > 0 && !self.has_blocks(height) {
            return Reading::Absent;
        }
        let rights = above
            .without(Rights::WRITE, has(READ_ONLY) && !(self.sets_dirty && has(DIRTY_MODIFIER)))
            .without(Rights::USER_EXEC, has(USER_NO_EXEC))
            .without(Rights::KERNEL_EXEC, has(KERNEL_NO_EXEC));
        let order = (self.page_shift() - 3) as u8 * height;
        let pfn = self.address(word) >> self.page_shift() >> order << order;
        Reading::Leaf(Leaf { pfn, order, attr: rights.attributes(), global: !has(NOT_GLOBAL) })
    }

    /// See [`Format::run`].
    pub fn run(self, word: u64, height: u8) -> u32 {
        if word & CONTIGUOUS == 0 {
            return 0;
        }
        match (self.granule, height) {
            (12, _) => 4,
            (14, 0) => 7,
            _ => 5,
        }
    }
}
