//! System calls of the program that change mappings. The kernel does them, as natively; then memory of the space's own
//! takes the place of what it mapped, and the laboratory is told.
//!
//! A call stops before the kernel does it ([`Monitor::enter`]) and behind it ([`Monitor::leave`]). One task of an
//! address space at a time is in between, so that what it maps or unmaps is not given to another meanwhile.

use crate::agent::Trouble;
use crate::contents;
use crate::monitor::{Failure, Monitor};
use crate::regions::{Memory, OnFork, Region};
use crate::space::PAGE;
use crate::sys::{self, Go, Registers};
use farreach_types::addr::Asid;
use farreach_types::event::{Advice, Backing, Mapping, Op, Prot};
use std::ops::Range;
use std::sync::Arc;

/// A task that is about to make such a call.
#[derive(Clone, Copy)]
pub struct Waiting(Registers);

/// A call that the kernel does now.
pub struct Call {
    /// As the program made it.
    registers: Registers,
    what: What,
}

#[derive(Clone)]
enum What {
    Map { file: Option<MappedFile>, bytes: u64, prot: i32, flags: i32 },
    Unmap(Range<u64>),
    Move { old: Range<u64>, bytes: u64, fixed: bool },
    Heap,
    Protect(Range<u64>, i32),
    Advise(Range<u64>, i32),
    Attach,
    Detach(u64),
    Fork,
    Processors { bytes: u64, place: u64 },
}

/// The file of a private mapping.
#[derive(Clone)]
struct MappedFile {
    /// Its number, if it is to be observed.
    number: Option<u32>,
    path: Arc<str>,
    offset: u64,
}

/// A task that is about to be made: where the number of a new process is written, and where the kernel clears the
/// number of the task when it ends.
#[derive(Clone, Copy, Default)]
pub struct Making {
    pub write: Option<u64>,
    pub clear: Option<u64>,
}

/// What becomes of a call.
enum Decision {
    /// The kernel does it, with these registers.
    Do(What, Box<Registers>),
    /// The kernel does it, and what it did is reported otherwise.
    Pass,
    /// It has this value.
    Answer(i64),
    /// The same, and the report names it.
    Refuse(&'static str, i32),
}

/// What Linux calls no error.
const GRANTED: Decision = Decision::Answer(0);

fn fail(error: i32) -> Decision {
    Decision::Answer(-i64::from(error))
}

/// These bytes in whole pages; empty if there are no such bytes.
fn pages(start: u64, bytes: u64) -> Range<u64> {
    let start = start & !(PAGE - 1);
    start..up(start.saturating_add(bytes)).max(start)
}

fn up(address: u64) -> u64 {
    address.saturating_add(PAGE - 1) & !(PAGE - 1)
}

/// The protection as the laboratory has it: on this processor, what can be executed or written can be read.
pub fn prot_of(bits: i32) -> Prot {
    let has = |bit| bits & bit != 0;
    Prot { read: bits != libc::PROT_NONE, write: has(libc::PROT_WRITE), exec: has(libc::PROT_EXEC) }
}

const MADV_DONTNEED_LOCKED: i32 = 24;
const ALL_PROT: i32 = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;

impl Monitor<'_> {
    /// A task is about to make a system call that the filter stops.
    pub fn enter(&mut self, task: i32) -> Result<(), Failure> {
        let Some(registers) = alive(sys::registers(task))? else { return Ok(()) };
        let Some(asid) = self.tasks.get(&task).and_then(|t| t.space) else {
            return go(task, Go::On); // not yet the program
        };
        let space = self.spaces.get_mut(&asid).expect("it has a task");
        if space.caller.is_some_and(|caller| caller != task) {
            space.callers.push_back((task, Waiting(registers)));
            return Ok(());
        }
        self.begin_call(asid, task, Waiting(registers))
    }

    fn begin_call(&mut self, asid: Asid, task: i32, Waiting(registers): Waiting) -> Result<(), Failure> {
        match self.decide(asid, task, registers)? {
            Decision::Do(what, changed) => {
                if alive(sys::set_registers(task, &changed))?.is_none() {
                    return Ok(());
                }
                self.spaces.get_mut(&asid).expect("it has a task").caller = Some(task);
                self.tasks.get_mut(&task).expect("it makes a call").call = Some(Call { registers, what });
                go(task, Go::ToCall)
            }
            Decision::Pass => go(task, Go::On),
            Decision::Answer(value) => answer(task, registers, value),
            Decision::Refuse(name, error) => {
                *self.report.refused.entry(name.to_owned()).or_default() += 1;
                answer(task, registers, -i64::from(error))
            }
        }
    }

    /// The kernel has done the call of a task.
    pub fn leave(&mut self, task: i32) -> Result<(), Failure> {
        let Some(call) = self.tasks.get_mut(&task).and_then(|t| t.call.take()) else { return go(task, Go::On) };
        let asid = self.tasks[&task].space.expect("it made a call");
        if let Some(after) = alive(sys::registers(task))? {
            self.report.calls += 1;
            let value = after.rax as i64;
            let tell = |trouble| Failure::trouble("following a system call of the program", trouble);
            let part = matches!(call.what, What::Advise(..) | What::Protect(..)) && value == -i64::from(libc::ENOMEM);
            if part || !(-4095..0).contains(&value) {
                self.follow(asid, call.what, after.rax, part).map_err(tell)?;
            }
            // The program finds its registers as it left them.
            let Registers { rdi, rsi, rdx, r10, r8, r9, .. } = call.registers;
            alive(sys::set_registers(task, &Registers { rdi, rsi, rdx, r10, r8, r9, ..after }))?;
            self.unmap_left()?;
        }
        self.next_caller(asid, task)?;
        go(task, Go::On)
    }

    /// A task is no longer in a call, or has ended: the next one may begin.
    pub fn next_caller(&mut self, asid: Asid, task: i32) -> Result<(), Failure> {
        let Some(space) = self.spaces.get_mut(&asid) else { return Ok(()) };
        space.callers.retain(|(waiting, _)| *waiting != task);
        if space.caller == Some(task) {
            space.caller = None;
        }
        while let Some(space) = self.spaces.get_mut(&asid)
            && space.caller.is_none()
            && let Some((next, waiting)) = space.callers.pop_front()
        {
            self.begin_call(asid, next, waiting)?;
        }
        Ok(())
    }

    fn decide(&mut self, asid: Asid, task: i32, registers: Registers) -> Result<Decision, Failure> {
        let Registers { rdi, rsi, rdx, r10, .. } = registers;
        let same = |what| Decision::Do(what, Box::new(registers));
        Ok(match registers.orig_rax as i64 {
            libc::SYS_mmap => self.decide_map(task, registers)?,
            libc::SYS_munmap => same(What::Unmap(pages(rdi, rsi))),
            libc::SYS_mprotect | libc::SYS_pkey_mprotect => same(What::Protect(pages(rdi, rsi), rdx as i32 & ALL_PROT)),
            libc::SYS_brk => same(What::Heap),
            libc::SYS_mremap => {
                let own = self.spaces[&asid].regions.find(rdi).is_some_and(|(_, region)| region.memory.is_own());
                if r10 as i32 & libc::MREMAP_DONTUNMAP != 0 || own && rsi == 0 {
                    return Ok(fail(libc::EINVAL));
                }
                same(What::Move { old: pages(rdi, rsi), bytes: up(rdx), fixed: r10 as i32 & libc::MREMAP_FIXED != 0 })
            }
            libc::SYS_madvise => self.decide_advice(asid, pages(rdi, rsi), rdx as i32, registers),
            libc::SYS_clone => match self.announce(task, rdi, r10) {
                // In a child that is not observed yet, the kernel would write into its parent's memory.
                true => {
                    let rdi = rdi & !(libc::CLONE_CHILD_SETTID as u64);
                    Decision::Do(What::Fork, Box::new(Registers { rdi, ..registers }))
                }
                false => Decision::Pass,
            },
            libc::SYS_clone3 => {
                let mut head = [0; 24];
                let space = &self.spaces[&asid];
                let own = space.regions.find(rdi).is_some_and(|(_, region)| region.memory.is_own());
                if own && rsi >= 24 && rustix::io::pread(&space.memory, &mut head, rdi) == Ok(24) {
                    let word = |at| u64::from_ne_bytes(head[at..at + 8].try_into().expect("eight bytes"));
                    if self.announce(task, word(0), word(16)) {
                        return Ok(fail(libc::ENOSYS)); // as on an old kernel: then the older call is made
                    }
                }
                Decision::Pass
            }
            libc::SYS_set_tid_address => {
                self.tasks.get_mut(&task).expect("it makes a call").clear_at_end = Some(rdi).filter(|at| *at != 0);
                Decision::Pass
            }
            libc::SYS_shmat => same(What::Attach),
            libc::SYS_shmdt => same(What::Detach(rdi)),
            libc::SYS_sched_getaffinity => same(What::Processors { bytes: rsi, place: rdx }),
            libc::SYS_userfaultfd => Decision::Refuse("userfaultfd", libc::EPERM),
            libc::SYS_ptrace => Decision::Refuse("ptrace", libc::EPERM),
            libc::SYS_process_madvise => Decision::Refuse("process_madvise", libc::EPERM),
            _ => Decision::Refuse("remap_file_pages", libc::ENOSYS),
        })
    }

    /// A task is about to make another one. Returns whether that is a process of its own which wants its number written
    /// into its memory.
    fn announce(&mut self, task: i32, flags: u64, child_tid: u64) -> bool {
        let has = |flag: i32| flags & flag as u64 != 0;
        let writes = has(libc::CLONE_CHILD_SETTID) && !has(libc::CLONE_VM);
        self.tasks.get_mut(&task).expect("it makes a call").making = Some(Making {
            write: writes.then_some(child_tid),
            clear: has(libc::CLONE_CHILD_CLEARTID).then_some(child_tid),
        });
        writes
    }

    fn decide_map(&mut self, task: i32, registers: Registers) -> Result<Decision, Failure> {
        let Registers { rsi: bytes, rdx: prot, r10, r8: fd, r9: offset, .. } = registers;
        let flags = r10 as i32;
        if flags & libc::MAP_HUGETLB != 0 {
            return Ok(fail(libc::ENOMEM)); // as if none were reserved
        }
        // Locked pages cannot be unmapped, and pages that are populated would all trap.
        let kept = flags & !(libc::MAP_LOCKED | libc::MAP_POPULATE | libc::MAP_GROWSDOWN);
        let file = match flags & libc::MAP_ANONYMOUS {
            0 => self.mapped_file(task, fd as i32, offset, flags)?,
            _ => None,
        };
        let what = What::Map { file, bytes: up(bytes), prot: prot as i32 & ALL_PROT, flags };
        Ok(Decision::Do(what, Box::new(Registers { r10: kept as u64, ..registers })))
    }

    /// The file behind a descriptor; `None` if there is no such descriptor: the kernel says so.
    fn mapped_file(&mut self, task: i32, fd: i32, offset: u64, flags: i32) -> Result<Option<MappedFile>, Failure> {
        let failed = |error| Failure::System("a file that the program maps", error);
        let link = format!("/proc/{task}/fd/{fd}");
        let Ok(path) = std::fs::read_link(&link) else { return Ok(None) };
        let path: Arc<str> = path.to_string_lossy().into();
        let private = flags & libc::MAP_TYPE == libc::MAP_PRIVATE;
        // What is no plain file has pages that only the kernel knows.
        if !private || !std::fs::metadata(&link).is_ok_and(|meta| meta.is_file()) {
            return Ok(Some(MappedFile { number: None, path, offset }));
        }
        let process = sys::open_process(self.tasks[&task].process).map_err(failed)?;
        let number = match sys::descriptor_of(process, fd) {
            Ok(file) => Some(self.file_number(file.into()).map_err(failed)?),
            Err(_) => None,
        };
        Ok(Some(MappedFile { number, path, offset }))
    }

    fn decide_advice(&mut self, asid: Asid, bytes: Range<u64>, advice: i32, registers: Registers) -> Decision {
        let regions = &mut self.spaces.get_mut(&asid).expect("it has a task").regions;
        let own = || regions.within(bytes.clone()).iter().any(|(_, region)| region.memory.is_own());
        match advice {
            libc::MADV_REMOVE if own() => return fail(libc::EINVAL),
            // The kernel would say that the memory is not of the right kind.
            libc::MADV_FREE | libc::MADV_WIPEONFORK | libc::MADV_KEEPONFORK if own() => {}
            libc::MADV_HUGEPAGE | libc::MADV_NOHUGEPAGE | libc::MADV_COLLAPSE => {}
            libc::MADV_MERGEABLE | libc::MADV_UNMERGEABLE | libc::MADV_COLD | libc::MADV_PAGEOUT => {}
            _ => return Decision::Do(What::Advise(bytes, advice), Box::new(registers)),
        }
        if regions.covered(bytes.clone()) < bytes.end {
            return fail(libc::ENOMEM);
        }
        match advice {
            libc::MADV_WIPEONFORK => regions.change(bytes, |region| region.on_fork = OnFork::Wipe),
            libc::MADV_KEEPONFORK => regions.change(bytes, |region| region.on_fork = OnFork::Copy),
            libc::MADV_HUGEPAGE => self.advise(asid, bytes, Advice::HugePage),
            libc::MADV_NOHUGEPAGE => self.advise(asid, bytes, Advice::NoHugePage),
            _ => {} // the kernel may do nothing, too
        }
        GRANTED
    }

    /// The kernel has done this, with this value. `part`: there was a hole. It advises on both sides, but protects only
    /// up to the hole.
    fn follow(&mut self, asid: Asid, what: What, value: u64, part: bool) -> Result<(), Trouble> {
        let space = self.spaces.get_mut(&asid).expect("it has a task");
        match what {
            What::Map { file, bytes, prot, flags } => {
                return self.follow_map(asid, file, value..value + bytes, prot, flags);
            }
            What::Unmap(bytes) => {
                space.forget(bytes.clone())?;
                self.event(asid, Op::Unmap { start: bytes.start, len: bytes.end - bytes.start });
            }
            What::Move { old, bytes, fixed } => return self.follow_move(asid, old, value..value + bytes, fixed),
            What::Heap => {
                let (old, new) = (up(space.heap_end), up(value));
                space.heap_end = value;
                if old < new {
                    let prot = libc::PROT_READ | libc::PROT_WRITE;
                    space.overlay(old..new, Region { end: new, prot, memory: Memory::Own, on_fork: OnFork::Copy })?;
                    let (prot, backing) = (Prot::RW, Backing::Heap);
                    self.event(asid, Op::Map(Mapping { start: old, len: new - old, prot, shared: false, backing }));
                } else if new < old {
                    space.forget(new..old)?;
                    self.event(asid, Op::Unmap { start: new, len: old - new });
                }
            }
            What::Protect(mut bytes, prot) => {
                if part {
                    bytes.end = space.regions.covered(bytes.clone());
                }
                if bytes.is_empty() {
                    return Ok(());
                }
                space.regions.change(bytes.clone(), |region| region.prot = prot);
                let (start, len) = (bytes.start, bytes.end - bytes.start);
                self.event(asid, Op::Protect { start, len, prot: prot_of(prot) });
            }
            What::Advise(bytes, advice) => match advice {
                libc::MADV_DONTNEED | MADV_DONTNEED_LOCKED | libc::MADV_REMOVE => {
                    if advice != libc::MADV_REMOVE {
                        space.drop_contents(bytes.clone())?;
                    }
                    self.advise(asid, bytes, Advice::DontNeed);
                }
                libc::MADV_WILLNEED | libc::MADV_POPULATE_READ | libc::MADV_POPULATE_WRITE => {
                    self.advise(asid, bytes, Advice::WillNeed);
                }
                libc::MADV_DONTFORK => space.regions.change(bytes, |region| region.on_fork = OnFork::Leave),
                libc::MADV_DOFORK => space.regions.change(bytes, |region| region.on_fork = OnFork::Copy),
                _ => {}
            },
            What::Attach => {
                let number = space.agent.number();
                if let Some(segment) = crate::maps::of(number)?.into_iter().find(|m| m.bytes.start == value) {
                    let len = segment.bytes.end - value;
                    space.attached.insert(value, len);
                    space.observe_shared(segment.bytes, segment.prot);
                    let (prot, backing) = (prot_of(segment.prot), Backing::Anonymous);
                    self.event(asid, Op::Map(Mapping { start: value, len, prot, shared: true, backing }));
                }
            }
            What::Detach(start) => {
                if let Some(len) = space.attached.remove(&start) {
                    space.forget(start..start + len)?;
                    self.event(asid, Op::Unmap { start, len });
                }
            }
            What::Fork => {}
            What::Processors { bytes, place } => {
                // The program is bound to one processor, and sees those that it would have.
                let mask =
                    &sys::mask_of(&self.processors)[..(value.min(bytes) as usize).min(size_of_val(&self.processors))];
                let seen = space.regions.find(place).filter(|(_, region)| region.memory.is_own());
                if seen.is_some_and(|(_, region)| place + mask.len() as u64 <= region.end) {
                    contents::write_all(&space.memory, mask, place)?;
                }
            }
        }
        Ok(())
    }

    fn follow_map(
        &mut self,
        asid: Asid,
        file: Option<MappedFile>,
        bytes: Range<u64>,
        prot: i32,
        flags: i32,
    ) -> Result<(), Trouble> {
        let space = self.spaces.get_mut(&asid).expect("it has a task");
        space.forget(bytes.clone())?;
        let shared = flags & libc::MAP_TYPE != libc::MAP_PRIVATE;
        let region = |memory| Region { end: bytes.end, prot, memory, on_fork: OnFork::Copy };
        let name = || file.as_ref().map_or_else(|| "shared memory".to_owned(), |file| file.path.to_string());
        match &file {
            None if !shared => space.overlay(bytes.clone(), region(Memory::Own))?,
            Some(MappedFile { number: Some(number), offset, .. }) => {
                space.overlay(bytes.clone(), region(Memory::File { file: *number, offset: *offset }))?;
            }
            // All of /dev/zero is anonymous.
            Some(file) if !shared && &*file.path == "/dev/zero" => space.overlay(bytes.clone(), region(Memory::Own))?,
            _ if shared && space.observe_shared(bytes.clone(), prot) => {}
            _ => {
                space.regions.insert(bytes.start, region(Memory::Unseen));
                self.not_observed(name(), bytes.end - bytes.start);
            }
        }
        let backing = match file {
            Some(file) => Backing::File { path: file.path, offset: file.offset },
            None => Backing::Anonymous,
        };
        let (start, len) = (bytes.start, bytes.end - bytes.start);
        self.event(asid, Op::Map(Mapping { start, len, prot: prot_of(prot), shared, backing }));
        Ok(())
    }

    /// `mremap`: memory of the space's own moves to where its contents belong.
    fn follow_move(&mut self, asid: Asid, old: Range<u64>, new: Range<u64>, fixed: bool) -> Result<(), Trouble> {
        let space = self.spaces.get_mut(&asid).expect("it has a task");
        let (old_len, new_len) = (old.end - old.start, new.end - new.start);
        let parts = space.regions.within(old.start..old.start + old_len.max(PAGE));
        if new.start == old.start {
            if new.end < old.end {
                space.forget(new.end..old.end)?;
            } else if let Some((part, region)) = parts.last().filter(|_| new.end > old.end) {
                let memory = region.memory.behind(old.end - part.start);
                space.overlay_or_observe(old.end..new.end, Region { end: new.end, memory, ..*region })?;
            }
        } else {
            space.forget(new.clone())?;
            let by = new.start.wrapping_sub(old.start);
            for (part, region) in &parts {
                let mut moved = part.start.wrapping_add(by)..part.end.wrapping_add(by).min(new.end);
                if moved.is_empty() {
                    continue;
                }
                // A length of 0 maps shared memory once more.
                if part.end == old.end || old_len == 0 {
                    moved.end = new.end;
                }
                if region.memory.is_own() {
                    let kept = part.start..part.start + (moved.end - moved.start).min(part.end - part.start);
                    contents::copy(&space.memory, kept, &space.memory, by)?;
                }
                space.overlay_or_observe(moved.clone(), Region { end: moved.end, ..*region })?;
            }
            space.forget(old.clone())?;
        }
        if fixed {
            self.event(asid, Op::Unmap { start: new.start, len: new_len });
        }
        self.event(asid, Op::Remap { old_start: old.start, old_len, new_start: new.start, new_len });
        Ok(())
    }

    fn advise(&mut self, asid: Asid, bytes: Range<u64>, advice: Advice) {
        if !bytes.is_empty() {
            self.event(asid, Op::Advise { start: bytes.start, len: bytes.end - bytes.start, advice });
        }
    }
}

/// Ends a call before the kernel does it.
fn answer(task: i32, registers: Registers, value: i64) -> Result<(), Failure> {
    alive(sys::set_registers(task, &Registers { orig_rax: !0, rax: value as u64, ..registers }))?;
    go(task, Go::On)
}

/// The outcome of something done to a stopped task; `None` if it was killed meanwhile, which is reported later.
pub fn alive<T>(outcome: std::io::Result<T>) -> Result<Option<T>, Failure> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(None),
        Err(error) => Err(Failure::System("the registers of the program", error)),
    }
}

pub fn go(task: i32, how: Go) -> Result<(), Failure> {
    sys::go(task, how, 0).map_err(|error| Failure::System("letting the program go on", error))
}
