//! The passes. Each works through the output of the one before, one kind of record at a time.

use std::ops::Range;

use super::super::memory::{Memory, Site, site};
use super::source::{LOCALS, OPERATORS, STATEMENT_TOKENS};

pub(super) const PASSES: u32 = 7;
/// Kinds of operations: six operators, and the four below.
const KINDS: u32 = 10;
/// Shapes of operands that are handled apart.
const SHAPES: u32 = 5;
pub(super) const PAGES_PER_PASS: u32 = KINDS * SHAPES;

pub(super) const CONST: u32 = 6;
pub(super) const LOCAL: u32 = 7;
pub(super) const GLOBAL: u32 = 8;
pub(super) const ASSIGN: u32 = 9;

/// A token is its kind in the upper half and its value in the lower: an operator's character, a number, a variable's
/// number.
const NUMBER: u64 = 1;
const SYMBOL: u64 = 3;
const SIGN: u64 = 4;

/// Registers of the machine; locations from here on are slots of the stack frame.
pub(super) const REGISTERS: u32 = 12;
/// No operand, no value.
const NONE: u32 = u32::MAX;

/// Words of a symbol: number of its name, next symbol of its hash chain (1 + number), the function and value number it
/// holds now, and its number of uses.
const SYMBOL_WORDS: usize = 8;
/// Words of a node of the tree: kind, left, right, value. Operands stand before their operation.
const NODE: usize = 4;
/// Words of an instruction: kind, two operands (numbers of instructions), constant or symbol. Its number also names its
/// value.
const CODE: usize = 4;

/// The place `step` of the code for a kind of operation with a shape of operands, in a pass.
fn at(pass: u32, kind: u32, shape: u32, step: u32) -> Site {
    site(pass * PAGES_PER_PASS + kind * SHAPES + shape % SHAPES, step)
}

pub(super) struct Compiler<M: Memory> {
    symbols: usize,
    buckets: M::Array<u32>,
    symbol: M::Array<u32>,
    defined: u32,
    /// The class of each character.
    classes: M::Array<u8>,
    text: M::Array<u8>,
    tokens: M::Array<u64>,
    most_tokens: usize,
    nodes: M::Array<u32>,
    code: M::Array<u32>,
    /// By instruction: its last use, and the location of its value.
    last_use: M::Array<u32>,
    location: M::Array<u32>,
    /// Hash table of values: function in the upper half, 1 + instruction in the lower.
    values: M::Array<u64>,
    slots: usize,
    /// The instruction that computed each local variable's value.
    local: M::Array<u32>,
    /// The stack of the parser, and free registers and slots.
    stack: M::Array<u32>,
    free: M::Array<u32>,
    output: M::Array<u64>,
    room: usize,
    emitted: usize,
    function: u32,
}

const TEXT: usize = 64 << 10;
const FRAME: usize = 4096;

impl<M: Memory> Compiler<M> {
    /// Half of the memory for symbols, three tenths for a function, a fifth for the output.
    pub fn new(m: &mut M, size: usize) -> Compiler<M> {
        let symbols = size / 2 / (4 * SYMBOL_WORDS + 4);
        let most_tokens = (size * 3 / 10 - TEXT) / (8 + 4 * NODE + 4 * CODE + 4 + 4 + 16);
        let (slots, room) = (2 * most_tokens, size / 5 / 8);
        let class = |c: usize| match c as u8 {
            b'0'..=b'9' => 1,
            b'v' => 2,
            b'g' => 3,
            b'\n' => 0,
            _ => 4,
        };
        Compiler {
            symbols,
            buckets: m.array(symbols),
            symbol: m.array(symbols * SYMBOL_WORDS),
            defined: 0,
            classes: m.input((0..256).map(class)),
            text: m.array(TEXT),
            tokens: m.array(most_tokens),
            most_tokens,
            nodes: m.array(most_tokens * NODE),
            code: m.array(most_tokens * CODE),
            last_use: m.array(most_tokens),
            location: m.array(most_tokens),
            values: m.array(slots),
            slots,
            local: m.array(LOCALS),
            stack: m.stack(FRAME),
            free: m.stack(FRAME),
            output: m.array(room),
            room,
            emitted: 0,
            function: 0,
        }
    }

    /// Names that fit.
    pub fn symbols(&self) -> usize {
        self.symbols
    }
    /// Statements of the longest function.
    pub fn most_statements(&self) -> usize {
        (self.most_tokens / STATEMENT_TOKENS).min(FRAME)
    }

    /// Compiles a function. Returns its words of output, numbered from the beginning of the run.
    pub fn compile(&mut self, m: &mut M, text: &[u8]) -> Range<usize> {
        self.function += 1;
        let tokens = self.lex(m, text);
        let nodes = self.parse(m, tokens);
        self.fold(m, nodes);
        let code = self.number(m, nodes);
        self.uses(m, code);
        self.allocate(m, code);
        self.emit(m, code)
    }

    /// A word of output.
    pub fn output(&self, m: &mut M, at: Site, word: usize) -> u64 {
        m.load(at, &self.output, word % self.room)
    }

    /// Pass 0: tokens, and their number.
    fn lex(&mut self, m: &mut M, text: &[u8]) -> usize {
        let (mut tokens, mut kind, mut value) = (0, 0, 0u64);
        for chunk in text.chunks(TEXT) {
            m.read(&mut self.text, chunk.iter().copied());
            for i in 0..chunk.len() {
                let c = m.load(site(0, 0), &self.text, i);
                let class = m.load(site(0, 1), &self.classes, c.into());
                if class == 1 {
                    value = value * 10 + u64::from(c - b'0');
                    kind = kind.max(NUMBER);
                    continue;
                }
                if kind != 0 {
                    let value = if kind == SYMBOL { self.intern(m, value as u32).into() } else { value };
                    m.store(at(0, kind as u32, 0, 0), &mut self.tokens, tokens, kind << 32 | value);
                    tokens += 1;
                }
                (kind, value) = (if class == 2 || class == 3 { u64::from(class) } else { 0 }, 0);
                if class == 4 {
                    m.store(at(0, 4, u32::from(c), 0), &mut self.tokens, tokens, SIGN << 32 | u64::from(c));
                    tokens += 1;
                }
            }
        }
        tokens
    }

    /// The symbol of a name, entered if it is new.
    fn intern(&mut self, m: &mut M, name: u32) -> u32 {
        let hash = u64::from(name).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let bucket = ((u128::from(hash) * self.symbols as u128) >> 64) as usize;
        m.work(at(0, 5, 0, 0));
        let head = m.load(at(0, 5, 0, 1), &self.buckets, bucket);
        let mut link = head;
        while link != 0 {
            let symbol = (link as usize - 1) * SYMBOL_WORDS;
            if m.load(at(0, 5, 0, 2), &self.symbol, symbol) == name {
                m.update(at(0, 5, 0, 3), &mut self.symbol, symbol + 4, |uses| uses.wrapping_add(1));
                return link - 1;
            }
            link = m.load(at(0, 5, 0, 4), &self.symbol, symbol + 1);
        }
        let symbol = self.defined as usize * SYMBOL_WORDS;
        m.store(at(0, 5, 1, 0), &mut self.symbol, symbol, name);
        m.store(at(0, 5, 1, 1), &mut self.symbol, symbol + 1, head);
        self.defined += 1;
        m.store(at(0, 5, 1, 2), &mut self.buckets, bucket, self.defined);
        self.defined - 1
    }

    fn node(&mut self, m: &mut M, count: &mut usize, [kind, left, right, value]: [u32; NODE]) -> u32 {
        let shape = if left == NONE { value } else { left ^ right };
        for (k, word) in (0..).zip([kind, left, right, value]) {
            m.store(at(1, kind, shape, 8 + k), &mut self.nodes, *count * NODE + k as usize, word);
        }
        *count += 1;
        *count as u32 - 1
    }

    /// Pass 1: the tree, by operator precedence with a stack of operands and one of operators that share a frame.
    fn parse(&mut self, m: &mut M, tokens: usize) -> usize {
        const BINDS: u32 = 16;
        let mut count = 0;
        // Operands grow from the bottom, operators from the middle. An entry holds kind and precedence.
        let (mut operands, mut operators) = (0, FRAME / 2);
        let middle = FRAME / 2;
        for t in 0..tokens {
            let token = m.load(site(PAGES_PER_PASS, 0), &self.tokens, t);
            let value = token as u32;
            let binding = match token >> 32 {
                SIGN => match OPERATORS.iter().position(|o| u32::from(o.0) == value) {
                    Some(kind) => kind as u32 + BINDS * OPERATORS[kind].1,
                    None => 0,
                },
                kind => {
                    let leaf = [CONST, LOCAL, GLOBAL][kind as usize - 1];
                    let node = self.node(m, &mut count, [leaf, NONE, NONE, value]);
                    m.store(at(1, leaf, 0, 0), &mut self.stack, operands, node);
                    operands += 1;
                    continue;
                }
            };
            let sign = value as u8;
            if sign == b'(' || sign == b'=' {
                // An assignment has the lowest precedence. An open bracket keeps what is before it on the stack.
                let entry = if sign == b'=' { ASSIGN } else { NONE };
                m.store(at(1, ASSIGN, 1, 0), &mut self.stack, operators, entry);
                operators += 1;
                continue;
            }
            while operators > middle {
                let top = m.load(at(1, ASSIGN, 2, 0), &self.stack, operators - 1);
                if top == NONE || (binding != 0 && top / BINDS < binding / BINDS) || (top == ASSIGN && sign != b';') {
                    break;
                }
                operators -= 1;
                operands -= 1;
                let kind = top % BINDS;
                let right = m.load(at(1, kind, 0, 1), &self.stack, operands);
                let left = m.load(at(1, kind, 0, 2), &self.stack, operands - 1);
                let node = self.node(m, &mut count, [kind, left, right, 0]);
                m.store(at(1, kind, 0, 3), &mut self.stack, operands - 1, node);
            }
            match sign {
                b')' => operators -= 1,
                b';' => operands = 0,
                _ => {
                    m.store(at(1, binding % BINDS, 1, 0), &mut self.stack, operators, binding);
                    operators += 1;
                }
            }
        }
        count
    }

    /// Kind, operands and value of a node, and the shape of its operands.
    fn read_node(&self, m: &mut M, pass: u32, node: usize) -> ([u32; NODE], u32) {
        let kind = m.load(site(pass * PAGES_PER_PASS, 0), &self.nodes, node * NODE);
        let word = |m: &mut M, k: u32| m.load(at(pass, kind, 0, 1 + k), &self.nodes, node * NODE + k as usize);
        let words = [kind, word(m, 1), word(m, 2), word(m, 3)];
        let shape = if words[1] == NONE { words[3] } else { words[1] ^ words[2] };
        m.work(at(pass, kind, shape, 8));
        (words, shape)
    }

    /// Pass 2: an operation on two constants is a constant.
    fn fold(&mut self, m: &mut M, nodes: usize) {
        for node in 0..nodes {
            let ([kind, left, right, _], shape) = self.read_node(m, 2, node);
            if kind >= CONST {
                continue;
            }
            let constant = |m: &mut M, k: u32, operand: u32| {
                let operand = operand as usize * NODE;
                let constant = m.load(at(2, kind, shape, 16 + k), &self.nodes, operand) == CONST;
                constant.then(|| m.load(at(2, kind, shape, 20 + k), &self.nodes, operand + 3))
            };
            if let (Some(a), Some(b)) = (constant(m, 0, left), constant(m, 1, right)) {
                let folded = [CONST, NONE, NONE, apply(kind, a, b)];
                for (k, word) in (0..).zip(folded) {
                    m.store(at(2, kind, shape, 24 + k), &mut self.nodes, node * NODE + k as usize, word);
                }
            }
        }
    }

    /// Pass 3: code that computes equal values once. The number of a node's value replaces the operands in its words.
    fn number(&mut self, m: &mut M, nodes: usize) -> usize {
        let mut count = 0;
        for local in 0..LOCALS {
            m.store(site(3 * PAGES_PER_PASS, 1), &mut self.local, local, NONE);
        }
        for node in 0..nodes {
            let ([kind, left, right, value], shape) = self.read_node(m, 3, node);
            let place = |k: u32| at(3, kind, shape, 16 + k);
            let of = |m: &mut M, k: u32, nodes: &M::Array<u32>, operand: u32| {
                m.load(place(k), nodes, operand as usize * NODE + 1)
            };
            let result = match kind {
                CONST => self.value(m, &mut count, [CONST, NONE, NONE, value], shape),
                LOCAL => match m.load(place(0), &self.local, value as usize) {
                    // A variable that was never assigned is zero.
                    NONE => self.value(m, &mut count, [CONST, NONE, NONE, 0], shape),
                    held => held,
                },
                GLOBAL => {
                    let symbol = value as usize * SYMBOL_WORDS;
                    match m.load(place(1), &self.symbol, symbol + 2) == self.function {
                        true => m.load(place(2), &self.symbol, symbol + 3),
                        false => {
                            let loaded = self.append(m, &mut count, [GLOBAL, NONE, NONE, value]);
                            m.store(place(3), &mut self.symbol, symbol + 2, self.function);
                            m.store(place(4), &mut self.symbol, symbol + 3, loaded);
                            loaded
                        }
                    }
                }
                ASSIGN => {
                    let from = of(m, 5, &self.nodes, right);
                    let target = m.load(place(6), &self.nodes, left as usize * NODE);
                    let variable = m.load(place(7), &self.nodes, left as usize * NODE + 3);
                    if target == LOCAL {
                        m.store(place(8), &mut self.local, variable as usize, from);
                    } else {
                        let symbol = variable as usize * SYMBOL_WORDS;
                        m.store(place(9), &mut self.symbol, symbol + 2, self.function);
                        m.store(place(10), &mut self.symbol, symbol + 3, from);
                        self.append(m, &mut count, [ASSIGN, from, NONE, variable]);
                    }
                    from
                }
                _ => {
                    let (a, b) = (of(m, 11, &self.nodes, left), of(m, 12, &self.nodes, right));
                    self.value(m, &mut count, [kind, a, b, 0], shape)
                }
            };
            m.store(place(13), &mut self.nodes, node * NODE + 1, result);
        }
        // The function returns its first variable.
        let returned = m.load(site(3 * PAGES_PER_PASS, 2), &self.local, 0);
        let returned = if returned == NONE { self.value(m, &mut count, [CONST, NONE, NONE, 0], 0) } else { returned };
        self.append(m, &mut count, [LOCAL, returned, NONE, 0]);
        count
    }

    fn append(&mut self, m: &mut M, count: &mut usize, words: [u32; CODE]) -> u32 {
        for (k, word) in (0..).zip(words) {
            m.store(at(3, words[0], 0, 40 + k), &mut self.code, *count * CODE + k as usize, word);
        }
        *count += 1;
        *count as u32 - 1
    }

    /// The instruction that has this value already, or a new one.
    fn value(&mut self, m: &mut M, count: &mut usize, words: [u32; CODE], shape: u32) -> u32 {
        let [kind, a, b, constant] = words;
        let mixed = (u64::from(kind) << 32 | u64::from(constant))
            .wrapping_add(u64::from(a) << 20)
            .wrapping_add(u64::from(b) << 41);
        let hash = (mixed ^ mixed >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut slot = ((u128::from(hash) * self.slots as u128) >> 64) as usize;
        m.work(at(3, kind, shape, 48));
        loop {
            let held = m.load(at(3, kind, shape, 49), &self.values, slot);
            if (held >> 32) as u32 != self.function {
                // An entry of another function does not count.
                let new = self.append(m, count, words);
                m.store(
                    at(3, kind, shape, 50),
                    &mut self.values,
                    slot,
                    u64::from(self.function) << 32 | u64::from(new),
                );
                return new;
            }
            let candidate = held as u32;
            let same = (0..CODE).all(|k| {
                m.load(at(3, kind, shape, 51 + k as u32), &self.code, candidate as usize * CODE + k) == words[k]
            });
            if same {
                return candidate;
            }
            slot = (slot + 1) % self.slots;
        }
    }

    /// Kind and operands of an instruction.
    fn read_code(&self, m: &mut M, pass: u32, i: usize) -> [u32; CODE] {
        let kind = m.load(site(pass * PAGES_PER_PASS, 0), &self.code, i * CODE);
        let word = |m: &mut M, k: u32| m.load(at(pass, kind, 0, 1 + k), &self.code, i * CODE + k as usize);
        [kind, word(m, 1), word(m, 2), word(m, 3)]
    }

    /// Pass 4: finds the last use of each value, going backwards. A value without a use has none.
    fn uses(&mut self, m: &mut M, code: usize) {
        for i in 0..code {
            m.store(site(4 * PAGES_PER_PASS, 1), &mut self.last_use, i, NONE);
        }
        for i in (0..code).rev() {
            let [kind, a, b, value] = self.read_code(m, 4, i);
            let needed = kind == ASSIGN || kind == LOCAL || m.load(at(4, kind, value, 16), &self.last_use, i) != NONE;
            for (k, operand) in (0..).zip([a, b]) {
                if needed
                    && operand != NONE
                    && m.load(at(4, kind, value, 17 + k), &self.last_use, operand as usize) == NONE
                {
                    m.store(at(4, kind, value, 20 + k), &mut self.last_use, operand as usize, i as u32);
                }
            }
        }
    }

    /// Pass 5: a location for each value that is used: a register while there is one, else a slot of the frame.
    fn allocate(&mut self, m: &mut M, code: usize) {
        let (mut free, mut next) = (0, 0);
        for i in 0..code {
            let [kind, a, b, value] = self.read_code(m, 5, i);
            let place = |k: u32| at(5, kind, value, 16 + k);
            let result = m.load(place(0), &self.last_use, i) != NONE;
            if !result && kind != ASSIGN && kind != LOCAL {
                continue;
            }
            for (k, operand) in [a, b].into_iter().enumerate() {
                // An operand that appears twice is released once.
                if operand != NONE
                    && (k == 0 || a != b)
                    && m.load(place(1), &self.last_use, operand as usize) == i as u32
                {
                    let location = m.load(place(2), &self.location, operand as usize);
                    if free < FRAME {
                        m.store(place(3), &mut self.free, free, location);
                        free += 1;
                    }
                }
            }
            if result {
                let location = match free {
                    0 => {
                        next += 1;
                        next - 1
                    }
                    _ => {
                        free -= 1;
                        m.load(place(4), &self.free, free)
                    }
                };
                m.store(place(5), &mut self.location, i, location);
            }
        }
    }

    /// Pass 6: machine code. A word is kind, target, two operands with 16 bits each; a constant or a symbol's name
    /// follows in a word of its own. Operands in the frame select another form of the instruction, which is coded by
    /// the shape.
    fn emit(&mut self, m: &mut M, code: usize) -> Range<usize> {
        let first = self.emitted;
        for i in 0..code {
            let [kind, a, b, value] = self.read_code(m, 6, i);
            let place = |k: u32, shape: u32| at(6, kind, shape, 16 + k);
            let result = m.load(place(0, 0), &self.last_use, i) != NONE;
            if !result && kind != ASSIGN && kind != LOCAL {
                continue;
            }
            let mut location = |k: u32, value: u32| match value {
                NONE => 0,
                _ => m.load(place(k, 0), &self.location, value as usize),
            };
            let [to, a, b] = [location(1, if result { i as u32 } else { NONE }), location(2, a), location(3, b)];
            let shape = u32::from(to >= REGISTERS) + u32::from(a >= REGISTERS) + u32::from(b >= REGISTERS);
            let word = u64::from(kind) << 48 | u64::from(to) << 32 | u64::from(a) << 16 | u64::from(b);
            m.work(place(4, shape));
            m.store(place(5, shape), &mut self.output, self.emitted % self.room, word);
            self.emitted += 1;
            if matches!(kind, CONST | GLOBAL | ASSIGN) {
                let value = if kind == CONST {
                    value
                } else {
                    m.load(place(6, shape), &self.symbol, value as usize * SYMBOL_WORDS)
                };
                m.store(place(7, shape), &mut self.output, self.emitted % self.room, value.into());
                self.emitted += 1;
            }
        }
        first..self.emitted
    }
}

/// Applies an operator.
pub(super) fn apply(kind: u32, a: u32, b: u32) -> u32 {
    match OPERATORS[kind as usize].0 {
        b'|' => a | b,
        b'^' => a ^ b,
        b'&' => a & b,
        b'+' => a.wrapping_add(b),
        b'-' => a.wrapping_sub(b),
        _ => a.wrapping_mul(b),
    }
}
