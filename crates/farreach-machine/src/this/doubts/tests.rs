//! Recorded dumps: leaves 1, 7 and those of the first caches as libcpuid collects them (github.com/anrieff/libcpuid,
//! folder `tests`), and of a virtual machine on a Granite Rapids that has the model of a Cypress Cove.

use super::super::{Identity, Prices, Signature, cores, describe};
use super::*;

const AMD: [u32; 3] = [0x6874_7541, 0x444d_4163, 0x6974_6e65];
const INTEL: [u32; 3] = [0x756e_6547, 0x6c65_746e, 0x4965_6e69];

/// A dump: the core that the processor has, EAX of leaf 1, of leaf 0x1A, leaf 7 (EBX, ECX, EDX of subleaf 0, EAX and
/// EDX of subleaf 1), EBX and ECX of the subleaves for the first caches of data and of instructions.
type Dump = (&'static str, u32, u32, [u32; 5], [u32; 4]);

const D32: [u32; 2] = [0x01c0_003f, 0x3f];
const D48: [u32; 2] = [0x02c0_003f, 0x3f];

#[rustfmt::skip]
const DUMPS: [Dump; 15] = [
    ("Zen 1", 0x0080_0f11, 0, [0x209c_01a9, 0, 0, 0, 0], [D32[0], D32[1], 0x00c0_003f, 0xff]),
    ("Zen 2", 0x0087_0f10, 0, [0x219c_91a9, 0x0040_0004, 0, 0, 0], [D32[0], D32[1], D32[0], D32[1]]),
    ("Zen 3", 0x00a2_0f10, 0, [0x219c_97a9, 0x0040_068c, 0x10, 0, 0], [D32[0], D32[1], D32[0], D32[1]]),
    ("Zen 4", 0x00a6_0f12, 0, [0xf1bf_97a9, 0x0040_5fce, 0x1000_0010, 0x20, 0], [D32[0], D32[1], D32[0], D32[1]]),
    ("Zen 5", 0x00b4_0f40, 0, [0xf1bf_97ab, 0x1940_5fce, 0x1000_0110, 0x30, 0], [D48[0], D48[1], D32[0], D32[1]]),
    ("Skylake", 0x0005_0654, 0, [0xd39f_fffb, 0, 0, 0, 0], [D32[0], D32[1], D32[0], D32[1]]),
    ("Sunny Cove", 0x0007_06e5, 0, [0xf2bf_27ef, 0x4040_5f4e, 0xbc00_0410, 0, 0], [D48[0], D48[1], D32[0], D32[1]]),
    ("Cypress Cove, after Sunny Cove", 0x000a_0671, 0, [0xf2bf_67eb, 0x0040_5f4e, 0xbc00_0410, 0, 0],
     [D48[0], D48[1], D32[0], D32[1]]),
    ("Willow Cove, after Sunny Cove", 0x0008_06c1, 0, [0xf3bf_a7eb, 0x18c0_5fce, 0xfc10_0510, 0, 0],
     [D48[0], D48[1], D32[0], D32[1]]),
    ("Golden Cove", 0x0009_0672, 0x4000_0001, [0x239c_a7eb, 0x98c0_27ac, 0xfc1c_c410, 0x0040_0810, 0],
     [D48[0], D48[1], D32[0], D32[1]]),
    ("Raptor Cove, after Golden Cove", 0x000b_0671, 0x4000_0001,
     [0x239c_27eb, 0x98c0_27ac, 0xfc1c_c410, 0x0040_0810, 0x0004_0000], [D48[0], D48[1], D32[0], D32[1]]),
    ("Redwood Cove", 0x000a_06a4, 0x4000_0002, [0x239c_27eb, 0x9940_07ac, 0xfc18_c410, 0x4040_0910, 0x0004_0000],
     [D48[0], D48[1], 0x03c0_003f, 0x3f]),
    ("Gracemont or a small core after it", 0x0009_0672, 0x2000_0001,
     [0x239c_a7eb, 0x98c0_27ac, 0xfc1c_c410, 0x0040_0810, 0], [D32[0], D32[1], D32[0], 0x7f]),
    ("Gracemont or a small core after it", 0x000a_06a4, 0x2000_0002,
     [0x239c_27eb, 0x9940_07ac, 0xfc18_c410, 0x4040_0910, 0x0004_0000], [D32[0], D32[1], D32[0], 0x7f]),
    HIDDEN,
];

/// The virtual machine: its model is that of Cypress Cove.
const HIDDEN: Dump = (
    "",
    0x000a_0671,
    0,
    [0xf1bf_2ffb, 0x1a41_5f46, 0x23c1_4010, 0x1c30, 0x0008_4000],
    [D48[0], D48[1], 0x03c0_003f, 0x3f],
);

fn leaves((_, signature, kind, [b, c, d, a1, d1], [data, data_sets, code, code_sets]): Dump) -> Leaves {
    let amd = signature >> 8 & 0xf == 0xf;
    let [ebx, ecx, edx] = if amd { AMD } else { INTEL };
    let caches = if amd { 0x8000_001d } else { 4 };
    Leaves::from_iter([
        ((0, 0), [0x20, ebx, ecx, edx]),
        ((1, 0), [signature, 0, 0, 0]),
        ((7, 0), [2, b, c, d]),
        ((7, 1), [a1, 0, 0, d1]),
        ((0x1a, 0), [kind, 0, 0, 0]),
        ((caches, 0), [0x121, data, data_sets, 0]),
        ((caches, 1), [0x122, code, code_sets, 0]),
        ((0x8000_0000, 0), [0x8000_0028, 0, 0, 0]),
        ((0x8000_0001, 0), [0, 0, 1 << 22, 0]),
    ])
}

/// The core by its model, and what speaks against it.
fn judged(leaves: &Leaves) -> (Core, Vec<String>) {
    let core = cores::x86(&Signature::of(leaves)).unwrap();
    (core, doubts(&core, leaves))
}

#[test]
fn nothing_speaks_against_processors_that_are_what_they_say() {
    for dump in DUMPS.into_iter().filter(|dump| *dump != HIDDEN) {
        let (core, doubts) = judged(&leaves(dump));
        assert_eq!((core.name, doubts), (dump.0, Vec::new()));
    }
}

/// Each processor with the model of each other of its vendor: a newer one is noticed, and what is taken for it could be
/// it.
#[test]
fn another_model_is_noticed_where_the_processor_has_more() {
    let mut noticed = 0;
    for dump in DUMPS {
        let own = leaves(dump);
        let vendor = Signature::of(&own).vendor;
        for (_, model, kind, ..) in DUMPS {
            if (model >> 8 & 0xf == 0xf) != (vendor == Vendor::Amd) {
                continue;
            }
            let other = leaves((dump.0, model, kind, dump.3, dump.4));
            let (named, doubts) = judged(&other);
            let (true_core, _) = judged(&own);
            // The small core of a Meteor Lake shows no more than a Gracemont.
            let newer = named.line == true_core.line && named.generation >= true_core.generation;
            if dump == HIDDEN || newer || [named.line, true_core.line] == [Line::Small; 2] {
                continue;
            }
            noticed += usize::from(!doubts.is_empty());
            assert!(!doubts.is_empty(), "{} as {}", dump.0, named.name);
            let fit = others(vendor, &other);
            assert!(fit.iter().any(|core| core.preset == true_core.preset), "{} as {}", dump.0, named.name);
        }
    }
    assert!(noticed > 40, "{noticed}");
}

/// What hides its model is not called by it.
#[test]
fn a_hidden_model_is_said() {
    let leaves = leaves(HIDDEN);
    let (named, doubts) = judged(&leaves);
    assert_eq!(named.name, "Cypress Cove, after Sunny Cove");
    let expected = [
        "movdiri",
        "serialize",
        "avx_vnni",
        "avx512_fp16",
        "amx_tile",
        "prefetchi",
        "avx10",
        "64 KB of instructions in the first cache instead of 32",
    ];
    assert_eq!(doubts, expected);
    let toml = describe(&Identity::X86(leaves), &Prices::default()).replace("\n# ", " ");
    for words in [
        "Its model is that of Cypress Cove, after Sunny Cove, but CPUID also shows",
        "Assumed: Redwood Cove, described in today/granite-rapids.",
        "(its model is hidden; taken for Redwood Cove)\"\n",
    ] {
        assert!(toml.contains(words), "{words}: {toml}");
    }
    assert!(!toml.contains("Its core is"), "{toml}");
}

/// Leaves that are hidden speak against nothing; features that no core has together leave no preset.
#[test]
fn what_is_hidden_is_no_doubt() {
    let bare = leaves(("", 0x000a_0671, 0, [0; 5], [0; 4]));
    let hidden: Leaves = bare.0.into_iter().filter(|(leaf, _)| ![4, 7].contains(&leaf.0)).collect();
    assert_eq!(judged(&hidden).1, Vec::<String>::new());
    let impossible = leaves(("", 0x000a_0671, 0, [0, 0, 1 << 24, 1 << 23, 0], [D48[0], D48[1], D32[0], D32[1]]));
    assert_eq!(judged(&impossible).1, ["amx_tile", "avx_ifma"]);
    let toml = describe(&Identity::X86(impossible), &Prices::default());
    assert!(toml.contains("No core that a preset describes has all of that."), "{toml}");
}
