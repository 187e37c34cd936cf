//! A compiler of many passes over generated functions: characters to tokens to a tree to value-numbered code to
//! registers. Each pass has a page of code for each kind of operation and shape of operands. So the text is long and
//! every pass runs through its own part of it, as in a real compiler. The data are the symbol table and what one
//! function needs.

mod passes;
mod source;
#[cfg(test)]
mod tests;

use super::kernel::{Kernel, Settings};
use super::memory::{Memory, Native, site};
use super::traced::{Layout, Traced};
use passes::Compiler;

pub(super) const KERNEL: Kernel = Kernel {
    name: "compiler",
    class: "multi-pass compiler",
    stands_for: "gcc",
    about: "seven passes with their own code over functions of all lengths; a large text",
    default_size: 12_800 << 10,
    small_size: 2 << 20,
    smallest: 512 << 10,
    largest: 1 << 30,
    layout: Layout::Heap,
    text_pages: passes::PASSES * passes::PAGES_PER_PASS,
    traced: run::<Traced>,
    native: run::<Native>,
};

fn run<M: Memory>(m: &mut M, s: &Settings) -> u64 {
    let mut compiler = Compiler::new(m, s.size as usize);
    let mut writer = source::Writer::new(s.seed, compiler.symbols(), compiler.most_statements());
    let mut sum = 0u64;
    while m.budget_left() {
        let code = compiler.compile(m, writer.function().as_bytes());
        for at in code {
            sum = sum.rotate_left(3) ^ compiler.output(m, site(0, 127), at);
        }
    }
    sum
}
