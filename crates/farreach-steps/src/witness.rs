//! The processor as witness of a computed address: an instruction whose page is taken away faults there.

use std::ops::Range;

use farreach_types::event::{Access, Kind};
use iced_x86::{Instruction, Mnemonic};

use crate::error::Error;
use crate::tracee::{Stop, Tracee};

const PAGE: u64 = 4096;

/// Asks for the first reference, and for the first store. Says how often it could ask.
pub(crate) fn ask(
    tracee: &mut Tracee,
    instruction: &Instruction,
    known: &[Access],
    range: &Range<u64>,
    gadget: u64,
) -> Result<u64, Error> {
    let inside = |a: &Access| range.contains(&a.addr) && range.contains(&(a.addr + u64::from(a.size) - 1));
    if !known.iter().all(inside) {
        return Ok(0);
    }
    let first = known.first().map(|access| (access, libc::PROT_NONE));
    let store = known.iter().find(|access| access.kind == Kind::Store).map(|access| (access, libc::PROT_READ));
    // In parts whose order is the processor's own: it may report another place of the operand, chosen by the mask or
    // not, or the other operand.
    use Mnemonic::{Cmpsb, Cmpsd, Cmpsq, Cmpsw, Maskmovdqu, Maskmovq};
    let loose = matches!(instruction.mnemonic(), Maskmovq | Maskmovdqu | Cmpsb | Cmpsw | Cmpsd | Cmpsq)
        || known.iter().any(|access| access.size > 32);
    let near = |access: &Access, address: u64| {
        let (size, chosen) = (u64::from(access.size), if access.size == 1 { 16 } else { 0 });
        (access.addr.wrapping_sub(chosen)..access.addr + size + chosen).contains(&address)
    };
    let mut asked = 0;
    for (access, protection) in first.into_iter().chain(store) {
        let page = access.addr & !(PAGE - 1);
        protect(tracee, gadget, page, protection)?;
        let stop = tracee.step(0)?;
        let there = match stop {
            Stop::Signal { signal: libc::SIGSEGV, address } if loose => known.iter().any(|a| near(a, address)),
            stop => stop == Stop::Signal { signal: libc::SIGSEGV, address: access.addr },
        };
        if !there {
            return Err(Error::Contradicted {
                at: instruction.ip(),
                code: format!("{:?}", instruction.code()),
                computed: format!("{access:x?}"),
                seen: match stop {
                    Stop::Signal { signal, address } => format!("signal {signal} at {address:#x}"),
                    other => format!("{other:?}"),
                },
            });
        }
        protect(tracee, gadget, page, libc::PROT_READ | libc::PROT_WRITE)?;
        asked += 1;
    }
    Ok(asked)
}

/// Changes the protection of a page of the program, with the system call at `gadget`.
///
/// # Errors
/// There is no such page.
pub fn protect(tracee: &mut Tracee, gadget: u64, page: u64, protection: i32) -> Result<(), Error> {
    let result = tracee.call(gadget, libc::SYS_mprotect, [page, PAGE, protection as u64, 0, 0, 0])?;
    match result {
        0 => Ok(()),
        _ => Err(Error::Refused { at: page, what: format!("mprotect answers {result}") }),
    }
}

/// The address of an instruction `syscall` behind the place where the program stands.
///
/// # Errors
/// There is none near.
pub fn find_syscall(tracee: &Tracee) -> Result<u64, Error> {
    let entry = tracee.registers()?.rip;
    let mut code = vec![0; 1 << 16];
    let have = tracee.read(entry, &mut code);
    let found = code[..have].windows(2).position(|two| two == [0x0f, 0x05]);
    let none = || Error::Refused { at: entry, what: "no system call in the program's code".to_owned() };
    found.map(|at| entry + at as u64).ok_or_else(none)
}
