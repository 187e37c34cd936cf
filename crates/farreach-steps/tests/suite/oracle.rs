//! Are the computed references those of the processor? Two answers that owe nothing to the decoder: a table by hand,
//! and what happens to each form of instruction at the borders of a page that it may use.

use std::process::Command;

use farreach_steps::{
    Decoder, DecoderOptions, Instruction, Options, Registers, Stop, Tracee, find_syscall, protect, references_of, run,
};
use farreach_types::event::{Access, Kind};

use crate::build::{FORMS, MEMORY, program, remove};
use crate::forms::{Form, Slot, forms, with_operand};

const PAGE: u64 = 4096;
/// The pages before and behind are taken away; this one is there.
const ALLOWED: u64 = MEMORY.start + PAGE;
const BEHIND: u64 = ALLOWED + PAGE;
/// Bytes between two forms of the program.
const SLOT: u64 = 32;
/// How many bytes of the page are filled and compared.
const SEEN: usize = 1024;

/// By hand, from the descriptions of the instructions: text, and what its references are, with `b` for the address in
/// RBX and `s` for the stack pointer.
const BY_HAND: &[(&str, &str)] = &[
    ("mov eax, [rbx]", "L b 4"),
    ("mov [rbx + 8], ax", "S b+8 2"),
    ("lea eax, [rbx]", ""),
    ("add qword ptr [rbx], 1", "L b 8; S b 8"),
    ("cmp byte ptr [rbx], 1", "L b 1"),
    ("push rax", "S s-8 8"),
    ("push qword ptr [rbx]", "L b 8; S s-8 8"),
    ("pop qword ptr [rbx]", "L s 8; S b 8"),
    ("pop qword ptr [rsp + 8]", "L s 8; S s+16 8"),
    ("pushw 1", "S s-2 2"),
    ("xchg [rbx], eax", "L b 4; S b 4"),
    ("cmpxchg16b [rbx]", "L b 16; S b 16"),
    ("cmovz rax, [rbx]", "L b 8"),
    ("movsq", "L b+64 8; S b+128 8"),
    ("repe cmpsd", "L b+128 4; L b+64 4"),
    ("rep stosw", "S b+128 2"),
    ("lodsb", "L b+64 1"),
    ("enter 8, 0", "S s-8 8"),
    ("enter 8, 3", "S s-8 8; L b+504 8; S s-16 8; L b+496 8; S s-24 8; S s-32 8"),
    ("leave", "L b+512 8"),
    ("call 1f; 1:", "S s-8 8"),
    ("call [rbx]", "L b 8; S s-8 8"),
    ("ret", "L s 8"),
    ("bt dword ptr [rbx], edx", "L b-4 4"),
    ("bts qword ptr [rbx], rdx", "L b-8 8; S b-8 8"),
    ("fld tbyte ptr [rbx]", "L b 10"),
    ("fnsave [rbx]", "S b 108"),
    ("fnstenv [rbx]", "S b 28"),
    ("fxsave [rbx]", "S b 512"),
    ("movups [rbx], xmm1", "S b 16"),
    ("movhps xmm1, [rbx]", "L b 8"),
    ("cvtps2pd xmm1, [rbx]", "L b 8"),
    ("psllw xmm1, [rbx]", "L b 16"),
    ("pmovzxbq xmm1, [rbx]", "L b 2"),
    ("maskmovdqu xmm0, xmm0", ""),
    ("prefetchw [rbx]", ""),
    ("nop dword ptr [rbx]", ""),
    ("mov rax, fs:[16]", "L 16 8"),
    ("xlat", "L b+4 1"),
    ("movabs al, [0x20001000]", "L 536875008 1"),
    ("mov eax, [ebx + edx]", "L b-2 4"),
    ("clflush [rbx]", "L b 1"),
];

/// A program that is stopped at its beginning, with these instructions at fixed distances.
struct Bench {
    tracee: Tracee,
    start: Registers,
    extended: Vec<u8>,
    gadget: u64,
}

impl Bench {
    fn new(name: &str, instructions: &[String]) -> Bench {
        let mut text = "#include \"begin.h\"\nmain: ret\n.section .forms, \"ax\"\n".to_owned();
        for instruction in instructions {
            text += &format!(".balign {SLOT}\n\t{instruction}\n");
        }
        let program = program(name, &text);
        let mut tracee = Tracee::start(&mut Command::new(&program)).expect("a program");
        remove(&program);
        let gadget = find_syscall(&tracee).expect("a system call");
        let start = Registers {
            rbx: ALLOWED + 256,
            rsi: ALLOWED + 256 + 64,
            rdi: ALLOWED + 256 + 128,
            rbp: ALLOWED + 256 + 512,
            rsp: MEMORY.start + 6 * PAGE,
            rax: 4,
            rcx: 3,
            rdx: -2i64 as u64,
            r9: 0x1234_5678_9abc_def1,
            r10: 5,
            ..tracee.registers().expect("registers")
        };
        for page in [ALLOWED - PAGE, BEHIND] {
            protect(&mut tracee, gadget, page, libc::PROT_NONE).expect("a page");
        }
        let extended = tracee.extended().expect("a state");
        Bench { tracee, start, extended, gadget }
    }

    /// Puts the program before instruction `n`, with the general registers of the beginning.
    fn at(&mut self, n: usize, rbx: u64) -> (Instruction, Registers) {
        let registers = Registers { rip: FORMS.start + SLOT * n as u64, rbx, ..self.start };
        self.tracee.set_registers(&registers).expect("registers");
        let mut bytes = [0; 15];
        self.tracee.read(registers.rip, &mut bytes);
        (Decoder::with_ip(64, &bytes, registers.rip, DecoderOptions::NONE).decode(), registers)
    }

    fn computed(&mut self, n: usize, rbx: u64) -> Vec<Access> {
        let (instruction, registers) = self.at(n, rbx);
        references_of(&instruction, &self.tracee, &registers).expect("a known instruction")
    }

    /// What happens at this address.
    fn try_at(&mut self, n: usize, rbx: u64) -> Stop {
        self.at(n, rbx);
        self.tracee.step(0).expect("a step")
    }

    /// Fills the page with numbers, steps, and gives everything that may have changed.
    fn outcome(&mut self, n: usize, rbx: u64, seed: u8) -> (Vec<u8>, Vec<u8>) {
        let filled: Vec<u8> = (0..SEEN).map(|i| (i as u8).wrapping_mul(29).wrapping_add(seed)).collect();
        self.tracee.write(ALLOWED, &filled).expect("memory");
        self.tracee.set_extended(&self.extended).expect("a state");
        assert_eq!(self.try_at(n, rbx), Stop::Stepped);
        let r = self.tracee.registers().expect("registers");
        let general = [
            r.rax, r.rbx, r.rcx, r.rdx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14,
            r.r15, r.eflags,
        ];
        let mut state: Vec<u8> = general.iter().flat_map(|word| word.to_le_bytes()).collect();
        state.extend(self.tracee.extended().expect("a state"));
        let mut memory = vec![0; SEEN];
        self.tracee.read(ALLOWED, &mut memory);
        (state, memory)
    }
}

#[test]
fn computed_references_are_those_of_a_table_by_hand() {
    let texts: Vec<String> = BY_HAND.iter().map(|(text, _)| (*text).to_owned()).collect();
    let mut bench = Bench::new("by-hand", &texts);
    let rbx = bench.start.rbx;
    for (n, (text, expected)) in BY_HAND.iter().enumerate() {
        let computed = bench.computed(n, rbx);
        let address = |text: &str| {
            let (base, offset) = match text.split_at(1) {
                ("b", offset) => (rbx, offset),
                ("s", offset) => (bench.start.rsp, offset),
                _ => (0, text),
            };
            base.wrapping_add(if offset.is_empty() { 0 } else { offset.parse::<i64>().expect("an offset") as u64 })
        };
        let expected: Vec<Access> = expected
            .split("; ")
            .filter(|part| !part.is_empty())
            .map(|part| {
                let words: Vec<&str> = part.split(' ').collect();
                let kind = if words[0] == "L" { Kind::Load } else { Kind::Store };
                Access { kind, addr: address(words[1]), size: words[2].parse().expect("a size") }
            })
            .collect();
        assert_eq!(computed, expected, "{text}");
    }
}

/// Begin, end and kind of the operand of each form, from faults and from what depends on the memory.
#[test]
fn operands_begin_and_end_where_the_processor_faults() {
    let forms = forms();
    let texts: Vec<String> = forms.iter().map(|form| with_operand(form, "[rbx]")).collect();
    let mut bench = Bench::new("probes", &texts);
    let mut wrong = String::new();
    for (n, (form, text)) in forms.iter().zip(&texts).enumerate() {
        if let Err(what) = probe(&mut bench, n, form) {
            wrong += &format!("{text}: {what}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

fn probe(bench: &mut Bench, n: usize, form: &Form) -> Result<(), String> {
    let Slot::Memory(_, align) = form.memory() else { unreachable!("a form has a memory operand") };
    let at = ALLOWED + 256;
    let inside = |access: &Access| (ALLOWED..BEHIND).contains(&access.addr);
    let computed: Vec<Access> = bench.computed(n, at).into_iter().filter(inside).collect();
    let fault = |address| Stop::Signal { signal: libc::SIGSEGV, address };
    let expect = |what: &str, stop: Stop, right: Stop| {
        if stop == right {
            Ok(())
        } else {
            Err(format!("{what}: {stop:?}, expected {right:?}; computed {computed:x?}"))
        }
    };
    let Some(first) = computed.first() else {
        return expect("nothing is computed", bench.try_at(n, BEHIND), Stop::Stepped);
    };
    if computed.iter().any(|a| (a.addr, a.size) != (first.addr, first.size)) {
        return Err(format!("more than one place: {computed:x?}"));
    }
    let (before, size) = (first.addr.wrapping_sub(at), u64::from(first.size));
    let last = BEHIND.wrapping_sub(size).wrapping_sub(before);
    let begin = ALLOWED.wrapping_sub(before);
    expect("it ends with the page", bench.try_at(n, last), Stop::Stepped)?;
    match bench.try_at(n, last + align) {
        Stop::Signal { signal: libc::SIGSEGV, address } if (BEHIND - size..=BEHIND).contains(&address) => {}
        stop => return Err(format!("it ends behind the page: {stop:?}; computed {computed:x?}")),
    }
    expect("it begins with the page", bench.try_at(n, begin), Stop::Stepped)?;
    expect("it begins before the page", bench.try_at(n, begin - align), fault(ALLOWED - align))?;
    let has = |kind| computed.iter().any(|a| a.kind == kind);
    let (loads, stores) = (has(Kind::Load), has(Kind::Store));
    let gadget = bench.gadget;
    bench.at(n, at);
    protect(&mut bench.tracee, gadget, ALLOWED, libc::PROT_READ).map_err(|e| e.to_string())?;
    let stop = bench.try_at(n, at);
    bench.at(n, at);
    protect(&mut bench.tracee, gadget, ALLOWED, libc::PROT_READ | libc::PROT_WRITE).map_err(|e| e.to_string())?;
    expect("it may only read", stop, if stores { fault(first.addr) } else { Stop::Stepped })?;
    if stores {
        let outcomes: Vec<_> = [1, 2, 77, 128].map(|seed| bench.outcome(n, at, seed)).into();
        let operand = (first.addr - ALLOWED) as usize..(first.addr - ALLOWED + size) as usize;
        let part = |i: usize| (&outcomes[i].0, &outcomes[i].1[operand.clone()]);
        let depends = (1..outcomes.len()).any(|i| part(i) != part(0));
        if depends != loads {
            return Err(format!("what it does depends on the memory: {depends}; computed {computed:x?}"));
        }
    }
    Ok(())
}

#[test]
fn what_is_not_followed_is_refused() {
    for (name, text, words) in [
        ("fork", "main: mov eax, 57; syscall; ret", "starts a thread or a process"),
        ("exec", "main: mov eax, 59; syscall; ret", "becomes another one"),
        ("limit", "main: jmp main", "more than 100000 steps"),
        ("far", "main: lea rax, [rip+1f]; push 0x33; push rax; retfq; 1: ret", "not followed"),
    ] {
        let program = program(name, &format!("#include \"begin.h\"\n{text}\n"));
        let options = Options { witness: None, limit: Some(100_000) };
        let message = run(&mut Command::new(&program), &options).expect_err("refused").to_string();
        assert!(message.contains(words), "{message}");
        remove(&program);
    }
}
