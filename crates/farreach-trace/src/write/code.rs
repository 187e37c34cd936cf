//! What an instruction of x86-64 is, by its bytes: its kind of branch, where it goes, and its registers.

use iced_x86::{Decoder, DecoderOptions, FlowControl, InstructionInfoFactory, OpAccess, Register};

use farreach_types::event::{Block, Instr};

/// Longest instruction of x86-64.
pub(super) const MAX_BYTES: usize = 15;
/// Registers that are kept of an instruction: no record of a format has more, and one more says that there are.
pub(super) const REGISTERS: usize = 6;

/// How an instruction goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Flow {
    /// With the next one, or in the kernel.
    Next,
    /// The bytes are those of no instruction.
    Unknown,
    Jump,
    IndirectJump,
    Conditional,
    Call,
    IndirectCall,
    Return,
}

/// Some registers, by the numbers of [`number`], each once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Registers {
    numbers: [u8; REGISTERS],
    /// How many there are, also of those that are not kept.
    pub all: u8,
}

impl Registers {
    fn add(&mut self, number: u8) {
        if number != 0 && !self.list().contains(&number) {
            if let Some(free) = self.numbers.get_mut(self.all as usize) {
                *free = number;
            }
            self.all = self.all.saturating_add(1);
        }
    }

    pub fn list(&self) -> &[u8] {
        &self.numbers[..REGISTERS.min(self.all.into())]
    }
}

/// An instruction.
#[derive(Clone, Debug)]
pub(super) struct Code {
    pub flow: Flow,
    /// Where a direct branch goes.
    pub target: u64,
    pub reads: Registers,
    pub writes: Registers,
    bytes: [u8; MAX_BYTES],
    len: u8,
}

impl Code {
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len.into()]
    }
}

/// Knows instructions by their bytes.
pub(super) struct Disassembler(InstructionInfoFactory);

impl Disassembler {
    pub fn new() -> Disassembler {
        Disassembler(InstructionInfoFactory::new())
    }

    /// The instructions of a block, of which `code` has the bytes. `None`: one is longer than those of x86-64.
    pub fn block(&mut self, block: &Block, mut code: &[u8]) -> Option<Box<[Code]>> {
        let mut take = |instr: &Instr| {
            let (bytes, rest) = code.split_at_checked(instr.len as usize)?;
            code = rest;
            self.instruction(instr.pc, bytes)
        };
        block.instrs.iter().map(&mut take).collect()
    }

    fn instruction(&mut self, pc: u64, bytes: &[u8]) -> Option<Code> {
        let mut kept = [0; MAX_BYTES];
        kept.get_mut(..bytes.len())?.copy_from_slice(bytes);
        let instruction = Decoder::with_ip(64, bytes, pc, DecoderOptions::NONE).decode();
        let len = bytes.len() as u8;
        if instruction.len() != bytes.len() || instruction.is_invalid() {
            let none = Registers::default();
            return Some(Code { flow: Flow::Unknown, target: 0, reads: none, writes: none, bytes: kept, len });
        }
        let flow = match instruction.flow_control() {
            FlowControl::UnconditionalBranch => Flow::Jump,
            FlowControl::IndirectBranch => Flow::IndirectJump,
            FlowControl::ConditionalBranch => Flow::Conditional,
            FlowControl::Return => Flow::Return,
            // Others of these two are calls of the system.
            FlowControl::Call if instruction.is_call_near() || instruction.is_call_far() => Flow::Call,
            FlowControl::IndirectCall => Flow::IndirectCall,
            _ => Flow::Next,
        };
        let (mut reads, mut writes) = (Registers::default(), Registers::default());
        for used in self.0.info(&instruction).used_registers() {
            use OpAccess as A;
            let number = number(used.register());
            if matches!(used.access(), A::Read | A::CondRead | A::ReadWrite | A::ReadCondWrite) {
                reads.add(number);
            }
            if matches!(used.access(), A::Write | A::CondWrite | A::ReadWrite | A::ReadCondWrite) {
                writes.add(number);
            }
        }
        if instruction.rflags_read() != 0 {
            reads.add(FLAGS);
        }
        if instruction.rflags_modified() != 0 {
            writes.add(FLAGS);
        }
        let target = if matches!(flow, Flow::Jump | Flow::Conditional | Flow::Call) {
            instruction.near_branch_target()
        } else {
            0
        };
        Some(Code { flow, target, reads, writes, bytes: kept, len })
    }
}

/// Numbers of registers that ChampSim looks for.
pub(super) const STACK_POINTER: u8 = 6;
pub(super) const FLAGS: u8 = 25;
pub(super) const INSTRUCTION_POINTER: u8 = 26;

/// The number of a register as Pin counts them, from whose tracer those of ChampSim's traces are. A part of a register
/// has the number of the whole. 0: it is the instruction pointer, which each instruction writes, or of the system.
fn number(register: Register) -> u8 {
    let whole = register.full_register();
    // In iced's order: RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8 to R15.
    const GENERAL: [u8; 16] = [10, 9, 8, 7, STACK_POINTER, 5, 4, 3, 11, 12, 13, 14, 15, 16, 17, 18];
    let number = whole.number() as u8;
    match whole {
        _ if whole.is_gpr() => GENERAL[whole.number()],
        _ if whole.is_vector_register() => 91 + number,
        _ if whole.is_mm() => 83 + number,
        _ if whole.is_k() => 187 + number,
        _ if whole.is_st() => 207 + number,
        Register::FS => 23,
        Register::GS => 24,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kind, target, registers read and written, worked out from the manual.
    #[test]
    fn instructions_by_their_bytes() {
        type Case<'a> = (&'a [u8], Flow, u64, &'a [u8], &'a [u8]);
        let cases: [Case; 15] = [
            (&[0x48, 0x01, 0xd8], Flow::Next, 0, &[10, 7], &[10, 25]), // add rax, rbx
            (&[0x8b, 0x44, 0x8f, 0x04], Flow::Next, 0, &[3, 9], &[10]), // mov eax, [rdi+rcx*4+4]
            (&[0x55], Flow::Next, 0, &[6, 5], &[6]),                   // push rbp
            (&[0xc5, 0xfd, 0x58, 0xc1], Flow::Next, 0, &[91, 92], &[91]), // vaddpd ymm0, ymm0, ymm1
            (&[0x0f, 0x05], Flow::Next, 0, &[25], &[9, 14, 25]),       // syscall
            (&[0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0], Flow::Next, 0, &[23], &[10]), // mov rax, fs:[0x28]
            (&[0xeb, 0x10], Flow::Jump, 0x1012, &[], &[]),
            (&[0xe9, 0xfb, 0xff, 0xff, 0xff], Flow::Jump, 0x1000, &[], &[]),
            (&[0x75, 0xfe], Flow::Conditional, 0x1000, &[25], &[]), // jne
            (&[0xe3, 0x00], Flow::Conditional, 0x1002, &[9], &[]),  // jrcxz
            (&[0xe8, 0, 1, 0, 0], Flow::Call, 0x1105, &[6], &[6]),
            (&[0xff, 0xd0], Flow::IndirectCall, 0, &[10, 6], &[6]), // call rax
            (&[0xff, 0x25, 0, 0, 0, 0], Flow::IndirectJump, 0, &[], &[]), // jmp [rip]
            (&[0x41, 0xff, 0xe3], Flow::IndirectJump, 0, &[14], &[]), // jmp r11
            (&[0xc3], Flow::Return, 0, &[6], &[6]),
        ];
        let sorted = |numbers: &[u8]| {
            let mut sorted = numbers.to_vec();
            sorted.sort_unstable();
            sorted
        };
        let mut disassembler = Disassembler::new();
        for (bytes, flow, target, reads, writes) in cases {
            let code = disassembler.instruction(0x1000, bytes).expect("an instruction");
            assert_eq!((code.flow, code.target, code.bytes()), (flow, target, bytes), "{bytes:02x?}");
            assert_eq!(sorted(code.reads.list()), sorted(reads), "{bytes:02x?}");
            assert_eq!(sorted(code.writes.list()), sorted(writes), "{bytes:02x?}");
        }
        for none in [&[0x06][..], &[0x90, 0x90], &[0x0f], &[]] {
            let code = disassembler.instruction(0x1000, none).expect("few bytes");
            assert_eq!((code.flow, code.bytes()), (Flow::Unknown, none));
        }
        assert!(disassembler.instruction(0x1000, &[0x90; 16]).is_none());
    }
}
