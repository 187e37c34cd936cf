//! The files of a guest's root, before they are written into an archive.

use farreach_types::{Context, Result, ensure};
use rustix::fs::{major, minor, statfs};
use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

const KIND: u32 = 0o170_000;
const FOLDER: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_000;
const CHARACTERS: u32 = 0o020_000;

/// Longest chain of links, as in Linux.
const LINKS: usize = 40;

/// What is in a file.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// It is a folder or a device.
    Nothing,
    /// These bytes; of a link, its target.
    Bytes(Vec<u8>),
    /// What is in a file of this machine.
    File {
        /// Its path.
        path: PathBuf,
        /// Its bytes.
        size: u64,
    },
}

impl Content {
    /// Bytes.
    pub fn size(&self) -> u64 {
        match self {
            Content::Nothing => 0,
            Content::Bytes(bytes) => bytes.len() as u64,
            Content::File { size, .. } => *size,
        }
    }
}

/// A file, folder, link or device.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Kind and rights, as in `st_mode`.
    pub mode: u32,
    /// User and group.
    pub owner: (u32, u32),
    /// Seconds since 1970.
    pub modified: u32,
    /// Of a device: its major and minor number.
    pub device: (u32, u32),
    /// What is in it.
    pub content: Content,
}

impl Entry {
    fn new(mode: u32, content: Content) -> Entry {
        Entry { mode, owner: (0, 0), modified: 0, device: (0, 0), content }
    }

    /// A folder.
    pub fn folder() -> Entry {
        Entry::new(FOLDER | 0o755, Content::Nothing)
    }

    /// A file with these rights and contents.
    pub fn file(mode: u32, text: impl Into<Vec<u8>>) -> Entry {
        Entry::new(FILE | mode, Content::Bytes(text.into()))
    }

    /// A symbolic link.
    pub fn link(target: impl Into<Vec<u8>>) -> Entry {
        Entry::new(LINK | 0o777, Content::Bytes(target.into()))
    }

    /// A device of characters.
    pub fn device(mode: u32, device: (u32, u32)) -> Entry {
        Entry { device, ..Entry::new(CHARACTERS | mode, Content::Nothing) }
    }

    /// A file of this machine, with its rights. What belongs to this user belongs to the guest's root.
    fn here(path: &Path, about: &Metadata) -> Result<Entry> {
        let own = rustix::process::geteuid().as_raw();
        let content = match about.mode() & KIND {
            FILE => Content::File { path: path.to_owned(), size: about.len() },
            LINK => {
                let target = fs::read_link(path).with_context(|| path.display().to_string())?;
                Content::Bytes(target.into_os_string().into_vec())
            }
            _ => Content::Nothing,
        };
        Ok(Entry {
            mode: about.mode(),
            owner: if about.uid() == own { (0, 0) } else { (about.uid(), about.gid()) },
            modified: about.mtime().try_into().unwrap_or(0),
            device: (major(about.rdev()), minor(about.rdev())),
            content,
        })
    }

    fn kind(&self) -> u32 {
        self.mode & KIND
    }

    /// Whether it is a folder.
    pub fn is_folder(&self) -> bool {
        self.kind() == FOLDER
    }

    /// Whether the system would start it.
    pub fn is_program(&self) -> bool {
        self.kind() == FILE && self.mode & 0o111 != 0
    }

    fn target(&self) -> Option<&Path> {
        match &self.content {
            Content::Bytes(target) if self.kind() == LINK => Some(Path::new(OsStr::from_bytes(target))),
            _ => None,
        }
    }
}

/// Files by their paths from the root on, without a slash in front. The folder of each is there.
#[derive(Default, Debug)]
pub struct Tree {
    entries: BTreeMap<PathBuf, Entry>,
}

impl Tree {
    /// All entries; a folder stands before what is in it.
    pub fn entries(&self) -> impl Iterator<Item = (&Path, &Entry)> {
        self.entries.iter().map(|(path, entry)| (path.as_path(), entry))
    }

    /// Bytes of memory that it takes in a guest, about.
    pub fn bytes(&self) -> u64 {
        self.entries.values().map(|entry| 1024 + entry.content.size().next_multiple_of(4096)).sum()
    }

    /// What a path leads to, by all links, if it is there.
    pub fn find(&self, path: impl AsRef<Path>) -> Option<&Entry> {
        let real = self.real(path.as_ref())?;
        if real.as_os_str().is_empty() { None } else { self.entries.get(&real) }
    }

    /// The path without links of something that is there. The root is an empty path.
    fn real(&self, path: &Path) -> Option<PathBuf> {
        let mut todo: VecDeque<PathBuf> = parts(path).collect();
        let (mut real, mut links) = (PathBuf::new(), 0);
        while let Some(part) = todo.pop_front() {
            if part.as_os_str() == ".." {
                real.pop();
                continue;
            }
            let at = real.join(part);
            let Some(target) = self.entries.get(&at)?.target() else {
                real = at;
                continue;
            };
            links += 1;
            if links > LINKS {
                return None;
            }
            if target.is_absolute() {
                real.clear();
            }
            parts(target).rev().for_each(|part| todo.push_front(part));
        }
        Some(real)
    }

    /// Puts something at a path, in the place of what is there; a folder that is there stays. Links on the way to it
    /// are followed, and folders made.
    pub fn put(&mut self, path: impl AsRef<Path>, entry: Entry) {
        let mut at = PathBuf::new();
        let mut parts: Vec<PathBuf> = parts(path.as_ref()).collect();
        let Some(name) = parts.pop() else { return };
        for part in parts {
            at.push(part);
            at = match self.real(&at) {
                Some(real) => real,
                None => {
                    self.entries.insert(at.clone(), Entry::folder());
                    at
                }
            };
        }
        at.push(name);
        let stays = entry.is_folder() && self.find(&at).is_some_and(Entry::is_folder);
        if !stays {
            self.entries.insert(at, entry);
        }
    }

    /// The same unless something is there.
    pub fn put_if_absent(&mut self, path: impl AsRef<Path>, entry: Entry) {
        if self.find(path.as_ref()).is_none() {
            self.put(path, entry);
        }
    }

    /// Puts all that is in a folder of this machine into a folder of the tree. Links stay links.
    ///
    /// # Errors
    /// Something cannot be read.
    pub fn put_folder(&mut self, from: &Path, to: &Path) -> Result<()> {
        let place = || from.display().to_string();
        refuse_kernel_files(from)?;
        let mut names = fs::read_dir(from)
            .and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect::<std::io::Result<Vec<_>>>())
            .with_context(place)?;
        names.sort();
        for name in names {
            let (from, to) = (from.join(&name), to.join(&name));
            let about = from.symlink_metadata().with_context(|| from.display().to_string())?;
            let entry = Entry::here(&from, &about)?;
            if let Content::File { path, .. } = &entry.content {
                fs::File::open(path).with_context(|| path.display().to_string())?;
            }
            let is_folder = entry.is_folder();
            self.put(&to, entry);
            if is_folder {
                self.put_folder(&from, &to)?;
            }
        }
        Ok(())
    }

    /// Puts a file or folder of this machine at the same path, with the links that lead to it. Where the tree has a
    /// folder in the place of a link, it is put into that.
    ///
    /// # Errors
    /// It is not there or cannot be read.
    pub fn put_same(&mut self, path: &Path) -> Result<()> {
        let mut links = 0;
        let mut path = path.to_owned();
        'again: loop {
            links += 1;
            ensure!(links <= LINKS, "{}: links lead in a circle", path.display());
            let mut at = PathBuf::from("/");
            let all: Vec<PathBuf> = parts(&path).collect();
            for (index, part) in all.iter().enumerate() {
                if part.as_os_str() == ".." {
                    at = at.canonicalize().with_context(|| at.display().to_string())?;
                    at.pop();
                    continue;
                }
                at.push(part);
                let about = at.symlink_metadata().with_context(|| at.display().to_string())?;
                let entry = Entry::here(&at, &about)?;
                if let Some(target) = entry.target()
                    && !self.find(&at).is_some_and(Entry::is_folder)
                {
                    let mut next = at.parent().unwrap_or(Path::new("/")).join(target);
                    next.extend(&all[index + 1..]);
                    self.put(&at, entry);
                    path = next;
                    continue 'again;
                }
                if index + 1 == all.len() {
                    self.put(&at, entry);
                }
            }
            refuse_kernel_files(&at)?;
            if at.is_dir() {
                self.put_folder(&at.clone(), &at)?;
            } else if at.is_file() {
                // Only these: to open a pipe is to wait for who writes into it.
                fs::File::open(&at).with_context(|| at.display().to_string())?;
            }
            return Ok(());
        }
    }
}

/// Refuses what the kernel makes when it is read: it has no length, and would be an empty file in the guest.
fn refuse_kernel_files(path: &Path) -> Result<()> {
    const KERNELS: [(u64, &str); 2] = [(0x9fa0, "proc"), (0x6265_6572, "sysfs")];
    let about = statfs(path).with_context(|| path.display().to_string())?;
    let found = KERNELS.iter().find(|(magic, _)| about.f_type as u64 == *magic);
    let name = found.map_or("", |(_, name)| name);
    ensure!(found.is_none(), "{}: it is of this machine's kernel ({name}); a guest has its own", path.display());
    Ok(())
}

/// The names in a path, and `..`.
fn parts(path: &Path) -> impl DoubleEndedIterator<Item = PathBuf> + '_ {
    let of = |part: Component| match part {
        Component::Normal(name) => Some(PathBuf::from(name)),
        Component::ParentDir => Some(PathBuf::from("..")),
        _ => None,
    };
    path.components().filter_map(of)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(tree: &Tree) -> Vec<&str> {
        tree.entries().map(|(path, _)| path.to_str().unwrap()).collect()
    }

    #[test]
    fn links_are_followed_as_a_system_does() {
        let mut tree = Tree::default();
        tree.put("/usr/bin/dash", Entry::file(0o755, "x"));
        tree.put("/bin", Entry::link("usr/bin"));
        tree.put("/bin/sh", Entry::link("dash"));
        tree.put("/etc/sh", Entry::link("/bin/../bin/sh"));
        assert_eq!(paths(&tree), ["bin", "etc", "etc/sh", "usr", "usr/bin", "usr/bin/dash", "usr/bin/sh"]);
        assert!(tree.find("/etc/sh").unwrap().is_program());
        assert!(tree.find("/bin").unwrap().is_folder() && tree.find("/bin/ls").is_none() && tree.find("/").is_none());
        tree.put("/loop", Entry::link("loop"));
        assert!(tree.find("/loop").is_none());
        tree.put("/bin", Entry::folder());
        assert!(tree.find("/bin/sh").is_some(), "a link to a folder stays one");
        tree.put_if_absent("/bin/dash", Entry::folder());
        assert!(tree.find("/bin/dash").unwrap().is_program());
    }

    #[test]
    fn folders_of_this_machine_are_merged_over_what_is_there() {
        let here = tempfile::tempdir().unwrap();
        let path = |name: &str| here.path().join(name);
        fs::create_dir(path("lib")).unwrap();
        fs::write(path("lib/x.so"), "four").unwrap();
        std::os::unix::fs::symlink("lib", path("lib64")).unwrap();
        let mut tree = Tree::default();
        tree.put("lib/y.so", Entry::file(0o644, ""));
        tree.put_folder(here.path(), Path::new("")).unwrap();
        assert_eq!(paths(&tree), ["lib", "lib/x.so", "lib/y.so", "lib64"]);
        let found = tree.find("lib64/x.so").unwrap();
        assert_eq!((found.content.size(), found.owner), (4, (0, 0)));
        assert_eq!(tree.bytes(), 4 * 1024 + 4096 + 4096, "a page of the file, one of the link");
    }

    #[test]
    fn one_file_comes_with_the_links_that_lead_to_it() {
        let here = tempfile::tempdir().unwrap();
        let real = here.path().canonicalize().unwrap();
        let path = |name: &str| real.join(name);
        fs::create_dir(path("lib")).unwrap();
        fs::write(path("lib/x.so.1"), "four").unwrap();
        std::os::unix::fs::symlink("x.so.1", path("lib/x.so")).unwrap();
        std::os::unix::fs::symlink("lib", path("lib64")).unwrap();
        let mut tree = Tree::default();
        tree.put_same(&path("lib64/x.so")).unwrap();
        assert_eq!(tree.find(path("lib64/x.so")).unwrap().content.size(), 4);
        assert!(tree.find(path("lib/x.so.1")).is_some());
        // Where the guest has a folder, the file is in it too.
        let mut tree = Tree::default();
        tree.put(path("lib64"), Entry::folder());
        tree.put_same(&path("lib64/x.so")).unwrap();
        assert!(tree.find(path("lib64/x.so")).is_some() && tree.find(path("lib")).is_none());
        assert!(tree.put_same(&path("none")).is_err());
    }

    #[test]
    fn what_is_no_file_is_not_opened_and_what_is_the_kernels_is_refused() {
        let here = tempfile::tempdir().unwrap();
        let pipe = here.path().canonicalize().unwrap().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        let mut tree = Tree::default();
        tree.put_same(&pipe).unwrap(); // And does not wait.
        assert_eq!(tree.find(&pipe).unwrap().mode & KIND, 0o010_000);
        for path in ["/proc", "/proc/cpuinfo", "/sys/kernel"] {
            let why = tree.put_same(Path::new(path)).unwrap_err().to_string();
            assert!(why.contains("of this machine's kernel"), "{why}");
        }
    }
}
