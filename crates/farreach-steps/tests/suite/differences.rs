//! What the recorder says otherwise, and is known. The book says the same, in "What differs from a native run". Each
//! row must be observed: a row that no longer applies fails the test of the families until it is taken out.

use farreach_types::event::{Access, Kind};

/// A known difference in the loads and stores of instructions.
pub struct Difference {
    /// What the recorder says, in a few words.
    pub what: &'static str,
    /// The feature of the processor without which it cannot be observed.
    pub needs: &'static str,
    /// Beginnings of the names of the instructions (`iced_x86::Code`).
    pub codes: &'static [&'static str],
    /// Whether this (second) is what the recorder says in place of the right loads and stores (first).
    pub says: fn(&[Access], &[Access]) -> bool,
}

/// All known differences.
pub const DIFFERENCES: &[Difference] = &[Difference {
    what: "maskmovq, maskmovdqu: load and store of the whole operand",
    needs: "sse2",
    codes: &["Maskmov"],
    says: |_, said| match said {
        [load, store] => load.kind == Kind::Load && store.kind == Kind::Store && load.size == store.size,
        _ => false,
    },
}];

/// Programs of `fixtures/steps` of which the recorder makes something else from some place on, and why.
pub const PROGRAMS: &[(&str, &str)] = &[
    ("decoded-otherwise", "Valgrind reads eight bytes of an absolute address also where the address has 32 bits"),
    ("faults-misaligned", "only moves fault where an operand of 16 bytes is not aligned"),
    ("faults-part", "the end of an operand whose value does not matter does not fault"),
    ("strings-segment", "Valgrind ends"),
];

/// Instructions of which Valgrind mistakes the length where their operand is relative to RIP, and ends. Behind each one
/// is the first version that was seen not to.
pub const END_BY_RIP: &[(&str, (u32, u32))] = &[("rorx", (3, 24))];

/// Instructions of which Valgrind reads a part of the operand: the rest does not fault (`faults-part`).
pub const READ_IN_PART: &[&str] = &["vpsll", "vpsrl", "vpsra", "vmovddup", "vperm2", "punpckl"];
