//! Results on disk. A file per result, written whole, named by everything that it depends on: this program, the
//! workload, the machine, limit and seed. A result never becomes stale; a changed input gives another name.

use anyhow::{Context, Result};
use farreach_papers::Answer;
use farreach_trace::Partial;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::{Path, PathBuf};

/// A folder of results.
pub struct Cache {
    dir: PathBuf,
    /// Hash of the running executable.
    own: blake3::Hash,
}

/// A file of the cache.
#[derive(Serialize, Deserialize)]
struct Stored {
    schema: String,
    answer: Answer,
}

/// Version of [`Stored`].
const SCHEMA: &str = "farreach.papers.result/1";

impl Cache {
    /// Opens or makes the folder.
    pub fn open(dir: Option<&Path>) -> Result<Cache> {
        let dir = match dir {
            Some(dir) => dir.to_owned(),
            None => home()?.join("farreach").join("papers"),
        };
        std::fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
        let exe = std::env::current_exe().context("the path of this program")?;
        Ok(Cache { dir, own: hash_file(&exe)? })
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The name of a result that depends on these parts, and on this program.
    pub fn key(&self, parts: &[&str]) -> String {
        let mut hasher = blake3::Hasher::new();
        hasher.update(SCHEMA.as_bytes()).update(self.own.as_bytes());
        for part in parts {
            // Lengths distinguish "ab", "c" from "a", "bc".
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
        }
        hasher.finalize().to_hex().to_string()
    }

    fn path(&self, key: &str) -> PathBuf {
        self.dir.join(format!("{key}.json"))
    }

    /// A result, if it is stored. A file that cannot be read counts as missing: the result is computed again.
    pub fn get(&self, key: &str) -> Option<Answer> {
        let text = std::fs::read(self.path(key)).ok()?;
        let stored: Stored = serde_json::from_slice(&text).ok()?;
        (stored.schema == SCHEMA).then_some(stored.answer)
    }

    /// Stores a result.
    pub fn put(&self, key: &str, answer: &Answer) -> Result<()> {
        let stored = Stored { schema: SCHEMA.into(), answer: answer.clone() };
        let mut file = Partial::create(&self.path(key))?;
        file.write_all(&serde_json::to_vec(&stored)?).with_context(|| self.path(key).display().to_string())?;
        Ok(file.commit()?)
    }
}

/// The user's cache directory by the XDG rules.
fn home() -> Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let dir = set("XDG_CACHE_HOME").filter(|p| p.is_absolute()).or_else(|| set("HOME").map(|h| h.join(".cache")));
    dir.context("neither XDG_CACHE_HOME nor HOME is set: say with --cache where results are kept")
}

/// Hash of a file's contents.
pub fn hash_file(path: &Path) -> Result<blake3::Hash> {
    let file = std::fs::File::open(path).with_context(|| path.display().to_string())?;
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(file).with_context(|| path.display().to_string())?;
    Ok(hasher.finalize())
}
