//! The unsafe calls of the tries.

use std::io;
use std::ops::Range;

use rustix::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};
use rustix::mm::{MapFlags, ProtFlags, UserfaultfdFlags, mmap, mmap_anonymous, munmap};
use rustix::process::Pid;

fn checked(result: i64) -> io::Result<i64> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Memory that only the kernel accesses, on request; unmapped when this value is dropped.
pub struct Memory {
    start: *mut libc::c_void,
    bytes: usize,
}

// SAFETY: no reference to the memory exists; the kernel may access it on behalf of any thread.
unsafe impl Sync for Memory {}

const READ_WRITE: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

impl Memory {
    /// A file, shared.
    pub fn of_file(file: &OwnedFd, bytes: usize) -> io::Result<Memory> {
        // SAFETY: a new mapping at a place that is free.
        let start = unsafe { mmap(std::ptr::null_mut(), bytes, READ_WRITE, MapFlags::SHARED, file, 0)? };
        Ok(Memory { start, bytes })
    }

    /// Private memory.
    pub fn anonymous(bytes: usize) -> io::Result<Memory> {
        Memory::private(bytes, MapFlags::empty())
    }

    /// Private memory in pages of hugetlbfs, of the default size.
    pub fn huge(bytes: usize) -> io::Result<Memory> {
        Memory::private(bytes, MapFlags::HUGETLB)
    }

    fn private(bytes: usize, flags: MapFlags) -> io::Result<Memory> {
        let flags = MapFlags::PRIVATE | flags;
        // SAFETY: as above.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, READ_WRITE, flags)? };
        Ok(Memory { start, bytes })
    }

    /// Where it is.
    pub fn addresses(&self) -> Range<usize> {
        self.start.addr()..self.start.addr() + self.bytes
    }

    /// The kernel loads all of it and writes that to a file.
    pub fn write_to(&self, file: impl AsFd) -> io::Result<usize> {
        // SAFETY: the memory is mapped as long as this value lives.
        let done = unsafe { libc::write(file.as_fd().as_raw_fd(), self.start, self.bytes) };
        checked(done as i64).map(|bytes| bytes as usize)
    }

    /// The kernel stores into it what it reads from a file.
    pub fn read_from(&self, file: impl AsFd) -> io::Result<usize> {
        // SAFETY: as above; there is no reference to what is overwritten.
        let done = unsafe { libc::read(file.as_fd().as_raw_fd(), self.start, self.bytes) };
        checked(done as i64).map(|bytes| bytes as usize)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: its own mapping, to which nothing refers.
        let _ = unsafe { munmap(self.start, self.bytes) };
    }
}

/// A userfaultfd by the system call. It covers faults of the kernel, too.
pub fn userfaultfd_call() -> io::Result<OwnedFd> {
    // SAFETY: the descriptor is used for memory of this module's own.
    Ok(unsafe { rustix::mm::userfaultfd(UserfaultfdFlags::CLOEXEC)? })
}

/// A userfaultfd by the device, whose permissions decide.
pub fn userfaultfd_device() -> io::Result<OwnedFd> {
    const NEW: Opcode = opcode::none(0xaa, 0x00);
    let device = rustix::fs::open("/dev/userfaultfd", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    // SAFETY: USERFAULTFD_IOC_NEW takes flags by value and returns a new descriptor.
    unsafe {
        let fd = libc::ioctl(device.as_raw_fd(), NEW as libc::Ioctl, libc::O_CLOEXEC);
        Ok(OwnedFd::from_raw_fd(checked(fd.into())? as i32))
    }
}

/// A request to a userfaultfd, with its structure as words.
pub fn userfaultfd_request<const REQUEST: Opcode, const WORDS: usize>(
    fd: &OwnedFd,
    mut words: [u64; WORDS],
) -> io::Result<[u64; WORDS]> {
    // SAFETY: the requests of the caller pass structures of this size, about memory of this module's own.
    unsafe { ioctl(fd, Updater::<REQUEST, _>::new(&mut words))? };
    Ok(words)
}

/// Gives calls of this number by the calling thread this action, from now on: a filter cannot be removed.
pub fn install_filter(call: i64, action: u32, flags: libc::c_ulong) -> io::Result<i64> {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let op = |code, k, jf| libc::sock_filter { code, jt: 0, jf, k };
    let mut code = [
        op(LOAD, 0, 0), // the number of the call
        op(JUMP_IF_EQUAL, call as u32, 1),
        op(RETURN, action, 0),
        op(RETURN, libc::SECCOMP_RET_ALLOW, 0),
    ];
    let filter = libc::sock_fprog { len: code.len() as u16, filter: code.as_mut_ptr() };
    rustix::thread::set_no_new_privs(true)?;
    // SAFETY: the filter lives through the call.
    checked(unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const filter) })
}

/// System calls of other threads that wait for an answer.
pub struct Listener(pub OwnedFd);

impl Listener {
    /// Of this number, by the calling thread, which must end soon.
    pub fn install(call: i64) -> io::Result<Listener> {
        let fd = install_filter(call, libc::SECCOMP_RET_USER_NOTIF, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER)?;
        // SAFETY: the descriptor is new.
        Ok(Listener(unsafe { OwnedFd::from_raw_fd(fd as i32) }))
    }

    fn request<T>(&self, request: libc::Ioctl, value: &mut T) -> io::Result<i32> {
        // SAFETY: callers pass the structure of the request.
        checked(unsafe { libc::ioctl(self.0.as_raw_fd(), request, value) }.into()).map(|done| done as i32)
    }

    /// Waits for a call; its identifier.
    pub fn receive(&self) -> io::Result<u64> {
        // SAFETY: all-zero is what the kernel expects.
        let mut notice: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        self.request(libc::SECCOMP_IOCTL_NOTIF_RECV, &mut notice).map(|_| notice.id)
    }

    /// The call returns `value`; without one, the kernel executes it.
    pub fn answer(&self, id: u64, value: Option<i64>) -> io::Result<()> {
        let flags = if value.is_none() { libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32 } else { 0 };
        let mut answer = libc::seccomp_notif_resp { id, val: value.unwrap_or(0), error: 0, flags };
        self.request(libc::SECCOMP_IOCTL_NOTIF_SEND, &mut answer).map(drop)
    }

    /// Installs a copy of a descriptor in the caller; its number there.
    pub fn give(&self, id: u64, fd: impl AsFd) -> io::Result<i32> {
        let srcfd = fd.as_fd().as_raw_fd() as u32;
        let newfd_flags = libc::O_CLOEXEC as u32;
        let mut gift = libc::seccomp_notif_addfd { id, flags: 0, srcfd, newfd: 0, newfd_flags };
        self.request(libc::SECCOMP_IOCTL_NOTIF_ADDFD, &mut gift)
    }
}

/// The parent's process id, by the system call.
pub fn parent() -> io::Result<i64> {
    // SAFETY: plain system call.
    checked(unsafe { libc::syscall(libc::SYS_getppid) })
}

/// A descriptor that the kernel gave to this process under this number.
///
/// # Safety
/// It has no other owner.
pub unsafe fn owned(number: i64) -> OwnedFd {
    // SAFETY: the caller's promise.
    unsafe { OwnedFd::from_raw_fd(number as i32) }
}

/// Attaches to a child that runs, stops it, reads its registers and a word at its stack pointer, compares its memory
/// with that of this process, and lets it go. The error has the name of the request.
pub fn trace(child: Pid) -> Result<(), (&'static str, io::Error)> {
    let pid = child.as_raw_nonzero().get();
    let named = |name, result: i64| checked(result).map(drop).map_err(|error| (name, error));
    let none = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: plain numbers, and places that are valid for what the kernel writes.
    unsafe {
        let options = libc::PTRACE_O_EXITKILL | libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_TRACEEXEC;
        named("PTRACE_SEIZE", libc::ptrace(libc::PTRACE_SEIZE, pid, none, options as usize))?;
        named("PTRACE_INTERRUPT", libc::ptrace(libc::PTRACE_INTERRUPT, pid, none, none))?;
        let mut status = 0;
        named("waitpid", libc::waitpid(pid, &mut status, libc::__WALL).into())?;
        let mut registers: libc::user_regs_struct = std::mem::zeroed();
        named("PTRACE_GETREGS", libc::ptrace(libc::PTRACE_GETREGS, pid, none, &raw mut registers))?;
        let mut word = 0u64;
        let request = libc::PTRACE_PEEKDATA;
        named("PTRACE_PEEKDATA", libc::syscall(libc::SYS_ptrace, request, pid, registers.rsp, &raw mut word))?;
        const KCMP_VM: i32 = 1;
        named("kcmp", libc::syscall(libc::SYS_kcmp, pid, libc::getpid(), KCMP_VM, 0, 0))?;
        named("PTRACE_DETACH", libc::ptrace(libc::PTRACE_DETACH, pid, none, none))
    }
}

/// Turns off the randomisation of addresses for programs that the calling thread executes later.
pub fn fixed_layout() -> io::Result<()> {
    let layout = libc::ADDR_NO_RANDOMIZE as libc::c_ulong;
    // SAFETY: plain numbers.
    unsafe {
        let now = checked(libc::personality(0xffff_ffff).into())?;
        checked(libc::personality(now as libc::c_ulong | layout).into()).map(drop)
    }
}
