//! Compiled code computes what the source says.

use std::collections::HashMap;

use super::passes::{ASSIGN, CONST, Compiler, GLOBAL, LOCAL, REGISTERS, apply};
use super::source::{OPERATORS, Writer};
use super::*;

type Globals = HashMap<u32, u32>;

/// Interprets the source by recursive descent, without the compiler's passes.
struct Interpreter<'a> {
    text: &'a [u8],
    at: usize,
    locals: [u32; 16],
    globals: &'a mut Globals,
}

impl Interpreter<'_> {
    fn run(mut self) -> u32 {
        while self.at < self.text.len() {
            let (global, name) = (self.text[self.at] == b'g', self.name());
            assert_eq!(self.text[self.at], b'=');
            self.at += 1;
            let value = self.expression(0);
            match global {
                true => drop(self.globals.insert(name, value)),
                false => self.locals[name as usize] = value,
            }
            assert_eq!(&self.text[self.at..self.at + 2], b";\n");
            self.at += 2;
        }
        self.locals[0]
    }
    fn name(&mut self) -> u32 {
        self.at += 1;
        self.number()
    }
    fn number(&mut self) -> u32 {
        let digits = self.text[self.at..].iter().take_while(|c| c.is_ascii_digit()).count();
        let number = std::str::from_utf8(&self.text[self.at..self.at + digits]).unwrap().parse().unwrap();
        self.at += digits;
        number
    }
    fn expression(&mut self, least: u32) -> u32 {
        let mut value = match self.text[self.at] {
            b'(' => {
                self.at += 1;
                let value = self.expression(0);
                assert_eq!(self.text[self.at], b')');
                self.at += 1;
                value
            }
            b'v' => {
                let name = self.name();
                self.locals[name as usize]
            }
            b'g' => {
                let name = self.name();
                self.globals.get(&name).copied().unwrap_or(0)
            }
            _ => self.number(),
        };
        while let Some(kind) = OPERATORS.iter().position(|o| o.0 == self.text[self.at] && o.1 > least) {
            self.at += 1;
            let right = self.expression(OPERATORS[kind].1);
            value = apply(kind as u32, value, right);
        }
        value
    }
}

fn execute(code: &[u64], globals: &mut Globals) -> (u32, bool) {
    let mut locations = vec![0u32; 1 << 16];
    let (mut i, mut spilled) = (0, false);
    while i < code.len() {
        let field = |shift: u32| (code[i] >> shift) as usize & 0xffff;
        let (kind, to, a, b) = (field(48) as u32, field(32), field(16), field(0));
        spilled |= to >= REGISTERS as usize;
        i += 1;
        if kind == LOCAL {
            assert_eq!(i, code.len(), "the function returns at its end");
            return (locations[a], spilled);
        }
        let extra = if matches!(kind, CONST | GLOBAL | ASSIGN) { Some(code[i] as u32) } else { None };
        i += usize::from(extra.is_some());
        match (kind, extra) {
            (CONST, Some(value)) => locations[to] = value,
            (GLOBAL, Some(name)) => locations[to] = globals.get(&name).copied().unwrap_or(0),
            (ASSIGN, Some(name)) => drop(globals.insert(name, locations[a])),
            _ => locations[to] = apply(kind, locations[a], locations[b]),
        }
    }
    panic!("no return");
}

#[test]
fn compiled_functions_compute_what_their_source_says() {
    let mut m = Native::new(u64::MAX);
    let mut compiler = Compiler::new(&mut m, 2 << 20);
    let mut writer = Writer::new(11, compiler.symbols(), compiler.most_statements());
    let (mut by_source, mut by_code) = (Globals::new(), Globals::new());
    let (mut spilled, mut operations, mut words) = (false, 0, 0);
    for number in 0..200 {
        let text = writer.function();
        let code: Vec<u64> =
            compiler.compile(&mut m, text.as_bytes()).map(|at| compiler.output(&mut m, site(0, 127), at)).collect();
        let expected = Interpreter { text: text.as_bytes(), at: 0, locals: [0; 16], globals: &mut by_source }.run();
        let (got, spills) = execute(&code, &mut by_code);
        assert_eq!(got, expected, "function {number}");
        assert_eq!(by_code, by_source, "function {number}");
        spilled |= spills;
        operations += text.bytes().filter(|c| b"|^&+-*".contains(c)).count();
        words += code.iter().filter(|word| **word >> 48 < u64::from(CONST) && **word >> 32 != 0).count();
    }
    assert!(spilled, "some function needs more than the registers");
    assert!(words < operations, "dead and repeated operations are left out: {words} of {operations}");
}
