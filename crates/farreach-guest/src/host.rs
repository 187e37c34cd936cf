//! Programs of this machine in a guest of the same instruction set, with the libraries that they load.

use crate::tree::{Content, Tree};
use farreach_live::linker_of;
use farreach_types::event::Arch;
use farreach_types::{Context, Result, bail, ensure};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Longest first line of a script.
const SCRIPT_HEAD: u64 = 256;

/// Whether programs of this machine run in a guest.
pub fn runs(arch: Arch) -> bool {
    arch.name() == std::env::consts::ARCH
}

/// A program as a shell finds it.
pub fn find(name: &OsStr, directory: &Path) -> Option<PathBuf> {
    let is_program =
        |path: &PathBuf| path.metadata().is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0);
    if name.as_bytes().contains(&b'/') {
        return Some(directory.join(name)).filter(is_program);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| directory.join(folder).join(name)).find(is_program)
}

/// Puts a file or folder of this machine at the same path into a tree; of programs what they load, too.
///
/// # Errors
/// Something is not there, or cannot be read.
pub fn put(tree: &mut Tree, path: &Path, arch: Arch) -> Result<()> {
    tree.put_same(path)?;
    let mut programs = Vec::new();
    if path.is_dir() {
        let real = path.canonicalize().with_context(|| path.display().to_string())?;
        for (_, entry) in tree.entries() {
            if let (true, Content::File { path, .. }) = (entry.is_program(), &entry.content)
                && path.canonicalize().is_ok_and(|path| path.starts_with(&real))
            {
                programs.push(path.clone());
            }
        }
    } else if path.is_file() {
        programs.push(path.to_owned());
    }
    let mut needed = BTreeSet::new();
    for program in programs {
        needs(&program, arch, &mut needed)?;
    }
    needed.iter().try_for_each(|path| tree.put_same(path))
}

/// Adds what a program needs to be started: the interpreter of a script, the libraries of a program. Nothing for any
/// other file.
fn needs(program: &Path, arch: Arch, all: &mut BTreeSet<PathBuf>) -> Result<()> {
    let place = || program.display().to_string();
    let file = File::open(program).with_context(place)?;
    let mut head = Vec::new();
    (&file).take(SCRIPT_HEAD).read_to_end(&mut head).with_context(place)?;
    if let Some(line) = head.strip_prefix(b"#!") {
        let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default().trim_ascii();
        let name = line.split(u8::is_ascii_whitespace).next().unwrap_or_default();
        let interpreter = PathBuf::from(OsStr::from_bytes(name));
        // One that the guest has is not looked for here.
        if interpreter.is_absolute() && interpreter.is_file() && all.insert(interpreter.clone()) {
            needs(&interpreter, arch, all)?;
        }
        return Ok(());
    }
    let machine = match arch {
        Arch::X86 => 62,
        Arch::Aarch64 => 183,
        Arch::Riscv64 => 243,
    };
    let is_elf = head.starts_with(b"\x7fELF\x02\x01");
    if !is_elf || head.get(18..20) != Some(&[machine, 0]) {
        return Ok(());
    }
    let Some(Some(linker)) = linker_of(&file) else { return Ok(()) };
    ensure!(linker.is_absolute(), "{}: its dynamic linker '{}' is no absolute path", place(), linker.display());
    libraries(program, &linker, all).with_context(place)
}

/// What a dynamic linker would load for a program. It is asked; nothing of the program itself runs.
fn libraries(program: &Path, linker: &Path, all: &mut BTreeSet<PathBuf>) -> Result<()> {
    let program = program.canonicalize().with_context(|| program.display().to_string())?;
    let done = Command::new(linker)
        .arg("--list")
        .arg(&program)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("its dynamic linker {}", linker.display()))?;
    ensure!(done.status.success(), "its libraries: {}", String::from_utf8_lossy(&done.stderr).trim());
    all.insert(linker.to_owned());
    for line in done.stdout.split(|&byte| byte == b'\n') {
        if line.windows(12).any(|bytes| bytes == b"=> not found") {
            bail!("it needs a library that is not here: {}", String::from_utf8_lossy(line).trim());
        }
        // "libc.so.6 => /lib/libc.so.6 (0x...)", "/lib64/ld-linux-x86-64.so.2 (0x...)"
        let path = match line.windows(3).position(|bytes| bytes == b"=> ") {
            Some(at) => &line[at + 3..],
            None => line.trim_ascii_start(),
        };
        let end = path.windows(3).rposition(|bytes| bytes == b" (0").unwrap_or(path.len());
        if path.starts_with(b"/") {
            all.insert(PathBuf::from(OsStr::from_bytes(&path[..end])));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The architecture of this machine.
    fn here() -> Option<Arch> {
        Arch::ALL.into_iter().find(|&arch| runs(arch))
    }

    #[test]
    fn a_program_comes_with_its_libraries_and_a_script_with_its_interpreter() {
        let Some(arch) = here() else { return eprintln!("skipped: no guest has this instruction set") };
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().canonicalize().unwrap().join("script");
        std::fs::write(&script, "#!/bin/sh -e\n").unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut tree = Tree::default();
        put(&mut tree, &script, arch).unwrap();
        assert!(tree.find(&script).unwrap().is_program());
        assert!(tree.find("/bin/sh").unwrap().is_program());
        let names: Vec<String> = tree.entries().map(|(path, _)| path.display().to_string()).collect();
        assert!(names.iter().any(|name| name.ends_with("/libc.so.6")), "{names:?}");
        // The same by its folder.
        let mut tree = Tree::default();
        put(&mut tree, folder.path(), arch).unwrap();
        assert!(tree.find("/bin/sh").is_some());
    }

    #[test]
    fn programs_are_found_as_a_shell_finds_them() {
        assert_eq!(find("./sh".as_ref(), Path::new("/bin")), Some("/bin/./sh".into()));
        assert!(find("sh".as_ref(), Path::new("/")).is_some_and(|path| path.is_absolute()));
        assert_eq!(find("no-such-program".as_ref(), Path::new("/")), None);
        assert_eq!(find("/etc".as_ref(), Path::new("/")), None);
    }
}
