//! The references that an instruction is about to make.

use farreach_types::event::{Access, Kind};
use iced_x86::{CodeSize, Instruction, InstructionInfoFactory, InstructionInfoOptions, OpAccess, Register, UsedMemory};

use crate::error::Error;
use crate::special;
use crate::tracee::{Registers, Tracee};

/// A stopped program and its registers.
pub(crate) struct Now<'t> {
    pub tracee: &'t Tracee,
    pub registers: &'t Registers,
}

/// The loads and stores of an instruction if it is completed from these registers, in order; its fetch is not among
/// them. Of a repeated string instruction: those of the next iteration.
///
/// # Errors
/// Its references are not known for certain.
pub fn references_of(instruction: &Instruction, tracee: &Tracee, registers: &Registers) -> Result<Vec<Access>, Error> {
    let now = Now { tracee, registers };
    if let Some(references) = special::references_of(instruction, &now)? {
        return Ok(references);
    }
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info_options(instruction, InstructionInfoOptions::NO_REGISTER_USAGE);
    let (mut loads, mut stores) = (Vec::new(), Vec::new());
    for used in info.used_memory() {
        let refuse = |why: &str| Error::Refused {
            at: registers.rip,
            what: format!("{:?}, {used:?}: {why}", instruction.code()),
        };
        let (load, store) = match used.access() {
            OpAccess::None | OpAccess::NoMemAccess => continue,
            OpAccess::Read => (true, false),
            OpAccess::Write => (false, true),
            OpAccess::ReadWrite => (true, true),
            _ => return Err(refuse("it is not known whether this reference happens")),
        };
        let size = used.memory_size().size() as u32;
        if size == 0 {
            return Err(refuse("the size of this reference is not known"));
        }
        let addr = address(used, &now).ok_or_else(|| refuse("the address is not known"))?;
        if load {
            loads.push(Access { kind: Kind::Load, addr, size });
        }
        if store {
            stores.push(Access { kind: Kind::Store, addr, size });
        }
    }
    loads.append(&mut stores);
    Ok(loads)
}

/// Base, index, displacement and segment, cut to the address size.
fn address(used: &UsedMemory, now: &Now<'_>) -> Option<u64> {
    used.virtual_address(0, |register, _, _| now.value(register))
}

impl Now<'_> {
    /// The value of a general register of any size, or the base of a segment; `None` for other registers.
    pub(crate) fn value(&self, register: Register) -> Option<u64> {
        let r = self.registers;
        let whole = match register.full_register() {
            Register::RAX => r.rax,
            Register::RCX => r.rcx,
            Register::RDX => r.rdx,
            Register::RBX => r.rbx,
            Register::RSP => r.rsp,
            Register::RBP => r.rbp,
            Register::RSI => r.rsi,
            Register::RDI => r.rdi,
            Register::R8 => r.r8,
            Register::R9 => r.r9,
            Register::R10 => r.r10,
            Register::R11 => r.r11,
            Register::R12 => r.r12,
            Register::R13 => r.r13,
            Register::R14 => r.r14,
            Register::R15 => r.r15,
            Register::FS => return Some(r.fs_base),
            Register::GS => return Some(r.gs_base),
            Register::CS | Register::DS | Register::ES | Register::SS => return Some(0),
            _ => return None,
        };
        Some(match register.size() {
            8 => whole,
            4 => whole & 0xffff_ffff,
            2 => whole & 0xffff,
            _ if matches!(register, Register::AH | Register::CH | Register::DH | Register::BH) => whole >> 8 & 0xff,
            _ => whole & 0xff,
        })
    }

    /// The address of the explicit memory operand without its index, and with this many bytes added before it is cut
    /// to the address size.
    pub(crate) fn operand(&self, instruction: &Instruction, index: u64) -> Option<u64> {
        let base = instruction.memory_base();
        let (displacement, wide) = (instruction.memory_displacement64(), base.size() != 4);
        let from = match base {
            // The displacement is the address already.
            Register::None | Register::RIP | Register::EIP => 0,
            register => self.value(register)?,
        };
        let narrow = !wide
            || (base == Register::None && instruction.memory_index().size() == 4)
            || instruction.memory_index().size() == 4 && instruction.memory_index().is_gpr();
        let sum = from.wrapping_add(displacement).wrapping_add(index);
        let cut = if narrow { sum & 0xffff_ffff } else { sum };
        Some(cut.wrapping_add(self.segment(instruction)?))
    }

    /// The base of the segment of the memory operand.
    pub(crate) fn segment(&self, instruction: &Instruction) -> Option<u64> {
        self.value(instruction.memory_segment())
    }

    /// The index of the explicit memory operand, scaled; 0 if it has none.
    pub(crate) fn index(&self, instruction: &Instruction) -> Option<u64> {
        match instruction.memory_index() {
            Register::None => Some(0),
            register => Some(self.value(register)?.wrapping_mul(instruction.memory_index_scale().into())),
        }
    }

    /// Refuses an instruction.
    pub(crate) fn refuse(&self, instruction: &Instruction, why: &str) -> Error {
        let code_size = if instruction.code_size() == CodeSize::Code64 { "" } else { "not 64-bit code, " };
        Error::Refused { at: self.registers.rip, what: format!("{:?}: {code_size}{why}", instruction.code()) }
    }
}
