//! A file that gets its name only when it is whole.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::{Error, Result};

/// Two writers of one process must not share a file.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// A file being written as `NAME.PID-N.partial` in the folder of `NAME`; dropped without [`Partial::commit`], it is removed.
/// A name that exists and is no regular file (a pipe, a device) is written directly.
pub(crate) struct Partial {
    file: File,
    name: String,
    /// The name it has and the name it will have.
    names: Option<(PathBuf, PathBuf)>,
}

impl Partial {
    pub fn create(path: &Path) -> Result<Partial> {
        let name = path.display().to_string();
        let fail = |source| Error::Io { file: name.clone(), source };
        if std::fs::metadata(path).is_ok_and(|m| !m.is_file()) {
            let file = File::options().write(true).open(path).map_err(fail)?;
            return Ok(Partial { file, name, names: None });
        }
        let mut partial = path.file_name().ok_or_else(|| fail(io::Error::other("is not a file name")))?.to_owned();
        partial.push(format!(".{}-{}.partial", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
        let partial = path.with_file_name(partial);
        let file = File::create(&partial).map_err(|source| Error::Io { file: partial.display().to_string(), source })?;
        Ok(Partial { file, name, names: Some((partial, path.to_owned())) })
    }

    /// Makes sure that everything is on the disk and gives the file its name.
    pub fn commit(&mut self) -> Result<()> {
        if let Some((partial, path)) = &self.names {
            let done = self.file.sync_data().and_then(|()| std::fs::rename(partial, path));
            done.map_err(|source| Error::Io { file: self.name.clone(), source })?;
            self.names = None;
        }
        Ok(())
    }
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
            // Dropping cannot fail; what is left says by its name that it is not whole.
            let _ = std::fs::remove_file(partial);
        }
    }
}
