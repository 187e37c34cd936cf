//! What the recorder says otherwise, and is known. The book says the same, in "What differs from a native run". Each
//! row must be observed: a row that no longer applies fails the test of the families until it is taken out.

use farreach_types::event::{Access, Kind};

/// Where the recorder differs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// In the loads and stores of an instruction.
    References,
    /// It has one more fetch behind the last iteration of a repeated instruction.
    BehindLast,
    /// It has a fetch of an instruction that faulted.
    Faulted,
}

/// A known difference.
pub struct Difference {
    /// What the recorder says, in a few words.
    pub what: &'static str,
    /// Beginnings of the names of the instructions (`iced_x86::Code`).
    pub codes: &'static [&'static str],
    /// Where it differs.
    pub place: Place,
    /// The feature of the processor without which it cannot be observed.
    pub needs: &'static str,
    /// Whether it is only so where the instruction is an atomic read-modify-write.
    pub locked: bool,
    /// Whether this is what the recorder says in place of the right loads and stores, which come first.
    pub says: fn(&[Access], &[Access]) -> bool,
}

/// A difference in the loads and stores of instructions whose names begin like this.
const fn references(
    what: &'static str,
    needs: &'static str,
    codes: &'static [&'static str],
    says: fn(&[Access], &[Access]) -> bool,
) -> Difference {
    Difference { what, codes, place: Place::References, needs, locked: false, says }
}

/// All known differences.
pub const DIFFERENCES: &[Difference] = &[references(
    "maskmovq, maskmovdqu: load and store of the whole",
    "sse2",
    &["Maskmov"],
    |_, said| matches!(said, [load, store] if load.kind == Kind::Load && store.kind == Kind::Store && load.size == store.size),
)];

/// Programs of `fixtures/steps` of which the recorder makes something else from some place on, and why.
pub const PROGRAMS: &[(&str, &str)] = &[
    ("decoded-otherwise", "Valgrind reads eight bytes of an absolute address also where the address has 32 bits"),
    ("faults-misaligned", "only moves fault where an operand of 16 bytes is not aligned"),
    ("faults-part", "the end of an operand whose value does not matter does not fault"),
    ("strings-segment", "Valgrind ends"),
];

/// Instructions of which Valgrind mistakes the length where their operand is relative to RIP, and ends.
pub const END_BY_RIP: &[&str] = &["rorx"];

/// Instructions of which Valgrind reads a part of the operand: the rest does not fault (`faults-part`).
pub const READ_IN_PART: &[&str] = &["vpsll", "vpsrl", "vpsra", "vmovddup", "vperm2", "punpckl"];
