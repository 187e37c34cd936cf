//! The beginning of a program: the memory that exec made becomes memory of the space's own.

use crate::agent::{self, Agent, Trouble};
use crate::call::prot_of;
use crate::contents;
use crate::maps::{self, Mapped};
use crate::monitor::{Failure, Monitor};
use crate::regions::{Memory, OnFork, Region, Regions};
use crate::space::{PAGE, Space};
use farreach_types::addr::Asid;
use farreach_types::event::{Backing, Mapping, Op};
use procfs::process::{LimitValue, MMapPath, Process};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// Room for the stack of the main thread, where the limit allows it: some programs raise the limit when they begin. An
/// unlimited stack gets the second.
const STACK: u64 = 64 << 20;
const LARGEST_STACK: u64 = 1 << 30;
/// What the kernel keeps free below a stack.
const GAP: u64 = 1 << 20;

impl Monitor<'_> {
    /// A process has called exec, and is stopped there. `before`: its address space until then, if that has ended.
    pub fn begin_program(&mut self, process: i32, before: Option<Asid>) -> Result<(), Failure> {
        let failed = |error: io::Error| Failure::trouble("looking at the program", error.into());
        let program = std::fs::read_link(format!("/proc/{process}/exe")).map_err(failed)?;
        check(process, &program)?;
        let asid = self.new_asid();
        let (pid, parent) = (process as u32, before);
        self.event(asid, Op::Start { pid, parent, program: program.to_string_lossy().into() });
        self.event(asid, Op::ThreadStart { thread: pid });
        let task = self.tasks.get_mut(&process).expect("it has called exec");
        task.space = Some(asid);
        let begin = || -> Result<Space, Trouble> {
            let heap = Process::new(process).and_then(|process| process.stat()).map_err(maps::of_proc)?.start_brk;
            let heap = heap.ok_or_else(|| io::Error::other("/proc does not say where the heap begins"))?;
            Space::new(Agent::at_exec(process)?, Regions::default(), heap)
        };
        let space = begin().map_err(|trouble| Failure::trouble("beginning to observe the program", trouble))?;
        if let Err(trouble) = space.agent.keep_words(process) {
            match trouble {
                Trouble::Io(error) => self.report.note(format!("/proc shows no command lines of the program: {error}")),
                gone => return Err(Failure::trouble("beginning to observe the program", gone)),
            }
        }
        self.add_space(asid, space)?;
        self.report.execs += 1;
        self.adopt(asid, process).map_err(|trouble| Failure::trouble("taking over the program's memory", trouble))
    }

    /// Takes over what exec mapped.
    fn adopt(&mut self, asid: Asid, process: i32) -> Result<(), Trouble> {
        let maps = maps::of(process)?;
        let memory = File::open(format!("/proc/{process}/mem"))?;
        let pagemap = File::open(format!("/proc/{process}/pagemap"))?;
        let mut below = 0;
        for map in &maps {
            let lowest = below;
            below = map.bytes.end;
            let (backing, mut whole) = (backing(map), map.bytes.clone());
            if agent::owns(map.bytes.start) {
                continue;
            }
            if backing == Backing::Kernel || map.shared {
                self.not_observed(name(&map.path), map.bytes.end - map.bytes.start);
            } else {
                let file = self.file_of(map)?;
                let space = self.spaces.get_mut(&asid).expect("it begins");
                copy_changed(&memory, &pagemap, map, file.is_none(), space)?;
                if backing == Backing::Stack {
                    whole.start = stack_start(process, &map.bytes, lowest)?;
                    space.stack_room = whole.start..map.bytes.start;
                    space.stack = whole.clone();
                }
                let own = file.map_or(Memory::Own, |file| Memory::File { file, offset: map.offset });
                let region = Region { end: whole.end, prot: map.prot, memory: own, on_fork: OnFork::Copy };
                space.overlay(whole.clone(), region)?;
            }
            let (start, len, prot) = (map.bytes.start, map.bytes.end - map.bytes.start, prot_of(map.prot));
            let is_stack = backing == Backing::Stack;
            self.event(asid, Op::Map(Mapping { start, len, prot, shared: map.shared, backing }));
            if is_stack {
                // If /proc does not say where they begin: the last byte is one of them.
                let written = start_of_arguments(process)?;
                let start = if map.bytes.contains(&written) { written } else { map.bytes.end - 1 };
                self.event(asid, Op::KernelStore { start, len: map.bytes.end - start });
            }
        }
        Ok(())
    }

    /// The number of the file of a mapping, if it can be opened.
    fn file_of(&mut self, map: &Mapped) -> io::Result<Option<u32>> {
        let MMapPath::Path(path) = &map.path else { return Ok(None) };
        match File::open(path) {
            Ok(file) if file.metadata().is_ok_and(|meta| meta.ino() == map.inode) => self.file_number(file).map(Some),
            _ => Ok(None),
        }
    }
}

/// The lowest address of what exec wrote on the stack.
fn start_of_arguments(process: i32) -> Result<u64, Trouble> {
    Ok(Process::new(process).and_then(|process| process.stat()).map_err(maps::of_proc)?.startstack)
}

/// Copies the pages of a mapping that the kernel has written, or `all` that can be read.
fn copy_changed(memory: &File, pagemap: &File, map: &Mapped, all: bool, space: &Space) -> Result<(), Trouble> {
    /// Of an entry: present, swapped, of a file.
    const PRESENT: u64 = 1 << 63;
    const SWAPPED: u64 = 1 << 62;
    const OF_FILE: u64 = 1 << 61;
    let mut page = vec![0; PAGE as usize];
    for at in map.bytes.clone().step_by(PAGE as usize) {
        let mut entry = [0; 8];
        pagemap.read_exact_at(&mut entry, at / PAGE * 8)?;
        let entry = u64::from_ne_bytes(entry);
        let written = entry & (PRESENT | SWAPPED) != 0 && entry & OF_FILE == 0;
        // Anonymous pages that were not touched are zeros.
        let needed = written || all && map.inode != 0;
        // Behind the end of a file there is nothing.
        if needed && memory.read_exact_at(&mut page, at).is_ok() {
            contents::write_all(&space.memory, &page, at)?;
        }
    }
    Ok(())
}

fn backing(map: &Mapped) -> Backing {
    match &map.path {
        MMapPath::Path(path) => Backing::File { path: path.to_string_lossy().into(), offset: map.offset },
        MMapPath::Stack => Backing::Stack,
        MMapPath::Heap => Backing::Heap,
        MMapPath::Anonymous => Backing::Anonymous,
        _ => Backing::Kernel,
    }
}

/// The name of a mapping of the kernel.
fn name(path: &MMapPath) -> String {
    match path {
        MMapPath::Vdso => "[vdso]".into(),
        MMapPath::Vvar => "[vvar]".into(),
        MMapPath::Vsyscall => "[vsyscall]".into(),
        MMapPath::Path(path) => path.display().to_string(),
        MMapPath::Other(name) => format!("[{name}]"),
        other => format!("{other:?}"),
    }
}

/// The first byte of the stack when it is as large as it may become. `below`: the end of the mapping below it.
fn stack_start(process: i32, stack: &Range<u64>, below: u64) -> io::Result<u64> {
    let limits = Process::new(process).and_then(|process| process.limits()).map_err(maps::of_proc)?;
    let bytes = |limit| match limit {
        LimitValue::Unlimited => LARGEST_STACK,
        LimitValue::Value(bytes) => bytes.min(LARGEST_STACK),
    };
    let limit = limits.max_stack_size;
    let room = bytes(limit.soft_limit).max(STACK.min(bytes(limit.hard_limit))) & !(PAGE - 1);
    Ok(stack.end.saturating_sub(room).max(below + GAP).min(stack.start))
}

/// Refuses programs that would not run as they do natively.
fn check(process: i32, program: &Path) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::trouble("looking at the program", error.into());
    let refuse = |why: &'static str| Err(Failure::Refused { program: program.to_owned(), why });
    // By way of /proc: the path may be of another root, or of a deleted file.
    let file = File::open(format!("/proc/{process}/exe")).map_err(failed)?;
    let meta = file.metadata().map_err(failed)?;
    let status =
        Process::new(process).and_then(|process| process.status()).map_err(|error| failed(maps::of_proc(error)))?;
    let (user, group) = (meta.mode() & 0o4000 != 0, meta.mode() & 0o2010 == 0o2010);
    if user && meta.uid() != status.ruid || group && meta.gid() != status.rgid {
        return refuse("it is set-user-ID or set-group-ID; only plain programs get their rights under a tracer");
    }
    let mut head = [0; 20];
    file.read_exact_at(&mut head, 0).map_err(failed)?;
    if head[..5] != *b"\x7fELF\x02" || head[18..] != [62, 0] {
        return refuse("it is not for x86-64");
    }
    Ok(())
}
