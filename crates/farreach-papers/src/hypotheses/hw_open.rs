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
    "H-HW-27" Main "Partitioned caches for a TLB in memory are 85 % faster with two processes on eight cores"
        "caches have no partitions, and additions are for one core (HW-12)."
    "H-HW-30" Main "Slices of a shared second level are as near as a private one"
        "no network between cores is simulated: the way to a shared second level has one price (`sll_extra`)."
    "H-HW-36" Main "Frames can be predicted without memory in a row, by tiers of hashes in the allocator"
        "the allocator and its tiers are not built."
    "H-HW-43" Main "Entries aligned to several powers of two miss 27 % less often than anchors"
        "they are not built; anchors are (H-HW-42)."
    "H-HW-50" Main "Virtual caches with segments behind them need no TLB for most accesses"
        "caches with virtual tags and delayed segments are not built; sv97 has virtual caches without segments."
];
