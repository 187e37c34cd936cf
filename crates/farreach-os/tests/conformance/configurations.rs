//! The tested configurations of the policies: small memories, and every other value of every key of the policy.

use farreach_os::placement::PlacementKind;
use farreach_os::{Os, keys};
use farreach_types::params::{Allowed, Key, Params};
use serde_json::{Map, Value as Json};

/// Keys that adapt a policy to a few megabytes, if its defaults need more, or a file. Policies that need neither are
/// not listed.
const SMALL: &[(&str, &str)] = &[
    ("hugetlb", "huge_page=64K,pool=1M"),
    ("segment", "segment_memory=4M,primary_min=64K,admit_min=64K"),
    ("thp", "thp_size=64K,khugepaged=8,max_ptes_none=15"),
    (
        "linux",
        "thp_size=64K,mthp_madvise=16K,max_ptes_none=15,pages_to_scan=64,scan_sleep_ms=30,alloc_sleep_ms=50,\
         ticks_per_ms=1",
    ),
    (
        "ingens",
        "thp_size=64K,util_threshold=50,pages_to_scan=64,promote_sleep_ms=30,alloc_sleep_ms=50,scan_sleep_ms=40,\
         ticks_per_ms=1",
    ),
    (
        "hawkeye",
        "thp_size=64K,pages_to_scan=64,promote_sleep_ms=30,coverage_ms=40,coverage_window_ms=10,prezero_rate=2,\
         prezero_block=64K,prezero_ms=20,ticks_per_ms=1",
    ),
    ("cap", "thp_size=64K,khugepaged=8,max_ptes_none=15"),
    ("ranger", "thp_size=64K,khugepaged=8,max_ptes_none=15,ticks_per_ms=1,ranger_period_ms=40"),
    (
        "carrefour",
        "thp_size=64K,khugepaged=8,max_ptes_none=15,ticks_per_ms=1,carrefour_period_ms=40,carrefour_least_samples=1",
    ),
    ("two-size", "large=64K,large_object=64K"),
    ("eager", "max_order=8"),
    ("perforated", "perforated_free=0.5"),
    ("navarro", "nav_sizes=1+4+16"),
    ("freebsd", "fbr_pages=16"),
    ("quicksilver", "fbr_pages=16,qks_threshold=4,qks_inactive_ms=30,ticks_per_ms=1"),
    ("mosaic", "memory=8M"),
    ("tps", "tps_largest=64K"),
    ("solaris", "sol_sizes=16K+64K,sol_auto=heap+stack+text+anon"),
    (
        "trident",
        "tri_size=64K,thp_size=16K,max_ptes_none=3,tri_max_none=12,pages_to_scan=64,scan_sleep_ms=30,alloc_sleep_ms=50,\
         ticks_per_ms=1,compaction_block=16K,compaction_pause_ms=200",
    ),
    ("windows", "win_large_page=64K,win_request=mapping"),
    ("utopia", "uto_size=128K,uto_size_2m=none,uto_ways=4,thp_size=64K,khugepaged=8,max_ptes_none=15"),
];

/// Further configurations of a policy: keys that are off by default, and do something together alone. Each is tested on
/// some of [`SYSTEMS`].
const TOGETHER: &[(&str, &str)] = &[
    (
        "linux",
        "readahead=128K,file_folios=2M,exec_folio=16K,contpte=16K,shmem_always=16K,shmem_within_size=32K,\
         shmem_advise=64K",
    ),
    ("linux", "readahead=64K,file_folios=64K,file_miss=ahead,fault_around=16K,shmem_enabled=advise,shmem_size=64K"),
    ("linux", "readahead=16K,file_folios=4K,fault_around=4K,shmem_within_size=32K+64K"),
];

/// Keys tested with every policy: memory that is sometimes full, other allocators, promotion, ranges, compaction.
const SYSTEMS: &[&str] = &[
    "",
    "memory=1M",
    "memory=8M,allocator=buddy,max_order=8",
    "memory=6M,allocator=buddy,fragmentation=0.3,max_order=9",
    "memory=4M,allocator=colouring,colours=8",
    "memory=2M,fragmentation=0.1,reclaim_batch=4",
    "allocator=buddy,address_ordered=true,memory=16M,ranges=true",
    "memory=8M,allocator=buddy,ranges=true,reclaim_unused=split",
    "page_size=16K,memory=4M",
];

/// Keys of the whole system whose other values are tested with every policy.
const OF_THE_SYSTEM: &[&str] =
    &["ranges", "range_cow", "range_table", "reclaim_unused", "compaction", "promotion", "demotion"];

/// Policies whose base configuration makes no superpages: `reservation` does with `promotion`, and the only size of
/// `perforated` is too large for these programs. Its own tests have some.
pub const BASE_PAGES: &[&str] = &["demand", "reservation", "segment", "eager", "mosaic", "perforated"];

fn join(a: &str, b: &str) -> String {
    [a, b].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(",")
}

fn small(kind: &PlacementKind) -> String {
    SMALL.iter().find(|(name, _)| *name == kind.name).map_or(String::new(), |(_, keys)| (*keys).into())
}

/// The keys of the policy in a small memory, and no other.
pub fn base(kind: &PlacementKind) -> String {
    join(&small(kind), "memory=8M,allocator=buddy")
}

/// All configurations that the policy does not refuse. It must accept its defaults, unless it needs a file.
pub fn of(kind: &PlacementKind) -> Vec<String> {
    let small = small(kind);
    let mut all = vec![String::new()];
    all.extend(SYSTEMS.iter().map(|system| join(&small, system)));
    let has = |key: &&&Key| kind.keys.iter().any(|own| own.name == key.name) || OF_THE_SYSTEM.contains(&key.name);
    for key in keys(kind.name).iter().filter(has) {
        for value in other_values(key) {
            all.push(join(
                &with(&small, key.name, &value),
                if key.name == "allocator" { "memory=8M" } else { "memory=8M,allocator=buddy" },
            ));
        }
    }
    for (_, keys) in TOGETHER.iter().filter(|(name, _)| *name == kind.name) {
        let further = [
            "page_size=16K,memory=4M,mthp_madvise=none",
            "memory=512K,allocator=buddy,compaction=direct",
            "memory=1M,promote=64K",
        ];
        all.extend(SYSTEMS.iter().chain(&further).map(|system| join(&join(&small, keys), system)));
    }
    all.push(base(kind));
    let mut seen = std::collections::HashSet::new();
    all.retain(|keys| seen.insert(keys.clone()) && build(kind.name, keys, 0).is_ok());
    all
}

fn with(keys: &str, name: &str, value: &str) -> String {
    let mut pairs: Vec<String> =
        keys.split(',').filter(|p| !p.is_empty() && p.split('=').next() != Some(name)).map(Into::into).collect();
    pairs.push(format!("{name}={value}"));
    pairs.join(",")
}

fn other_values(key: &Key) -> Vec<String> {
    let mut values: Vec<String> = match key.allowed {
        Allowed::Flag => ["true", "false"].map(String::from).to_vec(),
        Allowed::OneOf(words) => words.iter().map(|word| word.to_string()).collect(),
        Allowed::Int { min, max } => (min..=max).take(3).map(|n| n.to_string()).collect(),
        Allowed::PageSize { min, max } => {
            [min, 4 * min, 16 * min].iter().filter(|n| **n <= max).map(u64::to_string).collect()
        }
        Allowed::PageSizesOrNone { min, .. } => vec!["none".into(), min.to_string()],
        _ => Vec::new(),
    };
    values.retain(|value| key.check(&value.as_str().into()) != key.check(&key.default.into()));
    values
}

/// A system with these keys.
pub fn build(placement: &str, text: &str, seed: u64) -> Result<Os, String> {
    let mut given: Map<String, Json> = Map::new();
    for (name, value) in text.split(',').filter_map(|pair| pair.split_once('=')) {
        given.insert(name.into(), value.into());
    }
    given.insert("placement".into(), placement.into());
    given.insert("seed".into(), seed.into());
    Os::new(&Params::resolve(&keys(placement), &given)?)
}
