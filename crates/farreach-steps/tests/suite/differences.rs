//! What the recorder says otherwise, and is known. The book says the same, in "What differs from a native run". Each row
//! must be observed: a row that no longer applies fails the test of the families until it is taken out.

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

/// The same references of this size.
fn sized(right: &[Access], said: &[Access], size: u32) -> bool {
    right.iter().map(|a| Access { size, ..*a }).eq(said.iter().copied())
}

/// Each reference in pieces of this size.
fn pieces(right: &[Access], said: &[Access], size: u32) -> bool {
    parts(right, said, |whole| (0..whole / size).map(|n| (n * size, size)).collect())
}

/// One reference in these parts: offset and size.
fn parts(right: &[Access], said: &[Access], of: impl Fn(u32) -> Vec<(u32, u32)>) -> bool {
    let [a] = right else { return false };
    let all = of(a.size).into_iter().map(|(offset, size)| Access { addr: a.addr + u64::from(offset), size, ..*a });
    all.eq(said.iter().copied())
}

/// The byte with the bit, of each reference.
fn byte_inside(right: &[Access], said: &[Access]) -> bool {
    let inside = |(a, b): (&Access, &Access)| {
        a.kind == b.kind && b.size == 1 && (a.addr..a.addr + u64::from(a.size)).contains(&b.addr)
    };
    right.len() == said.len() && right.iter().zip(said).all(inside)
}

/// One more load, of the same.
fn loads_twice(right: &[Access], said: &[Access]) -> bool {
    said.first().is_some_and(|first| first.kind == Kind::Load && said[1..] == *right && right.first() == Some(first))
}

/// All known differences.
pub const DIFFERENCES: &[Difference] = &[
    Difference {
        locked: true,
        ..references("atomic read-modify-write: load, load, store", "base", &[""], loads_twice)
    },
    references("bt, bts, btr, btc with the offset in a register: one byte", "base", &["Bt"], byte_inside),
    Difference {
        locked: true,
        ..references("lock bts, btr, btc with the offset in a register: both", "base", &["Bt"], |right, said| {
            said.len() == 3 && said[0] == said[1] && byte_inside(right, &said[1..])
        })
    },
    references("loads whose value nobody uses are missing", "base", &[""], |right, said| {
        right.iter().filter(|a| a.kind == Kind::Store).eq(said)
    }),
    references("punpckl of MMX: 8 bytes", "mmx", &["Punpckl"], |right, said| sized(right, said, 8)),
    references("shifts with a count in memory: 8 bytes", "sse2", &["Ps", "VEX_Vps"], |right, said| {
        sized(right, said, 8)
    }),
    references(
        "conversions and roundings: an access for each element of 4 bytes",
        "sse2",
        CONVERSIONS,
        |right, said| pieces(right, said, 4),
    ),
    references(
        "conversions and roundings: an access for each element of 8 bytes",
        "sse2",
        CONVERSIONS,
        |right, said| pieces(right, said, 8),
    ),
    references("fused multiply-add: an access for each element of 4 bytes", "fma", &["VEX_Vf"], |right, said| {
        pieces(right, said, 4)
    }),
    references("fused multiply-add: an access for each element of 8 bytes", "fma", &["VEX_Vf"], |right, said| {
        pieces(right, said, 8)
    }),
    references("vperm2f128, vperm2i128: the half that is used", "avx", &["VEX_Vperm2"], |right, said| {
        parts(right, said, |_| vec![(0, 16)]) || parts(right, said, |_| vec![(16, 16)])
    }),
    references("vmovddup: the elements that it uses", "avx", &["VEX_Vmovddup_ymm"], |right, said| {
        parts(right, said, |_| vec![(0, 8), (16, 8)])
    }),
    references(
        "maskmovq, maskmovdqu: load and store of the whole",
        "sse2",
        &["Maskmov"],
        |_, said| matches!(said, [load, store] if load.kind == Kind::Load && store.kind == Kind::Store && load.size == store.size),
    ),
    references("fxsave, fxrstor: parts, bytes 24 to 31 twice", "sse2", &["Fx"], |right, said| {
        parts(right, said, |_| {
            [(0, 160), (24, 8)].into_iter().chain((160..416).step_by(16).map(|at| (at, 16))).collect()
        })
    }),
    references(
        "xsave, xrstor: parts, a byte of the header loaded and stored",
        "avx",
        &["Xsave", "Xrstor"],
        |right, said| {
            let [whole] = right else { return false };
            let inside = |a: &Access| (whole.addr..whole.addr + u64::from(whole.size)).contains(&a.addr);
            let header = |a: &Access| a.addr == whole.addr + 512;
            said.len() > 1 && said.iter().all(|a| inside(a) && (a.kind == whole.kind || header(a)))
        },
    ),
    Difference {
        place: Place::BehindLast,
        ..references("repeated string instructions: one more fetch", "base", STRINGS, |_, _| true)
    },
];

const CONVERSIONS: &[&str] = &["Cvt", "Round", "VEX_Vcvtps2pd"];
const STRINGS: &[&str] = &["Movs", "Stos", "Lods", "Cmps", "Scas"];

/// Programs of `fixtures/steps` of which the recorder makes something else from some place on, and why.
pub const PROGRAMS: &[(&str, &str)] = &[
    ("decoded-otherwise", "Valgrind reads eight bytes of an absolute address also where the address has 32 bits"),
    ("faults-arithmetic", "code before a SIGFPE is lost"),
    ("faults-other", "ud2 and misaligned movaps are fetched, and places of faults are stale"),
    ("faults-pages", "the place of a fault in an unrolled loop is stale"),
    ("faults-repeated", "a repeated instruction loses an element when it goes on behind a fault"),
    ("strings-segment", "Valgrind ends"),
];
