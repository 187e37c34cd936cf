//! What the kernel of this machine is set to, as far as it decides about page sizes: read from `/sys` and `/proc`.

use crate::processor::hypervisor_by_cpuid;
use crate::room::of_groups;
use serde::Serialize;
use std::fs;
use std::path::Path;

/// The settings and facts. What the kernel does not have or show is `None`, or not in a list.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct System {
    /// Transparent huge pages; `None`: the kernel was built without.
    pub thp: Option<Thp>,
    /// Pools of hugetlbfs, smallest page first.
    pub hugetlb: Vec<Pool>,
    /// `vm.overcommit_memory`: 0 by guess, 1 always, 2 never.
    pub overcommit_memory: Option<u64>,
    /// `vm.overcommit_ratio`, percent of memory that may be promised where `overcommit_memory` is 2.
    pub overcommit_ratio: Option<u64>,
    /// Bytes of memory.
    pub memory_bytes: Option<u64>,
    /// Bytes that programs can still get without swapping: of the machine, or of the control groups of this process
    /// where these allow less.
    pub available_bytes: Option<u64>,
    /// The hypervisor below, or that there is one; `None`: nothing says that this is a virtual machine.
    pub hypervisor: Option<String>,
    /// Whether free memory goes back to the hypervisor (virtio-balloon, free page reporting): it is slow to touch
    /// again. `None`: there is no such device.
    pub reports_free_pages: Option<bool>,
    /// NUMA nodes with their numbers.
    pub numa_nodes: Vec<u64>,
    /// `kernel.numa_balancing`.
    pub numa_balancing: Option<u64>,
}

/// Settings of transparent huge pages. Choices are the words that the kernel has in brackets.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Thp {
    /// `always`, `madvise` or `never`.
    pub enabled: Option<String>,
    /// When a fault may compact memory for one: `always`, `defer`, `defer+madvise`, `madvise`, `never`.
    pub defrag: Option<String>,
    /// For shared memory and tmpfs.
    pub shmem_enabled: Option<String>,
    /// Bytes of a page of the page directory.
    pub pmd_bytes: Option<u64>,
    /// Whether loads map superpages of zeros.
    pub zero_page: Option<bool>,
    /// Sizes of multi-size THP, smallest first, with their settings.
    pub sizes: Vec<ThpSize>,
    /// Settings of khugepaged by file name.
    pub khugepaged: Vec<(String, u64)>,
}

/// A size of multi-size THP.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ThpSize {
    /// Bytes of a page.
    pub bytes: u64,
    /// `always`, `inherit`, `madvise` or `never`.
    pub enabled: String,
}

/// A pool of hugetlbfs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Pool {
    /// Bytes of a page.
    pub bytes: u64,
    /// Pages in the pool.
    pub pages: u64,
    /// Those of them that are free.
    pub free: u64,
    /// Those of the free ones that are promised already.
    pub reserved: u64,
    /// Pages that may be taken from other memory beyond the pool.
    pub overcommit: u64,
}

/// Files of khugepaged.
const KHUGEPAGED: [&str; 7] = [
    "defrag",
    "pages_to_scan",
    "scan_sleep_millisecs",
    "alloc_sleep_millisecs",
    "max_ptes_none",
    "max_ptes_swap",
    "max_ptes_shared",
];

/// A hypervisor that no file names.
const UNNAMED: &str = "without a name";

impl System {
    /// Those of this machine. CPUID names a hypervisor that no file names.
    pub fn here() -> System {
        let mut system = System::read(Path::new("/"));
        if system.hypervisor.as_deref() == Some(UNNAMED) {
            system.hypervisor = hypervisor_by_cpuid().or(system.hypervisor);
        }
        system
    }

    /// Reads the files below `root`, which is `/` but for tests.
    pub fn read(root: &Path) -> System {
        let mm = root.join("sys/kernel/mm");
        System {
            thp: Thp::read(&mm.join("transparent_hugepage")),
            hugetlb: sizes(&mm.join("hugepages"))
                .into_iter()
                .map(|(bytes, folder)| Pool::read(bytes, &folder))
                .collect(),
            overcommit_memory: number(&root.join("proc/sys/vm/overcommit_memory")),
            overcommit_ratio: number(&root.join("proc/sys/vm/overcommit_ratio")),
            memory_bytes: meminfo(root, "MemTotal:"),
            available_bytes: [meminfo(root, "MemAvailable:"), of_groups(root).map(|room| room.left)]
                .into_iter()
                .flatten()
                .min(),
            hypervisor: hypervisor(root),
            reports_free_pages: reports_free_pages(&root.join("sys/bus/virtio/drivers/virtio_balloon")),
            numa_nodes: nodes(&root.join("sys/devices/system/node")),
            numa_balancing: number(&root.join("proc/sys/kernel/numa_balancing")),
        }
    }
}

impl Thp {
    fn read(folder: &Path) -> Option<Thp> {
        folder.is_dir().then(|| Thp {
            enabled: chosen(&folder.join("enabled")),
            defrag: chosen(&folder.join("defrag")),
            shmem_enabled: chosen(&folder.join("shmem_enabled")),
            pmd_bytes: number(&folder.join("hpage_pmd_size")),
            zero_page: number(&folder.join("use_zero_page")).map(|n| n != 0),
            sizes: sizes(folder)
                .into_iter()
                .filter_map(|(bytes, folder)| Some(ThpSize { bytes, enabled: chosen(&folder.join("enabled"))? }))
                .collect(),
            khugepaged: KHUGEPAGED
                .into_iter()
                .filter_map(|name| Some((name.to_owned(), number(&folder.join("khugepaged").join(name))?)))
                .collect(),
        })
    }
}

impl Pool {
    fn read(bytes: u64, folder: &Path) -> Pool {
        let file = |name: &str| number(&folder.join(name)).unwrap_or(0);
        Pool {
            bytes,
            pages: file("nr_hugepages"),
            free: file("free_hugepages"),
            reserved: file("resv_hugepages"),
            overcommit: file("nr_overcommit_hugepages"),
        }
    }
}

fn text(file: &Path) -> Option<String> {
    Some(fs::read_to_string(file).ok()?.trim().to_owned())
}

fn number(file: &Path) -> Option<u64> {
    text(file)?.parse().ok()
}

/// The word in brackets.
fn chosen(file: &Path) -> Option<String> {
    Some(text(file)?.split_once('[')?.1.split_once(']')?.0.to_owned())
}

/// Folders `hugepages-NkB` with their sizes in bytes, smallest first.
fn sizes(folder: &Path) -> Vec<(u64, std::path::PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let size = |path: std::path::PathBuf| {
        let name = path.file_name()?.to_str()?.strip_prefix("hugepages-")?.strip_suffix("kB")?.to_owned();
        Some((name.parse::<u64>().ok()? << 10, path))
    };
    let mut all: Vec<_> = entries.filter_map(size).collect();
    all.sort_unstable();
    all
}

fn meminfo(root: &Path, name: &str) -> Option<u64> {
    let text = text(&root.join("proc/meminfo"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
}

fn nodes(folder: &Path) -> Vec<u64> {
    let entries =
        fs::read_dir(folder).into_iter().flatten().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut all: Vec<u64> = entries.filter_map(|name| name.strip_prefix("node")?.parse().ok()).collect();
    all.sort_unstable();
    all
}

/// Bit 5 of the features that a balloon device has agreed to (virtio 1.2, 5.5.3), which are a string of 0 and 1.
fn reports_free_pages(driver: &Path) -> Option<bool> {
    const REPORTING: usize = 5;
    let entries = fs::read_dir(driver).ok()?;
    let mut features = entries.filter_map(|entry| text(&entry.ok()?.path().join("features")));
    features.find_map(|bits| Some(*bits.as_bytes().get(REPORTING)? == b'1'))
}

/// The hypervisor, by the flag of x86 or the device tree of Arm; its name, where a file has one.
fn hypervisor(root: &Path) -> Option<String> {
    let tree = text(&root.join("proc/device-tree/hypervisor/compatible"));
    let flagged = text(&root.join("proc/cpuinfo")).is_some_and(|cpu| {
        let flags = cpu.lines().find(|line| line.starts_with("flags"));
        flags.is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"))
    });
    if !flagged && tree.is_none() {
        return None;
    }
    let name = text(&root.join("sys/hypervisor/type")).or_else(|| text(&root.join("sys/class/dmi/id/sys_vendor")));
    let name = name.or(tree).map(|name| name.trim_matches('\0').to_owned()).filter(|name| !name.is_empty());
    Some(name.unwrap_or_else(|| UNNAMED.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixture(files: &[(&str, &str)]) -> std::path::PathBuf {
        let root = tempfile::tempdir().unwrap().keep();
        for (name, text) in files {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn a_server_with_everything() {
        let thp = "sys/kernel/mm/transparent_hugepage";
        let pool = "sys/kernel/mm/hugepages/hugepages-1048576kB";
        let root = fixture(&[
            (&format!("{thp}/enabled"), "always [madvise] never\n"),
            (&format!("{thp}/defrag"), "always defer defer+madvise [madvise] never\n"),
            (&format!("{thp}/hpage_pmd_size"), "2097152\n"),
            (&format!("{thp}/hugepages-2048kB/enabled"), "always [inherit] madvise never\n"),
            (&format!("{thp}/hugepages-64kB/enabled"), "always inherit madvise [never]\n"),
            (&format!("{thp}/khugepaged/pages_to_scan"), "4096\n"),
            (&format!("{thp}/khugepaged/max_ptes_none"), "511\n"),
            (&format!("{pool}/nr_hugepages"), "4\n"),
            (&format!("{pool}/free_hugepages"), "3\n"),
            (&format!("{pool}/resv_hugepages"), "1\n"),
            ("proc/sys/vm/overcommit_memory", "2\n"),
            ("proc/meminfo", "MemTotal:       24576 kB\nMemFree: 1 kB\nMemAvailable:   1024 kB\n"),
            ("proc/cpuinfo", "processor : 0\nflags : fpu vme hypervisor lahf_lm\n"),
            ("sys/class/dmi/id/sys_vendor", "QEMU\n"),
            ("proc/self/cgroup", "0::/job\n"),
            ("proc/self/mountinfo", "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
            ("sys/fs/cgroup/job/memory.max", "1000000\n"),
            ("sys/fs/cgroup/job/memory.current", "400000\n"),
            ("sys/bus/virtio/drivers/virtio_balloon/bind", ""),
            ("sys/bus/virtio/drivers/virtio_balloon/virtio0/features", "0110010100000000\n"),
            ("sys/devices/system/node/node0/x", ""),
            ("sys/devices/system/node/node1/x", ""),
            ("sys/devices/system/node/possible", "0-1"),
        ]);
        let found = System::read(&root);
        fs::remove_dir_all(&root).unwrap();
        let thp = found.thp.unwrap();
        assert_eq!((thp.enabled.as_deref(), thp.defrag.as_deref()), (Some("madvise"), Some("madvise")));
        assert_eq!((thp.shmem_enabled, thp.pmd_bytes), (None, Some(2 << 20)));
        let size = |bytes, enabled: &str| ThpSize { bytes, enabled: enabled.into() };
        assert_eq!(thp.sizes, [size(64 << 10, "never"), size(2 << 20, "inherit")]);
        assert_eq!(thp.khugepaged, [("pages_to_scan".into(), 4096), ("max_ptes_none".into(), 511)]);
        assert_eq!(found.hugetlb, [Pool { bytes: 1 << 30, pages: 4, free: 3, reserved: 1, overcommit: 0 }]);
        assert_eq!(
            (found.memory_bytes, found.available_bytes),
            (Some(24 << 20), Some(600_000)),
            "less than the machine has"
        );
        assert_eq!((found.hypervisor.as_deref(), found.numa_nodes), (Some("QEMU"), vec![0, 1]));
        assert_eq!(found.reports_free_pages, Some(true));
        assert_eq!((found.overcommit_memory, found.overcommit_ratio), (Some(2), None));
    }

    #[test]
    fn what_is_not_there_is_none() {
        let root = fixture(&[("proc/cpuinfo", "flags : fpu hypervisorless\n")]);
        let found = System::read(&root);
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(found, System::default());
    }

    #[test]
    fn this_machine_has_memory() {
        assert!(System::here().memory_bytes.is_some_and(|bytes| bytes > 1 << 20));
    }
}
