//! How a kernel writes its tables and registers: the same rules as the walks', the other way round.

use farreach_types::event::Arch;

/// A format of page tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Format {
    pub arch: Arch,
    /// Log2 of the bytes of a page and of a table.
    pub granule: u32,
    /// Bits of an address that are translated: of each half on AArch64, of both halves together elsewhere.
    pub bits: u32,
    /// Frames have up to 52 bits.
    pub wide: bool,
}

/// What a kernel means a leaf to say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Means {
    pub user: bool,
    pub write: bool,
    pub exec: bool,
    pub global: bool,
}

const fn arm(granule: u32, bits: u32, wide: bool) -> Format {
    Format { arch: Arch::Aarch64, granule, bits, wide }
}

const fn riscv(bits: u32) -> Format {
    Format { arch: Arch::Riscv64, granule: 12, bits, wide: true }
}

/// All that are tried.
pub const FORMATS: [Format; 13] = [
    Format { arch: Arch::X86, granule: 12, bits: 48, wide: true },
    Format { arch: Arch::X86, granule: 12, bits: 57, wide: true },
    arm(12, 48, false),
    arm(12, 39, false),
    arm(12, 52, true),
    arm(14, 47, false),
    arm(14, 48, false),
    arm(16, 48, false),
    arm(16, 42, false),
    arm(16, 52, true),
    riscv(39),
    riscv(48),
    riscv(57),
];

impl Format {
    /// Both halves have one root.
    pub fn one_root(&self) -> bool {
        self.arch != Arch::Aarch64
    }

    pub fn stride(&self) -> u32 {
        self.granule - 3
    }

    pub fn levels(&self) -> u32 {
        (self.bits - self.granule).div_ceil(self.stride())
    }

    /// Log2 of the bytes that an entry stands for, at a level; leaves of pages are at level 0.
    pub fn shift(&self, level: u32) -> u32 {
        self.granule + level * self.stride()
    }

    pub fn index(&self, address: u64, level: u32) -> u64 {
        let low = address & ((1 << self.bits) - 1);
        low >> self.shift(level) & ((1 << self.stride()) - 1)
    }

    /// Bytes of a table at this level.
    pub fn table_bytes(&self, level: u32) -> u64 {
        let bits = if level + 1 == self.levels() { self.bits - self.shift(level) } else { self.stride() };
        8 << bits
    }

    /// Highest level that has leaves.
    pub fn top_leaf(&self) -> u32 {
        if self.granule == 12 { 2 } else { 1 }
    }

    /// Entries of a contiguous run; 1 if there is none.
    pub fn run(&self, level: u32) -> u64 {
        match (self.arch, self.granule, level) {
            (Arch::Aarch64, 12, 0 | 1) | (Arch::Riscv64, _, 0) => 16,
            (Arch::Aarch64, 14, 0) => 128,
            (Arch::Aarch64, 14, 1) | (Arch::Aarch64, 16, 0 | 1) => 32,
            _ => 1,
        }
    }

    /// The first address of the upper half, as the stream has it.
    pub fn upper(&self) -> u64 {
        let bits = if self.one_root() { self.bits - 1 } else { self.bits };
        (1 << 57) - (1 << bits)
    }

    pub fn table(&self, at: u64, user: bool, write: bool) -> u64 {
        let bit = |yes: bool, at: u32| u64::from(yes) << at;
        match self.arch {
            Arch::X86 => at | 0x21 | bit(write, 1) | bit(user, 2),
            // As Linux has them: PXNTable for programs, UXNTable for the kernel.
            Arch::Riscv64 => at >> 2 | 1,
            Arch::Aarch64 => self.place(at) | 3 | bit(user, 59) | bit(!user, 60) | bit(!write, 62),
        }
    }

    pub fn leaf(&self, at: u64, level: u32, means: Means, run: bool) -> u64 {
        let Means { user, write, exec, global } = means;
        let bit = |yes: bool, at: u32| u64::from(yes) << at;
        if self.arch == Arch::Riscv64 {
            // The frame of a run says how long it is.
            let place = if run { bit(true, 63) | (at & !0xffff | 0x8000) >> 2 } else { at >> 2 };
            return place | 0xc3 | bit(write, 2) | bit(exec, 3) | bit(user, 4) | bit(global, 5);
        }
        if self.arch == Arch::X86 {
            let size = bit(level > 0, 7);
            return at | 0x21 | bit(write, 1) | bit(user, 2) | size | bit(global, 8) | bit(!exec, 63);
        }
        let kind = if level == 0 { 3 } else { 1 };
        let exec_never = bit(!(exec && user), 54) | bit(!exec || user, 53);
        let rights = bit(user, 6) | bit(!write, 7) | exec_never;
        self.place(at) | kind | rights | 1 << 10 | bit(!global, 11) | bit(run, 52)
    }

    fn place(&self, at: u64) -> u64 {
        match (self.wide, self.granule) {
            (false, _) => at,
            (true, 16) => at & ((1 << 48) - 1) | at >> 48 << 12,
            (true, _) => at & ((1 << 50) - 1) | at >> 50 << 8,
        }
    }

    /// CR4, TCR_EL1; RISC-V has no such register. Tags of AArch64 are in TTBR1, as Linux has them, or in TTBR0.
    pub fn control(&self, pcide: bool, pge: bool, tag_in_root1: bool) -> u64 {
        if self.arch == Arch::X86 {
            let la57 = u64::from(self.bits == 57) << 12;
            return 0x20 | la57 | u64::from(pge) << 7 | u64::from(pcide) << 17;
        }
        let size = u64::from(64 - self.bits);
        let (low, high) = match self.granule {
            12 => (0, 2),
            14 => (2, 1),
            _ => (1, 3),
        };
        let wide = if self.wide && self.granule < 16 { 1 << 59 } else { 0 };
        let physical = if self.wide { 6 } else { 5 };
        size | size << 16 | low << 14 | high << 30 | physical << 32 | 1 << 36 | u64::from(tag_in_root1) << 22 | wide
    }

    /// CR3, a TTBR or satp.
    pub fn root(&self, at: u64, tag: u16) -> u64 {
        match (self.arch, self.wide) {
            (Arch::X86, _) => at | u64::from(tag),
            (Arch::Riscv64, _) => u64::from(self.levels() + 5) << 60 | u64::from(tag) << 44 | at >> 12,
            (Arch::Aarch64, false) => at | u64::from(tag) << 48,
            (Arch::Aarch64, true) => at & ((1 << 48) - 1) | at >> 48 << 2 | u64::from(tag) << 48,
        }
    }
}
