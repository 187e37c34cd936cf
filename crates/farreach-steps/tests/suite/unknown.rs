//! Instructions that processors have and Valgrind does not know: the program gets SIGILL under the recorder.

use std::fmt::Write;

use farreach_live::Exit;
use farreach_types::event::Kind;

use crate::build::{MEMORY, has, program, remove, sources};
use crate::recorded::record;

/// Where the program stores a byte for each instruction that did not fault.
const RAN: u64 = MEMORY.start + 0x100;

/// Instructions of `fixtures/steps/unknown.txt` that this processor has.
fn unknown() -> Vec<String> {
    let text = std::fs::read_to_string(sources().join("unknown.txt")).expect("unknown.txt");
    let mut here = true;
    let mut all = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            Some(feature) => here = has(feature),
            None if here => all.push(line.to_owned()),
            None => {}
        }
    }
    all
}

/// Each is tried, with a handler that goes on behind it.
#[test]
fn instructions_that_valgrind_does_not_know_are_those_of_the_list() {
    let all = unknown();
    let mut text = "#include \"begin.h\"\n#include \"faults.h\"\nmain:\n\tcatch_faults\n".to_owned();
    for (n, instruction) in all.iter().enumerate() {
        let _ = writeln!(text, "\tlea rbx, pool+4096[rip]\n\tlea rsi, [rbx]\n\tlea rdi, [rbx + 64]");
        let _ = writeln!(text, "\tmov ecx, 2\n\tmov eax, 7\n\txor edx, edx\n\tmov r13, rsp");
        let _ = writeln!(text, "\tmov byte ptr signals_seen+4[rip], 0\n\tfaulty {instruction}\n\tmov rsp, r13");
        let _ =
            writeln!(text, "\tcmp byte ptr signals_seen+4[rip], 0\n\tjnz 1f\n\tmov byte ptr pool+256+{n}[rip], 1\n1:");
    }
    let program = program("unknown", &(text + "\tret\n"));
    let recorded = record(&program, 1_000_000);
    assert_eq!(recorded.exit, Ok(Exit::Code(0)));
    let ran = |n: usize| recorded.accesses.iter().any(|a| a.kind == Kind::Store && a.addr == RAN + n as u64);
    let known: Vec<&String> = (0..all.len()).filter(|n| ran(*n)).map(|n| &all[n]).collect();
    assert!(known.is_empty(), "Valgrind knows these now; they belong into forms.txt: {known:#?}");
    // Natively, each of them runs.
    let status = std::process::Command::new(&program).status().expect("the program runs");
    assert!(status.success(), "{status}");
    remove(&program);
}
