//! Which preset describes a core, by family and model of x86 processors and by the part of Arm's.

use super::{Signature, Vendor};
use std::ops::RangeInclusive;

/// Cores that come after each other, each with the features of those before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Line {
    Zen,
    /// Intel's large cores: 0 Skylake, 1 Sunny Cove, 2 Willow Cove, 3 Golden Cove, 4 Redwood Cove.
    Large,
    /// Intel's small cores: 0 Gracemont, 1 Crestmont.
    Small,
}

/// A core of an x86 processor and the preset of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Core {
    /// Name of the microarchitecture.
    pub name: &'static str,
    pub preset: &'static str,
    pub line: Line,
    pub generation: u8,
    /// Kilobytes of its first cache of data, and of instructions: as in the dumps of libcpuid.
    pub l1d_kb: u16,
    pub l1i_kb: u16,
}

const fn zen(generation: u8, [l1d_kb, l1i_kb]: [u16; 2], name: &'static str, preset: &'static str) -> Core {
    Core { name, preset, line: Line::Zen, generation, l1d_kb, l1i_kb }
}

const fn large(generation: u8, [l1d_kb, l1i_kb]: [u16; 2], name: &'static str, preset: &'static str) -> Core {
    Core { name, preset, line: Line::Large, generation, l1d_kb, l1i_kb }
}

const fn small(generation: u8, name: &'static str) -> Core {
    Core { name, preset: "today/gracemont", line: Line::Small, generation, l1d_kb: 32, l1i_kb: 64 }
}

const ZEN1: Core = zen(1, [32, 64], "Zen 1", "today/zen1");
const ZEN4: Core = zen(4, [32, 32], "Zen 4", "today/zen4");
const ZEN5: Core = zen(5, [48, 32], "Zen 5", "today/zen5");

/// Families and models of AMD, after Linux, arch/x86/kernel/cpu/amd.c (`bsp_init_amd`): first match.
const AMD: [(u8, RangeInclusive<u8>, Core); 9] = [
    (0x17, 0x00..=0x2f, ZEN1),
    (0x17, 0x30..=0xff, zen(2, [32, 32], "Zen 2", "today/zen2")),
    (0x18, 0x00..=0xff, Core { name: "Zen 1 (Hygon)", ..ZEN1 }),
    (0x19, 0x10..=0x1f, ZEN4),
    (0x19, 0x60..=0x7f, ZEN4),
    (0x19, 0xa0..=0xaf, Core { name: "Zen 4c", ..ZEN4 }),
    (0x19, 0x00..=0x5f, zen(3, [32, 32], "Zen 3", "today/zen3")),
    (0x1a, 0x00..=0x4f, ZEN5),
    (0x1a, 0x60..=0x7f, ZEN5),
];

/// Models of Intel's family 6, after Linux, arch/x86/include/asm/intel-family.h.
const INTEL: [(&[u8], Core); 9] = [
    (&[0x4e, 0x5e, 0x55, 0x8e, 0x9e, 0xa5, 0xa6], large(0, [32, 32], "Skylake", "today/skylake")),
    (&[0x6a, 0x6c, 0x7d, 0x7e], large(1, [48, 32], "Sunny Cove", "today/ice-lake")),
    (&[0x8c, 0x8d], large(2, [48, 32], "Willow Cove, after Sunny Cove", "today/ice-lake")),
    (&[0xa7], large(1, [48, 32], "Cypress Cove, after Sunny Cove", "today/ice-lake")),
    (&[0x8f, 0x97, 0x9a], large(3, [48, 32], "Golden Cove", "today/golden-cove")),
    (&[0xb7, 0xba, 0xbf, 0xcf], large(3, [48, 32], "Raptor Cove, after Golden Cove", "today/golden-cove")),
    (&[0xaa, 0xac, 0xad, 0xae], large(4, [48, 64], "Redwood Cove", "today/granite-rapids")),
    (&[0xbe], small(0, "Gracemont")),
    (&[0xaf, 0xb6], small(1, "Crestmont, after Gracemont")),
];
/// Small cores of hybrid processors, which have the model of the large ones.
const SMALL: u8 = 0x20;

/// Parts of Arm (implementer 0x41), after Linux, arch/arm64/include/asm/cputype.h: name and preset.
const ARM: [(u64, &str, &str); 5] = [
    (0xd0b, "Cortex-A76", "today/cortex-a76"),
    (0xd0c, "Neoverse N1", "today/neoverse-n1"),
    (0xd40, "Neoverse V1", "today/neoverse-v1"),
    (0xd4f, "Neoverse V2", "today/neoverse-v2"),
    (0xd84, "Neoverse V3", "today/neoverse-v3"),
];

/// The core that family and model of an x86 processor name, if there is a preset of it.
pub(super) fn x86(signature: &Signature) -> Option<Core> {
    let Signature { family, model, .. } = *signature;
    match signature.vendor {
        Vendor::Amd => AMD.iter().find(|(f, models, _)| *f == family && models.contains(&model)).map(|row| row.2),
        Vendor::Intel if family == 6 => {
            let found = INTEL.iter().find(|(models, _)| models.contains(&model)).map(|row| row.1)?;
            let hybrid = found.line == Line::Large && signature.core_type == SMALL;
            // Those beside a Redwood Cove are Crestmont.
            let generation = u8::from(found.generation > 3);
            Some(if hybrid { small(generation, "Gracemont or a small core after it") } else { found })
        }
        _ => None,
    }
}

/// All cores of a vendor, oldest first.
pub(super) fn of(vendor: Vendor) -> Vec<Core> {
    let mut all: Vec<Core> = match vendor {
        Vendor::Amd => AMD.iter().map(|row| row.2).collect(),
        Vendor::Intel => INTEL.iter().map(|row| row.1).collect(),
        Vendor::Other => Vec::new(),
    };
    all.sort_by_key(|core| core.generation);
    all
}

/// Name and preset of the core of an Arm processor, if there is one.
pub(super) fn arm(midr: u64) -> Option<(&'static str, &'static str)> {
    let (implementer, part) = (midr >> 24 & 0xff, midr >> 4 & 0xfff);
    (implementer == 0x41).then(|| ARM.iter().find(|row| row.0 == part).map(|row| (row.1, row.2)))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PRESETS;

    #[test]
    fn every_core_has_a_preset() {
        let x86 = AMD.iter().map(|row| row.2.preset).chain(INTEL.iter().map(|row| row.1.preset));
        for name in x86.chain(ARM.iter().map(|row| row.2)) {
            assert!(PRESETS.iter().any(|preset| preset.name == name), "{name}");
        }
        let models: Vec<u8> = INTEL.iter().flat_map(|row| row.0).copied().collect();
        assert!(models.iter().enumerate().all(|(i, model)| !models[..i].contains(model)), "a model is there twice");
    }

    #[test]
    fn arm_parts_are_found() {
        assert_eq!(arm(0x413f_d0c1).unwrap().1, "today/neoverse-n1");
        assert_eq!(arm(0x410f_d4f0).unwrap().1, "today/neoverse-v2");
        assert_eq!((arm(0x420f_d0c1), arm(0x410f_d491)), (None, None));
    }
}
