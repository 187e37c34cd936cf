//! A lock that one process of the machine can have.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::guard::{Guard, Undo};
use crate::signals::lock;

/// How long the holder may take to release it: a guard that restores.
const PATIENCE: Duration = Duration::from_millis(500);
/// A number that changes when the machine starts.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// Why it cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// Somebody else has it.
    #[error("process {pid} has it: {command}")]
    Held {
        /// The holder, by its number in its own PID namespace.
        pid: u32,
        /// When it took the lock.
        since: SystemTime,
        /// Its words.
        command: String,
    },
    /// The system's answer.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// The lock, until this value is dropped.
///
/// It is a lock on a file that only its user can open, so nobody else can hold it to block that user. In the file are
/// the holder, and what the holder has changed and not yet restored: so the next one restores what is left by a process
/// that was killed with its guard.
pub struct Lock {
    file: File,
    /// The first line: boot, process id, time and words of the holder.
    holder: String,
    restored: Vec<PathBuf>,
}

impl Lock {
    /// Takes the lock that is the file of this path, and restores what is left.
    ///
    /// # Errors
    /// Somebody has it, or the file is not one of this user, for this user only.
    pub fn take(path: &Path) -> Result<Lock, Refused> {
        let about = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path).map_err(about)?;
        let meta = file.metadata()?;
        if !meta.is_file() || meta.uid() != rustix::process::geteuid().as_raw() || meta.mode() & 0o077 != 0 {
            let why = "it is no file for its owner alone, so others could hold the lock; remove it";
            return Err(about(io::Error::new(ErrorKind::PermissionDenied, why)).into());
        }
        let began = Instant::now();
        while let Err(e) = lock(&file) {
            if e.kind() != ErrorKind::WouldBlock {
                return Err(about(e).into());
            }
            if began.elapsed() > PATIENCE {
                let mut text = String::new();
                file.read_to_string(&mut text)?;
                return Err(held(&text));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let boot = std::fs::read_to_string(BOOT).unwrap_or_default();
        let left = if text.starts_with(boot.trim()) { left(&text) } else { Vec::new() };
        if !left.is_empty() {
            Guard::restore(&left, &file, Stdio::inherit())?;
        }
        let words: Vec<_> = std::env::args_os().map(|word| word.to_string_lossy().replace(['\n', '\t'], " ")).collect();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let holder = format!("{}\t{}\t{now}\t{}\n", boot.trim(), std::process::id(), words.join(" "));
        let restored = left.into_iter().map(|undo| undo.file).collect();
        let mut taken = Lock { file, holder, restored };
        taken.note(&[])?;
        Ok(taken)
    }

    /// Files that an earlier process had left changed, and that were restored.
    pub fn restored(&self) -> &[PathBuf] {
        &self.restored
    }

    /// Notes what is to be undone, before the first change. The guard empties the file when it has restored.
    pub(crate) fn note(&mut self, undo: &[Undo]) -> io::Result<()> {
        let mut text = self.holder.clone();
        for Undo { file, before, set } in undo {
            let words = [&*file.to_string_lossy(), before, set];
            if words.iter().any(|word| word.contains(['\t', '\n', '\u{fffd}'])) {
                return Err(io::Error::other(format!("{}: a path of plain text is needed", file.display())));
            }
            text += &(words.join("\t") + "\n");
        }
        self.file.set_len(0)?;
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(text.as_bytes())
    }

    /// For a guard, which holds the lock too.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }
}

/// Who stands in the file.
fn held(text: &str) -> Refused {
    let mut words = text.lines().next().unwrap_or_default().splitn(4, '\t').skip(1);
    let mut number = || words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
    let (pid, since) = (number() as u32, UNIX_EPOCH + Duration::from_secs(number()));
    Refused::Held { pid, since, command: words.next().unwrap_or_default().to_owned() }
}

/// What was changed and not restored.
fn left(text: &str) -> Vec<Undo> {
    let undo = |line: &str| {
        let mut words = line.split('\t').map(str::to_owned);
        Some(Undo { file: words.next()?.into(), before: words.next()?, set: words.next()? })
    };
    text.lines().skip(1).filter_map(undo).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn the_second_is_told_who_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let first = Lock::take(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let Err(Refused::Held { pid, since, command }) = Lock::take(&path) else { panic!("it was taken twice") };
        assert_eq!(pid, std::process::id());
        assert!(SystemTime::now().duration_since(since).unwrap() < Duration::from_secs(3600));
        assert!(command.contains(std::env::args().next().unwrap().as_str()), "{command}");
        drop(first);
        assert!(Lock::take(&path).is_ok());
    }

    /// Else another user could hold the lock, or have a file of root written.
    #[test]
    fn only_a_file_for_its_owner_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        assert!(Lock::take(&path).is_err_and(|e| e.to_string().contains("others could hold the lock")));
        fs::remove_file(&path).unwrap();
        let target = folder.path().join("target");
        symlink(&target, &path).unwrap();
        assert!(Lock::take(&path).is_err());
        assert!(!target.exists(), "a link was followed");
    }

    /// The state after farreach and its guard were killed.
    #[test]
    fn what_is_left_is_restored_by_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let [path, setting, other] = ["lock", "enabled", "pages"].map(|name| folder.path().join(name));
        let undo = |file: &PathBuf, before: &str, set: &str| Undo {
            file: file.clone(),
            before: before.into(),
            set: set.into(),
        };
        let abandon = || {
            fs::write(&setting, "always\n").unwrap();
            fs::write(&other, "7\n").unwrap();
            let mut lock = Lock::take(&path).unwrap();
            lock.note(&[undo(&other, "0", "12"), undo(&setting, "madvise", "always")]).unwrap();
        };
        let now = || [&setting, &other].map(|file| fs::read_to_string(file).unwrap().trim().to_owned());
        abandon();
        let lock = Lock::take(&path).unwrap();
        assert_eq!(
            (lock.restored(), now()),
            (&[other.clone(), setting.clone()][..], ["madvise", "0"].map(String::from))
        );
        drop(lock);
        assert!(Lock::take(&path).unwrap().restored().is_empty(), "it was restored already");
        // Since the machine started again, nothing is left.
        abandon();
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("x{text}")).unwrap();
        assert!(Lock::take(&path).unwrap().restored().is_empty());
        assert_eq!(now(), ["always", "7"]);
    }
}
