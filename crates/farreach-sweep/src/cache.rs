//! Results on disk: a file per result, written whole, under its key.

use crate::sealed::{self, Kept};
use farreach_papers::Answer;
use farreach_types::{Error, Result};
use std::path::{Path, PathBuf};

/// A folder of results.
pub struct Cache {
    dir: PathBuf,
}

/// What the files of results are kept as.
const NAME: &str = "answer";

fn io(path: &Path) -> impl Fn(std::io::Error) -> Error + '_ {
    |source| Error::Io { file: path.display().to_string(), source }
}

impl Cache {
    /// Opens or makes the folder.
    ///
    /// # Errors
    /// [`Error::Io`]: it cannot be made.
    pub fn open(dir: &Path) -> Result<Cache> {
        std::fs::create_dir_all(dir).map_err(io(dir))?;
        Ok(Cache { dir: dir.to_owned() })
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    fn path(&self, key: &str) -> PathBuf {
        self.dir.join(format!("{key}.json"))
    }

    /// A result, if it is there. `unfit` is told of a file that cannot be used, as a whole sentence: one that was
    /// changed, or has the name of another. That is as good as none: the result is computed again, and takes its place.
    pub fn get(&self, key: &str, unfit: impl FnOnce(String)) -> Option<Answer> {
        let path = self.path(key);
        let kept = sealed::kept(&path, NAME, key);
        match kept.then(|body| serde_json::from_str(&body).map_err(|e| format!("it is no result: {e}"))) {
            Kept::There(answer) => Some(answer),
            Kept::Nothing => None,
            Kept::Unfit(why) => {
                unfit(format!("{}: not used, because {why}; the result is computed again", path.display()));
                None
            }
        }
    }

    /// Keeps a result.
    ///
    /// # Errors
    /// [`Error::Io`]: it cannot be written, the disk is full, say; then there is no file.
    pub fn put(&self, key: &str, answer: &Answer) -> Result<()> {
        let path = self.path(key);
        // A pipe would be written into, and would wait for a reader.
        if path.symlink_metadata().is_ok_and(|about| !about.is_file() && !about.is_dir()) {
            std::fs::remove_file(&path).map_err(io(&path))?;
        }
        let text = serde_json::to_string(answer).map_err(|e| io(&path)(e.into()))?;
        sealed::keep(&path, NAME, key, &text)
    }
}

/// Hash of a file's contents.
///
/// # Errors
/// [`Error::Io`]: it cannot be read, or is no regular file, a pipe say.
pub fn hash_file(path: &Path) -> Result<String> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(sealed::open(path).map_err(io(path))?).map_err(io(path))?;
    Ok(hasher.finalize().to_hex().to_string())
}
