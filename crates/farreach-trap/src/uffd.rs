//! userfaultfd: the page faults of an address space as messages, and what answers them.

use rustix::fd::{AsFd, OwnedFd};
use rustix::io;
use rustix::ioctl::{self, Opcode, Updater, opcode};
use std::ops::Range;

const TYPE: u8 = 0xaa;
const API: u64 = 0xaa;

/// `UFFDIO_*` of the kernel's interface, with the words that each passes.
const DO_API: Opcode = opcode::read_write::<[u64; 3]>(TYPE, 0x3f);
const REGISTER: Opcode = opcode::read_write::<[u64; 4]>(TYPE, 0x00);
const WAKE: Opcode = opcode::read::<[u64; 2]>(TYPE, 0x02);
const ZEROPAGE: Opcode = opcode::read_write::<[u64; 4]>(TYPE, 0x04);
const WRITE_PROTECT: Opcode = opcode::read_write::<[u64; 3]>(TYPE, 0x06);
const CONTINUE: Opcode = opcode::read_write::<[u64; 4]>(TYPE, 0x07);
const POISON: Opcode = opcode::read_write::<[u64; 4]>(TYPE, 0x08);

/// Features that are needed: faults of write protection, pages of shared memory that are missing or present but not
/// mapped, write protection of shared memory, the thread that faulted.
const NEEDED: u64 = 1 << 0 | 1 << 5 | 1 << 8 | 1 << 10 | 1 << 12;
const HAS_POISON: u64 = 1 << 14;

/// Of registered memory: missing, write-protected, present but not mapped.
const MODES: u64 = 1 << 0 | 1 << 1 | 1 << 2;

/// Modes of the calls.
const DO_NOT_WAKE: u64 = 1 << 0;
const PROTECT: u64 = 1 << 0;

/// A message of the kernel.
#[derive(Clone, Copy, Default)]
pub struct Message([u64; 4]);

/// A fault.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// Page-aligned address.
    pub address: u64,
    /// A store.
    pub write: bool,
    /// Only write protection is in the way.
    pub protected: bool,
    /// The page has contents.
    pub present: bool,
    /// The thread.
    pub thread: u32,
}

impl Message {
    /// The fault it tells of, if it does.
    pub fn fault(self) -> Option<Fault> {
        let [event, flags, address, thread] = self.0;
        let has = |bit: u32| flags >> bit & 1 != 0;
        let fault = || Fault {
            address: address & !4095,
            write: has(0),
            protected: has(1),
            present: has(2),
            thread: thread as u32,
        };
        (event as u8 == 0x12).then(fault)
    }
}

/// The faults of an address space: that of the task which made the descriptor.
pub struct Uffd {
    fd: OwnedFd,
    can_poison: bool,
}

impl Uffd {
    /// Of a new descriptor.
    ///
    /// # Errors
    /// The kernel does not have all that is needed.
    pub fn new(fd: OwnedFd) -> io::Result<Uffd> {
        let mut uffd = Uffd { fd, can_poison: true };
        if uffd.call::<DO_API, 3>([API, NEEDED | HAS_POISON, 0]).is_err() {
            uffd.can_poison = false;
            uffd.call::<DO_API, 3>([API, NEEDED, 0])?;
        }
        Ok(uffd)
    }

    fn call<const OPCODE: Opcode, const WORDS: usize>(&self, mut words: [u64; WORDS]) -> io::Result<[u64; WORDS]> {
        // SAFETY: the opcode passes this number of words, which live through the call.
        unsafe { ioctl::ioctl(&self.fd, Updater::<OPCODE, _>::new(&mut words))? };
        Ok(words)
    }

    /// Waits for messages.
    pub fn read(&self, into: &mut [Message]) -> io::Result<usize> {
        // SAFETY: messages are plain words.
        let bytes = unsafe { std::slice::from_raw_parts_mut(into.as_mut_ptr().cast::<u8>(), size_of_val(into)) };
        Ok(rustix::io::read(&self.fd, bytes)? / size_of::<Message>())
    }

    /// Faults in these bytes become messages. [`Errno::INVAL`], [`Errno::PERM`]: memory of another kind.
    pub fn register(&self, bytes: Range<u64>) -> io::Result<()> {
        self.call::<REGISTER, 4>([bytes.start, bytes.end - bytes.start, MODES, 0]).map(drop)
    }

    /// Maps pages that have contents, and lets those that wait for them go on. `write`: also for stores.
    pub fn map(&self, bytes: Range<u64>, write: bool) -> io::Result<()> {
        let mode = u64::from(!write) << 1;
        self.call::<CONTINUE, 4>([bytes.start, bytes.end - bytes.start, mode, 0]).map(drop)
    }

    /// Maps pages without contents, which read as zeros.
    pub fn map_zeros(&self, bytes: Range<u64>, write: bool) -> io::Result<()> {
        let (start, len) = (bytes.start, bytes.end - bytes.start);
        if write {
            return self.call::<ZEROPAGE, 4>([start, len, 0, 0]).map(drop);
        }
        self.call::<ZEROPAGE, 4>([start, len, DO_NOT_WAKE, 0])?;
        self.call::<WRITE_PROTECT, 3>([start, len, PROTECT])?;
        self.wake(bytes)
    }

    /// Lets stores into mapped pages through, and those that wait for it go on.
    pub fn allow_stores(&self, bytes: Range<u64>) -> io::Result<()> {
        self.call::<WRITE_PROTECT, 3>([bytes.start, bytes.end - bytes.start, 0]).map(drop)
    }

    /// References to these pages end with a bus error. Kernels before 6.6 have no means to it: they are zeros there.
    pub fn poison(&self, bytes: Range<u64>) -> io::Result<()> {
        if !self.can_poison {
            return self.map_zeros(bytes, true);
        }
        self.call::<POISON, 4>([bytes.start, bytes.end - bytes.start, 0, 0]).map(drop)
    }

    /// Threads that wait for these pages try again.
    pub fn wake(&self, bytes: Range<u64>) -> io::Result<()> {
        self.call::<WAKE, 2>([bytes.start, bytes.end - bytes.start]).map(drop)
    }
}

impl AsFd for Uffd {
    fn as_fd(&self) -> rustix::fd::BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
