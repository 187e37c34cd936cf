//! The agent of an address space: a task of it that is always stopped, and in which the monitor makes system calls.
//! Only a task of the address space may map and unmap there.
//!
//! It is no thread of the program: it has its own process, process group and files, blocks all signals, and its end is
//! not reported. Its one instruction lies on a page of its own, at an address that no program uses.

use crate::maps;
use crate::sys::{self, Event, Go, Registers, Stop};
use procfs::process::Process;
use rustix::fd::OwnedFd;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Address of the page with the agent's instruction. Programs are mapped far above it.
pub const SITE: u64 = 0x2_0000;
/// `syscall`, `int3`.
const INSTRUCTIONS: u64 = 0xcc_050f;
const SYSCALL: u64 = 0x050f;
/// Texts on the page, in words.
const TEXTS: u64 = SITE + 64;
const NAME: &[u8; 16] = b"farreach-agent\0\0";
const DEVICE: &[u8; 24] = b"/dev/userfaultfd\0\0\0\0\0\0\0\0";
const DEVICE_AT: u64 = TEXTS + NAME.len() as u64;

/// Where `prctl` reads what is where in the program, on the same page.
const LAYOUT: u64 = SITE + 512;
/// Behind that page, a copy of the program's arguments and environment, of this many bytes at most.
const WORDS: u64 = SITE + 4096;
const MOST_WORDS: u64 = 0x30_0000;

/// Makes userfaultfds of the device.
const USERFAULTFD_IOC_NEW: u64 = 0xaa00;

/// Whether a mapping that begins here is of the agent.
pub fn owns(start: u64) -> bool {
    (SITE..WORDS + MOST_WORDS).contains(&start)
}

/// Something that was not done.
#[derive(Debug)]
pub enum Trouble {
    /// The task has ended.
    Gone,
    /// The system refused.
    Io(io::Error),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Trouble {
        // A process that has ended has no files in /proc, or empty ones.
        match error.kind() {
            _ if error.raw_os_error() == Some(libc::ESRCH) => Trouble::Gone,
            io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof => Trouble::Gone,
            _ => Trouble::Io(error),
        }
    }
}

impl From<rustix::io::Errno> for Trouble {
    fn from(error: rustix::io::Errno) -> Trouble {
        io::Error::from(error).into()
    }
}

/// A task of whom.
#[derive(Clone, Copy, PartialEq)]
enum Of {
    /// The program. The monitor's loop waits for its end, and must find it.
    Program,
    /// The monitor.
    Monitor,
}

/// Waits for the next stop of this task; its end is trouble.
fn next_stop(task: i32, of: Of) -> Result<Stop, Trouble> {
    if of == Of::Program && sys::next_is_end(task)? {
        return Err(Trouble::Gone);
    }
    match sys::wait(Some(task), true)? {
        Some((_, Stop::Exit(_) | Stop::Killed(_))) => Err(Trouble::Gone),
        Some((_, Stop::Event(Event::Exit))) => {
            sys::go(task, Go::On, 0)?;
            Err(Trouble::Gone)
        }
        Some((_, stop)) => Ok(stop),
        None => Err(Trouble::Gone),
    }
}

/// A stopped task of the program that makes system calls for the monitor. [`Borrowed::give_back`] puts everything back.
struct Borrowed {
    task: i32,
    registers: Registers,
    blocked: u64,
    /// Where there is a `syscall` instruction.
    site: u64,
}

impl Borrowed {
    fn new(task: i32) -> Result<Borrowed, Trouble> {
        let registers = sys::registers(task)?;
        Ok(Borrowed { task, registers, blocked: sys::block_signals(task)?, site: SITE })
    }

    /// A system call, and its value. `born` learns of a new task.
    fn call(&mut self, number: i64, arguments: [u64; 6], mut born: impl FnMut(i32)) -> Result<u64, Trouble> {
        begin(self.task, &self.registers, self.site, number, arguments)?;
        end(self.task, Of::Program, self.site, &mut born)
    }

    fn give_back(self) -> Result<(), Trouble> {
        // No system call is to be restarted.
        sys::set_registers(self.task, &Registers { orig_rax: !0, ..self.registers })?;
        Ok(sys::set_blocked_signals(self.task, self.blocked)?)
    }
}

/// Lets a stopped task begin a system call.
fn begin(task: i32, like: &Registers, site: u64, number: i64, arguments: [u64; 6]) -> Result<(), Trouble> {
    let [rdi, rsi, rdx, r10, r8, r9] = arguments;
    let (rax, orig_rax) = (number as u64, !0);
    let registers = Registers { rax, orig_rax, rip: site, rdi, rsi, rdx, r10, r8, r9, ..*like };
    sys::set_registers(task, &registers)?;
    Ok(sys::go(task, Go::Step, 0)?)
}

/// Waits for the end of a system call, and returns its value; an error of it is one.
fn end(task: i32, of: Of, site: u64, born: &mut dyn FnMut(i32)) -> Result<u64, Trouble> {
    loop {
        match next_stop(task, of)? {
            Stop::Signal(libc::SIGTRAP) => {
                let now = sys::registers(task)?;
                if now.rip != site {
                    let value = now.rax as i64;
                    let failed = (-4095..0).contains(&value);
                    return if failed { Err(io::Error::from_raw_os_error(-value as i32).into()) } else { Ok(now.rax) };
                }
            }
            Stop::Event(Event::Clone) => born(sys::event_message(task)?),
            _ => {}
        }
        sys::go(task, Go::Step, 0)?;
    }
}

/// See the module.
pub struct Agent {
    task: i32,
    registers: Registers,
    /// Leads to the agent's process.
    pub process: OwnedFd,
}

impl Agent {
    /// Makes the agent of a program that has just called exec; its first task is stopped there.
    pub fn at_exec(task: i32) -> Result<Agent, Trouble> {
        // The kernel still has to set the value of exec.
        sys::go(task, Go::Step, 0)?;
        while next_stop(task, Of::Program)? != Stop::Signal(libc::SIGTRAP) {
            sys::go(task, Go::Step, 0)?;
        }
        let mut borrowed = Borrowed::new(task)?;
        let here = borrowed.registers.rip;
        let word = sys::peek(task, here)?;
        sys::poke(task, here, word & !0xffff | SYSCALL)?;
        borrowed.site = here;
        let prot = (libc::PROT_READ | libc::PROT_EXEC) as u64;
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE) as u64;
        let page = borrowed.call(libc::SYS_mmap, [SITE, 4096, prot, flags, !0, 0], |_| {});
        sys::poke(task, here, word)?;
        page?;
        borrowed.site = SITE;
        sys::poke(task, SITE, INSTRUCTIONS)?;
        for (at, word) in (TEXTS..).step_by(8).zip(NAME.chunks(8).chain(DEVICE.chunks(8))) {
            sys::poke(task, at, u64::from_le_bytes(word.try_into().expect("eight bytes")))?;
        }
        Agent::of(borrowed)
    }

    /// Makes the agent of a child that has just been forked; its first task is stopped there. The page is its parent's.
    pub fn at_fork(task: i32) -> Result<Agent, Trouble> {
        Agent::of(Borrowed::new(task)?)
    }

    fn of(mut task: Borrowed) -> Result<Agent, Trouble> {
        let mut agent = None;
        // It runs on the same stack, but never uses one.
        let made = task.call(libc::SYS_clone, [libc::CLONE_VM as u64, 0, 0, 0, 0, 0], |new| agent = Some(new));
        let back = task.give_back();
        let begun = made.map(drop).and(back).and_then(|()| Agent::begin(agent.expect("a clone is announced")));
        if let (Err(_), Some(agent)) = (&begun, agent) {
            end_task(agent);
        }
        begun
    }

    /// The agent of a task that has just been made.
    fn begin(task: i32) -> Result<Agent, Trouble> {
        while next_stop(task, Of::Monitor)? != Stop::Event(Event::Begin) {
            sys::go(task, Go::On, 0)?;
        }
        sys::block_signals(task)?;
        let agent = Agent { task, registers: sys::registers(task)?, process: sys::open_process(task)? };
        // Files that the program has open would stay open for as long as the agent has them, and signals to the
        // program's group are not for it.
        agent.call(libc::SYS_close_range, [0, u32::MAX.into(), 0])?;
        agent.call(libc::SYS_setpgid, [0, 0])?;
        agent.call(libc::SYS_prctl, [libc::PR_SET_NAME as u64, TEXTS])?;
        Ok(agent)
    }

    /// Lets `/proc` show the command line and the environment of a program that has just called exec. The kernel reads
    /// them in its memory, but not where that is observed: so it gets a copy.
    pub fn keep_words(&self, process: i32) -> Result<(), Trouble> {
        let stat = Process::new(process).and_then(|process| process.stat()).map_err(maps::of_proc)?;
        let known = |word: Option<u64>| word.ok_or_else(|| io::Error::other("/proc does not say where they are"));
        let (from, to) = (known(stat.arg_start)?, known(stat.env_end)?);
        let mut words = vec![0; to.saturating_sub(from).min(MOST_WORDS) as usize];
        let memory = File::options().read(true).write(true).open(format!("/proc/{process}/mem"))?;
        memory.read_exact_at(&mut words, from)?;
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE) as u64;
        self.call(libc::SYS_mmap, [WORDS, words.len().max(1) as u64, libc::PROT_READ as u64, flags, !0, 0])?;
        memory.write_all_at(&words, WORDS)?;
        let copied = |at: u64| WORDS + (at - from).min(words.len() as u64);
        let (heap, arguments_end, environment) = (known(stat.start_brk)?, known(stat.arg_end)?, known(stat.env_start)?);
        // `struct prctl_mm_map`. No auxiliary vector and no file: those stay.
        let layout = [
            stat.startcode,
            stat.endcode,
            known(stat.start_data)?,
            known(stat.end_data)?,
            heap,
            heap,
            stat.startstack,
            WORDS,
            copied(arguments_end),
            copied(environment),
            copied(to),
            0,
            u64::from(u32::MAX) << 32,
        ];
        for (at, word) in (LAYOUT..).step_by(8).zip(layout) {
            sys::poke(self.task, at, word)?;
        }
        let [set, map] = [libc::PR_SET_MM, libc::PR_SET_MM_MAP].map(|number| number as u64);
        self.call(libc::SYS_prctl, [set, map, LAYOUT, size_of_val(&layout) as u64, 0]).map(drop)
    }

    /// The number of its process.
    pub fn number(&self) -> i32 {
        self.task
    }

    /// A system call in the address space.
    pub fn call<const N: usize>(&self, number: i64, arguments: [u64; N]) -> Result<u64, Trouble> {
        let mut all = [0; 6];
        all[..N].copy_from_slice(&arguments);
        begin(self.task, &self.registers, SITE, number, all)?;
        end(self.task, Of::Monitor, SITE, &mut |_| {})
    }

    /// The userfaultfd of the address space. Where the system call is not for its user, the device may be.
    pub fn userfaultfd(&self) -> Result<OwnedFd, Trouble> {
        let flags = (libc::O_CLOEXEC | libc::O_NONBLOCK) as u64;
        let fd = match self.call(libc::SYS_userfaultfd, [flags]) {
            Err(Trouble::Io(error)) if error.raw_os_error() == Some(libc::EPERM) => {
                let device = self.call(libc::SYS_open, [DEVICE_AT, libc::O_RDWR as u64]);
                let Ok(device) = device else {
                    let what = "this user may not make a userfaultfd, unless vm.unprivileged_userfaultfd is 1 or \
                                /dev/userfaultfd may be opened";
                    return Err(io::Error::new(error.kind(), what).into());
                };
                self.call(libc::SYS_ioctl, [device, USERFAULTFD_IOC_NEW, flags])?
            }
            other => other?,
        };
        let ours = sys::descriptor_of(&self.process, fd as i32)?;
        self.call(libc::SYS_close, [fd])?;
        Ok(ours)
    }

    /// A memory file: its number there, and it.
    pub fn memory_file(&self) -> Result<(u64, OwnedFd), Trouble> {
        let fd = self.call(libc::SYS_memfd_create, [TEXTS, libc::MFD_CLOEXEC.into()])?;
        Ok((fd, sys::descriptor_of(&self.process, fd as i32)?))
    }

    /// Maps these bytes of a file of the agent at the same bytes of the address space, in the place of any mapping
    /// there.
    pub fn map(&self, bytes: Range<u64>, prot: i32, file: u64) -> Result<(), Trouble> {
        let flags = (libc::MAP_SHARED | libc::MAP_FIXED | libc::MAP_NORESERVE) as u64;
        let len = bytes.end - bytes.start;
        self.call(libc::SYS_mmap, [bytes.start, len, prot as u64, flags, file, bytes.start]).map(drop)
    }

    /// Takes pages out of the page table. Contents of shared memory stay.
    pub fn unmap_pages(&self, bytes: Range<u64>) -> Result<(), Trouble> {
        let len = bytes.end - bytes.start;
        match self.call(libc::SYS_madvise, [bytes.start, len, libc::MADV_DONTNEED as u64]) {
            // A call of the program that is not followed yet has left a hole; the rest is out.
            Err(Trouble::Io(error)) if error.raw_os_error() == Some(libc::ENOMEM) => Ok(()),
            other => other.map(drop),
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        end_task(self.task);
    }
}

/// Kills a task of the monitor's own, and waits for its end.
fn end_task(task: i32) {
    sys::kill(task);
    while let Ok(Some((_, stop))) = sys::wait(Some(task), true)
        && !matches!(stop, Stop::Exit(_) | Stop::Killed(_))
    {
        let _ = sys::go(task, Go::On, 0);
    }
}
