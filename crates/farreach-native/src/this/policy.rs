//! The policy that simulates this kernel's settings of transparent huge pages: `placement = this`.

use farreach_live::system::{System, Thp};
use farreach_types::Error;
use farreach_types::addr::Bytes;

/// What stands for the policy of this kernel.
const PLACEMENT: &str = "placement=this";

/// A machine `NAME[:key=value,...]` with the keys of this kernel's policy in place of `placement=this`.
///
/// # Errors
/// [`Error::Config`]: as of [`policy`].
pub fn expanded(text: &str) -> Result<String, Error> {
    let Some((name, overrides)) = text.split_once(':') else { return Ok(text.into()) };
    if !overrides.split(',').any(|word| word.trim() == PLACEMENT) {
        return Ok(text.into());
    }
    with_policy(name, overrides, System::here().thp.as_ref())
}

fn with_policy(name: &str, overrides: &str, thp: Option<&Thp>) -> Result<String, Error> {
    let keys =
        policy(thp).map_err(|why| Error::Config { machine: name.into(), what: format!("{PLACEMENT}: {why}") })?;
    let words = overrides.split(',').map(|word| if word.trim() == PLACEMENT { &keys } else { word });
    Ok(format!("{name}:{}", words.collect::<Vec<_>>().join(",")))
}

/// The sizes that are on, largest first, with the mode that counts for each.
fn sizes(thp: &Thp) -> Vec<(u64, String)> {
    let global = thp.enabled.clone().unwrap_or_else(|| "never".into());
    let huge = thp.pmd_bytes.unwrap_or(2 << 20);
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

/// The keys that simulate these settings.
///
/// # Errors
/// Sizes have different modes, which one machine cannot have.
pub fn policy(thp: Option<&Thp>) -> Result<String, String> {
    let sizes = thp.map(sizes).unwrap_or_default();
    // khugepaged is left out: its clock is time.
    let mut keys = "placement=thp,khugepaged=0".to_owned();
    // That of anonymous shared memory; its size is that of a page of the page directory.
    let shared = match thp.and_then(|thp| thp.shmem_enabled.as_deref()) {
        Some("always" | "within_size" | "force") => ",shmem_enabled=always",
        Some("advise") => ",shmem_enabled=advise",
        _ => "",
    };
    let Some((largest, mode)) = sizes.first() else { return Ok(keys + ",thp=never" + shared) };
    if let Some((other, different)) = sizes.iter().find(|(_, other)| other != mode) {
        return Err(format!(
            "sizes of transparent huge pages with different modes are not simulated: {} is '{mode}', {} '{different}'",
            Bytes(*largest),
            Bytes(*other)
        ));
    }
    keys += &format!(",thp={mode},thp_size={}", Bytes(*largest));
    let mut others: Vec<String> = sizes[1..].iter().map(|(bytes, _)| Bytes(*bytes).to_string()).collect();
    others.reverse();
    if !others.is_empty() {
        keys += &format!(",mthp_sizes={}", others.join("+"));
    }
    Ok(keys + shared)
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
        let keys = |thp: Thp| policy(Some(&thp)).unwrap();
        let start = "placement=thp,khugepaged=0";
        assert_eq!(policy(None).unwrap(), format!("{start},thp=never"));
        assert_eq!(keys(thp("madvise", &[])), format!("{start},thp=madvise,thp_size=2M"));
        assert_eq!(keys(thp("always", &[(64, "never"), (2048, "inherit")])), format!("{start},thp=always,thp_size=2M"));
        let both = thp("always", &[(16, "inherit"), (64, "always"), (2048, "inherit")]);
        assert_eq!(keys(both), format!("{start},thp=always,thp_size=2M,mthp_sizes=16K+64K"));
        assert_eq!(
            keys(thp("never", &[(64, "always"), (2048, "inherit")])),
            format!("{start},thp=always,thp_size=64K")
        );
        assert_eq!(keys(thp("never", &[(64, "never"), (2048, "inherit")])), format!("{start},thp=never"));
        let shared = |mode: &str| keys(Thp { shmem_enabled: Some(mode.into()), ..thp("never", &[]) });
        assert_eq!(shared("within_size"), format!("{start},thp=never,shmem_enabled=always"));
        assert_eq!(shared("advise"), format!("{start},thp=never,shmem_enabled=advise"));
        assert_eq!(shared("deny"), format!("{start},thp=never"));
        assert_eq!((mode(Some(&thp("madvise", &[]))).as_str(), mode(None).as_str()), ("madvise", "never"));
        let mixed = policy(Some(&thp("madvise", &[(64, "always"), (2048, "inherit")]))).unwrap_err();
        assert!(mixed.contains("2M is 'madvise', 64K 'always'"), "{mixed}");
    }

    #[test]
    fn this_stands_for_the_keys() {
        let always = thp("always", &[(64, "never"), (2048, "inherit")]);
        let keys = with_policy("ds13/4k", "l2=none,placement=this,seed=1", Some(&always)).unwrap();
        assert_eq!(keys, "ds13/4k:l2=none,placement=thp,khugepaged=0,thp=always,thp_size=2M,seed=1");
        let mixed = thp("madvise", &[(64, "always"), (2048, "inherit")]);
        let why = with_policy("ds13/4k", "placement=this", Some(&mixed)).unwrap_err().to_string();
        assert!(
            why.contains("'ds13/4k': placement=this: sizes of transparent huge pages with different modes"),
            "{why}"
        );
        assert_eq!(expanded("ds13/4k:placement=thp").unwrap(), "ds13/4k:placement=thp");
        assert!(expanded("ds13/4k:placement=this").unwrap().starts_with("ds13/4k:placement=thp,khugepaged=0,thp="));
    }
}
