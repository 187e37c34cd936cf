//! How much memory this process may still take: what the machine has, what the control groups of a container allow
//! (`memory.max` of version 2, `memory.limit_in_bytes` of version 1, of the group of this process and of all above it),
//! and what the limit of addresses does (`ulimit -v`).
//!
//! The kernel ends a process that takes more than a control group allows, without a word. So farreach looks in time.

use std::fmt::{Display, Formatter};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::limits::{self, Limit};

/// What sets a bound.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Bound {
    /// A control group, by the file with its limit.
    Group(PathBuf),
    /// The limit of addresses.
    Addresses,
    /// The memory of the machine, with what can be swapped out.
    Machine,
}

impl Display for Bound {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Bound::Group(file) => write!(f, "the control group allows ({})", file.display()),
            Bound::Addresses => f.write_str("the limit of addresses allows (ulimit -v)"),
            Bound::Machine => f.write_str("the machine has"),
        }
    }
}

/// What may be taken, and how much of it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Room {
    /// What sets it.
    pub bound: Bound,
    /// Bytes in all.
    pub bytes: u64,
    /// Bytes that can still be taken; caches of files count as free.
    pub left: u64,
}

impl Room {
    /// Bytes below which a run must end, so that its result can still be made: an eighth of all, up to 64 MB.
    pub fn reserve(&self) -> u64 {
        (self.bytes / 8).min(64 << 20)
    }
}

impl Display for Room {
    /// `1200 MiB of the 2048 MiB that the control group allows (FILE) are left`.
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} MiB of the {} MiB that {} are left", self.left >> 20, self.bytes >> 20, self.bound)
    }
}

/// A group of the hierarchy of memory.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Group {
    folder: PathBuf,
    version: Version,
}

/// The two kinds of control groups, which have other files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Version {
    One,
    Two,
}

impl Version {
    /// The files with the limit and with what is taken.
    fn files(self) -> [&'static str; 2] {
        match self {
            Version::One => ["memory.limit_in_bytes", "memory.usage_in_bytes"],
            Version::Two => ["memory.max", "memory.current"],
        }
    }

    /// Lines of `memory.stat` that count caches of files, which the kernel drops before it ends a process.
    fn caches(self) -> [&'static str; 2] {
        match self {
            Version::One => ["total_inactive_file ", "total_active_file "],
            Version::Two => ["inactive_file ", "active_file "],
        }
    }
}

/// Version 1 has no word for "no limit", but a number that no machine has.
const UNLIMITED: u64 = 1 << 60;

fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

impl Group {
    fn room(&self) -> Option<Room> {
        let [limit, taken] = self.version.files().map(|name| self.folder.join(name));
        let bytes = number(&limit).filter(|bytes| *bytes < UNLIMITED)?;
        let taken = number(&taken)?;
        let caches = if taken < bytes / 2 { 0 } else { self.caches().min(taken) };
        Some(Room { bound: Bound::Group(limit), bytes, left: bytes.saturating_sub(taken - caches) })
    }

    fn caches(&self) -> u64 {
        let text = fs::read_to_string(self.folder.join("memory.stat")).unwrap_or_default();
        let line = |name: &&str| text.lines().find_map(|line| line.strip_prefix(*name)?.parse::<u64>().ok());
        self.version.caches().iter().filter_map(line).sum()
    }

    /// How often the kernel has ended a process of this group for want of memory.
    fn ended(&self) -> Option<u64> {
        let file = if self.version == Version::One { "memory.oom_control" } else { "memory.events" };
        let text = fs::read_to_string(self.folder.join(file)).ok()?;
        text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.parse().ok())
    }
}

/// The groups of memory that this process is in, from its own to the root, of the kernel below `root`.
fn groups(root: &Path) -> Vec<Group> {
    let read = |name: &str| fs::read_to_string(root.join(name)).unwrap_or_default();
    let (own, mounts) = (read("proc/self/cgroup"), read("proc/self/mountinfo"));
    let mut all = Vec::new();
    for line in own.lines() {
        // NUMBER:CONTROLLERS:PATH; version 2 names no controllers.
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let version = match controllers {
            "" => Version::Two,
            names if names.split(',').any(|name| name == "memory") => Version::One,
            _ => continue,
        };
        let Some((top, mounted)) = mounts.lines().find_map(|line| mount(line, version)) else { continue };
        // In a container the mount can show a part of the tree alone.
        let below = Path::new(path).strip_prefix(&mounted).unwrap_or(Path::new(""));
        let top = root.join(top.strip_prefix("/").unwrap_or(&top));
        let folders = below.ancestors().map(|folder| top.join(folder));
        all.extend(folders.map(|folder| Group { folder, version }));
    }
    all
}

/// The folder of a mount of control groups of this version with memory, and the part of the tree that it shows.
fn mount(line: &str, version: Version) -> Option<(PathBuf, PathBuf)> {
    // 36 35 98:0 ROOT FOLDER OPTIONS [TAGS ...] - TYPE SOURCE OPTIONS
    let (first, second) = line.split_once(" - ")?;
    let mut first = first.split(' ').skip(3);
    let (shown, folder) = (first.next()?, first.next()?);
    let mut second = second.split(' ');
    let fits = match (version, second.next()?) {
        (Version::Two, "cgroup2") => true,
        (Version::One, "cgroup") => second.nth(1)?.split(',').any(|option| option == "memory"),
        _ => false,
    };
    fits.then(|| (unescaped(folder), unescaped(shown)))
}

/// A path of mountinfo, in which blanks and the like are octal numbers.
fn unescaped(path: &str) -> PathBuf {
    let octal = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    octal.iter().fold(path.to_owned(), |path, (from, to)| path.replace(from, to)).into()
}

/// What the control groups of this process allow, below `root`: the one with the least left.
pub(crate) fn of_groups(root: &Path) -> Option<Room> {
    groups(root).iter().filter_map(Group::room).min_by_key(|room| room.left)
}

/// What the machine has left, with swap, unless /proc does not say.
fn of_machine() -> Option<Room> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let bytes = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
    };
    let swap = |name| bytes(name).unwrap_or(0);
    Some(Room {
        bound: Bound::Machine,
        bytes: bytes("MemTotal:")? + swap("SwapTotal:"),
        left: bytes("MemAvailable:")? + swap("SwapFree:"),
    })
}

/// What the limit of addresses leaves.
fn of_addresses() -> Option<Room> {
    let bytes = limits::soft(Limit::AddressSpace)?;
    let pages = fs::read_to_string("/proc/self/statm").ok()?.split(' ').next()?.parse::<u64>().ok()?;
    Some(Room { bound: Bound::Addresses, bytes, left: bytes.saturating_sub(pages << 12) })
}

/// The groups of this process, which does not move.
fn here() -> &'static [Group] {
    static GROUPS: OnceLock<Vec<Group>> = OnceLock::new();
    GROUPS.get_or_init(|| groups(Path::new("/")))
}

/// The tightest bound beyond which the kernel kills; `None` if the system tells nothing.
pub(crate) fn deadly() -> Option<Room> {
    here().iter().filter_map(Group::room).chain(of_machine()).min_by_key(|room| room.left)
}

/// The tightest bound of this process now; `None` if the system tells nothing.
pub fn room() -> Option<Room> {
    deadly().into_iter().chain(of_addresses()).min_by_key(|room| room.left)
}

/// This many bytes, or what may be taken of little memory for references that wait: the program needs it more.
pub fn ahead(bytes: u64) -> u64 {
    room().map_or(bytes, |room| bytes.min(room.left / 8))
}

/// How often the kernel has ended processes in the control groups of this process for want of memory. `None`: it does
/// not say.
pub fn ended_for_want_of_memory() -> Option<u64> {
    here().iter().find_map(Group::ended)
}

#[cfg(test)]
mod tests {
    use super::*;

    const M: u64 = 1 << 20;

    /// A folder that stands for `/`, removed when dropped.
    struct Root(PathBuf);

    impl Root {
        fn new(name: &str, files: &[(&str, &str)]) -> Root {
            let root = Root(std::env::temp_dir().join(format!("farreach-room-{name}-{}", std::process::id())));
            files.iter().for_each(|(name, text)| root.put(name, text));
            root
        }

        fn put(&self, name: &str, text: &str) {
            let path = self.0.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn version_2_up_to_the_root() {
        let root = Root::new(
            "two",
            &[
                ("proc/self/cgroup", "0::/system.slice/job.service\n"),
                (
                    "proc/self/mountinfo",
                    "22 1 0:20 / /proc rw - proc proc rw\n30 25 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 \
                     cgroup2 rw,nsdelegate\n",
                ),
                ("sys/fs/cgroup/system.slice/memory.max", "1073741824\n"),
                ("sys/fs/cgroup/system.slice/memory.current", "104857600\n"),
                ("sys/fs/cgroup/system.slice/job.service/memory.max", "max\n"),
                ("sys/fs/cgroup/system.slice/job.service/memory.current", "52428800\n"),
            ],
        );
        let file = root.0.join("sys/fs/cgroup/system.slice/memory.max");
        let expected = Room { bound: Bound::Group(file.clone()), bytes: 1024 * M, left: 924 * M };
        assert_eq!(of_groups(&root.0), Some(expected.clone()), "the limit is of the group above");
        assert_eq!(
            expected.to_string(),
            format!("924 MiB of the 1024 MiB that the control group allows ({}) are left", file.display())
        );
        // Caches of files are dropped before anything is refused; they are looked at where it may matter.
        root.put("sys/fs/cgroup/system.slice/memory.current", &format!("{}\n", 1000 * M));
        root.put(
            "sys/fs/cgroup/system.slice/memory.stat",
            &format!("anon 5\ninactive_file {}\nactive_file {}\nfile 7\n", 600 * M, 100 * M),
        );
        assert_eq!(of_groups(&root.0).unwrap().left, 724 * M);
        // The group itself is tighter.
        root.put("sys/fs/cgroup/system.slice/job.service/memory.max", &format!("{}", 60 * M));
        root.put("sys/fs/cgroup/system.slice/job.service/memory.events", "low 0\noom 3\noom_kill 2\n");
        assert_eq!(of_groups(&root.0).unwrap().left, 10 * M);
        assert_eq!(groups(&root.0).iter().find_map(Group::ended), Some(2));
    }

    #[test]
    fn version_1_where_the_mount_shows_the_group_of_the_container() {
        let root = Root::new(
            "one",
            &[
                ("proc/self/cgroup", "5:cpu,cpuacct:/docker/ab\n4:memory:/docker/ab/job\n0::/x\n"),
                (
                    "proc/self/mountinfo",
                    "40 30 0:35 /docker/ab /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu,cpuacct\n41 30 0:36 \
                     /docker/ab /sys/fs/with\\040blank ro - cgroup cgroup rw,memory\n",
                ),
                ("sys/fs/with blank/memory.limit_in_bytes", "536870912\n"),
                ("sys/fs/with blank/memory.usage_in_bytes", "400000000\n"),
                ("sys/fs/with blank/memory.stat", "cache 1\ntotal_inactive_file 100000000\ntotal_active_file 1\n"),
                ("sys/fs/with blank/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n"),
                ("sys/fs/with blank/job/memory.limit_in_bytes", "9223372036854771712\n"),
                ("sys/fs/with blank/job/memory.usage_in_bytes", "300000000\n"),
            ],
        );
        let found = of_groups(&root.0).unwrap();
        assert_eq!((found.bytes, found.left), (512 * M, 536_870_912 - 299_999_999));
        assert!(found.to_string().contains("with blank/memory.limit_in_bytes"), "{found}");
        assert_eq!(groups(&root.0).iter().find_map(Group::ended), Some(1));
    }

    #[test]
    fn without_control_groups_there_is_no_limit_by_them() {
        let root = Root::new("none", &[("proc/self/cgroup", "0::/\n4:memory:/\nnonsense\n")]);
        assert_eq!(of_groups(&root.0), None);
        root.put("proc/self/mountinfo", "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\nnonsense - \n");
        assert_eq!(of_groups(&root.0), None, "the root group has no limit");
    }

    #[test]
    fn this_machine_has_room() {
        assert!(room().is_some_and(|room| room.left > 0 && room.left <= room.bytes), "{:?}", room());
    }
}
