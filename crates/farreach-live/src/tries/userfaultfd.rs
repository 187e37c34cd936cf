//! userfaultfd: page faults of this process as messages, answered by it. The faults here are the kernel's own, on
//! memory that a system call names: a descriptor that sees those sees the program's as well.

use std::io;
use std::ops::Range;

use rustix::fd::OwnedFd;
use rustix::ioctl::{Opcode, opcode};

use super::memory::Page;
use super::raw::{Memory, userfaultfd_call, userfaultfd_device, userfaultfd_request};
use super::{Failure, Tried, beside, wait_for};

const TYPE: u8 = 0xaa;
const VERSION: u64 = 0xaa;
const API: Opcode = opcode::read_write::<[u64; 3]>(TYPE, 0x3f);
const REGISTER: Opcode = opcode::read_write::<[u64; 4]>(TYPE, 0x00);
const WRITE_PROTECT: Opcode = opcode::read_write::<[u64; 3]>(TYPE, 0x06);
const CONTINUE: Opcode = opcode::read_write::<[u64; 4]>(TYPE, 0x07);

/// `UFFD_FEATURE_*`: write protection, of anonymous and of shared memory; faults on pages of shared memory that have
/// contents.
const WP: u64 = 1 << 0 | 1 << 12;
const MINOR_SHMEM: u64 = 1 << 10;
/// `UFFDIO_REGISTER_MODE_*`.
const MODE_WP: u64 = 1 << 1;
const MODE_MINOR: u64 = 1 << 2;
/// `UFFD_EVENT_PAGEFAULT`, and `UFFD_PAGEFAULT_FLAG_*` of its message.
const FAULT: u64 = 0x12;
const IS_WP: u64 = 1 << 1;
const IS_MINOR: u64 = 1 << 2;

/// Opens one by the system call, else by the device, and asks for these features; which of both it was.
fn open(features: u64) -> Result<(OwnedFd, &'static str), Failure> {
    let opened = userfaultfd_call().map(|fd| (fd, "by the system call"));
    let (fd, how) = match opened {
        Ok(opened) => opened,
        Err(error) => match userfaultfd_device() {
            Ok(fd) => (fd, "by /dev/userfaultfd"),
            Err(other) => {
                let mut failure = Failure::of("userfaultfd", error);
                failure.why += &format!("; /dev/userfaultfd: {other}");
                return Err(failure.or_turn_on("sudo sysctl vm.unprivileged_userfaultfd=1"));
            }
        },
    };
    let shaken = userfaultfd_request::<API, 3>(&fd, [VERSION, features, 0]);
    shaken.map_err(|error| {
        let name = if features == 0 { "UFFDIO_API" } else { "UFFDIO_API with the feature" };
        Failure::of(name, error).or_turn_on("a kernel of Linux 5.19 or newer")
    })?;
    Ok((fd, how))
}

/// Opens one that sees faults of the kernel too.
pub fn userfaultfd() -> Tried {
    open(0).map(|(_, how)| how.to_owned())
}

fn words(at: &Range<usize>) -> [u64; 2] {
    [at.start as u64, at.len() as u64]
}

fn register(fd: &OwnedFd, memory: &Memory, mode: u64) -> io::Result<()> {
    let [start, bytes] = words(&memory.addresses());
    userfaultfd_request::<REGISTER, 4>(fd, [start, bytes, mode, 0]).map(drop)
}

fn protect(fd: &OwnedFd, memory: &Memory, on: bool) -> io::Result<()> {
    let [start, bytes] = words(&memory.addresses());
    userfaultfd_request::<WRITE_PROTECT, 3>(fd, [start, bytes, on.into()]).map(drop)
}

/// Waits for the one fault of `memory` that must come, of this kind.
fn expect(fd: &OwnedFd, memory: &Memory, kind: u64) -> io::Result<()> {
    wait_for(fd)?;
    let mut message = [0; 32];
    rustix::io::read(fd, &mut message)?;
    let word = |n: usize| u64::from_ne_bytes(message[n * 8..n * 8 + 8].try_into().expect("eight bytes"));
    let fault = (word(0) & 0xff, word(1) & (IS_WP | IS_MINOR), word(2) as usize);
    if fault == (FAULT, kind, memory.addresses().start) {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "an unexpected message: event {:#x}, flags {:#x}, address {:#x}",
        fault.0, fault.1, fault.2
    )))
}

/// Has `access` run in a thread of its own, and its fault answered by `answer`.
fn faulting(
    fd: OwnedFd,
    access: impl FnOnce() -> io::Result<usize> + Send,
    answer: impl FnOnce(&OwnedFd) -> io::Result<()>,
) -> Result<(), Failure> {
    let here = || {
        let answered = answer(&fd);
        drop(fd); // an access that still waits goes on without an answer
        answered
    };
    let (accessed, answered) = beside(access, here)?;
    answered.and(accessed.map(drop)).map_err(|error| Failure::of("answering a fault", error))
}

/// A page of a memfd that has contents, but is not mapped: the kernel waits for it until it is told to map it.
pub fn minor_faults() -> Tried {
    let page = Page::new()?;
    let (fd, how) = open(MINOR_SHMEM)?;
    register(&fd, &page.memory, MODE_MINOR).map_err(|error| Failure::of("UFFDIO_REGISTER", error))?;
    let answer = |fd: &OwnedFd| {
        expect(fd, &page.memory, IS_MINOR)?;
        let [start, bytes] = words(&page.memory.addresses());
        userfaultfd_request::<CONTINUE, 4>(fd, [start, bytes, 0, 0]).map(drop)
    };
    faulting(fd, || page.memory.write_to(&page.into), answer)?;
    page.check()?;
    Ok(format!("a fault of a memfd's page was answered, {how}"))
}

/// A page of a memfd that is mapped for loads: the kernel waits at a store until it is told to let it through.
pub fn write_protection() -> Tried {
    let page = Page::new()?;
    let (fd, how) = open(WP)?;
    page.check_loads()?; // maps it
    let prepared = register(&fd, &page.memory, MODE_WP).and_then(|()| protect(&fd, &page.memory, true));
    prepared.map_err(|error| Failure::of("UFFDIO_WRITEPROTECT", error))?;
    page.send_other()?;
    let answer = |fd: &OwnedFd| {
        expect(fd, &page.memory, IS_WP)?;
        protect(fd, &page.memory, false)
    };
    faulting(fd, || page.memory.read_from(&page.from), answer)?;
    page.check_other()?;
    Ok(format!("a store into a memfd's page was let through, {how}"))
}
