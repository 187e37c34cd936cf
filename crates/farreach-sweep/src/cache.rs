//! Results on disk: a file per result, written whole, under its key.

use farreach_papers::Answer;
use farreach_trace::Partial;
use farreach_types::{Error, Result};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::{Path, PathBuf};

/// A folder of results.
pub struct Cache {
    dir: PathBuf,
}

/// A file of the cache.
#[derive(Serialize, Deserialize)]
struct Stored {
    schema: String,
    answer: Answer,
}

/// Version of [`Stored`].
const SCHEMA: &str = "farreach.point/1";

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

    /// A result, if it is there. A file that cannot be read as one is as good as none: it is made again.
    pub fn get(&self, key: &str) -> Option<Answer> {
        let stored: Stored = serde_json::from_slice(&std::fs::read(self.path(key)).ok()?).ok()?;
        (stored.schema == SCHEMA).then_some(stored.answer)
    }

    /// Keeps a result.
    ///
    /// # Errors
    /// [`Error::Io`]: it cannot be written, the disk is full, say; then there is no file.
    pub fn put(&self, key: &str, answer: &Answer) -> Result<()> {
        let path = self.path(key);
        let stored = Stored { schema: SCHEMA.into(), answer: answer.clone() };
        let text = serde_json::to_vec(&stored).map_err(|e| io(&path)(e.into()))?;
        let mut file = Partial::create(&path)?;
        file.write_all(&text).map_err(io(&path))?;
        file.commit()
    }
}

/// Hash of a file's contents.
///
/// # Errors
/// [`Error::Io`]: it cannot be read.
pub fn hash_file(path: &Path) -> Result<String> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(std::fs::File::open(path).map_err(io(path))?).map_err(io(path))?;
    Ok(hasher.finalize().to_hex().to_string())
}
