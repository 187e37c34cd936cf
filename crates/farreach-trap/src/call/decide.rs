//! What becomes of a system call that stops, before the kernel does it.

use super::{Decision, Making, MappedFile, What, up};
use crate::monitor::{Failure, Monitor};
use crate::regions::OnFork;
use crate::space::PAGE;
use crate::sys::{self, Registers};
use farreach_types::addr::Asid;
use farreach_types::event::Advice;
use std::ops::Range;
use std::sync::Arc;

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

const ALL_PROT: i32 = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;

impl Monitor<'_> {
    pub(super) fn decide(&mut self, asid: Asid, task: i32, registers: Registers) -> Result<Decision, Failure> {
        let Registers { rdi, rsi, rdx, r10, .. } = registers;
        let same = |what| Decision::Do(what, Box::new(registers));
        Ok(match registers.orig_rax as i64 {
            libc::SYS_mmap => self.decide_map(task, registers)?,
            libc::SYS_munmap => same(What::Unmap(pages(rdi, rsi))),
            libc::SYS_mprotect | libc::SYS_pkey_mprotect => {
                let (mut bytes, mut registers) = (pages(rdi, rsi), registers);
                let stack = &self.spaces[&asid].stack;
                // All of the stack below, which is no such mapping for the kernel any more.
                if rdx as i32 & libc::PROT_GROWSDOWN != 0 && stack.contains(&bytes.start) && !bytes.is_empty() {
                    bytes.start = stack.start;
                    (registers.rdi, registers.rsi) = (bytes.start, bytes.end - bytes.start);
                    registers.rdx = rdx & !(libc::PROT_GROWSDOWN as u64);
                }
                Decision::Do(What::Protect(bytes, rdx as i32 & ALL_PROT), Box::new(registers))
            }
            libc::SYS_brk => same(What::Heap),
            libc::SYS_mremap => {
                let own = self.spaces[&asid].regions.find(rdi).is_some_and(|(_, region)| region.memory.is_own());
                if r10 as i32 & libc::MREMAP_DONTUNMAP != 0 || own && rsi == 0 {
                    return Ok(fail(libc::EINVAL));
                }
                same(What::Move { old: pages(rdi, rsi), bytes: up(rdx), fixed: r10 as i32 & libc::MREMAP_FIXED != 0 })
            }
            libc::SYS_madvise => self.decide_advice(asid, pages(rdi, rsi), rdx as i32, registers),
            libc::SYS_clone => {
                // A child that is not traced would write into its parent's memory, and so would the kernel for one that
                // is not observed yet.
                let mut kept = rdi & !(libc::CLONE_UNTRACED as u64);
                if self.announce(task, rdi, rdi & 0xff, r10) {
                    kept &= !(libc::CLONE_CHILD_SETTID as u64);
                }
                match kept == rdi {
                    true => Decision::Pass,
                    false => Decision::Do(What::Fork, Box::new(Registers { rdi: kept, ..registers })),
                }
            }
            libc::SYS_clone3 => {
                let mut head = [0; 40];
                let there = rsi >= 40 && self.read(asid, task, rdi, &mut head)?;
                self.let_go(task)?;
                let word = |at| u64::from_ne_bytes(head[at..at + 8].try_into().expect("eight bytes"));
                let flags = word(0);
                if there && (self.announce(task, flags, word(32), word(16)) || flags & libc::CLONE_UNTRACED as u64 != 0)
                {
                    return Ok(fail(libc::ENOSYS)); // as on an old kernel: then the older call is made
                }
                Decision::Pass
            }
            libc::SYS_set_tid_address => {
                self.tasks.get_mut(&task).expect("it makes a call").clear_at_end = Some(rdi).filter(|at| *at != 0);
                Decision::Pass
            }
            libc::SYS_shmat => same(What::Attach),
            libc::SYS_shmdt => same(What::Detach(rdi)),
            libc::SYS_sched_getaffinity => match self.task_named(task, rdi as i32) {
                Some(of) => same(What::Processors { of, bytes: rsi, place: rdx }),
                None => Decision::Pass,
            },
            libc::SYS_sched_setaffinity => self.decide_processors(asid, task, registers)?,
            libc::SYS_userfaultfd => Decision::Refuse("userfaultfd", libc::EPERM),
            libc::SYS_ptrace => Decision::Refuse("ptrace", libc::EPERM),
            libc::SYS_process_madvise => Decision::Refuse("process_madvise", libc::EPERM),
            _ => Decision::Refuse("remap_file_pages", libc::ENOSYS),
        })
    }

    /// A task is about to make another one. Returns whether that is a process of its own which wants its number written
    /// into its memory.
    fn announce(&mut self, task: i32, flags: u64, signal: u64, child_tid: u64) -> bool {
        let has = |flag: i32| flags & flag as u64 != 0;
        if !has(libc::CLONE_THREAD) && signal != libc::SIGCHLD as u64 {
            self.parents_of_others.insert(self.tasks[&task].process);
        }
        let writes = has(libc::CLONE_CHILD_SETTID) && !has(libc::CLONE_VM);
        self.tasks.get_mut(&task).expect("it makes a call").making = Some(Making {
            write: writes.then_some(child_tid),
            clear: has(libc::CLONE_CHILD_CLEARTID).then_some(child_tid),
        });
        writes
    }

    /// The task that a program means by this number; none if it is not of the program.
    fn task_named(&self, caller: i32, number: i32) -> Option<i32> {
        if number == 0 { Some(caller) } else { self.tasks.contains_key(&number).then_some(number) }
    }

    /// A task wants other processors: it is told so when it asks.
    fn decide_processors(&mut self, asid: Asid, task: i32, registers: Registers) -> Result<Decision, Failure> {
        let Registers { rdi, rsi: bytes, rdx: place, .. } = registers;
        let Some(of) = self.task_named(task, rdi as i32) else { return Ok(Decision::Pass) };
        let all = sys::mask_of(&self.processors).to_vec();
        let mut mask = vec![0; all.len()];
        let many = mask.len().min(bytes as usize);
        let there = self.read(asid, task, place, &mut mask[..many])?;
        self.let_go(task)?;
        if !there {
            return Ok(fail(libc::EFAULT));
        }
        mask.iter_mut().zip(&all).for_each(|(bits, allowed)| *bits &= allowed);
        if mask.iter().all(|bits| *bits == 0) {
            return Ok(fail(libc::EINVAL));
        }
        self.chosen.insert(of, mask);
        Ok(GRANTED)
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
            libc::MADV_COLLAPSE => self.advise(asid, bytes, Advice::Collapse),
            _ => {} // the kernel may do nothing, too
        }
        GRANTED
    }
}
