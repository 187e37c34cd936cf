//! The policy that simulates this kernel's settings of transparent huge pages: `placement = this`.

use farreach_live::system::{System, Thp};
use farreach_types::addr::Bytes;

/// What stands for the policy of this kernel.
const PLACEMENT: &str = "placement=this";
/// A page of the page directory, where the kernel does not say.
const HUGE: u64 = 2 << 20;
/// The smallest size of anonymous memory (LNX-1).
const SMALLEST: u64 = 16 << 10;
/// Files of khugepaged, with the keys for them and their defaults (LNX-10).
const KHUGEPAGED: [(&str, &str, &str); 6] = [
    ("pages_to_scan", "pages_to_scan", "4096"),
    ("scan_sleep_millisecs", "scan_sleep_ms", "10000"),
    ("alloc_sleep_millisecs", "alloc_sleep_ms", "60000"),
    ("defrag", "khugepaged_defrag", "true"),
    ("max_ptes_none", "max_ptes_none", "511"),
    ("max_ptes_shared", "max_ptes_shared", "256"),
];

/// A machine `NAME[:key=value,...]` with the keys of this kernel's policy in place of `placement=this`.
pub fn expanded(text: &str) -> String {
    let Some((name, overrides)) = text.split_once(':') else { return text.into() };
    if !overrides.split(',').any(|word| word.trim() == PLACEMENT) {
        return text.into();
    }
    with_policy(name, overrides, System::here().thp.as_ref())
}

fn with_policy(name: &str, overrides: &str, thp: Option<&Thp>) -> String {
    let mut keys = policy(thp) + ",zero_page=true";
    if thp.is_some_and(|thp| thp.zero_page == Some(false)) {
        keys += ",huge_zero_page=false";
    }
    // Other programs run here, so khugepaged has processes on its list, and sleeps on when one comes.
    let sleep = thp.and_then(|thp| thp.khugepaged.iter().find(|(name, _)| name == "scan_sleep_millisecs"));
    keys += &format!(",first_sleep_ms={}", sleep.map_or(10_000, |(_, milliseconds)| *milliseconds));
    let words = overrides.split(',').map(|word| if word.trim() == PLACEMENT { &keys } else { word });
    format!("{name}:{}", words.collect::<Vec<_>>().join(","))
}

/// The sizes that are on, largest first, with the mode that counts for each.
fn sizes(thp: &Thp) -> Vec<(u64, String)> {
    let global = thp.enabled.clone().unwrap_or_else(|| "never".into());
    let huge = thp.pmd_bytes.unwrap_or(HUGE);
    let mut all: Vec<(u64, String)> = thp
        .sizes
        .iter()
        .map(|size| (size.bytes, if size.enabled == "inherit" { global.clone() } else { size.enabled.clone() }))
        .collect();
    // Kernels before 6.8 have one size.
    if all.is_empty() {
        all.push((huge, global));
    }
    all.retain(|(_, mode)| mode != "never");
    all.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
    all
}

/// The keys that simulate these settings, but for pages of zeros, which need a stream that tells what the kernel
/// stores, as far as they are not the defaults of the policy (LNX-1, LNX-5, LNX-10).
pub fn policy(thp: Option<&Thp>) -> String {
    let nothing = Thp { enabled: Some("never".into()), ..Thp::default() };
    let thp = thp.unwrap_or(&nothing);
    let mut keys = format!("placement=linux,thp={}", thp.enabled.as_deref().unwrap_or("never"));
    let mut add = |key: &str, value: &str, default: &str| {
        if value != default {
            keys += &format!(",{key}={value}");
        }
    };
    let huge = thp.pmd_bytes.unwrap_or(HUGE);
    add("thp_size", &Bytes(huge).to_string(), "2M");
    // Kernels before 6.8 have one size.
    let whole = thp.sizes.iter().find(|size| size.bytes == huge);
    add("thp_size_enabled", whole.map_or("inherit", |size| &size.enabled), "inherit");
    for mode in ["always", "madvise", "inherit"] {
        let smaller = thp.sizes.iter().filter(|size| (SMALLEST..huge).contains(&size.bytes) && size.enabled == mode);
        let mut smaller: Vec<u64> = smaller.map(|size| size.bytes).collect();
        smaller.sort_unstable();
        let words: Vec<String> = smaller.into_iter().map(|bytes| Bytes(bytes).to_string()).collect();
        add(&format!("mthp_{mode}"), &words.join("+"), "");
    }
    add("defrag", thp.defrag.as_deref().unwrap_or("madvise"), "madvise");
    for (file, key, default) in KHUGEPAGED {
        let value = thp.khugepaged.iter().find(|(name, _)| name == file).map_or(default.into(), |(_, n)| n.to_string());
        let value = if key == "khugepaged_defrag" { if value == "0" { "false" } else { "true" } } else { &value };
        add(key, value, default);
    }
    // That of anonymous shared memory; its size is that of a page of the page directory.
    let shared = match thp.shmem_enabled.as_deref() {
        Some("always" | "within_size" | "force") => "always",
        Some("advise") => "advise",
        _ => "never",
    };
    add("shmem_enabled", shared, "never");
    keys
}

/// The mode that counts for the largest size; `never` without huge pages.
pub fn mode(thp: Option<&Thp>) -> String {
    thp.map(sizes).and_then(|sizes| sizes.into_iter().next()).map_or("never".into(), |(_, mode)| mode)
}

#[cfg(test)]
mod tests {
    use super::*;
    use farreach_live::system::ThpSize;

    /// Settings of a mode and of sizes in kilobytes.
    fn thp(enabled: &str, sizes: &[(u64, &str)]) -> Thp {
        let size = |(kilobytes, enabled): &(u64, &str)| ThpSize { bytes: kilobytes << 10, enabled: (*enabled).into() };
        Thp { enabled: Some(enabled.into()), sizes: sizes.iter().map(size).collect(), ..Thp::default() }
    }

    #[test]
    fn settings_become_keys() {
        let keys = |thp: Thp| policy(Some(&thp));
        let start = "placement=linux";
        assert_eq!(policy(None), format!("{start},thp=never"));
        assert_eq!(keys(thp("madvise", &[])), format!("{start},thp=madvise"));
        assert_eq!(keys(thp("always", &[(64, "never"), (2048, "inherit")])), format!("{start},thp=always"));
        let several =
            thp("madvise", &[(8, "inherit"), (64, "always"), (16, "inherit"), (32, "inherit"), (2048, "never")]);
        let sizes = "thp_size_enabled=never,mthp_always=64K,mthp_inherit=16K+32K";
        assert_eq!(keys(several), format!("{start},thp=madvise,{sizes}"));
        let shared = |mode: &str| keys(Thp { shmem_enabled: Some(mode.into()), ..thp("never", &[]) });
        assert_eq!(shared("within_size"), format!("{start},thp=never,shmem_enabled=always"));
        assert_eq!(shared("advise"), format!("{start},thp=never,shmem_enabled=advise"));
        assert_eq!(shared("deny"), format!("{start},thp=never"));
        let khugepaged = [("defrag", 0), ("pages_to_scan", 4096), ("scan_sleep_millisecs", 1000), ("max_ptes_none", 0)];
        let khugepaged = khugepaged.map(|(name, n)| (name.to_owned(), n)).to_vec();
        let set = Thp { khugepaged, defrag: Some("always".into()), pmd_bytes: Some(32 << 20), ..thp("always", &[]) };
        let words = "thp_size=32M,defrag=always,scan_sleep_ms=1000,khugepaged_defrag=false,max_ptes_none=0";
        assert_eq!(keys(set), format!("{start},thp=always,{words}"));
        assert_eq!((mode(Some(&thp("madvise", &[]))).as_str(), mode(None).as_str()), ("madvise", "never"));
    }

    #[test]
    fn this_stands_for_the_keys() {
        let always = thp("always", &[(64, "never"), (2048, "inherit")]);
        let keys = with_policy("ds13/4k", "l2=none,placement=this,seed=1", Some(&always));
        assert_eq!(keys, "ds13/4k:l2=none,placement=linux,thp=always,zero_page=true,first_sleep_ms=10000,seed=1");
        let khugepaged = vec![("scan_sleep_millisecs".to_owned(), 500)];
        let memory = Thp { zero_page: Some(false), khugepaged, ..always };
        let keys = with_policy("ds13/4k", "placement=this", Some(&memory));
        assert_eq!(
            keys,
            "ds13/4k:placement=linux,thp=always,scan_sleep_ms=500,zero_page=true,huge_zero_page=false,\
             first_sleep_ms=500"
        );
        assert_eq!(expanded("ds13/4k:placement=thp"), "ds13/4k:placement=thp");
        let here = expanded("ds13/4k:placement=this");
        assert!(here.starts_with("ds13/4k:placement=linux,thp="), "{here}");
        super::super::parse(&here, 0).expect("the keys are those of the policy");
    }
}
