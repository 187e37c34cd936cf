//! Functions to compile: assignments to sixteen local variables and to global ones, which follow Zipf's law.

use std::fmt::Write;

use super::super::random::Rng;

/// Local variables `v0` to `v15`.
pub(super) const LOCALS: usize = 16;
/// Binary operators by precedence, lowest first.
pub(super) const OPERATORS: [(u8, u32); 6] = [(b'|', 1), (b'^', 2), (b'&', 3), (b'+', 4), (b'-', 4), (b'*', 5)];

/// Most tokens of a statement.
pub(super) const STATEMENT_TOKENS: usize = 64;

/// Writes one function after the other.
pub(super) struct Writer {
    rng: Rng,
    globals: usize,
    statements: usize,
}

impl Writer {
    /// At most `globals` global names, and functions of up to `statements` statements.
    pub fn new(seed: u64, globals: usize, statements: usize) -> Writer {
        Writer { rng: Rng::new(seed), globals, statements }
    }

    pub fn function(&mut self) -> String {
        let mut text = String::new();
        for _ in 0..=self.rng.zipf(self.statements) {
            let target = self.rng.below(4);
            self.variable(&mut text, target > 0);
            text.push('=');
            self.expression(&mut text, 3);
            text.push_str(";\n");
        }
        text
    }

    fn variable(&mut self, text: &mut String, local: bool) {
        let named = if local {
            write!(text, "v{}", self.rng.below(LOCALS))
        } else {
            write!(text, "g{}", self.rng.zipf(self.globals))
        };
        named.expect("a string takes everything");
    }

    /// An expression with at most 2^depth operands.
    fn expression(&mut self, text: &mut String, depth: u32) {
        match self.rng.below(8) {
            0 => write!(text, "{}", self.rng.zipf(1 << 16)).expect("a string takes everything"),
            1 => self.variable(text, false),
            2 | 3 => self.variable(text, true),
            _ if depth == 0 => self.variable(text, true),
            kind => {
                let operator = OPERATORS[self.rng.below(OPERATORS.len())].0 as char;
                text.push_str(if kind == 4 { "(" } else { "" });
                self.expression(text, depth - 1);
                text.push(operator);
                self.expression(text, depth - 1);
                text.push_str(if kind == 4 { ")" } else { "" });
            }
        }
    }
}
