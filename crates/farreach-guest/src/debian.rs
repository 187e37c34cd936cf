//! Debian's packages of another instruction set, without a change of this system: apt with lists of its own.

use farreach_live::tool;
use farreach_types::event::Arch;
use farreach_types::{Context, Error, Result, bail, ensure};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What Debian calls an instruction set.
pub fn name_of(arch: Arch) -> &'static str {
    match arch {
        Arch::X86 => "amd64",
        Arch::Aarch64 => "arm64",
        Arch::Riscv64 => "riscv64",
    }
}

/// The oldest release of Debian with packages for RISC-V, and where it lies.
const RISCV_SOURCE: &str =
    "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian trixie main\n";

/// apt for one instruction set: its sources are those of this system, its lists and packages lie in a folder. For
/// RISC-V its source is Debian 13, on every system: older ones have none.
pub struct Apt<'a> {
    folder: PathBuf,
    arch: &'static str,
    source: Option<&'static str>,
    say: &'a dyn Fn(&str),
}

impl<'a> Apt<'a> {
    /// With what it keeps in `cache`. `say` is told what takes time.
    pub fn new(cache: &Path, arch: Arch, say: &'a dyn Fn(&str)) -> Apt<'a> {
        let source = (arch == Arch::Riscv64).then_some(RISCV_SOURCE);
        let arch = name_of(arch);
        Apt { folder: cache.join("apt").join(arch), arch, source, say }
    }

    fn lists(&self) -> PathBuf {
        self.folder.join("lists")
    }

    /// apt-get, which puts packages into `archives`.
    fn command(&self, archives: &Path) -> Result<Command> {
        let mut apt = tool::command("apt-get").map_err(|e| {
            Error::Failed(format!("{e}; kernels and programs come from Debian's packages: give --kernel FILE, --root"))
        })?;
        let status = self.folder.join("status");
        for folder in [&self.lists().join("partial"), &archives.join("partial")] {
            fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        }
        if !status.exists() {
            fs::write(&status, "").with_context(|| status.display().to_string())?;
        }
        let options: [(&str, &Path); 5] = [
            ("Dir::State", &self.folder),
            ("Dir::State::status", &status),
            ("Dir::State::lists", &self.lists()),
            ("Dir::Cache", &self.folder.join("cache")),
            ("Dir::Cache::archives", archives),
        ];
        for (option, path) in options {
            apt.arg("-o").arg(format!("{option}={}", path.to_str().context("the path of the cache is not UTF-8")?));
        }
        let words = [
            format!("APT::Architecture={}", self.arch),
            format!("APT::Architectures={}", self.arch),
            // Other users cannot read the folder.
            "APT::Sandbox::User=root".into(),
            "Acquire::Languages=none".into(),
        ];
        words.iter().for_each(|word| _ = apt.args(["-o", word]));
        if let Some(source) = self.source {
            let list = self.folder.join("sources.list");
            fs::write(&list, source).with_context(|| list.display().to_string())?;
            apt.arg("-o")
                .arg(format!("Dir::Etc::sourcelist={}", list.display()))
                .args(["-o", "Dir::Etc::sourceparts=-"]);
        }
        Ok(apt)
    }

    /// Runs apt-get to its end.
    fn run(&self, archives: &Path, words: &[&str]) -> Result<()> {
        let mut apt = self.command(archives)?;
        let done = apt.args(words).current_dir(archives).stdin(Stdio::null()).output().context("apt-get")?;
        let said = String::from_utf8_lossy(&done.stderr);
        let said: Vec<&str> = said.lines().filter(|line| line.starts_with("E:")).collect();
        ensure!(done.status.success(), "apt-get {}: {}", words.join(" "), said.join(" "));
        Ok(())
    }

    fn has_lists(&self) -> bool {
        // Some systems keep them compressed.
        let is_list = |name: fs::DirEntry| name.file_name().to_string_lossy().contains("_Packages");
        fs::read_dir(self.lists()).is_ok_and(|names| names.flatten().any(is_list))
    }

    /// The same with lists that have what is asked for: they are fetched if there are none, or without success.
    fn with_lists(&self, archives: &Path, words: &[&str]) -> Result<()> {
        if self.has_lists() && self.run(archives, words).is_ok() {
            return Ok(());
        }
        (self.say)(&format!("fetching Debian's lists of packages for {}", self.arch));
        self.run(archives, &["update", "-q"])?;
        // It takes no list for no error.
        ensure!(self.has_lists(), "apt-get update: no list of packages was fetched; is there a network?");
        self.run(archives, words)
    }

    /// Fetches one package into a folder. Returns its file.
    ///
    /// # Errors
    /// apt-get says why.
    pub fn download(&self, package: &str, into: &Path) -> Result<PathBuf> {
        (self.say)(&format!("fetching Debian's package {package} for {}", self.arch));
        self.with_lists(into, &["download", package])?;
        let name = package.split(['/', '=']).next().unwrap_or(package);
        let found = debs(into)?
            .into_iter()
            .find(|deb| deb.file_name().is_some_and(|file| file.to_string_lossy().starts_with(&format!("{name}_"))));
        found.with_context(|| format!("apt-get download {package}: it left no file in {}", into.display()))
    }

    /// Fetches packages with all that they depend on into a folder. Returns their files.
    ///
    /// # Errors
    /// apt-get says why.
    pub fn download_all(&self, packages: &[String], into: &Path) -> Result<Vec<PathBuf>> {
        (self.say)(&format!("fetching {} for {}", packages.join(", "), self.arch));
        // The second spares a Perl that would only merge folders.
        let mut words = vec!["install", "--download-only", "-y", "-q", "--no-install-recommends", "usr-is-merged"];
        words.extend(packages.iter().map(String::as_str));
        self.with_lists(into, &words)?;
        debs(into)
    }
}

/// The packages in a folder, in the order of their names.
fn debs(folder: &Path) -> Result<Vec<PathBuf>> {
    let names = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut debs: Vec<PathBuf> =
        names.flatten().map(|name| name.path()).filter(|path| path.extension().is_some_and(|e| e == "deb")).collect();
    debs.sort();
    Ok(debs)
}

/// Refuses what is no name of a package: apt-get would take it for an option, or a pattern.
pub fn check_name(package: &str) -> Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "+-.:=~/".contains(c);
    let good = package.starts_with(|c: char| c.is_ascii_alphanumeric()) && package.chars().all(plain);
    ensure!(good, "'{package}' is no name of a Debian package, such as redis-server");
    Ok(())
}

/// dpkg-deb on a package.
fn dpkg_deb(words: &[&str], deb: &Path) -> Result<Command> {
    let mut command = tool::command("dpkg-deb").map_err(Error::System)?;
    // What is wrong shows in its status, and in what tar says.
    command.args(words).arg(deb).stdin(Stdio::null()).stderr(Stdio::null());
    Ok(command)
}

/// A field of a package, empty if it has none.
pub fn field(deb: &Path, name: &str) -> Result<String> {
    let mut command = dpkg_deb(&["--field"], deb)?;
    let done = command.arg(name).output().context("dpkg-deb")?;
    ensure!(done.status.success(), "{}: {}", deb.display(), String::from_utf8_lossy(&done.stderr).trim());
    Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned())
}

/// The names of files in a package that `wanted` takes.
pub fn files(deb: &Path, wanted: impl Fn(&str) -> bool) -> Result<Vec<String>> {
    let mut listing = dpkg_deb(&["--fsys-tarfile"], deb)?.stdout(Stdio::piped()).spawn().context("dpkg-deb")?;
    let mut tar = tool::command("tar").map_err(Error::System)?;
    let input = listing.stdout.take().context("dpkg-deb has no output")?;
    let mut names = tar.arg("-t").stdin(input).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().context("tar")?;
    let lines = BufReader::new(names.stdout.take().context("tar has no output")?).lines();
    let found = lines.map_while(std::io::Result::ok).filter(|line| wanted(line)).collect();
    let (listed, named) = (listing.wait().context("dpkg-deb")?, names.wait().context("tar")?);
    ensure!(listed.success() && named.success(), "{}: it cannot be read as a package", deb.display());
    Ok(found)
}

/// Unpacks a package into a folder, or those of its files that are named. Links that stand for folders stay.
pub fn unpack(deb: &Path, into: &Path, only: &[String]) -> Result<()> {
    let mut reader = dpkg_deb(&["--fsys-tarfile"], deb)?.stdout(Stdio::piped()).spawn().context("dpkg-deb")?;
    let mut tar = tool::command("tar").map_err(Error::System)?;
    tar.args(["-x", "-p", "--numeric-owner", "--keep-directory-symlink", "-C"]).arg(into).arg("--").args(only);
    let input = reader.stdout.take().context("dpkg-deb has no output")?;
    let done = tar.stdin(input).output().context("tar")?;
    let read = reader.wait().context("dpkg-deb")?;
    let said = String::from_utf8_lossy(&done.stderr);
    if !done.status.success() || !read.success() {
        bail!("{}: it cannot be unpacked: {}", deb.display(), said.trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_packages_are_passed_on() {
        for good in ["redis-server", "g++", "libc6:arm64", "linux-image-cloud-amd64/bookworm-backports", "a=1~rc"] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in ["", "-o", "?essential", "a b", "$x"] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }

    /// A package made here, where there is Debian's tool for it.
    #[test]
    fn a_package_is_unpacked_over_links_to_folders() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir_all(path("made/DEBIAN")).unwrap();
        fs::create_dir_all(path("made/bin")).unwrap();
        fs::write(path("made/bin/tool"), "x").unwrap();
        let control = "Package: t\nVersion: 1\nArchitecture: all\nMaintainer: m <m@m>\nDepends: a, b\nDescription: t\n";
        fs::write(path("made/DEBIAN/control"), control).unwrap();
        let Ok(mut make) = tool::command("dpkg-deb") else { return eprintln!("skipped: there is no dpkg-deb here") };
        let deb = path("t.deb");
        assert!(make.args(["--build", "-Znone"]).arg(path("made")).arg(&deb).output().unwrap().status.success());
        assert_eq!(field(&deb, "Depends").unwrap(), "a, b");
        assert_eq!(files(&deb, |name| name.ends_with("tool")).unwrap(), ["./bin/tool"]);
        fs::create_dir_all(path("root/usr/bin")).unwrap();
        std::os::unix::fs::symlink("usr/bin", path("root/bin")).unwrap();
        unpack(&deb, &path("root"), &[]).unwrap();
        assert_eq!(fs::read_to_string(path("root/usr/bin/tool")).unwrap(), "x");
        fs::write(path("no.deb"), "no package").unwrap();
        assert!(files(&path("no.deb"), |_| true).is_err() && unpack(&path("no.deb"), &path("root"), &[]).is_err());
    }
}
