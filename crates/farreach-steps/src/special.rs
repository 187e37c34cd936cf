//! Instructions whose references depend on more than the operands: on masks, counters, an offset in bits, a state to
//! save. From the descriptions in Intel's Software Developer's Manual, volume 2.

use farreach_types::event::{Access, Kind};
use iced_x86::{Code, Instruction, Mnemonic, OpKind, Register};

use crate::decode::Now;
use crate::error::Error;

fn load(addr: u64, size: u32) -> Access {
    Access { kind: Kind::Load, addr, size }
}

fn store(addr: u64, size: u32) -> Access {
    Access { kind: Kind::Store, addr, size }
}

/// The references, or `None` for an instruction that is not special.
pub(crate) fn references_of(instruction: &Instruction, now: &Now<'_>) -> Result<Option<Vec<Access>>, Error> {
    use Mnemonic::*;
    let unknown = || now.refuse(instruction, "the address is not known");
    let memory = || -> Result<u64, Error> {
        now.operand(instruction, now.index(instruction).ok_or_else(unknown)?).ok_or_else(unknown)
    };
    let operand_size = instruction.memory_size().size() as u32;
    if is_string(instruction) {
        return string(instruction, now).map(Some);
    }
    if instruction.is_vsib() {
        return gather(instruction, now).map(Some);
    }
    Ok(Some(match instruction.mnemonic() {
        // Not single instructions to a debugger: the trap behind these is held back until the next has run.
        Mov | Pop
            if (0..instruction.op_count()).any(|i| {
                instruction.op_kind(i) == OpKind::Register && i == 0 && instruction.op_register(i) == Register::SS
            }) =>
        {
            return Err(now.refuse(instruction, "a step is not one instruction behind it"));
        }
        Int | Int1 | Into | Iret | Iretd | Iretq | Retf | Sysenter | Enqcmd | Movdir64b | Lss | Lfs | Lgs => {
            return Err(now.refuse(instruction, "not followed"));
        }
        Call | Jmp if instruction.is_call_far() || instruction.is_jmp_far() || is_far_indirect(instruction) => {
            return Err(now.refuse(instruction, "not followed"));
        }
        Bt | Btc | Btr | Bts
            if instruction.op0_kind() == OpKind::Memory && instruction.op1_kind() == OpKind::Register =>
        {
            let register = instruction.op_register(1);
            let bits = 8 * register.size() as u32;
            // A signed offset of the operand's size.
            let value = now.value(register).ok_or_else(unknown)?;
            let offset = ((value << (64 - bits)) as i64) >> (64 - bits);
            let bytes = (offset.div_euclid(bits.into()) * i64::from(bits / 8)) as u64;
            let index = now.index(instruction).ok_or_else(unknown)?;
            let addr = now.operand(instruction, index.wrapping_add(bytes)).ok_or_else(unknown)?;
            let mut references = vec![load(addr, bits / 8)];
            if instruction.mnemonic() != Bt {
                references.push(store(addr, bits / 8));
            }
            references
        }
        Cmpxchg if instruction.op0_kind() == OpKind::Memory => both(memory()?, operand_size),
        Cmpxchg8b | Cmpxchg16b => both(memory()?, operand_size),
        Clflush | Clflushopt | Clwb => vec![load(memory()?, 1)],
        Enter => enter(instruction, now),
        Vmaskmovps | Vpmaskmovd => masked_move(instruction, now, memory()?, 4)?,
        Vmaskmovpd | Vpmaskmovq => masked_move(instruction, now, memory()?, 8)?,
        Maskmovq | Maskmovdqu | Vmaskmovdqu => masked_bytes(instruction, now)?,
        Fxsave | Fxsave64 => vec![store(memory()?, 512)],
        Fxrstor | Fxrstor64 => vec![load(memory()?, 512)],
        Xsave | Xsave64 | Xrstor | Xrstor64 => extended_state(instruction, now, memory()?),
        Xsavec | Xsavec64 | Xsaveopt | Xsaveopt64 | Xsaves | Xsaves64 | Xrstors | Xrstors64 => {
            return Err(now.refuse(instruction, "what it saves depends on what the processor knows"));
        }
        _ => return Ok(None),
    }))
}

fn both(addr: u64, size: u32) -> Vec<Access> {
    vec![load(addr, size), store(addr, size)]
}

fn is_far_indirect(instruction: &Instruction) -> bool {
    instruction.is_call_far_indirect() || instruction.is_jmp_far_indirect()
}

fn string_operands(instruction: &Instruction) -> impl Iterator<Item = OpKind> {
    instruction.op_kinds().filter(|kind| {
        matches!(kind, OpKind::MemorySegRSI | OpKind::MemorySegESI | OpKind::MemoryESRDI | OpKind::MemoryESEDI)
    })
}

/// `movs`, `cmps`, `stos`, `lods` and `scas`: they alone have these operands.
pub(crate) fn is_string(instruction: &Instruction) -> bool {
    string_operands(instruction).next().is_some()
}

/// One iteration: a load from RSI, then what is done at RDI. `cmps` is the other way round, on processors that were
/// tried; no manual says. Nothing if it is repeated and the counter is 0.
fn string(instruction: &Instruction, now: &Now<'_>) -> Result<Vec<Access>, Error> {
    let (mut from, mut to) = (None, None);
    let mut counter = Register::RCX;
    for kind in string_operands(instruction) {
        match kind {
            OpKind::MemorySegRSI => from = Some(now.registers.rsi),
            OpKind::MemoryESRDI => to = Some(now.registers.rdi),
            OpKind::MemorySegESI => {
                counter = Register::ECX;
                from = Some(now.registers.rsi & 0xffff_ffff);
            }
            _ => {
                counter = Register::ECX;
                to = Some(now.registers.rdi & 0xffff_ffff);
            }
        }
    }
    let repeated = instruction.has_repe_prefix() || instruction.has_repne_prefix();
    if repeated && now.value(counter) == Some(0) {
        return Ok(Vec::new());
    }
    let size = instruction.memory_size().size() as u32;
    let source = match from {
        // Only this side obeys a segment prefix.
        Some(from) => {
            let segment = now.segment(instruction);
            let segment = segment.ok_or_else(|| now.refuse(instruction, "the segment is not known"))?;
            Some(load(from.wrapping_add(segment), size))
        }
        None => None,
    };
    use Code::*;
    let (target, target_first) = match (to, instruction.code()) {
        (None, _) => (None, false),
        (Some(to), Stosb_m8_AL | Stosw_m16_AX | Stosd_m32_EAX | Stosq_m64_RAX) => (Some(store(to, size)), false),
        (Some(to), Movsb_m8_m8 | Movsw_m16_m16 | Movsd_m32_m32 | Movsq_m64_m64) => (Some(store(to, size)), false),
        (Some(to), Scasb_AL_m8 | Scasw_AX_m16 | Scasd_EAX_m32 | Scasq_RAX_m64) => (Some(load(to, size)), false),
        (Some(to), Cmpsb_m8_m8 | Cmpsw_m16_m16 | Cmpsd_m32_m32 | Cmpsq_m64_m64) => (Some(load(to, size)), true),
        _ => return Err(now.refuse(instruction, "not followed")),
    };
    let both = if target_first { [target, source] } else { [source, target] };
    Ok(both.into_iter().flatten().collect())
}

/// Pushes the frame pointer, copies `level - 1` frame pointers from the frame before, and pushes the new one.
fn enter(instruction: &Instruction, now: &Now<'_>) -> Vec<Access> {
    let size: u32 = if instruction.code() == Code::Enterw_imm16_imm8 { 2 } else { 8 };
    let level = instruction.immediate(1) & 31;
    let below = |from: u64, n: u64| from.wrapping_sub(n * u64::from(size));
    let (stack, frame) = (now.registers.rsp, now.registers.rbp);
    let mut references = vec![store(below(stack, 1), size)];
    for n in 1..level {
        references.extend([load(below(frame, n), size), store(below(stack, 1 + n), size)]);
    }
    if level > 0 {
        references.push(store(below(stack, 1 + level), size));
    }
    references
}

/// The bytes of a vector register or of one of MMX.
fn bytes_of(register: Register, instruction: &Instruction, now: &Now<'_>) -> Result<Vec<u8>, Error> {
    if register.is_mm() {
        Ok(now.tracee.mmx(register.number())?.to_vec())
    } else if register.is_vector_register() {
        Ok(now.tracee.vector(register.number())?[..register.size()].to_vec())
    } else {
        Err(now.refuse(instruction, "the mask is not known"))
    }
}

/// Whether the highest bit of element `n` is set.
fn sign(bytes: &[u8], n: usize, size: usize) -> bool {
    bytes[(n + 1) * size - 1] & 0x80 != 0
}

fn masked_move(instruction: &Instruction, now: &Now<'_>, addr: u64, size: usize) -> Result<Vec<Access>, Error> {
    let stores = instruction.op0_kind() == OpKind::Memory;
    let mask = bytes_of(instruction.op_register(1), instruction, now)?;
    let chosen = (0..mask.len() / size).filter(|&n| sign(&mask, n, size));
    let access = if stores { store } else { load };
    Ok(chosen.map(|n| access(addr + (n * size) as u64, size as u32)).collect())
}

fn masked_bytes(instruction: &Instruction, now: &Now<'_>) -> Result<Vec<Access>, Error> {
    let mask = bytes_of(instruction.op_register(2), instruction, now)?;
    let to = match instruction.op0_kind() {
        OpKind::MemorySegRDI => now.registers.rdi,
        OpKind::MemorySegEDI => now.registers.rdi & 0xffff_ffff,
        _ => return Err(now.refuse(instruction, "the address is not known")),
    };
    let segment = now.segment(instruction).ok_or_else(|| now.refuse(instruction, "the segment is not known"))?;
    let to = to.wrapping_add(segment);
    Ok((0..mask.len()).filter(|&n| sign(&mask, n, 1)).map(|n| store(to + n as u64, 1)).collect())
}

/// A load for each element whose mask bit is set, from the lowest. The masks of elements that were loaded before a
/// fault are cleared already.
fn gather(instruction: &Instruction, now: &Now<'_>) -> Result<Vec<Access>, Error> {
    let unknown = || now.refuse(instruction, "the address is not known");
    let index = instruction.memory_index();
    if !index.is_vector_register() || instruction.op_count() != 3 {
        return Err(unknown());
    }
    let wide = instruction.vsib() == Some(true);
    let (size, step) = (instruction.memory_size().size(), if wide { 8 } else { 4 });
    let indices = bytes_of(index, instruction, now)?;
    let mask = bytes_of(instruction.op_register(2), instruction, now)?;
    let elements = (indices.len() / step).min(instruction.op_register(0).size() / size);
    let scale = u64::from(instruction.memory_index_scale());
    let mut references = Vec::new();
    for n in (0..elements).filter(|&n| sign(&mask, n, size)) {
        let bytes = &indices[n * step..(n + 1) * step];
        let index = match bytes.try_into() {
            Ok(eight) => u64::from_le_bytes(eight),
            Err(_) => i32::from_le_bytes(bytes.try_into().map_err(|_| unknown())?) as u64,
        };
        let addr = now.operand(instruction, index.wrapping_mul(scale)).ok_or_else(unknown)?;
        references.push(load(addr, size as u32));
    }
    Ok(references)
}

/// Of an XSAVE area in the standard layout: what belongs to x87 and SSE and the header, and the part of AVX, if that is
/// among the chosen components. Which bytes of the first are touched is the processor's business.
fn extended_state(instruction: &Instruction, now: &Now<'_>, addr: u64) -> Vec<Access> {
    const HEADER_END: u32 = 576;
    const AVX_SIZE: u32 = 256;
    let saves = matches!(instruction.mnemonic(), Mnemonic::Xsave | Mnemonic::Xsave64);
    let access = if saves { store } else { load };
    let mut references = vec![access(addr, HEADER_END)];
    if now.registers.rax & 4 != 0 {
        references.push(access(addr.wrapping_add(HEADER_END.into()), AVX_SIZE));
    }
    references
}
