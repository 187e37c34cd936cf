//! The formats of page tables: what a word of a table means, in each instruction set. A format is one file.

mod aarch64;
mod riscv;
mod x86;

pub(super) use aarch64::Aarch64;
pub(super) use riscv::Riscv;
pub(super) use x86::{LA57, PAE, PCIDE, PGE, PSE, SMEP, X86};

use super::registers::Registers;
use farreach_types::addr::GUEST_ADDRESS_BITS;
use farreach_types::event::Arch;
use farreach_types::translation::Attr;

/// Words in the 4 KB that the mirror keeps together.
pub(super) const WORDS: usize = 512;

/// What the tables above an entry permit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Rights(u8);

impl Rights {
    /// Everything.
    pub const ALL: Rights = Rights(31);
    /// Loads.
    pub const READ: Rights = Rights(1);
    /// Stores.
    pub const WRITE: Rights = Rights(2);
    /// Fetches of programs.
    pub const USER_EXEC: Rights = Rights(4);
    /// Fetches of the kernel.
    pub const KERNEL_EXEC: Rights = Rights(8);
    /// To be of one address space alone.
    pub const LOCAL: Rights = Rights(16);

    /// Whether these are among them.
    pub fn has(self, these: Rights) -> bool {
        self.0 & these.0 == these.0
    }

    /// Without these, if `so`.
    pub fn without(self, these: Rights, so: bool) -> Rights {
        if so { Rights(self.0 & !these.0) } else { self }
    }

    /// What the tables permit on a page, to the kernel or to programs: the recorder saw accesses that succeeded.
    pub fn attributes(self) -> Attr {
        let bit = |rights: u8, bit: u8| if self.0 & rights != 0 { bit } else { 0 };
        let exec = Rights::USER_EXEC.0 | Rights::KERNEL_EXEC.0;
        Attr(bit(Rights::READ.0, Attr::READ) | bit(Rights::WRITE.0, Attr::WRITE) | bit(exec, Attr::EXEC))
    }
}

/// What a word of a table means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reading {
    /// Nothing is mapped there.
    Absent,
    /// The next table: its physical address, and what it may permit.
    Table(u64, Rights),
    /// A mapping.
    Leaf(Leaf),
}

/// A mapping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Leaf {
    /// Its first frame.
    pub pfn: u64,
    /// log2 of its pages.
    pub order: u8,
    /// Attributes.
    pub attr: Attr,
    /// It is the same in all address spaces.
    pub global: bool,
}

/// How the words of tables are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Format {
    /// x86-64.
    X86(X86),
    /// AArch64.
    Aarch64(Aarch64),
    /// RISC-V.
    Riscv(Riscv),
}

impl Format {
    /// log2 of the bytes of a page.
    pub fn page_shift(self) -> u32 {
        match self {
            Format::Aarch64(format) => format.page_shift(),
            Format::X86(_) | Format::Riscv(_) => 12,
        }
    }

    /// log2 of the entries of a table.
    pub fn index_bits(self) -> u32 {
        self.page_shift() - 3
    }

    /// log2 of the pages below an entry of a table at this height above the leaves of one page.
    pub fn order(self, height: u8) -> u32 {
        self.index_bits() * u32::from(height)
    }

    /// What the word means, by itself: the entry number `at` of a table at this height.
    pub fn read(self, word: u64, at: usize, height: u8, above: Rights) -> Reading {
        match self {
            Format::X86(format) => format.read(word, height, above),
            Format::Aarch64(format) => format.read(word, height, above),
            Format::Riscv(format) => format.read(word, at, height, above),
        }
    }

    /// log2 of the entries of the run that the word says it is part of: the Contiguous bit, Svnapot.
    pub fn run(self, word: u64, height: u8) -> u32 {
        match self {
            Format::X86(_) => 0,
            Format::Aarch64(format) => format.run(word, height),
            Format::Riscv(format) => format.run(word, height),
        }
    }

    /// The mapping of an entry, as part of its run if all entries of the run agree.
    pub fn leaf(self, words: &[u64; WORDS], at: usize, height: u8, above: Rights) -> Option<Leaf> {
        let Reading::Leaf(leaf) = self.read(words[at], at, height, above) else { return None };
        let run = self.run(words[at], height);
        if run == 0 {
            return Some(leaf);
        }
        let (first, each) = (at >> run << run, 1 << self.order(height));
        let Some(base) = leaf.pfn.checked_sub((at - first) as u64 * each) else { return Some(leaf) };
        let agrees = |i: usize| {
            let wanted = Leaf { pfn: base + i as u64 * each, ..leaf };
            self.run(words[first + i], height) == run
                && self.read(words[first + i], first + i, height, above) == Reading::Leaf(wanted)
        };
        let whole = base.is_multiple_of(each << run) && (0..1 << run).all(agrees);
        Some(Leaf { order: leaf.order + if whole { run as u8 } else { 0 }, ..leaf })
    }
}

/// Where the walks of one half of the addresses begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Root {
    /// Physical address of its first word.
    pub address: u64,
    /// Words.
    pub words: u64,
    /// The page that the first is about.
    pub first: u64,
    /// Height of the table: its levels, less one.
    pub height: u8,
    /// The format of all tables below.
    pub format: Format,
}

impl Root {
    /// The root of the upper or lower half, from the registers of a processor. The error says what is missing.
    pub fn of(arch: Arch, registers: &Registers, upper: bool) -> Result<Root, String> {
        match arch {
            Arch::X86 => x86::root(registers, upper),
            Arch::Aarch64 => aarch64::root(registers, upper),
            Arch::Riscv64 => riscv::root(registers, upper),
        }
    }

    /// The root of a table whose two halves are about the lowest and the highest addresses of `bits` bits.
    fn half(address: u64, bits: u32, height: u8, format: Format, upper: bool) -> Root {
        let words = WORDS as u64 / 2;
        let first = if upper { ((1 << GUEST_ADDRESS_BITS) - (1 << (bits - 1))) >> format.page_shift() } else { 0 };
        Root { address: address + if upper { 8 * words } else { 0 }, words, first, height, format }
    }
}

/// The register, or what to say if it was never written.
fn known(value: Option<u64>, name: &str) -> Result<u64, String> {
    value.ok_or_else(|| format!("a reference before the recording says what {name} has: it is cut off, or broken"))
}
