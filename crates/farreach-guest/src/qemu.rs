//! QEMU: finding it, its version, the command line that boots a guest.

use farreach_live::tool;
use farreach_types::event::Arch;
use farreach_types::{Context, Error, Result, bail, ensure};
use std::ffi::OsString;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// The oldest that has what the plugin uses (interface 4).
pub const OLDEST: (u32, u32) = (9, 2);
/// What turns it on.
pub const TURN_ON: &str = "make system";

/// An emulator that is installed.
pub struct Qemu {
    /// Its file.
    pub path: PathBuf,
    /// Its version, in words.
    pub version: String,
}

/// The emulator of an instruction set.
///
/// # Errors
/// It is not installed, or too old.
pub fn find(arch: Arch) -> Result<Qemu> {
    let name = format!("qemu-system-{}", arch.name());
    let path = tool::find(&name)
        .map_err(|e| Error::Failed(format!("{e}; '{TURN_ON}' installs it, from Debian's backports on Debian 12")))?;
    let mut asked = tool::command(&name).map_err(Error::System)?;
    let said = asked.arg("--version").stdin(Stdio::null()).output().with_context(|| path.display().to_string())?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let version = version_in(&said).with_context(|| format!("{}: it does not say its version", path.display()))?;
    ensure!(
        version >= OLDEST,
        "{}: version {}.{} is too old: its plugins have no values of memory; {}.{} or newer is needed",
        path.display(),
        version.0,
        version.1,
        OLDEST.0,
        OLDEST.1
    );
    let words = said.lines().next().unwrap_or_default().trim_start_matches("QEMU emulator version ");
    Ok(Qemu { path, version: words.split(' ').next().unwrap_or(words).to_owned() })
}

/// The version in what `--version` says.
fn version_in(said: &str) -> Option<(u32, u32)> {
    let (_, rest) = said.split_once("version ")?;
    let mut numbers = rest.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// The instruction set of an emulator, by the name of its file.
///
/// # Errors
/// It is none that is recorded.
pub fn arch_of(program: &Path) -> Result<Arch> {
    let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let arch = name.strip_prefix("qemu-system-").and_then(|arch| Arch::ALL.into_iter().find(|a| a.name() == arch));
    match arch {
        Some(arch) if SYSTEMS.iter().any(|system| system.arch == arch) => Ok(arch),
        _ => {
            let all: Vec<String> = SYSTEMS.iter().map(|system| format!("qemu-system-{}", system.arch.name())).collect();
            let (last, others) = all.split_last().expect("there are some");
            bail!("--system: the command must be {} or {last}, not '{name}'", others.join(", "))
        }
    }
}

/// How a guest of an instruction set is booted.
pub struct System {
    /// Which.
    pub arch: Arch,
    /// The machine and its processor. x86-64: four levels of page tables, as in most machines that run today; the
    /// kernel takes five where the processor has them. AArch64: addresses are signed as QEMU can do it fast. RISC-V:
    /// four levels, too, and no hypervisor mode, whose second translation is not recorded.
    machine: &'static [&'static str],
    /// The console.
    pub console: &'static str,
    /// The device behind it. RISC-V: a second one, as firmware writes to the first.
    serial: &'static [&'static str],
    /// More arguments of its kernel. x86-64: on a busy machine a kernel in an emulator finds its timer broken. AArch64:
    /// instructions that copy and set memory make references that QEMU does not show. RISC-V: its kernel tests its
    /// ciphers beside the first programs, for 720 million instructions, which would be counted as theirs.
    arguments: &'static str,
}

/// The first serial device of the machine.
const SERIAL: &[&str] = &["-serial", "chardev:console"];

/// All of them.
pub const SYSTEMS: [System; 3] = [
    System {
        arch: Arch::X86,
        machine: &["-M", "pc", "-cpu", "max,la57=off"],
        console: "ttyS0",
        serial: SERIAL,
        arguments: " no_timer_check",
    },
    System {
        arch: Arch::Aarch64,
        machine: &["-M", "virt", "-cpu", "max,pauth-impdef=on"],
        console: "ttyAMA0",
        serial: SERIAL,
        arguments: " arm64.nomops",
    },
    System {
        arch: Arch::Riscv64,
        machine: &["-M", "virt", "-cpu", "max,sv57=off,h=off"],
        console: "ttyS1",
        serial: &["-serial", "null", "-device", "pci-serial,chardev=console"],
        arguments: " cryptomgr.notests",
    },
];

/// Sizes of memory with which QEMU does not load the archive of a root of this size. RISC-V: its memory begins at 2 GB,
/// and QEMU 10.0 compares the end of the archive with the size of memory, not with its end; smaller memories pass.
pub fn unusable_memory(arch: Arch, root: u64) -> Range<u64> {
    const ARCHIVE: u64 = (2 << 30) + (514 << 20);
    match arch {
        // An archive is larger than its files.
        Arch::Riscv64 => ARCHIVE..(ARCHIVE + root + root / 8).next_multiple_of(64 << 20),
        _ => 0..0,
    }
}

impl System {
    /// That of an instruction set.
    ///
    /// # Errors
    /// There is none.
    pub fn of(arch: Arch) -> Result<&'static System> {
        let all: Vec<&str> = SYSTEMS.iter().map(|system| system.arch.name()).collect();
        let found = SYSTEMS.iter().find(|system| system.arch == arch);
        found.with_context(|| format!("guests of {} cannot be recorded; {} can", arch.name(), all.join(", ")))
    }
}

/// What is booted.
pub struct Boot<'a> {
    /// The emulator.
    pub qemu: &'a Path,
    /// The kernel.
    pub kernel: &'a Path,
    /// The archive with its root.
    pub root: &'a Path,
    /// Bytes of memory.
    pub memory: u64,
    /// Virtual processors.
    pub processors: u32,
    /// More arguments of the kernel.
    pub append: &'a str,
    /// What its time is.
    pub time: Time,
}

/// What the time of a guest is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Time {
    /// The number of its instructions, a nanosecond each: two runs are equal, and a recorder that makes it slow does
    /// not make its timer fast. It does not wait: where all processors are idle, it is the time of the next event at
    /// once.
    Instructions,
    /// The same, but it waits: for a guest in which somebody types.
    WaitingInstructions,
    /// That of this machine.
    Real,
}

impl System {
    /// The command line. The console is standard output, and standard input if that is a terminal; Ctrl-C ends QEMU.
    pub fn command(&self, boot: &Boot, init: &str) -> Vec<OsString> {
        let mut line: Vec<OsString> = vec![boot.qemu.into()];
        line.extend(self.machine.iter().map(Into::into));
        let words = [
            // Kernels are given in megabytes what they get.
            "-m",
            &format!("{}M", boot.memory >> 20),
            "-smp",
            &boot.processors.to_string(),
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            "-no-reboot",
            "-chardev",
            "stdio,id=console,signal=on",
        ];
        line.extend(words.iter().chain(self.serial).map(Into::into));
        line.extend(["-kernel".into(), boot.kernel.into(), "-initrd".into(), boot.root.into()]);
        let mut arguments = format!("console={} quiet panic=-1 rdinit={init}{}", self.console, self.arguments);
        if boot.time != Time::Real {
            let sleep = if boot.time == Time::Instructions { "off" } else { "on" };
            let count = format!("shift=0,sleep={sleep}");
            // No random number is one of this machine, and time begins at the same.
            let words = ["-icount", &count, "-rtc", "base=2026-01-01,clock=vm", "-seed", "0"];
            line.extend(words.iter().map(Into::into));
        }
        if !boot.append.is_empty() {
            arguments = format!("{arguments} {}", boot.append);
        }
        line.extend(["-append".into(), arguments.into()]);
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_names() {
        let debian = "QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2+deb13u1~bpo12+1)\nCopyright";
        assert_eq!(version_in(debian), Some((10, 0)));
        assert_eq!(version_in("QEMU emulator version 7.2.17\n"), Some((7, 2)));
        assert_eq!(version_in("nothing"), None);
        assert_eq!(arch_of(Path::new("/opt/q/qemu-system-aarch64")).unwrap(), Arch::Aarch64);
        for other in ["qemu-system-riscv32", "qemu-aarch64", "ls"] {
            let why = arch_of(Path::new(other)).unwrap_err().to_string();
            assert!(why.ends_with(&format!("qemu-system-aarch64 or qemu-system-riscv64, not '{other}'")), "{why}");
        }
        assert!(Arch::ALL.iter().all(|&arch| System::of(arch).unwrap().arch == arch));
    }

    #[test]
    fn archives_of_risc_v_do_not_go_with_all_sizes_of_memory() {
        // As QEMU 10.0 did, with this root: 2560M and 4G booted, 3G did not.
        let unusable = unusable_memory(Arch::Riscv64, 590 << 20);
        assert_eq!([2560u64, 3072, 4096].map(|mb| unusable.contains(&(mb << 20))), [false, true, false]);
        assert!(unusable_memory(Arch::X86, 590 << 20).is_empty());
    }

    #[test]
    fn two_runs_by_icount_have_nothing_of_this_machine() {
        let system = System::of(Arch::X86).unwrap();
        let boot = Boot {
            qemu: Path::new("/q"),
            kernel: Path::new("/k"),
            root: Path::new("/r"),
            memory: 1 << 30,
            processors: 2,
            append: "pti=on",
            time: Time::Instructions,
        };
        let line = system.command(&boot, "/init");
        let line: Vec<&str> = line.iter().map(|word| word.to_str().unwrap()).collect();
        assert_eq!(line[0], "/q");
        let behind = |option: &str| line[line.iter().position(|word| *word == option).unwrap() + 1];
        assert_eq!((behind("-m"), behind("-smp"), behind("-seed")), ("1024M", "2", "0"));
        assert_eq!(behind("-append"), "console=ttyS0 quiet panic=-1 rdinit=/init no_timer_check pti=on");
        assert_eq!(behind("-icount"), "shift=0,sleep=off");
        let plain = system.command(&Boot { time: Time::Real, append: "", ..boot }, "/init");
        assert!(!plain.contains(&"-seed".into()) && !plain.contains(&"-icount".into()));
    }
}
