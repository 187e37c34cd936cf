//! A program under `ptrace`: the only file here with unsafe code.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use crate::error::Error;

/// The general registers, segment bases included.
pub type Registers = libc::user_regs_struct;

/// Size of the buffer for the extended state; more than any processor has.
const XSTATE_BYTES: usize = 16384;
/// `NT_X86_XSTATE`: the extended state in the layout of XSAVE.
const NT_X86_XSTATE: libc::c_int = 0x202;
/// Where the x87 registers, the lower halves of the vector registers and their upper halves are in it. The last is what
/// CPUID says on every processor with AVX.
const X87_AT: usize = 32;
const XMM_AT: usize = 160;
const YMM_AT: usize = 576;

/// `si_code` of a trap that a single step made.
const TRAP_TRACE: i32 = 2;
/// `si_code` of the step over a system call.
const TRAP_BRKPT: i32 = 1;

/// Why the program stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// It completed one instruction, or one iteration of a repeated one.
    Stepped,
    /// A signal was delivered: it stands at the first instruction of the handler.
    Entered,
    /// A signal is to be delivered.
    Signal {
        /// Its number.
        signal: i32,
        /// `si_addr`, for faults.
        address: u64,
    },
    /// It is about to have a second thread or process, or another image.
    Splits,
    /// It has ended.
    Ended(End),
}

/// How a program ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// Exit status.
    Code(i32),
    /// The signal that ended it.
    Signal(i32),
}

/// A stopped program. It is killed when this is dropped.
///
/// All calls must come from the thread that started it.
pub struct Tracee {
    child: Child,
    memory: File,
}

impl Tracee {
    /// Starts a program and stops it before its first instruction.
    ///
    /// # Errors
    /// It cannot be started or traced.
    pub fn start(command: &mut Command) -> Result<Tracee, Error> {
        let traced = || {
            // SAFETY: two system calls without pointers that are used; both are allowed between fork and exec.
            let failed = unsafe {
                libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong) == -1
                    || libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) == -1
            };
            if failed { Err(std::io::Error::last_os_error()) } else { Ok(()) }
        };
        // SAFETY: the closure only makes system calls.
        let child = unsafe { command.pre_exec(traced) }.spawn();
        let child = child.map_err(|source| Error::System { what: "the program cannot be started", source })?;
        let path = format!("/proc/{}/mem", child.id());
        // Opened after the exec that stops it: the file is of the image at this time.
        let mut tracee = Tracee { memory: File::open("/dev/null").map_err(memory_error)?, child };
        match tracee.wait()? {
            Stop::Signal { signal: libc::SIGTRAP, .. } | Stop::Stepped => {}
            other => return Err(Error::Refused { at: 0, what: format!("the start of the program is {other:?}") }),
        }
        tracee.memory = File::options().read(true).write(true).open(path).map_err(memory_error)?;
        let options = libc::PTRACE_O_EXITKILL
            | libc::PTRACE_O_TRACECLONE
            | libc::PTRACE_O_TRACEFORK
            | libc::PTRACE_O_TRACEVFORK
            | libc::PTRACE_O_TRACEEXEC;
        tracee.ask(libc::PTRACE_SETOPTIONS, options as usize, "PTRACE_SETOPTIONS")?;
        Ok(tracee)
    }

    fn pid(&self) -> libc::pid_t {
        self.child.id() as libc::pid_t
    }

    /// A request whose address is not used and whose data is a number.
    fn ask(&self, request: libc::c_uint, data: usize, what: &'static str) -> Result<(), Error> {
        // SAFETY: no pointer into this process.
        let result = unsafe { libc::ptrace(request, self.pid(), 0usize, data) };
        if result == -1 { Err(Error::last(what)) } else { Ok(()) }
    }

    /// One instruction, after the delivery of this signal (0: none).
    ///
    /// # Errors
    /// The system refuses.
    pub fn step(&mut self, signal: i32) -> Result<Stop, Error> {
        self.ask(libc::PTRACE_SINGLESTEP, signal as usize, "PTRACE_SINGLESTEP")?;
        self.wait()
    }

    fn wait(&mut self) -> Result<Stop, Error> {
        let mut status = 0;
        loop {
            // SAFETY: `status` is valid for the call.
            let pid = unsafe { libc::waitpid(self.pid(), &raw mut status, libc::__WALL) };
            if pid == self.pid() {
                break;
            }
            let error = std::io::Error::last_os_error();
            if error.kind() != std::io::ErrorKind::Interrupted {
                return Err(Error::System { what: "waitpid", source: error });
            }
        }
        if libc::WIFEXITED(status) {
            return Ok(Stop::Ended(End::Code(libc::WEXITSTATUS(status))));
        }
        if libc::WIFSIGNALED(status) {
            return Ok(Stop::Ended(End::Signal(libc::WTERMSIG(status))));
        }
        if status >> 16 != 0 {
            return Ok(Stop::Splits);
        }
        let signal = libc::WSTOPSIG(status);
        // SAFETY: plain data, for which zeros are a value.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY: `info` is valid for the call.
        let result = unsafe { libc::ptrace(libc::PTRACE_GETSIGINFO, self.pid(), 0usize, &raw mut info) };
        if result == -1 {
            return Err(Error::last("PTRACE_GETSIGINFO"));
        }
        Ok(match (signal, info.si_code) {
            (libc::SIGTRAP, TRAP_TRACE | TRAP_BRKPT) => Stop::Stepped,
            (libc::SIGTRAP, libc::SIGTRAP) => Stop::Entered,
            // SAFETY: for other signals these bytes are other numbers; nothing follows them.
            (signal, _) => Stop::Signal { signal, address: unsafe { info.si_addr() } as u64 },
        })
    }

    /// The registers.
    ///
    /// # Errors
    /// The system refuses.
    pub fn registers(&self) -> Result<Registers, Error> {
        // SAFETY: plain numbers.
        let mut registers: Registers = unsafe { std::mem::zeroed() };
        // SAFETY: `registers` is valid for the call.
        let result = unsafe { libc::ptrace(libc::PTRACE_GETREGS, self.pid(), 0usize, &raw mut registers) };
        if result == -1 { Err(Error::last("PTRACE_GETREGS")) } else { Ok(registers) }
    }

    /// Changes the registers.
    ///
    /// # Errors
    /// The system refuses.
    pub fn set_registers(&mut self, registers: &Registers) -> Result<(), Error> {
        // SAFETY: `registers` is valid for the call.
        let result = unsafe { libc::ptrace(libc::PTRACE_SETREGS, self.pid(), 0usize, &raw const *registers) };
        if result == -1 { Err(Error::last("PTRACE_SETREGS")) } else { Ok(()) }
    }

    /// The state of x87, SSE and AVX, in the layout of XSAVE.
    ///
    /// # Errors
    /// The system refuses.
    pub fn extended(&self) -> Result<Vec<u8>, Error> {
        let mut state = vec![0; XSTATE_BYTES];
        let mut piece = libc::iovec { iov_base: state.as_mut_ptr().cast(), iov_len: state.len() };
        // SAFETY: `piece` and the buffer that it names are valid for the call.
        let result =
            unsafe { libc::ptrace(libc::PTRACE_GETREGSET, self.pid(), NT_X86_XSTATE as usize, &raw mut piece) };
        if result == -1 {
            return Err(Error::last("PTRACE_GETREGSET"));
        }
        state.truncate(piece.iov_len);
        Ok(state)
    }

    /// The vector register YMM`n`, lowest byte first. The upper half is zero where there is no AVX.
    ///
    /// # Errors
    /// The system refuses.
    pub fn vector(&self, n: usize) -> Result<[u8; 32], Error> {
        let state = self.extended()?;
        let mut value = [0; 32];
        value[..16].copy_from_slice(&state[XMM_AT + 16 * n..][..16]);
        if let Some(upper) = state.get(YMM_AT + 16 * n..YMM_AT + 16 * n + 16) {
            value[16..].copy_from_slice(upper);
        }
        Ok(value)
    }

    /// The register MM`n`, lowest byte first.
    ///
    /// # Errors
    /// The system refuses.
    pub fn mmx(&self, n: usize) -> Result<[u8; 8], Error> {
        let state = self.extended()?;
        Ok(state[X87_AT + 16 * n..][..8].try_into().expect("eight bytes"))
    }

    /// Changes the extended state, to what [`Tracee::extended`] gave.
    ///
    /// # Errors
    /// The system refuses.
    pub fn set_extended(&mut self, state: &[u8]) -> Result<(), Error> {
        let mut piece = libc::iovec { iov_base: state.as_ptr().cast_mut().cast(), iov_len: state.len() };
        // SAFETY: `piece` and the buffer that it names are valid for the call, which only reads the buffer.
        let result =
            unsafe { libc::ptrace(libc::PTRACE_SETREGSET, self.pid(), NT_X86_XSTATE as usize, &raw mut piece) };
        if result == -1 { Err(Error::last("PTRACE_SETREGSET")) } else { Ok(()) }
    }

    /// Reads memory; how many bytes could be read.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> usize {
        let mut done = 0;
        while done < bytes.len() {
            match self.memory.read_at(&mut bytes[done..], address.wrapping_add(done as u64)) {
                Ok(n) if n > 0 => done += n,
                _ => break,
            }
        }
        done
    }

    /// Writes memory, also where the program may not.
    ///
    /// # Errors
    /// There is none at this address.
    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Error> {
        self.memory.write_all_at(bytes, address).map_err(memory_error)
    }

    /// Makes the program call the system, with the instruction `syscall` at `gadget`, and gives the result. Its
    /// registers are what they were.
    ///
    /// # Errors
    /// The system refuses, or the program does not come back from the call.
    pub fn call(&mut self, gadget: u64, number: i64, arguments: [u64; 6]) -> Result<i64, Error> {
        let before = self.registers()?;
        let [rdi, rsi, rdx, r10, r8, r9] = arguments;
        let call = Registers { rax: number as u64, orig_rax: u64::MAX, rip: gadget, ..before };
        self.set_registers(&Registers { rdi, rsi, rdx, r10, r8, r9, ..call })?;
        let stop = self.step(0)?;
        if stop != Stop::Stepped {
            return Err(Error::Refused { at: gadget, what: format!("{stop:?} in place of system call {number}") });
        }
        let result = self.registers()?.rax as i64;
        self.set_registers(&before)?;
        Ok(result)
    }
}

impl Drop for Tracee {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn memory_error(source: std::io::Error) -> Error {
    Error::System { what: "the memory of the program", source }
}
