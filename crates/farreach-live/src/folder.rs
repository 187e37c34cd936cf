//! Folders of a run: private, with names that nobody can guess, and removed at every end.

use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, Stat, flock, fstat, openat, statat, unlinkat};
use rustix::io::Errno;

/// What their names begin with.
const PREFIX: &str = "farreach-";
/// The file in each that says whose it is. Its owner holds a lock on it, which the kernel releases however the owner
/// ends, and which shows in every PID namespace.
const MARK: &str = "farreach.mark";
/// What stands in it once it is locked.
const TEXT: &[u8] = b"A folder of farreach, which removes it.\n";
/// Only its user may do anything with such a folder.
const MODE: u32 = 0o700;

/// A folder of this process alone; removed with its files when this value is dropped.
pub struct Folder {
    path: PathBuf,
    folder: OwnedFd,
    _mark: File,
}

impl Folder {
    /// Makes one in `base`, and removes those there of a farreach that was killed.
    ///
    /// # Errors
    /// The system's.
    pub fn create(base: &Path) -> io::Result<Folder> {
        remove_leftovers(base);
        let permissions = Permissions::from_mode(MODE);
        let made = tempfile::Builder::new().prefix(PREFIX).rand_bytes(12).permissions(permissions).tempdir_in(base)?;
        let folder: OwnedFd = openat(rustix::fs::CWD, made.path(), FOLDER, Mode::empty())?;
        let new = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut mark = File::from(openat(&folder, MARK, new, Mode::RUSR | Mode::WUSR)?);
        flock(&mark, FlockOperation::NonBlockingLockExclusive)?;
        mark.write_all(TEXT)?;
        Ok(Folder { path: made.keep(), folder, _mark: mark })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is left to the next run.
        if empty(&self.folder).is_ok() {
            let _ = fs::remove_dir(&self.path);
        }
    }
}

/// How a folder is opened: never by a symbolic link.
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Removes all files, the mark last: until then it is a folder of farreach.
fn empty(folder: &OwnedFd) -> io::Result<()> {
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if ![b".".as_slice(), b"..", MARK.as_bytes()].contains(&name.to_bytes()) {
            unlinkat(folder, name, AtFlags::empty())?;
        }
    }
    Ok(unlinkat(folder, MARK, AtFlags::empty())?)
}

/// Removes folders whose farreach was killed together with its guard.
fn remove_leftovers(base: &Path) {
    let Ok(base) = openat(rustix::fs::CWD, base, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
    else {
        return;
    };
    for entry in Dir::read_from(&base).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if name.to_bytes().starts_with(PREFIX.as_bytes()) {
            // What is not surely a leftover stays.
            let _ = remove_leftover(&base, name);
        }
    }
}

fn is_own(about: &Stat, kind: FileType) -> bool {
    about.st_uid == rustix::process::geteuid().as_raw() && FileType::from_raw_mode(about.st_mode) == kind
}

/// Removes a folder if it is one of this user, only for this user, with a mark that nobody holds.
fn remove_leftover(base: &OwnedFd, name: &std::ffi::CStr) -> Result<(), Errno> {
    let folder = openat(base, name, FOLDER, Mode::empty())?;
    let about = fstat(&folder)?;
    if !is_own(&about, FileType::Directory) || about.st_mode & 0o7777 != MODE {
        return Ok(());
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mark = File::from(openat(&folder, MARK, flags, Mode::empty())?);
    let mut text = Vec::new();
    // Without its text it may be about to be locked.
    if !is_own(&fstat(&mark)?, FileType::RegularFile)
        || (&mark).take(TEXT.len() as u64 + 1).read_to_end(&mut text).is_err()
        || text != TEXT
    {
        return Ok(());
    }
    flock(mark.as_fd(), FlockOperation::NonBlockingLockExclusive)?;
    if empty(&folder).is_ok() {
        let now = statat(base, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if (now.st_dev, now.st_ino) == (about.st_dev, about.st_ino) {
            unlinkat(base, name, AtFlags::REMOVEDIR)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// The same as after a kill of farreach and its guard.
    fn abandon(folder: Folder) -> PathBuf {
        let path = folder.path.clone();
        fs::write(path.join("ring.0"), "x").unwrap();
        let folder = std::mem::ManuallyDrop::new(folder);
        // SAFETY: the value is not used again.
        drop(unsafe { std::ptr::read(&folder._mark) });
        path
    }

    fn make(path: &Path, mode: u32) {
        fs::create_dir(path).unwrap();
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_folder_is_private_and_ends_with_its_value() {
        let base = tempfile::tempdir().unwrap();
        let [one, other] = [0, 1].map(|_| Folder::create(base.path()).unwrap());
        assert_ne!(one.path(), other.path());
        assert_eq!(fs::metadata(one.path()).unwrap().permissions().mode() & 0o7777, 0o700);
        fs::write(one.path().join("log.1"), "x").unwrap();
        drop(one);
        drop(other);
        assert_eq!(fs::read_dir(base.path()).unwrap().count(), 0);
    }

    #[test]
    fn only_what_a_dead_farreach_left_is_removed() {
        let base = tempfile::tempdir().unwrap();
        let path = |name: &str| base.path().join(name);
        // A folder of the user, named as those of farreach were or are; one with a mark that is none of farreach.
        make(&path("farreach-4194305-results"), 0o755);
        fs::write(path("farreach-4194305-results/mine"), "mine").unwrap();
        make(&path("farreach-abcdefghijkl"), 0o700);
        fs::write(path("farreach-abcdefghijkl/mine"), "mine").unwrap();
        make(&path("farreach-marked"), 0o700);
        fs::write(path("farreach-marked").join(MARK), "mine").unwrap();
        // One that others may change.
        let open = abandon(Folder::create(base.path()).unwrap());
        fs::set_permissions(&open, Permissions::from_mode(0o770)).unwrap();
        // A link to a folder of farreach elsewhere, and a folder whose mark is a link.
        let elsewhere = tempfile::tempdir().unwrap();
        let linked = abandon(Folder::create(elsewhere.path()).unwrap());
        symlink(&linked, path("farreach-link")).unwrap();
        make(&path("farreach-linkedmark"), 0o700);
        symlink(linked.join(MARK), path("farreach-linkedmark").join(MARK)).unwrap();
        let alive = Folder::create(base.path()).unwrap();
        let left = abandon(Folder::create(base.path()).unwrap());
        drop(Folder::create(base.path()).unwrap());
        for stays in [
            &path("farreach-4194305-results/mine"),
            &path("farreach-abcdefghijkl/mine"),
            &path("farreach-marked").join(MARK),
            &open.join("ring.0"),
            &linked.join("ring.0"),
            &path("farreach-linkedmark").join(MARK),
            &alive.path().join(MARK),
        ] {
            assert!(fs::symlink_metadata(stays).is_ok(), "{} is gone", stays.display());
        }
        assert!(!left.exists(), "{} is left", left.display());
    }
}
