//! Claims that nothing here can test, and why.

use super::hypothesis::Hypothesis;
use super::judge::untestable;
use farreach_types::papers::Kind::Main;

macro_rules! open {
    ($($id:literal $kind:ident $claim:literal $why:literal)*) => {
        &[$(Hypothesis {
            id: $id, kind: $kind, claim: $claim, studies: &["since-open"], judge: |_, _| untestable($why),
        }),*]
    };
}

pub(super) const CLAIMS: &[Hypothesis] = open![
    "H-HW-11" Main "Prefetching between cores removes 19 to 90 % of the data TLB misses of parallel programs"
        "additions are for one core (HW-12), and no prefetcher hands misses to another."
    "H-HW-22" Main "Flattened tables with priority in caches are 9.2 % faster; in virtual machines 2.8 references a \
                    walk for 4.4"
        "caches have no priority for page tables, and these tables are not defined in virtual machines (HW-12)."
    "H-HW-25" Main "Nested elastic cuckoo tables walk in 3 steps of 24, and are 1.19 times as fast"
        "these tables are not defined in virtual machines (HW-12)."
    "H-HW-27" Main "Partitioned caches for a TLB in memory are 85 % faster with two processes on eight cores"
        "caches have no partitions, and additions are for one core (HW-12)."
    "H-HW-29" Main "A second level shared by cores removes 7 to 79 % of the misses of private ones"
        "cores have second levels of their own here."
    "H-HW-30" Main "Slices of a shared second level are as near as a private one"
        "cores have second levels of their own here, and no network is simulated."
    "H-HW-34" Main "Restricting where most pages may lie makes programs 24 % faster than a radix tree"
        "Utopia's placement and its segments are not built."
    "H-HW-36" Main "Frames can be predicted without memory in a row, by tiers of hashes in the allocator"
        "the allocator and its tiers are not built."
    "H-HW-43" Main "Entries aligned to several powers of two miss 27 % less often than anchors"
        "they are not built; anchors are (H-HW-42)."
    "H-HW-45" Main "Large pages with holes keep most of their gain in fragmented memory"
        "pages with holes are not built: a page table entry of 2 MB promises that all its pages are there."
    "H-HW-50" Main "Virtual caches with segments behind them need no TLB for most accesses"
        "caches with virtual tags and delayed segments are not built; sv97 has virtual caches without segments."
];
