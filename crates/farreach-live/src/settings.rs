//! Settings of the kernel that are changed for a while, and restored also if this process is killed.

use crate::guard::Guard;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Stdio;

pub use crate::guard::Change;

/// Changed settings. Dropped, it restores them; so does its guard, a process of its own, when this one is killed.
pub struct Changed {
    guard: Guard,
    before: Vec<Change>,
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

impl Changed {
    /// Makes the changes.
    ///
    /// # Errors
    /// A file cannot be read or written, or does not take its value: then nothing is changed.
    pub fn make(changes: &[Change]) -> io::Result<Changed> {
        let mut before = Vec::new();
        for Change { file, .. } in changes {
            before.push(Change { file: file.clone(), value: value(file).map_err(about(file))? });
        }
        // Last changed, first restored.
        before.reverse();
        let guard = Guard::start("farreach-restores-settings", &before, Stdio::inherit())?;
        let changed = Changed { guard, before };
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
    /// A setting is not what it was; the message names it.
    pub fn restore(mut self) -> io::Result<()> {
        self.end()
    }

    fn end(&mut self) -> io::Result<()> {
        self.guard.end()?;
        for Change { file, value: wanted } in &self.before {
            let found = value(file).map_err(about(file))?;
            if found != *wanted {
                return Err(io::Error::other(format!("{}: it is '{found}' and was '{wanted}'", file.display())));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("farreach-settings-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("enabled"), "always\n").unwrap();
        fs::write(folder.join("pages"), "0\n").unwrap();
        folder
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
        let folder = folder("drop");
        let changed = Changed::make(&changes(&folder)).unwrap();
        assert_eq!(contents(&folder), ["never", "12"]);
        changed.restore().unwrap();
        assert_eq!(contents(&folder), ["always", "0"]);
        drop(Changed::make(&changes(&folder)).unwrap());
        assert_eq!(contents(&folder), ["always", "0"]);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_change_that_fails_undoes_those_before_it() {
        let folder = folder("fails");
        let mut all = changes(&folder);
        all.push(Change { file: folder.join("nothing"), value: "1".into() });
        assert!(Changed::make(&all).is_err_and(|e| e.to_string().contains("nothing")));
        assert_eq!(contents(&folder), ["always", "0"]);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_word_in_brackets_is_the_value() {
        let folder = folder("brackets");
        fs::write(folder.join("enabled"), "always [madvise] never\n").unwrap();
        assert_eq!(contents(&folder), ["madvise", "0"]);
        fs::remove_dir_all(&folder).unwrap();
    }
}
