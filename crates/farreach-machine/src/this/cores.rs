//! Which preset describes a core, by family and model of x86 processors and by the part of Arm's.

use super::{Signature, Vendor};
use std::ops::RangeInclusive;

/// A core and the preset of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Core {
    /// Name of the microarchitecture.
    pub name: &'static str,
    pub preset: &'static str,
}

const fn core(name: &'static str, preset: &'static str) -> Core {
    Core { name, preset }
}

/// Families and models of AMD, after Linux, arch/x86/kernel/cpu/amd.c (`bsp_init_amd`): first match.
const AMD: [(u8, RangeInclusive<u8>, Core); 9] = [
    (0x17, 0x00..=0x2f, core("Zen 1", "today/zen1")),
    (0x17, 0x30..=0xff, core("Zen 2", "today/zen2")),
    (0x18, 0x00..=0xff, core("Zen 1 (Hygon)", "today/zen1")),
    (0x19, 0x10..=0x1f, core("Zen 4", "today/zen4")),
    (0x19, 0x60..=0x7f, core("Zen 4", "today/zen4")),
    (0x19, 0xa0..=0xaf, core("Zen 4c", "today/zen4")),
    (0x19, 0x00..=0x5f, core("Zen 3", "today/zen3")),
    (0x1a, 0x00..=0x4f, core("Zen 5", "today/zen5")),
    (0x1a, 0x60..=0x7f, core("Zen 5", "today/zen5")),
];

const SKYLAKE: Core = core("Skylake", "today/skylake");
const GOLDEN_COVE: Core = core("Golden Cove", "today/golden-cove");
const REDWOOD_COVE: Core = core("Redwood Cove", "today/granite-rapids");
const GRACEMONT: Core = core("Gracemont", "today/gracemont");

/// Models of Intel's family 6, after Linux, arch/x86/include/asm/intel-family.h.
const INTEL: [(&[u8], Core); 9] = [
    (&[0x4e, 0x5e, 0x55, 0x8e, 0x9e, 0xa5, 0xa6], SKYLAKE),
    (&[0x6a, 0x6c, 0x7d, 0x7e], core("Sunny Cove", "today/ice-lake")),
    (&[0x8c, 0x8d], core("Willow Cove, after Sunny Cove", "today/ice-lake")),
    (&[0xa7], core("Cypress Cove, after Sunny Cove", "today/ice-lake")),
    (&[0x8f, 0x97, 0x9a], GOLDEN_COVE),
    (&[0xb7, 0xba, 0xbf, 0xcf], core("Raptor Cove, after Golden Cove", "today/golden-cove")),
    (&[0xaa, 0xac, 0xad, 0xae], REDWOOD_COVE),
    (&[0xbe], GRACEMONT),
    (&[0xaf, 0xb6], core("Crestmont, after Gracemont", "today/gracemont")),
];
/// Small cores of hybrid processors, which have the model of the large ones.
const SMALL: u8 = 0x20;

/// Parts of Arm (implementer 0x41), after Linux, arch/arm64/include/asm/cputype.h.
const ARM: [(u64, Core); 5] = [
    (0xd0b, core("Cortex-A76", "today/cortex-a76")),
    (0xd0c, core("Neoverse N1", "today/neoverse-n1")),
    (0xd40, core("Neoverse V1", "today/neoverse-v1")),
    (0xd4f, core("Neoverse V2", "today/neoverse-v2")),
    (0xd84, core("Neoverse V3", "today/neoverse-v3")),
];

/// The core of an x86 processor, if there is a preset of it.
pub(super) fn x86(signature: &Signature) -> Option<Core> {
    let Signature { family, model, .. } = *signature;
    match signature.vendor {
        Vendor::Amd => AMD.iter().find(|(f, models, _)| *f == family && models.contains(&model)).map(|row| row.2),
        Vendor::Intel if family == 6 => {
            let found = INTEL.iter().find(|(models, _)| models.contains(&model)).map(|row| row.1)?;
            let large = found.preset != GRACEMONT.preset;
            Some(if large && signature.core_type == SMALL {
                core("Gracemont or a small core after it", GRACEMONT.preset)
            } else {
                found
            })
        }
        _ => None,
    }
}

/// The core of an Arm processor, if there is a preset of it.
pub(super) fn arm(midr: u64) -> Option<Core> {
    let (implementer, part) = (midr >> 24 & 0xff, midr >> 4 & 0xfff);
    (implementer == 0x41).then(|| ARM.iter().find(|row| row.0 == part).map(|row| row.1))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PRESETS;

    #[test]
    fn every_core_has_a_preset() {
        let all = AMD.iter().map(|r| r.2).chain(INTEL.iter().map(|r| r.1)).chain(ARM.iter().map(|r| r.1));
        for core in all {
            assert!(PRESETS.iter().any(|preset| preset.name == core.preset), "{core:?}");
        }
        let models: Vec<u8> = INTEL.iter().flat_map(|row| row.0).copied().collect();
        assert!(models.iter().enumerate().all(|(i, model)| !models[..i].contains(model)), "a model is there twice");
    }

    #[test]
    fn arm_parts_are_found() {
        assert_eq!(arm(0x413f_d0c1).unwrap().preset, "today/neoverse-n1");
        assert_eq!(arm(0x410f_d4f0).unwrap().preset, "today/neoverse-v2");
        assert_eq!((arm(0x420f_d0c1), arm(0x410f_d491)), (None, None));
    }
}
