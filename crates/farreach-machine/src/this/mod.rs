//! The processor at hand as a machine description: what CPUID says of its TLBs and caches, completed by the preset of
//! its core.
//!
//! Pure functions of values that were read elsewhere: [`Identity`] has the leaves of CPUID, or the MIDR of an Arm
//! processor. `intel` and `amd` decode the leaves into arrays, `cores` finds the preset by family and model, `doubts`
//! whether they can be right, `describe` writes the TOML, with a comment that tells the source of each key.

mod amd;
mod arrays;
mod caches;
mod cores;
mod describe;
mod doubts;
mod intel;

pub use arrays::{Array, Side};
pub use describe::{Price, Prices, describe};

use raw_cpuid::{CpuId, CpuIdResult};
use std::collections::BTreeMap;

/// The leaves of CPUID: registers by leaf and subleaf. Those that are not there count as zeros.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Leaves(BTreeMap<(u32, u32), [u32; 4]>);

impl FromIterator<((u32, u32), [u32; 4])> for Leaves {
    fn from_iter<I: IntoIterator<Item = ((u32, u32), [u32; 4])>>(leaves: I) -> Leaves {
        Leaves(leaves.into_iter().collect())
    }
}

impl Leaves {
    fn get(&self, leaf: u32, subleaf: u32) -> [u32; 4] {
        self.0.get(&(leaf, subleaf)).copied().unwrap_or_default()
    }

    /// The library that knows the fields of leaves, over these values.
    fn decoder(&self) -> CpuId<impl Fn(u32, u32) -> CpuIdResult + Clone> {
        CpuId::with_cpuid_reader(|leaf, subleaf| {
            let [eax, ebx, ecx, edx] = self.get(leaf, subleaf);
            CpuIdResult { eax, ebx, ecx, edx }
        })
    }
}

/// What a processor says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Identity {
    /// CPUID of an x86 processor.
    X86(Leaves),
    /// The Main ID Register of an Arm processor.
    Arm(u64),
}

/// The vendor of an x86 processor, as far as decoding differs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Vendor {
    Intel,
    /// AMD, and Hygon after it.
    Amd,
    Other,
}

/// Who made the processor, and which it is.
struct Signature {
    vendor: Vendor,
    vendor_name: String,
    family: u8,
    model: u8,
    stepping: u8,
    brand: String,
    /// The vendor text of the hypervisor, if one says that it is there.
    hypervisor: Option<String>,
    /// EAX of leaf 0x1A: 0x20 in the highest byte is a small core.
    core_type: u8,
    /// Threads of a core, which share its TLBs; 1 where the leaf for them is hidden.
    threads: u32,
}

impl Signature {
    fn of(leaves: &Leaves) -> Signature {
        let decoder = leaves.decoder();
        let vendor_name = decoder.get_vendor_info().map(|v| printable(v.as_str())).unwrap_or_default();
        let vendor = match vendor_name.as_str() {
            "GenuineIntel" => Vendor::Intel,
            "AuthenticAMD" | "HygonGenuine" => Vendor::Amd,
            _ => Vendor::Other,
        };
        let features = decoder.get_feature_info();
        let (family, model, stepping) =
            features.as_ref().map_or((0, 0, 0), |f| (f.family_id(), f.model_id(), f.stepping_id()));
        let brand = decoder.get_processor_brand_string().map(|b| printable(b.as_str())).unwrap_or_default();
        let hypervisor = features.is_some_and(|f| f.has_hypervisor()).then(|| {
            let [_, ebx, ecx, edx] = leaves.get(0x4000_0000, 0);
            let bytes: Vec<u8> = [ebx, ecx, edx].into_iter().flat_map(u32::to_le_bytes).collect();
            let text = printable(&String::from_utf8_lossy(&bytes));
            if text.is_empty() { "without a name".to_owned() } else { text }
        });
        let threads = match vendor {
            Vendor::Intel => leaves.get(0xb, 0)[1] & 0xffff,
            Vendor::Amd => (leaves.get(0x8000_001e, 0)[1] >> 8 & 0xff) + 1,
            Vendor::Other => 1,
        }
        .max(1);
        let core_type = (leaves.get(0x1a, 0)[0] >> 24) as u8;
        Signature { vendor, vendor_name, family, model, stepping, brand, hypervisor, core_type, threads }
    }
}

/// Text of the processor without what does not belong into a comment or a quoted text.
fn printable(text: &str) -> String {
    text.chars()
        .filter(|c| (c.is_ascii_graphic() || *c == ' ') && !['"', '\\'].contains(c))
        .collect::<String>()
        .trim()
        .to_owned()
}

/// More entries than any TLB has: a hypervisor made them up.
const MOST_ENTRIES: u64 = 1 << 16;

/// The arrays of TLBs that the leaves describe, but for those of more entries than any TLB has.
pub fn arrays(leaves: &Leaves) -> Vec<Array> {
    let mut all = match Signature::of(leaves).vendor {
        Vendor::Intel => intel::arrays(leaves),
        Vendor::Amd => amd::arrays(leaves),
        Vendor::Other => Vec::new(),
    };
    all.retain(|array| array.entries <= MOST_ENTRIES);
    all
}

#[cfg(test)]
mod tests;
