//! Recordings of guests are held to what is true: the references of a program to those that the other recorder sees,
//! and translations to the guest's memory as QEMU leaves it.

use crate::{cache, guest};
use farreach_guest::Guest;
use farreach_live::{Begin, Options, Recorder, SystemOptions};
use farreach_oracle::guest::system::{Heard, System};
use farreach_types::addr::{Asid, BASE_SHIFT, kernel_half, owner};
use farreach_types::event::{Access, Arch, Blocks, Guest as Event, Item, Kind, Op, Source};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

/// A small one, in which addresses are those of other runs with the same arguments of the kernel.
fn small(arch: Arch, append: &str, command: &[&str]) -> Guest {
    Guest { memory: Some(MEMORY), append: append.into(), directory: "/".into(), ..guest(arch, command) }
}

const MEMORY: u64 = 256 << 20;

// ---- Programs ----

/// Fetches, loads and stores of each page.
type Pages = BTreeMap<u64, [u64; 3]>;

fn count(pages: &mut Pages, kind: Kind, address: u64) {
    pages.entry(address >> BASE_SHIFT).or_default()[kind as usize] += 1;
}

/// Compiles a program of `fixtures/programs`.
fn program(name: &str, flags: &[&str], folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../fixtures/programs/{name}.c"));
    let file = folder.join(name);
    let compiled = Command::new("cc").arg("-O1").args(flags).arg("-o").arg(&file).arg(source).status().unwrap();
    assert!(compiled.success());
    file
}

/// What the other recorder sees of a program.
fn under_valgrind(program: &Path) -> Pages {
    let mut recorder = Recorder::start(&[program.into()], &Options::default()).unwrap();
    let (mut pages, mut blocks) = (Pages::new(), Blocks::default());
    while let Some(batch) = recorder.next_batch().unwrap() {
        let each = |item: Item<'_>| {
            if let Item::Access(access) = item {
                count(&mut pages, access.kind, access.addr);
            }
            true
        };
        blocks.expand(&batch, each).unwrap();
    }
    recorder.finish().unwrap();
    pages
}

/// What a guest's recording has of a program, in user mode. `see` counts its references.
fn in_guest(arch: Arch, program: &Path, cache: &Path, see: fn(&mut Pages, Access)) -> Pages {
    let name = program.to_str().unwrap();
    let made = Guest { copies: vec![program.into()], ..small(arch, "norandmaps", &[name]) };
    let prepared = made.prepare(cache, &|line| eprintln!("{line}")).unwrap();
    let options = SystemOptions { begin: Begin::Mark, ..SystemOptions::default() };
    let mut recorder = Recorder::start_system(&prepared.command, &options).unwrap();
    let (mut system, mut spaces) = (System::default(), HashMap::<Asid, (Option<String>, Pages)>::new());
    while let Some(batch) = recorder.next_batch().unwrap() {
        let space = spaces.entry(batch.asid).or_default();
        system.read(&batch, |system, heard| match heard {
            Heard::Access(access) if !system.kernel[system.running] => see(&mut space.1, access),
            Heard::Op(Op::Guest(Event::Name(name))) => space.0 = Some(name.to_string()),
            _ => {}
        });
    }
    let report = recorder.finish().unwrap();
    assert_eq!(report.system.unwrap().checks.unwrap().different, 0);
    let mut found = spaces.into_values().filter(|space| space.0.as_deref() == Some(name));
    let (Some((_, pages)), None) = (found.next(), found.next()) else { panic!("one process of {name}") };
    pages
}

/// The pages whose counts differ, in words.
fn differences(one: &Pages, other: &Pages) -> Vec<String> {
    let pages: BTreeSet<_> = one.keys().chain(other.keys()).collect();
    let of = |pages: &Pages, page| pages.get(page).copied().unwrap_or_default();
    let differ = pages.into_iter().filter(|page| of(one, page) != of(other, page));
    differ.map(|page| format!("{page:x}: {:?}, {:?}", of(one, page), of(other, page))).collect()
}

#[test]
fn the_user_part_of_a_program_is_that_of_the_other_recorder_page_by_page() {
    let Some(cache) = cache() else { return };
    let folder = tempfile::tempdir().unwrap();
    const STRINGS: u64 = 0x50_0000;
    let place = format!("-Wl,--section-start=.strings={STRINGS:#x}");
    let plain = ["-fno-pie", "-mno-red-zone", "-fno-stack-protector", "-fcf-protection=none"];
    let fixed = program("fixed", &[&plain[..], &["-nostdlib", "-static", "-no-pie", &place]].concat(), folder.path());
    let see = |pages: &mut Pages, access: Access| count(pages, access.kind, access.addr);
    let (mut seen, mut other) = (in_guest(Arch::X86, &fixed, &cache, see), under_valgrind(&fixed));
    assert!(other.len() > 40 && other.values().map(|counts| counts[0]).sum::<u64>() > 500_000);
    // A `rep` is fetched once, and under Valgrind once for each element. No other fetches are in its page.
    let repeated = STRINGS >> BASE_SHIFT;
    let [fetches, of_other] =
        [&mut seen, &mut other].map(|pages| std::mem::take(&mut pages.get_mut(&repeated).unwrap()[0]));
    assert!(fetches > 1000 && of_other > fetches + 20_000, "{fetches}, {of_other}");
    assert_eq!(differences(&seen, &other), [""; 0], "pages: fetches, loads, stores in the guest, and under Valgrind");
}

/// Pitfall 5: QEMU clears a line of memory by itself (DC ZVA), and does not show what it stores.
#[test]
fn lines_that_are_cleared_at_once_are_stores() {
    let Some(cache) = cache() else { return };
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/programs/clear-aarch64.S");
    let [object, program] = ["clear.o", "clear"].map(|name| folder.path().join(name));
    const AREA: u64 = 0x80_0000;
    let made = [
        Command::new("aarch64-linux-gnu-as").arg("-o").arg(&object).arg(&source).status(),
        Command::new("aarch64-linux-gnu-ld")
            .arg(format!("-Tbss={AREA:#x}"))
            .arg("-o")
            .args([&program, &object])
            .status(),
    ];
    assert!(made.into_iter().all(|status| status.unwrap().success()));
    // Bytes that are stored, by page.
    let see = |pages: &mut Pages, access: Access| {
        if access.kind == Kind::Store {
            pages.entry(access.addr >> BASE_SHIFT).or_default()[0] += u64::from(access.size);
        }
    };
    let stored = in_guest(Arch::Aarch64, &program, &cache, see);
    let area = (0..16).map(|page| ((AREA >> BASE_SHIFT) + page, [4096, 0, 0]));
    assert_eq!(stored, area.collect::<Pages>());
}

// ---- Memory ----

/// QEMU's side channel for commands (QMP).
struct Monitor(BufReader<UnixStream>);

impl Monitor {
    fn of(socket: &Path) -> Monitor {
        let mut monitor = Monitor(BufReader::new(UnixStream::connect(socket).unwrap()));
        monitor.answer("\"QMP\"");
        monitor.ask("qmp_capabilities");
        monitor
    }

    fn ask(&mut self, command: &str) {
        writeln!(self.0.get_mut(), "{{\"execute\": \"{command}\"}}").unwrap();
        self.answer("\"return\"");
    }

    /// Waits for a line with this word; others are events.
    fn answer(&mut self, word: &str) {
        let mut line = String::new();
        while !line.contains(word) {
            line.clear();
            assert_ne!(self.0.read_line(&mut line).unwrap(), 0, "QEMU ended before it answered");
        }
    }
}

/// The memory of the guest of the QEMU whose command line has this word: a file that outlives it.
fn memory_of(word: &Path) -> File {
    let word = word.as_os_str().as_encoded_bytes();
    for process in std::fs::read_dir("/proc").unwrap() {
        let process = process.unwrap().path();
        let line = std::fs::read(process.join("cmdline")).unwrap_or_default();
        let name = std::fs::read_to_string(process.join("comm")).unwrap_or_default();
        if !name.starts_with("qemu-system") || !line.windows(word.len()).any(|part| part == word) {
            continue;
        }
        for file in std::fs::read_dir(process.join("fd")).unwrap() {
            let file = file.unwrap().path();
            if std::fs::read_link(&file).is_ok_and(|to| to.to_string_lossy().contains("memory-backend-memfd")) {
                return File::open(file).unwrap();
            }
        }
    }
    panic!("no QEMU with memory in a file");
}

/// Walks tables of four levels with pages of 4 KB in a guest's memory, by nothing but the formats of the processors.
/// Returns the frame of a page of 57 bits.
fn walk(arch: Arch, memory: &File, root: u64, page: u64) -> Option<u64> {
    const TABLE: u64 = 0xffff_ffff_f000;
    let start = if arch == Arch::X86 { 0 } else { 1 << 30 };
    let mut table = root & TABLE;
    for level in (0..4).rev() {
        let mut word = [0; 8];
        let place = table + 8 * (page >> (9 * level) & 511);
        memory.read_exact_at(&mut word, place.checked_sub(start)?).ok()?;
        let word = u64::from_le_bytes(word);
        let (present, leaf) = match arch {
            Arch::X86 => (word & 1 != 0, level == 0 || word & 0x80 != 0),
            _ => (word & 1 != 0 && (level > 0 || word & 2 != 0), level == 0 || word & 2 == 0),
        };
        if !present {
            return None;
        }
        if leaf {
            let below = (1 << (9 * level)) - 1;
            return Some((word & TABLE) >> BASE_SHIFT & !below | page & below);
        }
        table = word & TABLE;
    }
    None
}

#[test]
fn all_translations_at_a_moment_are_those_of_a_walk_through_memory_then() {
    let Some(cache) = cache() else { return };
    const ENOUGH: u64 = 20_000_000;
    // Processes that begin and end, and one that stays, until the guest is stopped.
    let script = "sleep 1000 & while :; do ls -lR /proc/self /farreach; uname -a | cat; done > /dev/null";
    for arch in [Arch::X86, Arch::Aarch64] {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("monitor");
        let prepared = small(arch, "", &["sh", "-c", script]).prepare(&cache, &|line| eprintln!("{line}")).unwrap();
        let mut command = prepared.command.clone();
        command.extend(["-qmp".into(), OsString::from(format!("unix:{},server=on,wait=off", socket.display()))]);
        let options = SystemOptions { begin: Begin::Mark, ..SystemOptions::default() };
        let mut recorder = Recorder::start_system(&command, &options).unwrap();
        let (mut system, mut used, mut fetches, mut stopping) = (System::default(), BTreeSet::new(), 0, None);
        while let Some(batch) = recorder.next_batch().unwrap() {
            system.read(&batch, |system, heard| {
                if let Heard::Access(access) = heard {
                    let page = access.addr >> BASE_SHIFT;
                    used.insert((owner(system.space, page), page));
                    fetches += u64::from(access.kind == Kind::Fetch);
                }
            });
            assert!(fetches < 100 * ENOUGH, "the guest was not stopped");
            if fetches > ENOUGH && stopping.is_none() {
                let socket = socket.clone();
                // The recording goes on meanwhile: QEMU waits for its reader.
                stopping = Some(thread::spawn(move || {
                    let mut monitor = Monitor::of(&socket);
                    monitor.ask("stop");
                    let memory = memory_of(&socket);
                    monitor.ask("quit");
                    memory
                }));
            }
        }
        let memory = stopping.expect("a guest that does not end").join().unwrap();
        let counts = recorder.finish().unwrap().system.unwrap().checks.unwrap();
        assert_eq!((counts.different, counts.retries), (0, 0));

        let (mut programs, mut kernels, mut gone) = (0, 0, 0);
        for (space, page) in used {
            let Some(registers) = system.registers(space, page) else { continue };
            let Some(found) = system.translate(space, page) else {
                gone += 1;
                continue;
            };
            let root = if arch == Arch::Aarch64 && kernel_half(page) { registers.root1 } else { registers.root0 };
            let there = walk(arch, &memory, root, page);
            assert_eq!(there, Some(found.frame), "{}: {space:?}, page {page:x}", arch.name());
            *(if kernel_half(page) { &mut kernels } else { &mut programs }) += 1;
        }
        eprintln!("{}: {programs} pages of programs, {kernels} of the kernel, {gone} gone", arch.name());
        assert!(programs > 50 && kernels > 500 && gone > 50, "{programs}, {kernels}, {gone}");
    }
}
