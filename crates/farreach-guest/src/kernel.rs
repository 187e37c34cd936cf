//! Kernels: a file, or what a Debian package has.

use crate::cache::{Work, kept};
use crate::debian::{self, Apt, check_name};
use farreach_types::event::Arch;
use farreach_types::{Context, Result, bail, ensure};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// What the names of Debian's packages of kernels begin with.
const PACKAGES: &str = "linux-image-";
/// Where packages have their kernel: `vmlinuz-VERSION`, or `vmlinux-VERSION` if it is not compressed.
const INSIDE: &str = "boot/vmlinu";

/// A kernel.
pub struct Kernel {
    /// Its file.
    pub path: PathBuf,
    /// Its version, or the name of its file.
    pub version: String,
}

/// Where kernels of an instruction set are kept.
pub fn folder(cache: &Path, arch: Arch) -> PathBuf {
    cache.join("kernels").join(arch.name())
}

/// Debian's package of the kernel for virtual machines; of RISC-V there is one for all machines.
fn default_package(arch: Arch) -> String {
    let kind = if arch == Arch::Riscv64 { "" } else { "cloud-" };
    format!("{PACKAGES}{kind}{}", debian::name_of(arch))
}

/// The kernel that `asked` names, a file or a package; by default Debian's for virtual machines.
///
/// # Errors
/// There is none, or it is of another instruction set.
pub fn find(asked: Option<&str>, arch: Arch, cache: &Path, apt: &Apt) -> Result<Kernel> {
    let default = default_package(arch);
    let asked = asked.unwrap_or(&default);
    let path = Path::new(asked);
    if !asked.starts_with(PACKAGES) || path.is_file() {
        let what = format!("--kernel {asked}: a kernel of {} (vmlinuz), or a package {PACKAGES}...", arch.name());
        ensure!(path.is_file(), "{what}: there is no such file");
        check(path, arch)?;
        return Ok(Kernel { path: path.to_owned(), version: asked.rsplit('/').next().unwrap_or(asked).to_owned() });
    }
    check_name(asked)?;
    let place = folder(cache, arch).join(asked.replace('/', "_"));
    kept(&place, |new| fetch(asked, new, apt))?;
    let inside = fs::read_dir(&place).with_context(|| place.display().to_string())?;
    let file = inside.flatten().next().with_context(|| format!("{}: it is empty; remove it", place.display()))?;
    check(&file.path(), arch)?;
    Ok(Kernel { path: file.path(), version: file.file_name().to_string_lossy().into_owned() })
}

/// The kernels that are kept, with the packages that they were asked for by.
pub fn kept_in(cache: &Path, arch: Arch) -> Vec<(String, String)> {
    let packages = fs::read_dir(folder(cache, arch)).into_iter().flatten().flatten();
    let of = |package: fs::DirEntry| {
        let file = fs::read_dir(package.path()).ok()?.flatten().next()?;
        Some((package.file_name().to_string_lossy().into_owned(), file.file_name().to_string_lossy().into_owned()))
    };
    packages.filter_map(of).filter(|(package, _)| package.starts_with(PACKAGES)).collect()
}

/// Makes a folder with the kernel of a package, named by its version. Of a package that only depends on one, such as
/// that for the newest version, it is taken.
fn fetch(package: &str, to: &Path, apt: &Apt) -> Result<()> {
    let work = Work::new(to.parent().unwrap_or(to))?;
    let mut deb = apt.download(package, &work.0)?;
    let is_kernel = |name: &str| name.trim_start_matches("./").starts_with(INSIDE);
    let mut found = debian::files(&deb, is_kernel)?;
    if found.is_empty() {
        let needs = debian::field(&deb, "Depends")?;
        let real = needs.split([',', '|', ' ']).find(|word| word.starts_with(PACKAGES));
        let real = real.with_context(|| format!("{package}: it has no kernel and depends on none ({needs})"))?;
        deb = apt.download(real, &work.0)?;
        found = debian::files(&deb, is_kernel)?;
    }
    let [name] = &found[..] else { bail!("{package}: {} files in it are called {INSIDE}..., not one", found.len()) };
    debian::unpack(&deb, &work.0, &found)?;
    fs::create_dir(to).with_context(|| to.display().to_string())?;
    let version = name.rsplit_once(INSIDE).and_then(|(_, rest)| rest.split_once('-')).map_or("kernel", |(_, v)| v);
    fs::rename(work.0.join(name), to.join(version)).with_context(|| to.join(version).display().to_string())
}

/// Refuses a file that is no kernel of this instruction set.
fn check(path: &Path, arch: Arch) -> Result<()> {
    let mut head = Vec::new();
    let file = File::open(path).with_context(|| path.display().to_string())?;
    file.take(0x300).read_to_end(&mut head).with_context(|| path.display().to_string())?;
    let has = |at: usize, magic: &[u8]| head.get(at..at + magic.len()) == Some(magic);
    let found = if has(0x202, b"HdrS") {
        Some(Arch::X86)
    } else if has(56, b"ARM\x64") || has(4, b"zimg") {
        Some(Arch::Aarch64)
    } else if has(56, b"RSC\x05") {
        Some(Arch::Riscv64)
    } else {
        None
    };
    // A compressed kernel of AArch64 shows nothing of itself.
    let compressed = arch == Arch::Aarch64 && has(0, b"\x1f\x8b");
    let name = path.display();
    match found {
        Some(found) if found != arch => bail!("{name}: a kernel of {}, not of {}", found.name(), arch.name()),
        None if !compressed => bail!("{name}: no kernel of {} that can be booted (vmlinuz)", arch.name()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_known_by_their_heads() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, at: usize, magic: &[u8]| {
            let mut bytes = vec![0; 1024];
            bytes[at..at + magic.len()].copy_from_slice(magic);
            let path = folder.path().join(name);
            fs::write(&path, bytes).unwrap();
            path
        };
        let (x86, arm, none) = (file("x", 0x202, b"HdrS"), file("a", 56, b"ARM\x64"), file("n", 0, b"\x7fELF"));
        assert!(check(&x86, Arch::X86).is_ok() && check(&arm, Arch::Aarch64).is_ok());
        let why = |path: &Path, arch| check(path, arch).unwrap_err().to_string();
        assert!(why(&x86, Arch::Aarch64).ends_with("a kernel of x86_64, not of aarch64"));
        assert!(why(&none, Arch::X86).ends_with("no kernel of x86_64 that can be booted (vmlinuz)"));
        let gzip = file("g", 0, b"\x1f\x8b");
        assert!(check(&gzip, Arch::Aarch64).is_ok() && check(&gzip, Arch::X86).is_err());
        let apt = Apt::new(folder.path(), Arch::X86, &|_| panic!("nothing is fetched"));
        let missing = find(Some("/no/vmlinuz"), Arch::X86, folder.path(), &apt).err().unwrap().to_string();
        assert!(missing.starts_with("--kernel /no/vmlinuz: ") && missing.ends_with("there is no such file"));
        assert_eq!(find(x86.to_str(), Arch::X86, folder.path(), &apt).unwrap().version, "x");
    }

    #[test]
    fn a_kernel_that_is_kept_is_not_fetched_again() {
        let cache = tempfile::tempdir().unwrap();
        let apt = Apt::new(cache.path(), Arch::X86, &|_| panic!("nothing is fetched"));
        let place = folder(cache.path(), Arch::X86).join("linux-image-cloud-amd64");
        fs::create_dir_all(&place).unwrap();
        let mut bytes = vec![0; 1024];
        bytes[0x202..0x206].copy_from_slice(b"HdrS");
        fs::write(place.join("6.1.0-1-cloud-amd64"), bytes).unwrap();
        let kernel = find(None, Arch::X86, cache.path(), &apt).unwrap();
        assert_eq!(kernel.version, "6.1.0-1-cloud-amd64");
        let all = kept_in(cache.path(), Arch::X86);
        assert_eq!(all, [("linux-image-cloud-amd64".to_owned(), "6.1.0-1-cloud-amd64".to_owned())]);
    }
}
