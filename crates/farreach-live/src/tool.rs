//! Tools that farreach itself starts: a shell, a compiler, Python. Each is run by its absolute path, which is looked
//! for in folders that nobody else can write into. The program that a user names is found as the shell finds it, and
//! does not come here.

use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use rustix::process::geteuid;

/// Folders of the system, which only root can change, also where a container shows other owners. They are looked in
/// last, also where `PATH` does not name them.
const SYSTEM: [&str; 6] = ["/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Where tools are looked for.
struct Places {
    /// Absolute folders, in order.
    folders: Vec<PathBuf>,
    /// What `PATH` has and is left out, each with the reason.
    left_out: Vec<String>,
}

/// Finds a tool in the folders of `PATH` that are absolute and that none but root and this user can write into, then in
/// those of the system.
///
/// # Errors
/// It is in none of them. The message says what of `PATH` is left out, and why.
pub fn find(name: &str) -> Result<PathBuf> {
    let Places { folders, left_out } = places();
    let is_tool = |file: &PathBuf| file.metadata().is_ok_and(|about| is_runnable(&about) && !others_write(&about));
    folders.iter().map(|folder| folder.join(name)).find(is_tool).ok_or_else(|| {
        let looked: Vec<_> = folders.iter().map(|folder| folder.display().to_string()).collect();
        let why =
            if left_out.is_empty() { String::new() } else { format!("; left out of PATH: {}", left_out.join(", ")) };
        Error::new(ErrorKind::NotFound, format!("{name} is not in {}{why}", looked.join(", ")))
    })
}

/// A tool that is to be started. What it starts itself is found in the same places.
///
/// # Errors
/// As of [`find`].
pub fn command(name: &str) -> Result<Command> {
    let mut command = Command::new(find(name)?);
    command.env("PATH", path());
    Ok(command)
}

/// Starts this program again, in its place, with [`path`], if something of `PATH` is left out: for commands that run
/// programs of farreach's own choice and none of the user's.
///
/// # Errors
/// The system does not start it.
pub fn only_safe_path() -> Result<()> {
    if places().left_out.is_empty() {
        return Ok(());
    }
    let mut words = std::env::args_os();
    let mut again = Command::new("/proc/self/exe");
    again.arg0(words.next().unwrap_or_default()).args(words).env("PATH", path());
    Err(again.exec())
}

/// `PATH` without the folders that are left out.
pub fn path() -> OsString {
    std::env::join_paths(&places().folders).expect("each was taken out of a list")
}

fn places() -> &'static Places {
    static PLACES: OnceLock<Places> = OnceLock::new();
    PLACES.get_or_init(|| of(&std::env::var_os("PATH").unwrap_or_default()))
}

fn of(path: &OsStr) -> Places {
    let mut places = Places { folders: Vec::new(), left_out: Vec::new() };
    for folder in std::env::split_paths(path) {
        match unsafe_because(&folder) {
            _ if places.folders.contains(&folder) => {}
            None => places.folders.push(folder),
            Some(why) => {
                let said = format!("'{}', which {why}", folder.display());
                if !places.left_out.contains(&said) {
                    places.left_out.push(said);
                }
            }
        }
    }
    let system = SYSTEM.iter().map(PathBuf::from).filter(|folder| folder.is_dir());
    places.folders.extend(system.filter(|folder| !places.folders.contains(folder)).collect::<Vec<_>>());
    places
}

/// Why a folder is no place for tools. `None`: it is one, or is not there.
fn unsafe_because(folder: &Path) -> Option<String> {
    if !folder.is_absolute() {
        return Some("is not absolute".into());
    }
    if SYSTEM.iter().any(|system| Path::new(system) == folder) {
        return None;
    }
    above(folder, |folder, about| {
        let owner = about.uid();
        // The root of a container may belong to nobody that is known there.
        let foreign = folder.parent().is_some() && owner != 0 && owner != geteuid().as_raw();
        foreign.then(|| format!("belongs to user {owner}"))
    })
    .or_else(|| changed_by_others(folder))
}

/// How others than root and this user can change what is in a folder, in words that follow "which"; `None`: they
/// cannot, or it is not there.
pub fn changed_by_others(folder: &Path) -> Option<String> {
    let real = folder.canonicalize().ok()?;
    above(folder, |folder, about| {
        // In a folder with the sticky bit others make files of their own, but do not replace those that are there.
        let replaces = folder == real || about.mode() & 0o1000 == 0;
        (others_write(about) && replaces).then(|| "others can write into".into())
    })
}

/// What is wrong with a folder, or with one above it: whoever can rename that can put another in its place.
fn above(folder: &Path, wrong: impl Fn(&Path, &Metadata) -> Option<String>) -> Option<String> {
    let real = folder.canonicalize().ok()?;
    real.ancestors().find_map(|above| {
        let Ok(about) = above.metadata() else { return Some("cannot be looked at".into()) };
        let why = wrong(above, &about)?;
        Some(if above == real { why } else { format!("lies in {}, which {why}", above.display()) })
    })
}

/// Whether others than root and this user may write. A group of the user's own, which has the user's number, is no
/// others.
fn others_write(about: &Metadata) -> bool {
    let (mode, group) = (about.mode(), about.gid());
    mode & 0o002 != 0 || mode & 0o020 != 0 && group != 0 && group != geteuid().as_raw()
}

fn is_runnable(about: &Metadata) -> bool {
    about.is_file() && about.permissions().mode() & 0o111 != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};

    #[test]
    fn only_safe_folders_have_tools() {
        let base = std::env::temp_dir().join(format!("farreach-tools-{}", std::process::id()));
        let folder = |name: &str, mode: u32| {
            let path = base.join(name);
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join("sh"), "#!/bin/false\n").unwrap();
            fs::set_permissions(path.join("sh"), Permissions::from_mode(0o755)).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            path
        };
        let (own, open, sticky) = (folder("own", 0o755), folder("open", 0o777), folder("sticky", 0o1777));
        let (beneath, absent) = (folder("open/beneath", 0o755), base.join("absent"));
        let listed = [Path::new(""), Path::new("."), Path::new("bin"), &own, &open, &sticky, &beneath, &absent];
        let Places { folders, left_out } = of(&std::env::join_paths(listed).unwrap());
        assert_eq!(folders[..2], [own, absent]);
        assert!(folders.contains(&"/usr/bin".into()) && folders.iter().all(|folder| folder.is_absolute()));
        let of_it = |path: &Path, why: &str| left_out.contains(&format!("'{}', which {why}", path.display()));
        assert!(["", ".", "bin"].iter().all(|name| of_it(Path::new(name), "is not absolute")), "{left_out:?}");
        assert!([&open, &sticky].iter().all(|path| of_it(path, "others can write into")), "{left_out:?}");
        let above = format!("lies in {}, which others can write into", open.canonicalize().unwrap().display());
        assert!(of_it(&beneath, &above), "{left_out:?}");
        assert_eq!(left_out.len(), 6);
        fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn what_is_nowhere_is_said_with_where_it_was_looked_for() {
        let said = find("no-such-tool").unwrap_err();
        assert_eq!(said.kind(), ErrorKind::NotFound);
        assert!(said.to_string().starts_with("no-such-tool is not in /"), "{said}");
        assert!(find("sh").unwrap().is_absolute());
    }
}
