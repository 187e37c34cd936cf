//! What this processor says of itself, as raw values.

use std::fs;
use std::path::Path;

/// The registers of one leaf of CPUID.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuidLeaf {
    /// EAX before the instruction.
    pub leaf: u32,
    /// ECX before the instruction.
    pub subleaf: u32,
    /// EAX, EBX, ECX, EDX after it.
    pub registers: [u32; 4],
}

/// Leaves that say something about identity, TLBs or caches, and how many subleaves of each.
#[cfg(target_arch = "x86_64")]
const LEAVES: [(u32, u32); 20] = [
    (0x0, 1),
    (0x1, 1),
    (0x2, 1),
    (0x4, 8),
    (0x7, 3),
    (0xb, 1),
    (0x18, 32),
    (0x1a, 1),
    (0x4000_0000, 1),
    (0x8000_0000, 1),
    (0x8000_0001, 1),
    (0x8000_0002, 1),
    (0x8000_0003, 1),
    (0x8000_0004, 1),
    (0x8000_0005, 1),
    (0x8000_0006, 1),
    (0x8000_0019, 1),
    (0x8000_001d, 8),
    (0x8000_001e, 1),
    (0x8000_0021, 1),
];

/// The leaves of CPUID that tell identity, TLBs and caches, of the core that this thread is on. Leaves beyond those
/// that the processor has are left out, and so are subleaves of zeros. Empty on processors without CPUID.
pub fn cpuid() -> Vec<CpuidLeaf> {
    #[cfg(target_arch = "x86_64")]
    {
        let registers = |leaf, subleaf| {
            let r = raw_cpuid::cpuid!(leaf, subleaf);
            [r.eax, r.ebx, r.ecx, r.edx]
        };
        // The first leaf of each group says which is the last; that of hypervisors is defined only if there is one.
        let last = |leaf: u32| registers(leaf & 0xf000_0000, 0)[0];
        let hypervisor = registers(1, 0)[2] >> 31 == 1;
        let there = |leaf: u32| (leaf >> 28 != 4 || hypervisor) && leaf <= last(leaf);
        let subleaves = |(leaf, count): (u32, u32)| (0..count).map(move |subleaf| (leaf, subleaf));
        let all = LEAVES.into_iter().filter(|(leaf, _)| there(*leaf)).flat_map(subleaves);
        all.map(|(leaf, subleaf)| CpuidLeaf { leaf, subleaf, registers: registers(leaf, subleaf) })
            .filter(|leaf| leaf.subleaf == 0 || leaf.registers != [0; 4])
            .collect()
    }
    #[cfg(not(target_arch = "x86_64"))]
    Vec::new()
}

/// The vendor text of the hypervisor, such as `KVMKVMKVM`, if CPUID has one.
pub(crate) fn hypervisor_by_cpuid() -> Option<String> {
    let leaf = cpuid().into_iter().find(|leaf| leaf.leaf == 0x4000_0000)?;
    let bytes = leaf.registers[1..].iter().flat_map(|register| register.to_le_bytes());
    let text: String = bytes.map(char::from).filter(char::is_ascii_graphic).collect();
    (!text.is_empty()).then_some(text)
}

/// The Main ID Register of an Arm processor, from the tree below `root` (`/`). `None` where Linux does not show it.
pub fn midr(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("sys/devices/system/cpu/cpu0/regs/identification/midr_el1")).ok()?;
    u64::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn this_processor_has_a_vendor_and_a_family() {
        let leaves = cpuid();
        assert_eq!((leaves[0].leaf, leaves[1].leaf), (0, 1));
        assert!(leaves[0].registers[1] != 0 && leaves[1].registers[0] >> 8 & 0xf != 0, "{leaves:?}");
    }

    #[test]
    fn midr_is_read_where_linux_shows_it() {
        let root = tempfile::tempdir().unwrap().keep();
        let folder = root.join("sys/devices/system/cpu/cpu0/regs/identification");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("midr_el1"), "0x00000000413fd0c1\n").unwrap();
        let found = midr(&root);
        fs::remove_dir_all(&root).unwrap();
        assert_eq!((found, midr(&root)), (Some(0x413f_d0c1), None));
    }
}
