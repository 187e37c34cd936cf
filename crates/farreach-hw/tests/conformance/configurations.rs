//! The tested configurations of the designs: those listed here, and those derived from the keys of every design.

use farreach_conformance::given;
use farreach_hw::tlb::cores::mechanisms::SHOOTDOWN;
use farreach_hw::tlb::second_levels::{SECOND_LEVEL, SECOND_LEVELS};
use farreach_hw::tlb::{Design, additions, host, keys_of, shared, tables, walk, walk_caches};
use farreach_types::params::{Allowed, Key};

/// Small ones, so that entries are often replaced. A design needs no line here, except for combinations of keys.
const LISTED: &[(&str, &str)] = &[
    ("single", "entries=32"),
    ("single", "entries=1"),
    ("single", "entries=130"),
    ("single", "entries=64,ways=4,replacement=random"),
    ("single", "entries=48,ways=3"),
    ("single", "entries=64,ways=4,replacement=lru"),
    ("single", "entries=64,ways=4,replacement=plru"),
    ("single", "entries=32,replacement=plru"),
    ("single", "entries=37,replacement=fifo"),
    ("superpage", "entries=16"),
    ("superpage", "entries=16,sizes=4K"),
    ("superpage", "entries=12,sizes=4K+16K+64K+1M"),
    ("superpage", "entries=12,sizes=4K+16K+1M,replacement=lru"),
    ("superpage", "entries=32,ways=4,lookup=probe,sizes=4K+64K+1M,replacement=random,seed=7"),
    ("superpage", "entries=32,ways=4,lookup=probe"),
    ("superpage", "entries=16,ways=4,lookup=per-size,sizes=4K+64K+1M,size_entries=16+8+4"),
    ("superpage", "entries=8,lookup=per-size,replacement=random"),
    ("superpage", "entries=32,ways=8,lookup=probe,sizes=4K+16K+1M,replacement=plru"),
    ("complete", "entries=8"),
    ("complete", "entries=8,factor=4,replacement=lru"),
    ("complete", "entries=16,factor=8,ways=4,replacement=random"),
    ("complete", "entries=8,preload=region"),
    ("complete", "entries=8,factor=64"),
    ("complete", "entries=8,preload=same-entry,assisted_check=true,replacement=fifo"),
    ("partial", "entries=16"),
    ("partial", "entries=16,factor=4,replacement=lru"),
    ("partial", "entries=32,factor=8,ways=4,replacement=random"),
    ("partial", "entries=16,preload=same-entry"),
    ("partial", "entries=16,preload=region"),
    ("partial", "entries=4,preload=region"),
    ("partial", "entries=16,ways=2,preload=region,replacement=random"),
    ("partial", "entries=16,preload=region,replacement=lru"),
    ("partial", "entries=16,ways=4,preload=region,replacement=plru"),
    ("partial", "entries=16,preload=region,replacement=fifo,assisted_check=true"),
    ("partial", "entries=16,factor=64"),
    ("partial", "entries=16,factor=1,preload=region"),
    ("partial", "entries=16,all_valid=true"),
    ("partial", "entries=16,factor=4,all_valid=true,replacement=lru"),
    ("two-level", "l1_entries=8,l2_entries=32"),
    ("two-level", "l1_entries=8,l2_entries=24,inclusive=false"),
    ("two-level", "l1_entries=16,l2_entries=4,replacement=fifo"),
    ("two-level", "l1_entries=5,l2_entries=20,replacement=random"),
    ("two-level", "l1_entries=6,l2_entries=30,replacement=used-bit"),
    ("hierarchy", "l1d=4K:8/4+64K:4,l1i=4K:8,l2=4K|64K|1M:32/4"),
    ("hierarchy", "l1d=4K|16K|64K|1M:12,l1i=4K|16K:6,l2=4K:24,l2i=none,coalesce=16K,pwc_pd=4,pwc_pml4=2"),
    ("hierarchy", "l1d=4K:16/2,l1i=4K:16/4,l2=none,replacement=random"),
    ("hierarchy", "l1d=4K:8/4+64K:4,l1i=4K:8,l2=4K|64K|1M:16/4,cores=2,l2_shared=true"),
    ("hierarchy", "l1d=4K:4,l1i=4K:4,l2=4K|64K:12,l2i=4K:4,cores=3,l2_shared=true,replacement=random,pwc_pd=2"),
    ("hierarchy", "l1d=4K:8/4+64K:4,l1i=4K:8,l2=4K|64K|1M:32/4,cores=2,walk_cost=caches,pwc_pd=4"),
    ("hierarchy", "l1d=4K|16K:8,l1i=4K:4,l2=4K|16K:16/4,cores=4,l2_shared=true,walk_cost=caches,coalesce=16K"),
    ("hierarchy", "l1d=4K:16/4+64K:4,l1i=4K:8,l2=4K|64K|1M:32/4,pwc_pd=4,pwc_pml4=2,replacement=plru"),
    (
        "hierarchy",
        "l1d=4K:8/4+64K:4,l1i=4K:8,l2=4K|64K:32/4,shootdown=generations,process_ids=false,flush_ceiling=1099511627776",
    ),
    ("hierarchy", "l1d=4K:8/4+64K:4,l1i=4K:8,l2=4K|64K:32/4,shootdown=broadcast,broadcast_most=1099511627776"),
    (
        "hierarchy",
        "l1d=4K:8/4+64K:4,l1i=4K:8,l2=4K|64K:32/4,shootdown=global_ids,process_ids=false,flush_ceiling=1099511627776",
    ),
    (
        "hierarchy",
        "l1d=4K:8/4+64K:4,l1i=4K:8,l2=4K|64K:32/4,shootdown=latr,process_ids=false,flush_ceiling=1099511627776",
    ),
    ("hierarchy", "l1d=4K:12/3,l1i=4K:6,l2=4K:32,l2i=4K:8,replacement=fifo"),
    ("hierarchy", "l1d=64K:8/4+1M:4,l1i=64K:8,l2=64K|1M:32/4,page_size=64K,pwc_pd=4"),
    ("hierarchy", "l1d=4K:8/4+64K:4,l1i=4K:8,l2=4K|64K|1M:32/4,l2_replacement=srrip"),
    ("hierarchy", "l1d=4K:8/4,l1i=4K:8,l2=4K|64K|1M:16/4+1G:2,l2i=4K:8,l2_replacement=chirp,chirp_counters=16"),
    ("hierarchy", "l1d=4K:4,l1i=4K:4,l2=4K|64K|1M:24/12,l2_replacement=chirp,chirp_renew=set-change"),
    ("hierarchy", "l1d=4K:8/4,l1i=4K:8,l2=4K|64K|1M:32/8,l2_replacement=itp"),
    ("hierarchy", "l1d=4K:4,l1i=4K:4,l2=4K:12,l2_replacement=itp,itp_from_oldest=2,itp_hits=3"),
    ("hierarchy", "l1d=4K:8/4,l1i=4K:8,l2=4K:32/4,replacement=fifo,l2_replacement=plru"),
    ("hierarchy", "l1d=4K:8/4,l1i=4K:8,l2=4K|64K:32/4,l2i=4K:8,l2_replacement=opt"),
    ("hierarchy", "l1d=4K:4+64K:4,l1i=4K:4,second_level=mix,mix_entries=32,mix_ways=4,mix_bundle=4,replacement=random"),
    ("hierarchy", "l1d=4K:8,l1i=4K:4,second_level=anchor,l2=4K|64K|2M:32/4,anchor_distance=512,replacement=fifo"),
    ("hierarchy", "l1d=4K:8,l1i=4K:4,second_level=anchor,l2=4K:16/4+1M:4,anchor_distance=64,pwc_pd=4"),
    ("hierarchy", "l1d=4K:4,l1i=4K:4,second_level=skewed,skew_entries=24,skew_ways=3,skew_sizes=4K+64K+1M"),
    ("hierarchy", "l1d=4K:4,l1i=4K:4,second_level=mosaic,mosaic_entries=16,mosaic_ways=4,mosaic_fill=all"),
    (
        "hierarchy",
        "l1d=4K:4,l1i=4K:4,second_level=clustered,cluster_entries=16,cluster_ways=4,cluster_pages=4,cluster_frames=run,\
         behind=runs,run_entries=4,run_beyond=4",
    ),
    (
        "hierarchy",
        "l1d=4K:4,l1i=4K:4,second_level=clustered,cluster_entries=8,cluster_ways=4,cluster_beside=4K:16/4+1M:4",
    ),
    ("range", "l1d=4K:8/4,l1i=4K:8,l2=4K:32/4,range_hint=always,range_entries=4"),
    ("range", "l1d=4K:8/4,l1i=4K:8,l2=4K:16/4,range_entries=4,cores=2,l2_shared=true,walk_cost=caches"),
    ("clustered", "l1d=4K:8/4,l1i=4K:8,cluster_entries=16"),
    ("coalesced", "l1d=4K:8/4,l1i=4K:8,l2=4K:32/4,run_entries=4,run_pages=64"),
    ("clustered", "l1d=4K:8/4,l1i=4K:8,cluster_entries=16,cluster_ways=4,cluster_pages=4,cluster_frames=run"),
    ("segment", "l1d=4K:8/4,l1i=4K:8,l2=4K:32/4"),
    ("segment", "l1d=4K:8/4,l1i=4K:8,l2=4K:32/4,guest=composed"),
    ("hierarchy", "l1d=4K:8/4+64K:4,l1i=4K:8,l2=4K|64K|1M:32/4,guest=walk,host_page=2M,nested_tlb=4,pwc_pd=2"),
    ("hierarchy", "l1d=4K:8/4+64K:4,l1i=4K:8,l2=4K|64K|1M:32/4,pwc_kind=sptc,pwc_pd=4,pwc_pml4=2"),
    ("hierarchy", "l1d=4K:8/4,l1i=4K:8,l2=4K:16/4,guest=walk,host=agile,agile_epoch=200,nested_tlb=4,pwc_pd=2"),
    ("hierarchy", "l1d=4K:8/4+2M:2,l1i=4K:8+2M:2,l2=4K|2M:16/4,second_level=perforated,prf_bitmaps=2"),
    ("hierarchy", "l1d=4K|1M:8/4,l1i=4K:4+2M:1,l2=4K:8+2M:2,second_level=perforated,prf_bitmaps=0,pwc_pd=2"),
    ("hierarchy", "l1d=4K:8/4,l1i=4K:8,l2=4K|2M:16/4,second_level=anchor,anchor_epoch=300,anchor_distance=4"),
    ("hierarchy", "l1d=4K:8/4,l1i=4K:8,l2=4K:16/4,guest=walk,table=cuckoo,ec_entries=4,cwc_pmd=1,nested_tlb=4"),
    (
        "hierarchy",
        "l1d=4K:8/4+64K:4,l1i=4K:8,l2=4K|64K|1M:32/4,guest=walk,table=hashed,ht_buckets=4,host_table=clustered,\
         host_cl_buckets=8,host_page=2M",
    ),
    (
        "hierarchy",
        "l1d=4K:8/4,l1i=4K:8,l2=4K:16/4,guest=walk,table=flat,pwc_pdpt=2,host_table=dmt,host_dmt_registers=1,\
         host_pwc_pd=2",
    ),
    ("integrated", "entries=16"),
    ("integrated", "entries=16,factor=4,sizes=4K+16K+64K+1M"),
    ("integrated", "entries=16,preload=region,replacement=lru"),
    ("integrated", "entries=16,preload=same-entry,replacement=random"),
    ("integrated", "entries=32,ways=4,lookup=probe,replacement=fifo"),
    ("integrated", "entries=16,factor=1,sizes=4K+64K"),
    ("skewed", "entries=32"),
    ("skewed", "entries=32,ways=2,replacement=lru"),
    ("skewed", "entries=48,ways=3,replacement=random"),
    ("skewed", "entries=16,ways=1,replacement=fifo"),
];

/// Keys whose other values are tested with every listed configuration.
const EVERYWHERE: [&str; 2] = ["fill_sets_used", "process_ids"];

/// A configuration, and whether its streams are the long ones.
pub struct Configuration {
    pub keys: String,
    pub long: bool,
    /// It is derived, so the design may refuse it.
    pub may_be_refused: bool,
}

/// All configurations of a design: its defaults; the listed ones, with process ids and without; and the first of
/// these, or the defaults, with every other value of one key after the other.
pub fn of(design: &Design) -> Vec<Configuration> {
    let listed = || LISTED.iter().filter(|(kind, _)| *kind == design.kind).map(|(_, keys)| *keys);
    let named = |name: &str| design.keys.iter().find(|key| key.name == name);
    let mut all = vec![Configuration { keys: String::new(), long: true, may_be_refused: false }];
    for keys in listed() {
        all.push(Configuration { keys: keys.into(), long: true, may_be_refused: false });
        for key in EVERYWHERE.into_iter().filter_map(named) {
            add_variations(keys, key, &mut all);
        }
    }
    let first = listed().next().unwrap_or("");
    for key in design.keys.iter().filter(|key| listed().next().is_none() || !EVERYWHERE.contains(&key.name)) {
        add_variations(first, key, &mut all);
    }
    if design.keys.iter().any(|key| key.name == additions::BEHIND.name) {
        add_parts(first, design.kind == "hierarchy", &mut all);
    }
    if named(shared::L2_SHARED.name).is_some() {
        add_cores(design, first, &mut all);
    }
    if named(SECOND_LEVEL.name).is_some() {
        add_second_levels(design, first, &mut all);
    }
    all
}

/// Every second level of the registry, with small arrays in small sets. On kind `hierarchy` also with every other value
/// of each of its keys, and with every addition. One that refuses these arrays is a failure.
fn add_second_levels(design: &Design, first: &str, into: &mut Vec<Configuration>) {
    let varied = design.kind == "hierarchy";
    for listed in SECOND_LEVELS {
        let choice = format!("{}={}", SECOND_LEVEL.name, listed.name);
        let known = keys_of(design, &given(&choice));
        let is_known = |pair: &&str| known.iter().any(|key| pair.split('=').next() == Some(key.name));
        let mut chosen: Vec<String> = first.split(',').filter(is_known).map(String::from).collect();
        chosen.push(choice);
        for key in listed.keys {
            let small = [("_entries", 16), ("_ways", 2)].into_iter().find(|(end, _)| key.name.ends_with(end));
            chosen.extend(small.map(|(_, n)| format!("{}={n}", key.name)));
        }
        let chosen = chosen.join(",");
        into.push(Configuration { keys: chosen.clone(), long: varied, may_be_refused: false });
        listed.keys.iter().filter(|_| varied).for_each(|key| add_variations(&chosen, key, into));
        // Entries of POM change their slots as others leave, which the suite takes for news.
        for addition in additions::ADDITIONS.iter().filter(|_| varied) {
            let keys = format!("{chosen},{}={}", additions::BEHIND.name, addition.name);
            into.push(Configuration { keys, long: false, may_be_refused: true });
        }
    }
}

/// Every addition, page table, kind of walk caches and host of the registries, with small arrays; `varied`: also with
/// every other value of each of its keys.
fn add_parts(first: &str, varied: bool, into: &mut Vec<Configuration>) {
    let additions = additions::ADDITIONS.iter().map(|listed| (&additions::BEHIND, listed.name, listed.keys));
    let tables = tables::TABLES.iter().map(|listed| (&tables::TABLE, listed.name, listed.keys));
    let caches = walk_caches::KINDS.iter().map(|listed| (&walk_caches::PWC_KIND, listed.name, listed.keys));
    let hosts = host::HOSTS.iter().map(|listed| (&host::HOST, listed.name, listed.keys));
    let of_hosts = tables::TABLES.iter().filter_map(|listed| tables::of_host(listed.name));
    let of_hosts = of_hosts.map(|table| (&tables::HOST_TABLE, table.name, &table.keys[..]));
    for (choice, name, keys) in additions.chain(tables).chain(caches).chain(hosts).chain(of_hosts) {
        let mut chosen = format!("{first},{}={name}", choice.name);
        if choice.name.starts_with("host") && !first.contains("guest=") {
            chosen.push_str(",guest=walk");
        }
        let arrays = keys.iter().filter(|key| key.name.ends_with("_entries"));
        arrays.for_each(|key| chosen.push_str(&format!(",{}=4", key.name)));
        into.retain(|other| other.keys != chosen);
        into.push(Configuration { keys: chosen.clone(), long: varied, may_be_refused: true });
        keys.iter().filter(|_| varied).for_each(|key| add_variations(&chosen, key, into));
    }
}

/// Two cores that share a second level, with every part, and on kind `hierarchy` with every other value of each key
/// that chooses something; and two cores with caches. What no rule defines there is refused (HW-12), so that a part is
/// tested there as soon as it is defined.
fn add_cores(design: &Design, first: &str, into: &mut Vec<Configuration>) {
    let shared = format!("{first},cores=2,{}=true", shared::L2_SHARED.name);
    let caches = format!("{first},cores=2,{}=caches", walk::WALK_COST.name);
    for cores in [&shared, &caches] {
        into.push(Configuration { keys: cores.clone(), long: false, may_be_refused: false });
        add_parts(cores, false, into);
    }
    let chooses = |key: &&&Key| matches!(key.allowed, Allowed::OneOf(_) | Allowed::Flag);
    let varied = design.keys.iter().filter(|_| design.kind == "hierarchy");
    varied.filter(chooses).for_each(|key| add_variations(&shared, key, into));
}

fn add_variations(keys: &str, key: &Key, into: &mut Vec<Configuration>) {
    let without: Vec<&str> =
        keys.split(',').filter(|pair| pair.split('=').next() != Some(key.name) && !pair.is_empty()).collect();
    for value in other_values(key) {
        let own = format!("{}={value}", key.name);
        let keys = [without.as_slice(), &[own.as_str()]].concat().join(",");
        if into.iter().all(|c| c.keys != keys) {
            into.push(Configuration { keys, long: false, may_be_refused: true });
        }
    }
}

/// Numbers from here on are sizes, not choices.
const MANY: u64 = 16;

/// Values other than the default that may make a difference: every word, and small numbers. Prices and files do not
/// concern the hardware.
fn other_values(key: &Key) -> Vec<String> {
    let power = |min: u64, max: u64| (0..4).map(|i| min << i).filter(|n| *n <= max).map(|n| n.to_string()).collect();
    let mut values: Vec<String> = match key.allowed {
        Allowed::Flag => ["true", "false"].map(String::from).to_vec(),
        Allowed::OneOf(words) => words.iter().map(|word| word.to_string()).collect(),
        Allowed::Int { min, max } => {
            // Of a few, the last is often the one that switches a thing off.
            let last = (min + 4..MANY).contains(&max).then_some(max);
            (min..=max).take(4).chain(last).map(|n| n.to_string()).collect()
        }
        Allowed::PowerOfTwo { min, max } | Allowed::PageSize { min, max } => power(min, max),
        _ => Vec::new(),
    };
    // Mechanisms of shootdowns drop more than what changed, and later than it did, which the suite takes for news.
    // Without limits and without process ids they do not, as configurations above have them; for the rest there is
    // the plain model.
    let is_tried = key.name != "seed" && key.name != SHOOTDOWN.name;
    values.retain(|value| is_tried && key.check(&value.as_str().into()) != key.check(&key.default.into()));
    values
}
