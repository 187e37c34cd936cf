//! Settings of the kernel that are changed for a while, and restored also if this process is killed.

use crate::guard::{Guard, Undo};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

pub use crate::guard::Change;
pub use crate::lock::{Lock, Refused};

/// The lock of who changes settings of memory, below the root of a system.
pub fn lock_file(root: &Path) -> PathBuf {
    root.join("run/farreach-settings")
}

/// Changed settings. Dropped, it restores them; so does its guard, a process of its own, when this one is killed.
pub struct Changed<'a> {
    lock: &'a mut Lock,
    guard: Guard,
    undo: Vec<Undo>,
    over: bool,
}

/// The value in a setting's file: the word in brackets, or all of it.
fn value(file: &Path) -> io::Result<String> {
    let text = fs::read_to_string(file)?;
    let bracketed = text.split_once('[').and_then(|(_, rest)| Some(rest.split_once(']')?.0));
    Ok(bracketed.unwrap_or(text.trim()).to_owned())
}

/// The file that an error is about.
fn about(file: &Path) -> impl Fn(io::Error) -> io::Error + '_ {
    |e| io::Error::new(e.kind(), format!("{}: {e}", file.display()))
}

impl<'a> Changed<'a> {
    /// Makes the changes, for as long as this value lives. Nobody else who takes the lock changes them meanwhile.
    ///
    /// # Errors
    /// A file cannot be read or written, or does not take its value: then nothing is changed.
    pub fn make(lock: &'a mut Lock, changes: &[Change]) -> io::Result<Changed<'a>> {
        let mut undo = Vec::new();
        for Change { file, value: set } in changes {
            undo.push(Undo { file: file.clone(), before: value(file).map_err(about(file))?, set: set.clone() });
        }
        // Last changed, first restored.
        undo.reverse();
        lock.note(&undo)?;
        let guard = Guard::start(&undo, lock.file(), Stdio::inherit())?;
        let changed = Changed { lock, guard, undo, over: false };
        for Change { file, value: wanted } in changes {
            fs::write(file, wanted).map_err(about(file))?;
            let found = value(file).map_err(about(file))?;
            if found != *wanted {
                return Err(io::Error::other(format!(
                    "{}: it is '{found}' after '{wanted}' was written",
                    file.display()
                )));
            }
        }
        Ok(changed)
    }

    /// Restores, and says whether that worked.
    ///
    /// # Errors
    /// A setting is not what it was; the message names it. One that somebody else has changed meanwhile is left so.
    pub fn restore(mut self) -> io::Result<()> {
        self.end()
    }

    fn end(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.over, true) {
            return Ok(());
        }
        // A guard that was killed has restored nothing.
        if !self.guard.end()? {
            Guard::restore(&self.undo, self.lock.file(), Stdio::null())?;
        }
        self.lock.note(&[])?;
        for Undo { file, before, set } in &self.undo {
            let found = value(file).map_err(about(file))?;
            if found != *before {
                let who = if found == *set { "" } else { "somebody else changed it: " };
                return Err(io::Error::other(format!("{}: {who}it is '{found}' and was '{before}'", file.display())));
            }
        }
        Ok(())
    }
}

impl Drop for Changed<'_> {
    fn drop(&mut self) {
        // After `restore` all is as it was; an error before it has told more.
        let _ = self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with two settings, and the lock.
    fn settings() -> (tempfile::TempDir, Lock) {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("enabled"), "always\n").unwrap();
        fs::write(folder.path().join("pages"), "0\n").unwrap();
        let lock = Lock::take(&folder.path().join("lock")).unwrap();
        (folder, lock)
    }

    fn changes(folder: &Path) -> Vec<Change> {
        let change = |name: &str, value: &str| Change { file: folder.join(name), value: value.into() };
        vec![change("enabled", "never"), change("pages", "12")]
    }

    fn contents(folder: &Path) -> [String; 2] {
        ["enabled", "pages"].map(|name| value(&folder.join(name)).unwrap())
    }

    #[test]
    fn settings_are_changed_and_restored() {
        let (folder, mut lock) = settings();
        let folder = folder.path();
        let changed = Changed::make(&mut lock, &changes(folder)).unwrap();
        assert_eq!(contents(folder), ["never", "12"]);
        changed.restore().unwrap();
        assert_eq!(contents(folder), ["always", "0"]);
        drop(Changed::make(&mut lock, &changes(folder)).unwrap());
        assert_eq!(contents(folder), ["always", "0"]);
    }

    #[test]
    fn a_change_that_fails_undoes_those_before_it() {
        let (folder, mut lock) = settings();
        let folder = folder.path();
        let mut all = changes(folder);
        all.push(Change { file: folder.join("nothing"), value: "1".into() });
        assert!(Changed::make(&mut lock, &all).is_err_and(|e| e.to_string().contains("nothing")));
        assert_eq!(contents(folder), ["always", "0"]);
    }

    #[test]
    fn what_somebody_else_set_meanwhile_stays() {
        let (folder, mut lock) = settings();
        let folder = folder.path();
        let changed = Changed::make(&mut lock, &changes(folder)).unwrap();
        fs::write(folder.join("enabled"), "madvise\n").unwrap();
        let why = changed.restore().unwrap_err().to_string();
        assert!(why.contains("enabled: somebody else changed it: it is 'madvise' and was 'always'"), "{why}");
        assert_eq!(contents(folder), ["madvise", "0"]);
    }

    #[test]
    fn without_its_guard_it_restores_itself() {
        let (folder, mut lock) = settings();
        let folder = folder.path();
        let mut changed = Changed::make(&mut lock, &changes(folder)).unwrap();
        changed.guard.kill().unwrap();
        assert_eq!(contents(folder), ["never", "12"]);
        changed.restore().unwrap();
        assert_eq!(contents(folder), ["always", "0"]);
    }

    #[test]
    fn the_word_in_brackets_is_the_value() {
        let (folder, _lock) = settings();
        let folder = folder.path();
        fs::write(folder.join("enabled"), "always [madvise] never\n").unwrap();
        assert_eq!(contents(folder), ["madvise", "0"]);
    }
}
