//! Guests: a kernel, a root and a command made into a system that QEMU boots.
//!
//! [`Guest::prepare`] finds the kernel (a file, or a package of Debian), makes the root (folders, packages, files of
//! this machine), and writes it as the archive that a kernel unpacks into memory. The first process is a script
//! (`init`) that runs the command between two marks (`capture/qemu/farreach-mark.h`), and tells its exit status by a
//! third.
//!
//! This crate owns what a guest is made of. It must not know recording, machines or terminals: it returns a command
//! line.

mod cache;
mod cpio;
mod debian;
mod host;
mod init;
mod kernel;
pub mod qemu;
mod root;
mod tools;
mod tree;

pub use cache::cache_dir;
pub use init::Input;
pub use kernel::kept_in as kernels_in;

use farreach_live::{Folder, mark_program};
use farreach_types::addr::Bytes;
use farreach_types::event::Arch;
use farreach_types::{Context, Result, ensure};
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// Memory of a guest, unless its root needs more.
pub const MEMORY: u64 = 1 << 30;
/// Least memory in which a kernel of Debian boots.
pub const LEAST_MEMORY: u64 = 128 << 20;
/// Most virtual processors, as QEMU's machines have them.
pub const MOST_PROCESSORS: u32 = 255;

/// A guest that is to be made.
#[derive(Clone, Debug)]
pub struct Guest {
    /// Its instruction set.
    pub arch: Arch,
    /// The file of its kernel, or Debian's package of it; by default that for virtual machines.
    pub kernel: Option<String>,
    /// Folders whose contents are its root, one over the other; or an archive (cpio, also compressed) that is.
    pub roots: Vec<PathBuf>,
    /// Debian's packages that are in its root, with what they depend on.
    pub packages: Vec<String>,
    /// Files and folders of this machine that are in its root at the same path; programs with their libraries.
    pub copies: Vec<PathBuf>,
    /// Bytes of memory; by default [`MEMORY`], or what the root needs.
    pub memory: Option<u64>,
    /// Virtual processors.
    pub processors: u32,
    /// More arguments of the kernel.
    pub append: String,
    /// Whether its time is that of this machine, and not the number of its instructions. See [`qemu::Time`].
    pub real_time: bool,
    /// Program and arguments.
    pub command: Vec<OsString>,
    /// The folder in which the command begins, made if it is not in the root.
    pub directory: PathBuf,
    /// Its standard input.
    pub input: Input,
}

/// A guest that can be booted, as long as this value is there.
pub struct Prepared {
    /// The command line of QEMU.
    pub command: Vec<OsString>,
    /// What the guest is, in words: instruction set and kernel.
    pub about: String,
    /// The archive of the root, which QEMU reads by this process's descriptor.
    _root: File,
}

/// A command that the root does not have.
#[derive(Debug)]
pub struct NotFound(pub String);

impl std::fmt::Display for NotFound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotFound {}

impl Guest {
    /// Makes all that is needed to boot it. `cache`: where kernels and packages are kept. `say` is told what takes
    /// time, and what is done that was not asked for.
    ///
    /// # Errors
    /// Something is missing: QEMU, a mark program, a package, a file. [`NotFound`] is at the end of the chain if it is
    /// the command.
    pub fn prepare(&self, cache: &Path, say: &dyn Fn(&str)) -> Result<Prepared> {
        let system = qemu::System::of(self.arch)?;
        ensure!(!self.command.is_empty(), "there is no command for the guest");
        self.check()?;
        let qemu = qemu::find(self.arch)?;
        let mark = mark_program(self.arch)?;
        let lock = cache::open(cache, say)?;
        let apt = debian::Apt::new(cache, self.arch, say);
        let kernel = kernel::find(self.kernel.as_deref(), self.arch, cache, &apt)?;
        let (tree, archive) = root::make(self, system.console, &mark, cache, &apt, say)?;
        drop(lock);
        let memory = self.memory(tree.bytes() + archive.as_ref().map_or(0, |archive| 4 * archive.1))?;
        let root = nameless()?;
        let path = PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), root.as_raw_fd()));
        let place = || format!("the archive of the guest's root, in {}", std::env::temp_dir().display());
        let mut file = BufWriter::new(&root);
        if let Some((archive, _)) = archive {
            let mut from = File::open(&archive).with_context(|| archive.display().to_string())?;
            let copied = std::io::copy(&mut from, &mut file).with_context(place)?;
            // Archives stand one after another at multiples of four bytes.
            file.write_all(&[0; 3][..(copied.wrapping_neg() % 4) as usize]).with_context(place)?;
        }
        cpio::write(&tree, &mut file).with_context(place)?;
        file.flush().with_context(place)?;
        drop(file);
        let boot = qemu::Boot {
            qemu: &qemu.path,
            kernel: &kernel.path,
            root: &path,
            memory,
            processors: self.processors,
            append: &self.append,
            time: match &self.input {
                _ if self.real_time => qemu::Time::Real,
                Input::Terminal { .. } => qemu::Time::WaitingInstructions,
                _ => qemu::Time::Instructions,
            },
        };
        let command = system.command(&boot, init::SCRIPT);
        let about = format!("{}, Linux {}", self.arch.name(), kernel.version);
        Ok(Prepared { command, about, _root: root })
    }

    /// Refuses numbers and words that no guest has.
    fn check(&self) -> Result<()> {
        ensure!(
            (1..=MOST_PROCESSORS).contains(&self.processors),
            "--processors {}: 1 to {MOST_PROCESSORS} are allowed",
            self.processors
        );
        let memory = self.memory.unwrap_or(MEMORY);
        ensure!(
            memory >= LEAST_MEMORY && memory.is_multiple_of(1 << 20),
            "--memory {}: whole megabytes from {} on are allowed",
            Bytes(memory),
            Bytes(LEAST_MEMORY)
        );
        ensure!(!self.append.contains('\n'), "--append: arguments of a kernel stand in one line");
        self.packages.iter().try_for_each(|package| debian::check_name(package))
    }

    /// Bytes of memory for a root of this size. While the guest boots, the kernel has the archive and the files, and
    /// files may take half of the memory that the archive leaves.
    fn memory(&self, root: u64) -> Result<u64> {
        const STEP: u64 = 128 << 20;
        let needed = (LEAST_MEMORY + root * 7 / 2).next_multiple_of(STEP);
        let unusable = qemu::unusable_memory(self.arch, root);
        match self.memory {
            Some(given) => {
                ensure!(
                    given >= needed || root < (16 << 20),
                    "--memory {}: the root has {} MB, and is in memory twice while the guest boots; {} is needed",
                    Bytes(given),
                    root >> 20,
                    Bytes(needed)
                );
                ensure!(
                    !unusable.contains(&given),
                    "--memory {}: with a root of {} MB QEMU's machine for {} takes less than {}, or {} and more",
                    Bytes(given),
                    root >> 20,
                    self.arch.name(),
                    Bytes(unusable.start),
                    Bytes(unusable.end)
                );
                Ok(given)
            }
            None => {
                let most = MEMORY.max(needed);
                Ok(if unusable.contains(&most) { unusable.end.next_multiple_of(STEP) } else { most })
            }
        }
    }
}

/// A file that has no name any more, so that nothing of it is left, however this process ends.
fn nameless() -> Result<File> {
    let folder = Folder::create(&std::env::temp_dir()).context("a folder for the guest")?;
    let path = folder.path().join("root");
    File::create(&path).with_context(|| path.display().to_string())
}
