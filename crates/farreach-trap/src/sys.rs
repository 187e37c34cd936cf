//! System calls of the monitor that no crate has in a form that fits: ptrace and waiting with all signals there are,
//! starting a program under a filter, unmapping pages of others. (`nix` knows no real-time signals, which programs of
//! several threads use.) With [`uffd`](super::uffd), it has all unsafe code of the crate.

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ffi::{CStr, c_char};
use std::io;
use std::ops::Range;

/// The result of a system call as the standard library has it.
pub fn checked(result: i64) -> io::Result<i64> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Registers of a thread.
pub type Registers = libc::user_regs_struct;

/// How a thread stopped or ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// It ended with this status.
    Exit(i32),
    /// A signal ended it.
    Killed(i32),
    /// It is about to get this signal.
    Signal(i32),
    /// All of its process is stopped by this signal.
    Group(i32),
    /// An event.
    Event(Event),
    /// It enters or leaves a system call.
    Call,
}

/// What a tracer is told of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    Fork,
    Vfork,
    Clone,
    Exec,
    /// A system call that the filter stops.
    Call,
    /// A task is about to end.
    Exit,
    /// A new thread or process, before it runs; or the end of a group stop.
    Begin,
    Other(i32),
}

/// Waits for a task of this thread's, or for any; `None` if none has news and `block` is false, or none is left.
pub fn wait(thread: Option<i32>, block: bool) -> io::Result<Option<(i32, Stop)>> {
    Ok(wait_and_measure(thread, block)?.map(|(task, stop, _)| (task, stop)))
}

/// Waits for news of a task, and leaves it to [`wait`]. Whether it is its end.
pub fn next_is_end(task: i32) -> io::Result<bool> {
    let flags = libc::WEXITED | libc::WSTOPPED | libc::WNOWAIT | libc::__WALL | libc::__WNOTHREAD;
    loop {
        // SAFETY: all-zero is valid, and the place is valid for the kernel to write.
        let (done, news) = unsafe {
            let mut news: libc::siginfo_t = std::mem::zeroed();
            (libc::waitid(libc::P_PID, task as libc::id_t, &mut news, flags), news)
        };
        match checked(done.into()) {
            Ok(_) => return Ok(matches!(news.si_code, libc::CLD_EXITED | libc::CLD_KILLED | libc::CLD_DUMPED)),
            Err(error) if error.raw_os_error() == Some(libc::ECHILD) => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// As [`wait`], with the CPU time of a process that has ended and of its children that it waited for.
pub fn wait_and_measure(thread: Option<i32>, block: bool) -> io::Result<Option<(i32, Stop, CpuTime)>> {
    let mut status = 0;
    let flags = libc::__WALL | libc::__WNOTHREAD | if block { 0 } else { libc::WNOHANG };
    loop {
        // SAFETY: all-zero is valid, and the places are valid for the kernel to write.
        let (got, usage) = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            (libc::wait4(thread.unwrap_or(-1), &mut status, flags, &mut usage), usage)
        };
        match checked(got.into()) {
            Ok(0) => return Ok(None),
            Ok(_) => return Ok(Some((got, stop(status), CpuTime::of(&usage)))),
            Err(error) if error.raw_os_error() == Some(libc::ECHILD) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// CPU time, in microseconds.
#[derive(Clone, Copy, Default, Debug)]
pub struct CpuTime {
    /// In user code.
    pub user: u64,
    /// In user code and in the kernel.
    pub all: u64,
}

impl CpuTime {
    fn of(usage: &libc::rusage) -> CpuTime {
        let micros = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
        CpuTime { user: micros(usage.ru_utime), all: micros(usage.ru_utime) + micros(usage.ru_stime) }
    }
}

fn stop(status: i32) -> Stop {
    if libc::WIFEXITED(status) {
        return Stop::Exit(libc::WEXITSTATUS(status));
    }
    if libc::WIFSIGNALED(status) {
        return Stop::Killed(libc::WTERMSIG(status));
    }
    let signal = libc::WSTOPSIG(status);
    match status >> 16 {
        0 if signal == libc::SIGTRAP | 0x80 => Stop::Call,
        0 => Stop::Signal(signal),
        libc::PTRACE_EVENT_FORK => Stop::Event(Event::Fork),
        libc::PTRACE_EVENT_VFORK => Stop::Event(Event::Vfork),
        libc::PTRACE_EVENT_CLONE => Stop::Event(Event::Clone),
        libc::PTRACE_EVENT_EXEC => Stop::Event(Event::Exec),
        libc::PTRACE_EVENT_EXIT => Stop::Event(Event::Exit),
        libc::PTRACE_EVENT_SECCOMP => Stop::Event(Event::Call),
        libc::PTRACE_EVENT_STOP if signal == libc::SIGTRAP => Stop::Event(Event::Begin),
        libc::PTRACE_EVENT_STOP => Stop::Group(signal),
        other => Stop::Event(Event::Other(other)),
    }
}

fn ptrace(request: u32, thread: i32, address: u64, data: u64) -> io::Result<i64> {
    // SAFETY: callers pass numbers, or places that are valid for what they ask.
    checked(unsafe { libc::ptrace(request, thread, address, data) })
}

/// Begins to trace a process. Its children and threads come too, and all end if the monitor does.
pub fn seize(thread: i32) -> io::Result<()> {
    let options = libc::PTRACE_O_EXITKILL
        | libc::PTRACE_O_TRACESYSGOOD
        | libc::PTRACE_O_TRACEFORK
        | libc::PTRACE_O_TRACEVFORK
        | libc::PTRACE_O_TRACECLONE
        | libc::PTRACE_O_TRACEEXEC
        | libc::PTRACE_O_TRACEEXIT
        | libc::PTRACE_O_TRACESECCOMP;
    ptrace(libc::PTRACE_SEIZE, thread, 0, options as u64).map(drop)
}

/// Lets a thread stop as soon as it is in user mode. Any stop before that is in the place of this one.
pub fn interrupt(thread: i32) -> io::Result<()> {
    ptrace(libc::PTRACE_INTERRUPT, thread, 0, 0).map(drop)
}

/// How a stopped thread goes on.
#[derive(Clone, Copy)]
pub enum Go {
    /// Until something happens.
    On,
    /// Until it enters or leaves a system call.
    ToCall,
    /// One instruction.
    Step,
    /// It stays stopped with its process, until that goes on.
    Listen,
}

/// Lets a stopped thread go on, with a signal if that is not 0. That it is gone is no error: one hears of it.
pub fn go(thread: i32, how: Go, signal: i32) -> io::Result<()> {
    let request = match how {
        Go::On => libc::PTRACE_CONT,
        Go::ToCall => libc::PTRACE_SYSCALL,
        Go::Step => libc::PTRACE_SINGLESTEP,
        Go::Listen => libc::PTRACE_LISTEN,
    };
    match ptrace(request, thread, 0, signal as u64) {
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
        other => other.map(drop),
    }
}

/// The registers of a stopped thread.
pub fn registers(thread: i32) -> io::Result<Registers> {
    // SAFETY: all-zero is valid, and the kernel fills the place.
    unsafe {
        let mut registers: Registers = std::mem::zeroed();
        ptrace(libc::PTRACE_GETREGS, thread, 0, &raw mut registers as u64)?;
        Ok(registers)
    }
}

/// Sets them.
pub fn set_registers(thread: i32, registers: &Registers) -> io::Result<()> {
    ptrace(libc::PTRACE_SETREGS, thread, 0, std::ptr::from_ref(registers) as u64).map(drop)
}

/// What comes with an event: the new thread, or who called exec.
pub fn event_message(thread: i32) -> io::Result<i32> {
    let mut message = 0u64;
    ptrace(libc::PTRACE_GETEVENTMSG, thread, 0, &raw mut message as u64)?;
    Ok(message as i32)
}

/// A word of a stopped thread's memory; its protection does not matter.
pub fn peek(thread: i32, address: u64) -> io::Result<u64> {
    let mut word = 0u64;
    // SAFETY: the system call, other than the library's function, writes the word to the place it is given.
    checked(unsafe { libc::syscall(libc::SYS_ptrace, libc::PTRACE_PEEKTEXT, thread, address, &raw mut word) })?;
    Ok(word)
}

/// Writes one.
pub fn poke(thread: i32, address: u64, word: u64) -> io::Result<()> {
    ptrace(libc::PTRACE_POKETEXT, thread, address, word).map(drop)
}

/// Where a task of another process has its list of robust mutexes; 0 if nowhere.
pub fn robust_list(task: i32) -> io::Result<u64> {
    let (mut head, mut len) = (0u64, 0usize);
    // SAFETY: the places are valid for the kernel to write.
    checked(unsafe { libc::syscall(libc::SYS_get_robust_list, task, &raw mut head, &raw mut len) })?;
    Ok(head)
}

/// Whether two processes share their memory.
pub fn share_memory(one: i32, other: i32) -> io::Result<bool> {
    const KCMP_VM: i32 = 1;
    // SAFETY: plain numbers.
    checked(unsafe { libc::syscall(libc::SYS_kcmp, one, other, KCMP_VM, 0, 0) }).map(|order| order == 0)
}

/// Blocks all signals of a stopped thread; returns those that were blocked.
pub fn block_signals(thread: i32) -> io::Result<u64> {
    let mut before = 0u64;
    ptrace(libc::PTRACE_GETSIGMASK, thread, 8, &raw mut before as u64)?;
    set_blocked_signals(thread, !0)?;
    Ok(before)
}

/// Sets the signals that a stopped thread blocks.
pub fn set_blocked_signals(thread: i32, signals: u64) -> io::Result<()> {
    ptrace(libc::PTRACE_SETSIGMASK, thread, 8, &raw const signals as u64).map(drop)
}

/// A descriptor that leads to a process.
pub fn open_process(process: i32) -> io::Result<OwnedFd> {
    // SAFETY: plain numbers; the descriptor is new.
    unsafe { Ok(OwnedFd::from_raw_fd(checked(libc::syscall(libc::SYS_pidfd_open, process, 0))? as i32)) }
}

/// A descriptor of another process, as one's own.
pub fn descriptor_of(process: impl AsFd, fd: i32) -> io::Result<OwnedFd> {
    let process = process.as_fd().as_raw_fd();
    // SAFETY: plain numbers; the descriptor is new.
    unsafe { Ok(OwnedFd::from_raw_fd(checked(libc::syscall(libc::SYS_pidfd_getfd, process, fd, 0))? as i32)) }
}

/// Asks the kernel to reclaim pages of another process. It may leave some of them.
pub fn reclaim(process: impl AsFd, pieces: &[Range<u64>]) -> io::Result<()> {
    let mut places = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; 16];
    for (place, bytes) in places.iter_mut().zip(pieces) {
        *place = libc::iovec { iov_base: bytes.start as *mut _, iov_len: (bytes.end - bytes.start) as usize };
    }
    let (process, many) = (process.as_fd().as_raw_fd(), pieces.len().min(places.len()));
    // SAFETY: the places are of the other process, and the call changes no contents.
    let call =
        unsafe { libc::syscall(libc::SYS_process_madvise, process, places.as_ptr(), many, libc::MADV_PAGEOUT, 0) };
    checked(call).map(drop)
}

/// The processor that this thread runs on, and those that it may run on.
pub fn processors() -> io::Result<(usize, libc::cpu_set_t)> {
    // SAFETY: all-zero is valid, and the kernel fills the place.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        checked(libc::sched_getaffinity(0, size_of_val(&set), &mut set).into())?;
        Ok((checked(libc::sched_getcpu().into())? as usize, set))
    }
}

/// The first `bytes` of a set of processors, as `sched_getaffinity` stores them.
pub fn mask_of(set: &libc::cpu_set_t) -> &[u8] {
    // SAFETY: a set is plain words.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(set).cast(), size_of_val(set)) }
}

/// Binds this thread to a processor.
pub fn bind(processor: usize) -> io::Result<()> {
    // SAFETY: all-zero is valid.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(processor, &mut set);
        checked(libc::sched_setaffinity(0, size_of_val(&set), &set).into()).map(drop)
    }
}

/// Open files that the monitor asks for: five for each process of the program, and one for each file that it maps.
const MOST_FILES: u64 = 1 << 18;

/// Lets this thread run before others that want the same processor, if it may; its children run as usual. It adopts
/// the orphans of the program, and may have as many files open as the system allows. To be called when the program has
/// been made, which inherits limits.
pub fn take_precedence() {
    let real_time = libc::sched_param { sched_priority: 1 };
    // SAFETY: plain numbers, and structures that live through the calls.
    unsafe {
        let mut files: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut files) == 0 {
            let all = libc::rlimit { rlim_cur: MOST_FILES, rlim_max: MOST_FILES };
            // Only root may have more than the limit.
            if files.rlim_max >= MOST_FILES || libc::setrlimit(libc::RLIMIT_NOFILE, &all) != 0 {
                files.rlim_cur = files.rlim_max;
                libc::setrlimit(libc::RLIMIT_NOFILE, &files);
            }
        }
        libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &real_time);
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    }
}

/// From here on this thread runs only where its processor has nothing else to do.
pub fn run_when_idle() {
    let none = libc::sched_param { sched_priority: 0 };
    // SAFETY: a structure that lives through the call.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &none) };
}

/// What is to be said where there are no more descriptors.
pub fn too_many_files(error: &io::Error) -> String {
    let mut files = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the place is valid for the kernel to write.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut files) };
    let limit = files.rlim_cur;
    format!(
        "{error}: farreach needs five for each process of the program, and one for each file that is mapped; its limit \
         is {limit} (ulimit -n), which only root may exceed"
    )
}

/// A descriptor that can be read when a child has news. SIGCHLD is blocked in this thread from here on.
pub fn child_signals() -> io::Result<OwnedFd> {
    // SAFETY: the set is initialised before it is used, and the descriptor is new.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGCHLD);
        checked(libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()).into())?;
        let fd = checked(libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK).into())?;
        Ok(OwnedFd::from_raw_fd(fd as i32))
    }
}

/// Kills a process.
pub fn kill(process: i32) {
    send(process, libc::SIGKILL);
}

/// Sends a signal to a process; one that is gone is no error.
pub fn send(process: i32, signal: i32) {
    // SAFETY: plain numbers.
    unsafe { libc::kill(process, signal) };
}

/// Starts a program, traced, at fixed addresses and under a filter. It is about to call exec. `streams` become its
/// first descriptors, `directory` its directory.
///
/// # Errors
/// What the child could not do.
pub fn start(
    path: &CStr,
    arguments: &[*const c_char],
    filter: &mut [libc::sock_filter],
    streams: [Option<BorrowedFd>; 2],
    directory: Option<BorrowedFd>,
) -> io::Result<Started> {
    let filter = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    let (go, ours) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let (errors, error) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    // SAFETY: the child makes nothing but system calls, with what was made before. It is alone in its memory, so the
    // pointers live on.
    let child = unsafe {
        let child = libc::fork();
        if child == 0 {
            let quit = |what: u8| -> ! {
                let number = io::Error::last_os_error().raw_os_error().unwrap_or(0);
                let message = [what, number as u8];
                libc::write(error.as_raw_fd(), message.as_ptr().cast(), 2);
                libc::_exit(127)
            };
            // If the monitor is killed before it traces this process, no process has the other end.
            libc::close(ours.as_raw_fd());
            let mut byte = 0u8;
            loop {
                match libc::read(go.as_raw_fd(), (&raw mut byte).cast(), 1) {
                    1 => break,
                    -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
                    _ => libc::_exit(127),
                }
            }
            let none = 0u64;
            libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const none, 0, 8);
            libc::signal(libc::SIGPIPE, libc::SIG_DFL);
            libc::personality(libc::personality(0xffff_ffff) as libc::c_ulong | libc::ADDR_NO_RANDOMIZE as u64);
            let install = || libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const filter);
            // Without privileges, a filter is only for programs that can gain none.
            if install() != 0 && (libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || install() != 0) {
                quit(FILTER);
            }
            for (number, stream) in streams.iter().enumerate() {
                if stream.is_some_and(|stream| libc::dup2(stream.as_raw_fd(), number as i32) < 0) {
                    quit(EXEC);
                }
            }
            if directory.is_some_and(|directory| libc::fchdir(directory.as_raw_fd()) != 0) {
                quit(EXEC);
            }
            libc::execv(path.as_ptr(), arguments.as_ptr());
            quit(EXEC);
        }
        checked(child.into())? as i32
    };
    drop((go, error));
    if let Err(error) = seize(child) {
        return match ended_already(child)? {
            Some(signal) => Ok(Started::Killed(signal)),
            None => {
                kill(child);
                wait(Some(child), true)?;
                Err(error)
            }
        };
    }
    match rustix::io::write(&ours, &[0]) {
        // Killed in between, which is reported as any end.
        Ok(_) | Err(rustix::io::Errno::PIPE) => Ok(Started::Runs(Child { process: child, errors })),
        Err(error) => Err(error.into()),
    }
}

/// The signal that has ended a child which waits for nothing but this process; it may be about to end.
fn ended_already(child: i32) -> io::Result<Option<i32>> {
    for _ in 0..20 {
        if let Some((_, Stop::Killed(signal))) = wait(Some(child), false)? {
            return Ok(Some(signal));
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    Ok(None)
}

/// How a program was started.
pub enum Started {
    /// It is about to call exec.
    Runs(Child),
    /// This signal ended it before.
    Killed(i32),
}

/// What a child could not do.
const FILTER: u8 = 0;
const EXEC: u8 = 1;

/// A program that is about to call exec.
pub struct Child {
    /// Its number.
    pub process: i32,
    errors: OwnedFd,
}

impl Child {
    /// Why it did not begin, once it has ended or begun.
    pub fn error(&self) -> Option<io::Error> {
        let mut message = [0; 2];
        match rustix::io::retry_on_intr(|| rustix::io::read(&self.errors, &mut message)) {
            Ok(2) => {
                let error = io::Error::from_raw_os_error(message[1].into());
                let of_filter = || io::Error::new(error.kind(), format!("a filter of system calls: {error}"));
                Some(if message[0] == FILTER { of_filter() } else { error })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_that_was_looked_at_is_still_news() {
        let child = |script: &str| std::process::Command::new("sh").args(["-c", script]).spawn().unwrap().id() as i32;
        for (script, end) in [("exit 3", Stop::Exit(3)), ("kill -9 $$", Stop::Killed(9))] {
            let task = child(script);
            assert!(next_is_end(task).unwrap() && next_is_end(task).unwrap());
            assert_eq!(wait(Some(task), true).unwrap(), Some((task, end)));
        }
        let task = child("exec sleep 60");
        seize(task).unwrap();
        interrupt(task).unwrap();
        assert!(!next_is_end(task).unwrap());
        kill(task);
        while let Some((_, stop)) = wait(Some(task), true).unwrap() {
            match stop {
                Stop::Killed(signal) => return assert_eq!(signal, 9),
                _ => go(task, Go::On, 0).unwrap(),
            }
        }
        panic!("its end is not news");
    }
}
