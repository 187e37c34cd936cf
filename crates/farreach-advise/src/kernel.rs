//! The kernel's settings of transparent huge pages, and what a change makes of them.

use farreach_live::settings;
use farreach_live::system::{System, Thp};
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

/// Asks the kernel to move pages together (Linux, `vm.compact_memory`), as far as it will: settings that come and go
/// scatter free frames, pools above all, and then base pages cost more than before. Programs see no change.
pub fn compact(root: &Path) {
    // Only root may, and a kernel without compaction has no such file.
    let _ = std::fs::write(root.join("proc/sys/vm/compact_memory"), "1");
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
    fn writes_change_settings() {
        let before = thp("madvise", &[(64, "never"), (2048, "inherit")]);
        let writes = [Write::mode(&before, "always"), Write::size(&before, 64 << 10, "inherit")];
        assert_eq!(after(&before, &writes), thp("always", &[(64, "inherit"), (2048, "inherit")]));
        assert_eq!((writes[0].before.as_str(), writes[1].before.as_str()), ("madvise", "never"));
    }
}
