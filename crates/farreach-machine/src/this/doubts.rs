//! Whether the model that CPUID names can be this processor. A hypervisor may give a guest another model, but a feature
//! that CPUID shows is there, or programs would fail, and sizes of caches are mostly passed on.

use super::cores::{Core, Line};
use super::{Leaves, Vendor, cores};
use raw_cpuid::CacheType;

const FEATURES: u32 = 7;
const EAX: usize = 0;
const EBX: usize = 1;
const ECX: usize = 2;
const EDX: usize = 3;

/// A feature of leaf 7: its name in /proc/cpuinfo or in Intel's manual, subleaf, register, bit; and the generation of
/// each line of cores from which on some have it (`NONE`: none that a preset describes).
struct Feature(&'static str, u32, usize, u32, [u8; 3]);

const NONE: u8 = u8::MAX;

/// Checked against the dumps that libcpuid collects (github.com/anrieff/libcpuid, folder `tests`): of 166 cores
/// of these lines none shows a feature before its generation, or has another first cache. For Granite Rapids and Sierra
/// Forest, of which it has no dump: GCC's manual, x86 Options, `-march`. Generations of Zen, of Intel's
/// large cores, of Intel's small cores.
#[rustfmt::skip]
const TABLE: [Feature; 15] = [
    Feature("clwb",              0, EBX, 24, [2,    0,    0]),
    Feature("rdpid",             0, ECX, 22, [2,    1,    0]),
    Feature("vaes",              0, ECX, 9,  [3,    1,    0]),
    Feature("gfni",              0, ECX, 8,  [4,    1,    0]),
    Feature("avx512f",           0, EBX, 16, [4,    0,    NONE]),
    Feature("avx512_vbmi2",      0, ECX, 6,  [4,    1,    NONE]),
    Feature("movdiri",           0, ECX, 27, [5,    2,    0]),
    Feature("serialize",         0, EDX, 14, [NONE, 3,    0]),
    Feature("avx_vnni",          1, EAX, 4,  [5,    3,    0]),
    Feature("avx512_fp16",       0, EDX, 23, [NONE, 3,    NONE]),
    Feature("amx_tile",          0, EDX, 24, [NONE, 3,    NONE]),
    Feature("amx_fp16",          1, EAX, 21, [NONE, 4,    NONE]),
    Feature("prefetchi",         1, EDX, 14, [5,    4,    NONE]),
    Feature("avx10",             1, EDX, 19, [NONE, 4,    NONE]),
    Feature("avx_ifma",          1, EAX, 23, [NONE, NONE, 1]),
];

/// What CPUID shows that this core has not, in words; empty: nothing speaks against it.
pub(super) fn doubts(core: &Core, leaves: &Leaves) -> Vec<String> {
    let line = match core.line {
        Line::Zen => 0,
        Line::Large => 1,
        Line::Small => 2,
    };
    let shown = |f: &&Feature| leaves.get(FEATURES, f.1)[f.2] >> f.3 & 1 == 1;
    let missing = TABLE.iter().filter(shown).filter(|f| f.4[line] == NONE || f.4[line] > core.generation);
    let mut words: Vec<String> = missing.map(|f| f.0.to_owned()).collect();
    for ((name, its), shown) in
        [("instructions", core.l1i_kb), ("data", core.l1d_kb)].into_iter().zip(first_level(leaves))
    {
        if let Some(kilobytes) = shown.filter(|kilobytes| *kilobytes != u64::from(its)) {
            words.push(format!("{kilobytes} KB of {name} in the first cache instead of {its}"));
        }
    }
    words
}

/// Kilobytes of the first cache of instructions and of that of data, where leaves tell them.
fn first_level(leaves: &Leaves) -> [Option<u64>; 2] {
    let decoder = leaves.decoder();
    let caches: Vec<_> = decoder.get_cache_parameters().into_iter().flatten().take(8).collect();
    [CacheType::Instruction, CacheType::Data].map(|kind| {
        let cache = caches.iter().find(|cache| cache.level() == 1 && cache.cache_type() == kind)?;
        let lines = (cache.coherency_line_size() * cache.physical_line_partitions()) as u64;
        let bytes = (cache.associativity() as u64).saturating_mul(cache.sets() as u64).saturating_mul(lines);
        Some(bytes >> 10)
    })
}

/// The cores of a vendor that nothing speaks against, oldest first.
pub(super) fn others(vendor: Vendor, leaves: &Leaves) -> Vec<Core> {
    let mut fit: Vec<Core> = Vec::new();
    for core in cores::of(vendor) {
        if doubts(&core, leaves).is_empty() && !fit.iter().any(|other| other.preset == core.preset) {
            fit.push(core);
        }
    }
    fit
}

#[cfg(test)]
mod tests;
