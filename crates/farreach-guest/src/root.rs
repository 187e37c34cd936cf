//! The root of a guest.

use crate::cache::{Work, kept};
use crate::debian::{self, Apt};
use crate::init::{self, Input};
use crate::tools::{BUSYBOX, SHELL, programs};
use crate::tree::{Entry, Tree};
use crate::{Guest, NotFound, host};
use farreach_types::event::Arch;
use farreach_types::{Context, Result, ensure};
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Folders that are links into `usr`.
const MERGED: [&str; 4] = ["bin", "sbin", "lib", "lib64"];

/// An archive of the user's and its size.
pub type Archive = Option<(PathBuf, u64)>;

/// Makes the root, and says which archive stands before it. `mark`: the program that executes marks.
pub fn make(
    guest: &Guest,
    console: &str,
    mark: &Path,
    cache: &Path,
    apt: &Apt,
    say: &dyn Fn(&str),
) -> Result<(Tree, Archive)> {
    let mut tree = Tree::default();
    let mut archive = None;
    if !guest.packages.is_empty() {
        tree.put_folder(&of_packages(&guest.packages, guest.arch, cache, apt)?, Path::new(""))?;
    }
    for root in &guest.roots {
        let about = root.metadata().with_context(|| format!("--root {}", root.display()))?;
        if about.is_dir() {
            tree.put_folder(root, Path::new("")).with_context(|| format!("--root {}", root.display()))?;
        } else {
            ensure!(archive.is_none(), "--root {}: one archive is allowed", root.display());
            check_archive(root)?;
            archive = Some((root.clone(), about.len()));
        }
    }
    for path in &guest.copies {
        let path = guest.directory.join(path);
        put_from_here(&mut tree, &path, guest.arch).with_context(|| format!("--copy {}", path.display()))?;
    }
    own_files(&mut tree, guest, console, mark, cache, apt)?;
    // An archive is not looked into: the command may be in it.
    if archive.is_none() {
        fill(&mut tree, guest, cache, apt)?;
        find_command(&mut tree, guest, say)?;
    }
    Ok((tree, archive))
}

/// Programs need the instruction set of this machine; other files do not.
fn put_from_here(tree: &mut Tree, path: &Path, arch: Arch) -> Result<()> {
    if host::runs(arch) { host::put(tree, path, arch) } else { tree.put_same(path) }
}

/// Refuses a file that no kernel unpacks.
fn check_archive(path: &Path) -> Result<()> {
    let mut head = [0; 8];
    let place = || format!("--root {}", path.display());
    let file = fs::File::open(path).with_context(place)?;
    let read = file.take(8).read(&mut head).with_context(place)?;
    let known: [&[u8]; 8] =
        [b"070701", b"070702", b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ", b"BZh", b"\x02\x21\x4c\x18", b"\x5d\0\0"];
    ensure!(
        known.iter().any(|magic| head[..read].starts_with(magic)),
        "{}: neither a folder nor an archive that a kernel unpacks (cpio in the format newc, also compressed); an \
         image of a disk needs a command line of QEMU: farreach run --system",
        place()
    );
    Ok(())
}

/// The files that every guest has.
fn own_files(tree: &mut Tree, guest: &Guest, console: &str, mark: &Path, cache: &Path, apt: &Apt) -> Result<()> {
    let mark = fs::read(mark).with_context(|| mark.display().to_string())?;
    tree.put(init::MARK, Entry::file(0o755, mark));
    tree.put(init::SHELL, Entry::file(0o755, SHELL.read(guest.arch, cache, apt)?));
    tree.put(init::BUSYBOX, Entry::file(0o755, BUSYBOX.read(guest.arch, cache, apt)?));
    let script = init::script(&guest.command, &guest.directory, console, &guest.input);
    tree.put(init::SCRIPT, Entry::file(0o755, script));
    if let Input::Bytes(bytes) = &guest.input {
        tree.put(init::INPUT, Entry::file(0o644, bytes.clone()));
    }
    // The first process has it as its standard streams.
    tree.put("/dev/console", Entry::device(0o600, (5, 1)));
    tree.put(&guest.directory, Entry::folder());
    Ok(())
}

/// What a root lacks to run programs: names of users, a shell, and the programs that busybox is.
fn fill(tree: &mut Tree, guest: &Guest, cache: &Path, apt: &Apt) -> Result<()> {
    for (path, text) in [
        ("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\n"),
        ("/etc/group", "root:x:0:\n"),
        ("/etc/hosts", "127.0.0.1 localhost guest\n"),
    ] {
        tree.put_if_absent(path, Entry::file(0o644, text));
    }
    let shells = ["sh", "bash"].map(|name| (name.to_owned(), init::SHELL));
    let others = programs(&BUSYBOX.read(guest.arch, cache, apt)?).into_iter().map(|name| (name, init::BUSYBOX));
    for (name, target) in shells.into_iter().chain(others) {
        if in_path(tree, OsStr::new(&name)).is_none() {
            tree.put(Path::new("/bin").join(name), Entry::link(target));
        }
    }
    Ok(())
}

/// The path of a program in the folders in which the guest looks for it.
fn in_path(tree: &Tree, name: &OsStr) -> Option<PathBuf> {
    let paths = init::PATH.split(':').map(|folder| Path::new(folder).join(name));
    paths.into_iter().find(|path| tree.find(path).is_some_and(Entry::is_program))
}

/// Sees that the root has the command. Of this machine it is taken where that runs it.
fn find_command(tree: &mut Tree, guest: &Guest, say: &dyn Fn(&str)) -> Result<()> {
    let name = &guest.command[0];
    let has_slash = name.as_bytes().contains(&b'/');
    let there = match has_slash {
        true => tree.find(guest.directory.join(name)).is_some_and(Entry::is_program),
        false => in_path(tree, name).is_some(),
    };
    if there {
        return Ok(());
    }
    let shown = name.to_string_lossy();
    let found = host::find(name, &guest.directory).filter(|_| host::runs(guest.arch));
    let Some(path) = found else {
        let path = guest.directory.join(name);
        if has_slash && (tree.find(&path).is_some() || host::runs(guest.arch) && path.exists()) {
            return Err(NotFound(format!("'{shown}' is no program that can be started"))).context("command");
        }
        let here = match host::runs(guest.arch) {
            true => ", nor this machine".to_owned(),
            false => format!("; programs of this machine do not run on {}", guest.arch.name()),
        };
        let what = format!("the root of the guest does not have '{shown}'{here}. --packages or --root bring programs");
        return Err(NotFound(what)).context("command");
    };
    say(&format!("'{shown}' is {} of this machine, with the libraries that it loads", path.display()));
    host::put(tree, &path, guest.arch)?;
    // The guest may look for it elsewhere.
    if !has_slash && in_path(tree, name).is_none() {
        tree.put(Path::new("/usr/bin").join(name), Entry::link(path.as_os_str().as_bytes()));
    }
    Ok(())
}

/// A folder of the cache with these packages and all that they depend on, unpacked. Their scripts do not run.
fn of_packages(packages: &[String], arch: Arch, cache: &Path, apt: &Apt) -> Result<PathBuf> {
    let mut names = packages.to_vec();
    names.sort();
    names.dedup();
    let name: String = names.join(",").replace('/', "_");
    let place = cache.join("roots").join(arch.name()).join(&name);
    ensure!(name.len() < 255, "--packages: more than 254 characters; make a folder with mmdebstrap and give --root");
    kept(&place, |new| {
        let work = Work::new(new.parent().unwrap_or(new))?;
        let debs = apt.download_all(&names, &work.0)?;
        for folder in MERGED {
            let inside = new.join("usr").join(folder);
            fs::create_dir_all(&inside).with_context(|| inside.display().to_string())?;
            symlink(Path::new("usr").join(folder), new.join(folder)).with_context(|| new.display().to_string())?;
        }
        debs.iter().try_for_each(|deb| debian::unpack(deb, new, &[]))
    })?;
    Ok(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_files_are_no_roots() {
        let folder = tempfile::tempdir().unwrap();
        let file = |bytes: &[u8]| {
            let path = folder.path().join("root");
            fs::write(&path, bytes).unwrap();
            check_archive(&path)
        };
        assert!(file(b"070701000").is_ok() && file(b"\x1f\x8b\x08\0\0").is_ok());
        for other in [&b""[..], b"QFI\xfb", b"0707", b"text"] {
            assert!(file(other).unwrap_err().to_string().contains("run --system"));
        }
    }

    #[test]
    fn programs_are_looked_for_where_the_guest_does() {
        let mut tree = Tree::default();
        tree.put("/usr/bin/tool", Entry::file(0o755, "x"));
        tree.put("/usr/bin/text", Entry::file(0o644, "x"));
        tree.put("/bin", Entry::link("usr/bin"));
        assert_eq!(in_path(&tree, "tool".as_ref()), Some("/usr/bin/tool".into()));
        assert_eq!(in_path(&tree, "text".as_ref()), None);
    }
}
