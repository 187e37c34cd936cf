//! The kernel's settings of transparent huge pages, what a change makes of them, and the policy that simulates them.

use farreach_live::settings;
use farreach_live::system::{System, Thp};
use farreach_types::addr::Bytes;
use std::path::{Path, PathBuf};

/// The folder of transparent huge pages below the root.
pub const THP: &str = "sys/kernel/mm/transparent_hugepage";

/// A file of the kernel, relative to the root, and what is written to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Write {
    /// Relative to the root.
    pub file: String,
    /// What is written.
    pub value: String,
    /// What is there now.
    pub before: String,
}

impl Write {
    /// The mode of transparent huge pages.
    pub fn mode(thp: &Thp, value: &str) -> Write {
        let before = thp.enabled.clone().unwrap_or_default();
        Write { file: format!("{THP}/enabled"), value: value.into(), before }
    }

    /// The mode of shared memory.
    pub fn shared(thp: &Thp, value: &str) -> Write {
        let before = thp.shmem_enabled.clone().unwrap_or_default();
        Write { file: format!("{THP}/shmem_enabled"), value: value.into(), before }
    }

    /// The mode of a size.
    pub fn size(thp: &Thp, bytes: u64, value: &str) -> Write {
        let before =
            thp.sizes.iter().find(|size| size.bytes == bytes).map_or(String::new(), |size| size.enabled.clone());
        Write { file: format!("{THP}/hugepages-{}kB/enabled", bytes >> 10), value: value.into(), before }
    }

    /// The number of pages in a pool.
    pub fn pool(system: &System, bytes: u64, pages: u64) -> Write {
        let before = system.hugetlb.iter().find(|pool| pool.bytes == bytes).map_or(0, |pool| pool.pages);
        let file = format!("sys/kernel/mm/hugepages/hugepages-{}kB/nr_hugepages", bytes >> 10);
        Write { file, value: pages.to_string(), before: before.to_string() }
    }

    /// For [`settings::Changed`].
    pub fn change(&self, root: &Path) -> settings::Change {
        settings::Change { file: root.join(&self.file), value: self.value.clone() }
    }

    /// The file for people.
    pub fn path(&self) -> PathBuf {
        Path::new("/").join(&self.file)
    }
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

/// The settings after these writes.
pub fn after(thp: &Thp, writes: &[Write]) -> Thp {
    let mut thp = thp.clone();
    for write in writes {
        let Some(name) = write.file.strip_prefix(THP) else { continue };
        if name == "/enabled" {
            thp.enabled = Some(write.value.clone());
        }
        if name == "/shmem_enabled" {
            thp.shmem_enabled = Some(write.value.clone());
        }
        let of = |bytes: u64| name == format!("/hugepages-{}kB/enabled", bytes >> 10);
        thp.sizes.iter_mut().filter(|size| of(size.bytes)).for_each(|size| size.enabled = write.value.clone());
    }
    thp
}

/// The mode that counts for the largest size; `never` without huge pages.
pub fn mode(thp: Option<&Thp>) -> String {
    thp.map(sizes).and_then(|sizes| sizes.into_iter().next()).map_or("never".into(), |(_, mode)| mode)
}

#[cfg(test)]
mod tests {
    use super::*;
    use farreach_live::system::ThpSize;

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
        let mixed = policy(Some(&thp("madvise", &[(64, "always"), (2048, "inherit")]))).unwrap_err();
        assert!(mixed.contains("2M is 'madvise', 64K 'always'"), "{mixed}");
    }

    #[test]
    fn writes_change_settings() {
        let before = thp("madvise", &[(64, "never"), (2048, "inherit")]);
        let writes = [Write::mode(&before, "always"), Write::size(&before, 64 << 10, "inherit")];
        assert_eq!(after(&before, &writes), thp("always", &[(64, "inherit"), (2048, "inherit")]));
        assert_eq!((writes[0].before.as_str(), writes[1].before.as_str()), ("madvise", "never"));
        assert_eq!((mode(Some(&before)).as_str(), mode(None).as_str()), ("madvise", "never"));
    }
}
