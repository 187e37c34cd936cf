//! What guests are made of and is kept: kernels, shells, roots of packages. All of it can be fetched again.

use farreach_live::cache;
use farreach_types::{Context, Error, Result};
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Where all of it is kept: `farreach/guests` in `$XDG_CACHE_HOME`, or in `~/.cache`.
///
/// # Errors
/// Neither `XDG_CACHE_HOME` nor `HOME` names a folder.
pub fn cache_dir() -> Result<PathBuf> {
    cache::place("guests").context("kernels need a place: set XDG_CACHE_HOME to an absolute path")
}

/// Makes the folder of the cache, for this user alone. It is this process's as long as the file is open.
///
/// # Errors
/// It cannot be made, or others can write into it: what lies there is run.
pub fn open(folder: &Path, say: &dyn Fn(&str)) -> Result<File> {
    cache::make(folder, "kernels")?;
    let path = folder.join("lock");
    let place = || path.display().to_string();
    let file = File::options().write(true).create(true).truncate(false).open(&path).with_context(place)?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        say("waiting for another farreach, which makes a guest");
        flock(&file, FlockOperation::LockExclusive).with_context(place)?;
    }
    Ok(file)
}

/// A file or folder of the cache, which `make` makes unless it is there: under another name at first, so that it is
/// there as a whole or not at all.
///
/// # Errors
/// Those of `make`; the system's.
pub fn kept(path: &Path, make: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    if path.exists() {
        return Ok(());
    }
    let above = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(above).with_context(|| above.display().to_string())?;
    let work = Work::new(above)?;
    let new = work.0.join("new");
    make(&new)?;
    match fs::rename(&new, path) {
        // Another farreach was quicker.
        Err(_) if path.exists() => Ok(()),
        done => Ok(done.map_err(|source| Error::Io { file: path.display().to_string(), source })?),
    }
}

/// What the names of folders to work in begin with.
const WORK: &str = ".work-";

/// A folder to work in, which goes with its value.
pub struct Work(pub PathBuf);

impl Work {
    /// Makes one in a folder.
    ///
    /// # Errors
    /// The system's.
    pub fn new(above: &Path) -> Result<Work> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = above.join(format!("{WORK}{}-{number}", std::process::id()));
        // Of a farreach of this number that was killed.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).with_context(|| path.display().to_string())?;
        Ok(Work(path))
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farreach_types::bail;

    #[test]
    fn what_is_kept_is_made_once_and_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b");
        let failed = kept(&path, |new| {
            fs::write(new, "half").unwrap();
            bail!("no")
        });
        assert!(failed.is_err() && !path.exists());
        kept(&path, |new| fs::write(new, "whole").context("it is written")).unwrap();
        kept(&path, |_| bail!("it is there")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "whole");
        assert_eq!(fs::read_dir(folder.path().join("a")).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_of_others_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cache");
        let file = open(&path, &|_| panic!("the lock is free")).unwrap();
        drop(file);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(open(&path, &|_| ()).unwrap_err().to_string().contains("others can write into"));
    }
}
