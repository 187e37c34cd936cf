//! Decoders against the leaves of processors: register values out of the dumps that libcpuid collects
//! (github.com/anrieff/libcpuid, folder `tests`). An EPYC under Firecracker has those of Zen 3 too.

use super::*;
use crate::MachineSpec;
use arrays::{G1, K4, M2, entries};

const AMD: [u32; 3] = [0x6874_7541, 0x444d_4163, 0x6974_6e65];
const INTEL: [u32; 3] = [0x756e_6547, 0x6c65_746e, 0x4965_6e69];

/// Leaves 0, 1 and 0x80000000 for a vendor, and the others.
fn dump(vendor: [u32; 3], signature: u32, others: &[(u32, u32, [u32; 4])]) -> Leaves {
    let [ebx, ecx, edx] = vendor;
    let base =
        [((0, 0), [0x20, ebx, ecx, edx]), ((1, 0), [signature, 0, 0, 0]), ((0x8000_0000, 0), [0x8000_0028, 0, 0, 0])];
    base.into_iter().chain(others.iter().map(|&(leaf, subleaf, registers)| ((leaf, subleaf), registers))).collect()
}

/// Leaves 0x80000005, 6 and 0x19: EAX and EBX.
fn amd(signature: u32, first: [u32; 2], second: [u32; 2], gigabyte: [u32; 2]) -> Leaves {
    let two = |leaf, [eax, ebx]: [u32; 2]| (leaf, 0, [eax, ebx, 0, 0]);
    dump(AMD, signature, &[two(0x8000_0005, first), two(0x8000_0006, second), two(0x8000_0019, gigabyte)])
}

fn zen1() -> Leaves {
    amd(0x0080_0f11, [0xff40_ff40; 2], [0x2600_6400, 0x6600_6400], [0xf040_f040, 0])
}

fn zen3() -> Leaves {
    amd(0x00a2_0f10, [0xff40_ff40; 2], [0x4800_2200, 0x6800_4200], [0xf040_f040, 0xf040_0000])
}

fn zen4() -> Leaves {
    amd(0x00a6_0f12, [0xff48_ff40; 2], [0x5c00_2200, 0x6c00_4200], [0xf048_f040, 0xf040_0000])
}

fn zen5() -> Leaves {
    let mut leaves = amd(0x00b4_0f40, [0xff60_ff40; 2], [0x4080_2040, 0x6080_4040], [0xf060_f040, 0x4020_0000]);
    leaves.0.insert((0x8000_0021, 0), [0x593f_ffcf, 0x0008_0382, 0, 0]);
    leaves
}

/// Leaf 0x18: EBX, ECX, EDX of the subleaves from 1 on.
fn intel(signature: u32, translations: &[[u32; 3]]) -> Leaves {
    let count = translations.len() as u32;
    let all = translations.iter().zip(1..).map(|([b, c, d], i)| (0x18, i, [0, *b, *c, *d]));
    let all: Vec<_> = [(0x18, 0, [count, 0, 0, 0])].into_iter().chain(all).collect();
    dump(INTEL, signature, &all)
}

const GOLDEN_COVE: [[u32; 3]; 8] = [
    [0x0008_0001, 0x20, 0x4022],
    [0x0008_0006, 0x04, 0x4022],
    [0x0010_000f, 0x01, 0x4125],
    [0x0004_0001, 0x10, 0x4024],
    [0x0004_0006, 0x08, 0x4024],
    [0x0008_0008, 0x01, 0x4124],
    [0x0008_0007, 0x80, 0x4043],
    [0x0008_0009, 0x80, 0x4043],
];

fn redwood_cove() -> Leaves {
    let mut all = GOLDEN_COVE;
    all[3][0] = 0x0006_0001;
    intel(0x000a_06a4, &all)
}

fn gracemont() -> Leaves {
    let all = [[0x0030_0001, 1, 0x121], [0x0004_0003, 0x200, 0x43], [0x0040_0001, 1, 0x122], [0x0008_0008, 1, 0x143]];
    intel(0x000b_06e0, &all)
}

fn ice_lake() -> Leaves {
    let all = [
        [0x0008_0007, 0x01, 0x4122],
        [0x0010_000f, 0x01, 0x4125],
        [0x0004_0001, 0x10, 0x4024],
        [0x0004_0006, 0x08, 0x4024],
        [0x0008_0008, 0x01, 0x4124],
        [0x0008_0007, 0x80, 0x4043],
        [0x0008_0009, 0x80, 0x4043],
    ];
    intel(0x0007_06e5, &all)
}

fn skylake() -> Leaves {
    dump(INTEL, 0x0005_06e3, &[(2, 0, [0x7603_6301, 0x00f0_b5ff, 0, 0x00c3_0000])])
}

/// Entries for 4 KB, 2 MB, 1 GB of a side and level.
fn found(leaves: &Leaves, side: Side, level: u8) -> [u64; 3] {
    let all: Vec<Array> = super::arrays(leaves).into_iter().filter(|a| a.side == side && a.level == level).collect();
    [K4, M2, G1].map(|size| entries(&all, size))
}

#[test]
fn amd_leaves() {
    for (leaves, first, second, fetch) in [
        (zen1(), 64, [1536, 1536, 0], [1024, 1024, 0]),
        (zen3(), 64, [2048, 2048, 64], [512, 512, 0]),
        (zen4(), 72, [3072, 3072, 64], [512, 512, 0]),
        (zen5(), 96, [4096, 4096, 1024], [2048, 2048, 0]),
    ] {
        assert_eq!(found(&leaves, Side::Data, 1), [first; 3]);
        assert_eq!(found(&leaves, Side::Fetch, 1), [64; 3]);
        assert_eq!((found(&leaves, Side::Data, 2), found(&leaves, Side::Fetch, 2)), (second, fetch));
    }
    let ways: Vec<_> = super::arrays(&zen3()).iter().filter(|a| a.level == 2).map(|a| (a.side, a.ways)).collect();
    use Side::{Data, Fetch};
    assert_eq!(ways, [(Fetch, Some(4)), (Data, Some(8)), (Fetch, Some(2)), (Data, Some(4)), (Data, None)]);
}

#[test]
fn intel_leaves() {
    let golden_cove = intel(0x0009_0672, &GOLDEN_COVE);
    assert_eq!(found(&golden_cove, Side::Data, 1), [64, 32, 8]);
    assert_eq!(found(&golden_cove, Side::Fetch, 1), [256, 32, 0]);
    assert_eq!(found(&golden_cove, Side::Store, 1), [16; 3]);
    assert_eq!(found(&golden_cove, Side::Both, 2), [2048, 1024, 1024]);
    assert_eq!(found(&redwood_cove(), Side::Data, 1), [96, 32, 8]);
    assert_eq!((found(&gracemont(), Side::Data, 1), found(&gracemont(), Side::Both, 2)), ([48, 0, 0], [2048, 2048, 8]));
    assert_eq!((found(&skylake(), Side::Data, 1), found(&skylake(), Side::Fetch, 1)), ([64, 32, 4], [64, 8, 0]));
    assert_eq!(found(&skylake(), Side::Both, 2), [1536, 1536, 16]);
}

fn described(leaves: Leaves) -> (String, MachineSpec) {
    let toml = describe::describe(&Identity::X86(leaves), &Prices::default());
    assert!(toml.lines().all(|line| line.len() <= 120), "{toml}");
    let spec = MachineSpec::from_toml("this", &toml, "", 0).unwrap_or_else(|e| panic!("{e}\n{toml}"));
    crate::Lab::new(vec![MachineSpec::from_toml("this", &toml, "", 0).unwrap()], crate::Options::default())
        .unwrap_or_else(|e| panic!("{e}\n{toml}"));
    (toml, spec)
}

/// A processor whose core has a preset is that preset.
#[test]
fn cores_are_as_their_presets() {
    for (leaves, preset) in [
        (zen1(), "today/zen1"),
        (zen3(), "today/zen3"),
        (zen4(), "today/zen4"),
        (zen5(), "today/zen5"),
        (skylake(), "today/skylake"),
        (ice_lake(), "today/ice-lake"),
        (intel(0x0009_0672, &GOLDEN_COVE), "today/golden-cove"),
        (redwood_cove(), "today/granite-rapids"),
        (gracemont(), "today/gracemont"),
    ] {
        let (toml, this) = described(leaves);
        let preset = MachineSpec::parse(preset, 0).unwrap();
        assert_eq!(this.params.as_json(), preset.params.as_json(), "{toml}");
    }
}

/// Where CPUID and the preset differ, the comment says so; nowhere else.
#[test]
fn differences_are_said() {
    let differ = |leaves, parts: &[&str]| {
        let toml = described(leaves).0.replace("\n# ", " ");
        assert_eq!(toml.matches("Published are other numbers").count(), parts.len(), "{toml}");
        for part in parts {
            assert!(toml.contains(&format!("Published are other numbers, which are taken: {part}.")), "{toml}");
        }
    };
    differ(intel(0x0009_0672, &GOLDEN_COVE), &["96 for 4K"]);
    differ(skylake(), &["128 for 4K"]);
    differ(ice_lake(), &["128 for 4K"]);
    differ(zen1(), &["512 for 4K, 512 for 2M"]);
    [zen3(), zen4(), zen5(), redwood_cove(), gracemont()].into_iter().for_each(|leaves| differ(leaves, &[]));
}

/// Hidden leaves, unknown models and unknown vendors still give a description.
#[test]
fn what_is_hidden_is_not_made_up() {
    let (toml, this) = described(dump(AMD, 0x00a0_0f11, &[]));
    assert_eq!(this.params.as_json(), MachineSpec::parse("today/zen3", 0).unwrap().params.as_json());
    assert!(toml.contains("CPUID does not tell; as in today/zen3"), "{toml}");
    let mut unknown = zen4();
    unknown.0.insert((1, 0), [0x00f0_0f00, 0, 0, 0]);
    let (toml, this) = described(unknown);
    assert!(toml.contains("No preset describes its core") && toml.contains("Assumed: sizes"), "{toml}");
    assert_eq!(this.params.texts("l1d"), ["4K|2M|1G:72"]);
    let (toml, this) = described(Leaves::default());
    assert!(toml.replace("\n# ", " ").contains("the default of farreach"), "{toml}");
    assert_eq!(this.params.texts("l1d"), ["4K:64/4", "2M:32/4", "1G:4"]);
}

#[test]
fn a_virtual_machine_says_so() {
    let mut leaves = zen3();
    leaves.0.insert((1, 0), [0x00a0_0f11, 0, 1 << 31, 0]);
    leaves.0.insert((0x4000_0000, 0), [0x4000_0001, 0x4b4d_564b, 0x564b_4d56, 0x4d]);
    let (toml, _) = described(leaves);
    assert!(toml.contains("virtual machine (hypervisor KVMKVMKVM)"), "{toml}");
    assert!(!toml.contains("threads of a core"), "{toml}");
}

#[test]
fn threads_of_a_core_are_told() {
    let mut leaves = zen3();
    leaves.0.insert((0x8000_001e, 0), [0, 0x100, 0, 0]);
    let (toml, _) = described(leaves);
    assert!(toml.contains("2 threads of a core share its TLBs"), "{toml}");
}

#[test]
fn arm_is_its_preset_or_nothing() {
    let toml = describe::describe(&Identity::Arm(0x413f_d0c1), &Prices::default());
    let this = MachineSpec::from_toml("this", &toml, "", 0).unwrap();
    assert_eq!(this.params.as_json(), MachineSpec::parse("today/neoverse-n1", 0).unwrap().params.as_json());
    let toml = describe::describe(&Identity::Arm(0x410f_d490), &Prices::default());
    assert!(toml.contains("No preset describes"), "{toml}");
    MachineSpec::from_toml("this", &toml, "", 0).unwrap();
}

#[test]
fn measured_prices_replace_those_of_the_preset() {
    let price = |cycles, source: &str| Some(Price { cycles, source: source.into() });
    let prices = Prices { second_level: price(8.04, "Measured"), walk_reference: price(31.0, "Measured too") };
    let toml = describe::describe(&Identity::X86(zen3()), &prices);
    let this = MachineSpec::from_toml("this", &toml, "", 0).unwrap_or_else(|e| panic!("{e}\n{toml}"));
    assert_eq!(this.params.number("l2_hit_data_cycles"), 8.0);
    assert_eq!(this.params.number("walk_reference_cycles"), 31.0);
    assert!(toml.contains("# Measured.\n") && toml.contains("# Measured too.\n"), "{toml}");
}

/// Leaf 4 of a Core i9-12900K: 48 KB 12-way, 32 KB 8-way, 1.25 MB 10-way, 30 MB 12-way.
#[test]
fn caches_are_read() {
    let leaves = dump(
        INTEL,
        0x0009_0672,
        &[
            (4, 0, [0xfc00_4121, 0x02c0_003f, 0x3f, 0]),
            (4, 1, [0xfc00_4122, 0x01c0_003f, 0x3f, 0]),
            (4, 2, [0xfc01_c143, 0x0240_003f, 0x7ff, 0]),
            (4, 3, [0xfc1f_c163, 0x02c0_003f, 0x9fff, 4]),
        ],
    );
    let keys = caches::keys(&leaves);
    let text: Vec<String> = keys.iter().map(|(key, value)| format!("{key} = {value}")).collect();
    let expected =
        ["cache_l1d = \"48K/12\"", "cache_l1i = \"32K/8\"", "cache_l2 = \"1280K/10\"", "cache_llc = \"6M/12\""];
    assert_eq!((&text[..4], text[4].as_str()), (&expected.map(String::from)[..], "cache_slices = 5"));
    described(leaves);
}

/// Leaves that a hypervisor made up still give a description that runs.
#[test]
fn made_up_leaves_give_a_machine() {
    let mut state = 7u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // Few bits are set in most registers.
        let mask = [u32::MAX, 0xff, 0xf0f, 0x00ff_00ff][(state >> 62) as usize];
        (state >> 24) as u32 & mask
    };
    for round in 0..300 {
        let signature = [0x00a2_0f10, 0x0009_0672, 0x00f0_0f00, random()][round % 4];
        let leaves = [2, 4, 0x18, 0x1a, 0x8000_0005, 0x8000_0006, 0x8000_0019, 0x8000_001d, 0x8000_001e, 0x8000_0021];
        let mut others = Vec::new();
        for leaf in leaves {
            (0..4).for_each(|subleaf| others.push((leaf, subleaf, [random(), random(), random(), random()])));
        }
        described(dump([AMD, INTEL][round / 4 % 2], signature, &others));
    }
}
