//! A file that gets its name only when it is whole.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use farreach_types::error::{Error, Result};
use rustix::fs::{OFlags, fcntl_setfl};

/// Two writers of one process must not share a file.
static NEXT: AtomicU32 = AtomicU32::new(0);
/// FIFOs that were opened and are not whole yet. The reader of one takes the end of its first writer for the end of
/// all, and commands open their files once before a long run to see that they can be written.
static FIFOS: Mutex<Vec<(String, File)>> = Mutex::new(Vec::new());
/// How long the reader of a FIFO may take to open it.
const PATIENCE: Duration = Duration::from_millis(500);

/// A file being written as `NAME.PID-N.partial` in the folder of `NAME`; dropped without [`Partial::commit`], it is
/// removed. A path that is no regular file (a pipe, a device) or names an open file (`/dev/stdout`) is written
/// directly.
pub struct Partial {
    file: File,
    name: String,
    /// The name it has and the name it will have.
    names: Option<(PathBuf, PathBuf)>,
}

impl Partial {
    /// Opens `path` for writing.
    ///
    /// # Errors
    /// It cannot be written: no such folder, no permission, a folder, a FIFO that nobody reads.
    pub fn create(path: &Path) -> Result<Partial> {
        let name = path.display().to_string();
        let fail = |source| Error::Io { file: name.clone(), source };
        let direct = |path: &Path| direct(path, &name).map_err(fail);
        let Some(target) = follow(path) else {
            return Ok(Partial { file: direct(path)?, name, names: None });
        };
        let there = fs::metadata(&target).ok();
        if there.as_ref().is_some_and(|m| !m.is_file()) {
            return Ok(Partial { file: direct(&target)?, name, names: None });
        }
        let whole = target.file_name().ok_or_else(|| fail(io::Error::other("is not a file name")))?;
        if there.is_some() {
            // A file that forbids writing is not replaced either.
            direct(&target)?;
        }
        let (file, partial) = loop {
            let mut partial = whole.to_owned();
            partial.push(format!(".{}-{}.partial", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
            let partial = target.with_file_name(partial);
            // The name can be guessed: a file or link that is there already is none of this process.
            match File::create_new(&partial) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                made => break (made.map_err(fail)?, partial),
            }
        };
        let new = Partial { file, name: name.clone(), names: Some((partial, target)) };
        if let Some(there) = there {
            new.file.set_permissions(there.permissions()).map_err(fail)?;
        }
        Ok(new)
    }

    /// Makes sure that everything is on the disk and gives the file its name.
    ///
    /// # Errors
    /// The disk is full or fails; then there is no file.
    pub fn commit(&mut self) -> Result<()> {
        if let Some((partial, path)) = &self.names {
            let done = self.file.sync_data().and_then(|()| fs::rename(partial, path));
            done.map_err(|source| Error::Io { file: self.name.clone(), source })?;
            self.names = None;
        }
        fifos().retain(|(name, _)| *name != self.name);
        Ok(())
    }
}

fn fifos() -> MutexGuard<'static, Vec<(String, File)>> {
    FIFOS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens what is there already. To open a FIFO without a reader would block, and no signal would end that.
fn direct(path: &Path, name: &str) -> io::Result<File> {
    let is_fifo = fs::metadata(path).is_ok_and(|m| m.file_type().is_fifo());
    let mut options = File::options();
    options.append(true).custom_flags(OFlags::NONBLOCK.bits() as i32);
    let began = Instant::now();
    let file = loop {
        match options.open(path) {
            Err(e) if is_fifo && e.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => {
                if began.elapsed() > PATIENCE {
                    return Err(io::Error::other("nobody reads this FIFO; start its reader first"));
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            opened => break opened?,
        }
    };
    fcntl_setfl(&file, OFlags::APPEND)?;
    if is_fifo && fifos().iter().all(|(kept, _)| kept != name) {
        fifos().push((name.to_owned(), file.try_clone()?));
    }
    Ok(file)
}

/// The file behind symbolic links, which need not exist. None: the path stands for an open file of some process.
fn follow(path: &Path) -> Option<PathBuf> {
    let mut path = path.to_owned();
    // As many links as the system follows; with more, opening the file reports the error.
    for _ in 0..40 {
        let Ok(target) = fs::read_link(&path) else { break };
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if folder.canonicalize().is_ok_and(|f| f.starts_with("/proc")) {
            return None;
        }
        path = folder.join(target);
    }
    Some(path)
}

impl Write for Partial {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.file.write(buf)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if let Some((partial, _)) = &self.names {
            // Dropping cannot fail; a remaining file is marked as partial by its name.
            let _ = fs::remove_file(partial);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_fifo_needs_a_reader_and_keeps_it_until_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fifo");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let Err(error) = Partial::create(&path) else { panic!("nobody reads it") };
        assert!(error.to_string().contains("fifo: nobody reads this FIFO"), "{error}");
        let reader = std::thread::spawn({
            let path = path.clone();
            move || fs::read(path).unwrap()
        });
        drop(Partial::create(&path).unwrap()); // to see that it can be written
        std::thread::sleep(Duration::from_millis(50)); // in which the reader could end
        let mut partial = Partial::create(&path).unwrap();
        partial.write_all(b"whole").unwrap();
        partial.commit().unwrap();
        drop(partial);
        assert_eq!(reader.join().unwrap(), b"whole");
    }

    #[test]
    fn what_lies_at_its_name_is_neither_written_nor_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: String| folder.path().join(name);
        fs::write(path("others".into()), "others").unwrap();
        // Other tests of this process take numbers too.
        let next = NEXT.load(Ordering::Relaxed);
        let names: Vec<PathBuf> =
            (next..next + 100).map(|n| path(format!("it.{}-{n}.partial", std::process::id()))).collect();
        for (n, name) in names.iter().enumerate() {
            if n % 2 == 0 { symlink(path("others".into()), name).unwrap() } else { fs::write(name, "mine").unwrap() }
        }
        let mut partial = Partial::create(&path("it".into())).unwrap();
        partial.write_all(b"whole").unwrap();
        partial.commit().unwrap();
        assert_eq!(fs::read(path("it".into())).unwrap(), b"whole");
        assert_eq!(fs::read(path("others".into())).unwrap(), b"others");
        assert!(names.iter().all(|name| fs::symlink_metadata(name).is_ok()));
    }
}
