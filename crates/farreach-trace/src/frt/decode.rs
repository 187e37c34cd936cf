//! The reader's side of the model: steps, targets, address codes and address bytes become executions of blocks. Blocks
//! are found some steps ahead of their addresses: meanwhile their cells come from memory.

use super::model::{
    BASES, CODE_NOT_EXECUTED, Head, Model, NAMES, SHAPE, STEP_LIKELY, STEP_OP, STEP_OTHER, STEP_PREDICTED, STEP_TARGET,
    Shape, WORDS, halves, refresh, uncount,
};
use super::wire::Cursor;
use super::{PREDICTED_SINCE, Totals};
use farreach_types::event::{NOT_EXECUTED, block_word};
use prefetch_index::prefetch_index;
use std::hint::select_unpredictable;

/// Steps that blocks are found ahead of their addresses.
const AHEAD: usize = 16;
/// Most steps that are taken at a time.
const RUN: usize = 1024;
/// Words for which room is made at a time.
pub(super) const ROOM: usize = 4096;

/// An execution: the place of the block's cells, and a bit above it that says that all addresses are as predicted.
#[derive(Clone, Copy)]
struct Found(u32);

const PREDICTED_BIT: u32 = 31;

impl Found {
    /// For an array that is not filled yet.
    const NONE: Found = Found(0);

    fn place(self) -> usize {
        (self.0 & !(1 << PREDICTED_BIT)) as usize
    }
    fn predicted(self) -> bool {
        self.0 >> PREDICTED_BIT != 0
    }
}

/// The blocks that a chunk jumps to, and the steps that it may have.
#[derive(Default)]
pub(super) struct Targets {
    /// See [`known_steps`].
    known: u32,
    /// Their numbers, and one more for a jump behind the last.
    numbers: Vec<u32>,
    at: usize,
}

impl Targets {
    /// Reads the column of a chunk in a file of this version.
    pub fn read(&mut self, column: &[u8], version: u32) -> Result<(), String> {
        self.known = known_steps(version);
        self.numbers.clear();
        self.at = 0;
        let mut cursor = Cursor::at(column, 0);
        while cursor.at < column.len() {
            self.numbers.push(cursor.u32("block number")?);
        }
        self.numbers.push(0);
        Ok(())
    }
    /// Those to which no step has jumped.
    pub fn left(&self) -> usize {
        self.numbers.len() - 1 - self.at
    }
}

/// What steps there are: bit `i` stands for step `i`.
fn known_steps(version: u32) -> u32 {
    let plain = 1 << STEP_LIKELY | 1 << STEP_OTHER | 1 << STEP_TARGET;
    if version < PREDICTED_SINCE { plain } else { plain | plain << STEP_PREDICTED }
}

/// Follows steps from block to block, for a loop that keeps all of it in registers.
struct Follower<'m> {
    heads: &'m mut [Head],
    chunk: u32,
    /// See [`known_steps`].
    known: u32,
    targets: &'m [u32],
    jumps: usize,
    current: u32,
}

impl Follower<'_> {
    /// Follows a step to a block, which becomes the current block.
    #[inline(always)]
    fn follow(&mut self, step: u8, cells: &mut [u64]) -> Result<Found, String> {
        if step >= 32 || self.known >> step & 1 == 0 {
            return Err(unknown_step(step));
        }
        // Without branches: the processor could not predict them.
        let next = &mut self.heads[self.current as usize].next;
        let [likely, other] = *next;
        let target = self.targets.get(self.jumps).copied().unwrap_or(0);
        let kind = step & !STEP_PREDICTED;
        self.jumps += usize::from(kind == STEP_TARGET);
        let number = select_unpredictable(kind == STEP_OTHER, other, target);
        let number = select_unpredictable(kind == STEP_LIKELY, likely, number);
        *next = [number, select_unpredictable(kind == STEP_LIKELY, other, likely)];
        let Some(head) = self.heads.get_mut(number as usize).filter(|_| number != 0) else {
            return Err(undefined(number, self.heads.len() - 1, self.jumps >= self.targets.len()));
        };
        let place = head.place;
        if head.chunk != self.chunk {
            refresh(head, cells, self.chunk);
        }
        prefetch_index(cells, place as usize);
        self.current = number;
        Ok(Found(place | u32::from(step & STEP_PREDICTED != 0) << PREDICTED_BIT))
    }
}

#[cold]
fn undefined(number: u32, defined: usize, ended: bool) -> String {
    match ended {
        true => "the column of targets ends too early".into(),
        false => format!("block {number} is executed, {defined} are defined"),
    }
}

impl Model {
    /// Takes steps up to one that is no execution, [`RUN`] at most: appends the executions to `words`, and adds what
    /// they count to `sums`. `codes` and `data` are columns, the latter with eight bytes more at its end, with how far
    /// they are read. Returns how many steps it took.
    pub(super) fn take_run(
        &mut self,
        steps: &[u8],
        targets: &mut Targets,
        (codes, codes_at): (&[u8], &mut usize),
        (data, data_at): (&[u8], &mut usize),
        words: &mut Vec<u64>,
        sums: &mut Totals,
    ) -> Result<usize, String> {
        let steps = &steps[..steps.len().min(RUN)];
        let steps = &steps[..steps.iter().position(|&step| step == STEP_OP).unwrap_or(steps.len())];
        let Model { heads, cells, by_id, blocks, .. } = self;
        let cells = &mut cells[..];
        let mut follower = Follower {
            heads,
            chunk: self.chunk,
            known: targets.known,
            targets: &targets.numbers,
            jumps: targets.at,
            current: self.current,
        };
        let mut reader = Reader { data, data_at: *data_at, address: self.address };
        let (mut coded, mut counted) = (*codes_at, Totals::default());
        // The words are made before they are known: so they have no length to be kept in memory.
        let mut at = words.len();
        words.resize(at + ROOM, 0);
        let mut found = [Found::NONE; AHEAD];
        let (first, rest) = steps.split_at(steps.len().min(AHEAD));
        for (found, &step) in found.iter_mut().zip(first) {
            *found = follower.follow(step, cells)?;
        }
        for i in 0..steps.len() {
            let slot = &mut found[i % AHEAD];
            let execution = *slot;
            if let Some(&step) = rest.get(i) {
                *slot = follower.follow(step, cells)?;
            }
            let (about, states) = cells[execution.place()..].split_at_mut(WORDS);
            let ((id, n), shape) = (halves(about[NAMES]), Shape(about[SHAPE]));
            let n = n as usize;
            shape.add_to(&mut counted);
            if words.len() - at <= n {
                words.resize(at + n + ROOM, 0);
            }
            words[at] = block_word(id, n);
            let out = &mut words[at + 1..][..n];
            let states = &mut states.as_chunks_mut().0[..n];
            at += 1 + n;
            if execution.predicted() {
                reader.take_predicted(states, out);
                continue;
            }
            let codes = codes.get(coded..coded + n).ok_or("the column of address codes ends too early")?;
            coded += n;
            if reader.take_addresses(codes, states, out)? {
                let mut absent = codes.iter().enumerate().filter(|(_, code)| **code == CODE_NOT_EXECUTED);
                let uncounted = absent.try_for_each(|(word, _)| uncount(by_id, blocks, id, word, &mut counted));
                uncounted.map_err(|why| why.to_string())?;
            }
        }
        words.truncate(at);
        (targets.at, self.current) = (follower.jumps, follower.current);
        (*codes_at, *data_at, self.address) = (coded, reader.data_at, reader.address);
        sums.instructions += counted.instructions;
        sums.loads += counted.loads;
        sums.stores += counted.stores;
        Ok(steps.len())
    }
}

/// The column of address bytes, with eight bytes more at its end, and the address word before the next.
struct Reader<'d> {
    data: &'d [u8],
    data_at: usize,
    address: u64,
}

impl Reader<'_> {
    /// Address words that are as predicted.
    #[inline(always)]
    fn take_predicted(&mut self, states: &mut [[u64; 2]], out: &mut [u64]) {
        for (state, out) in states.iter_mut().zip(out) {
            self.address = self.address.wrapping_add(state[1]);
            state[0] = self.address;
            *out = self.address;
        }
    }

    /// Address words, one for each code. Returns whether one is of a reference that did not happen.
    #[inline(always)]
    fn take_addresses(&mut self, codes: &[u8], states: &mut [[u64; 2]], out: &mut [u64]) -> Result<bool, String> {
        let (mut absent, mut worst) = (false, 0);
        for ((&code, state), out) in codes.iter().zip(states).zip(out) {
            worst = worst.max(code);
            let rule = RULES[usize::from(code) & 31];
            let raw = self.data.get(self.data_at..self.data_at + 8);
            let raw = raw.map_or(0, |b| u64::from_le_bytes(b.try_into().expect("eight bytes")));
            self.data_at += usize::from(rule.bytes);
            let value = ((raw & rule.mask) ^ rule.sign).wrapping_sub(rule.sign);
            if code == CODE_NOT_EXECUTED {
                absent = true;
                *out = NOT_EXECUTED;
                continue;
            }
            let base = select_unpredictable(rule.from_last, state[0], self.address.wrapping_add(state[1]));
            let addr = base.wrapping_add(value);
            *state = [addr, addr.wrapping_sub(self.address)];
            self.address = addr;
            *out = addr;
        }
        if worst > CODE_NOT_EXECUTED {
            return Err(format!("address code {worst}; 0 to {CODE_NOT_EXECUTED} are known"));
        }
        if self.data_at > self.data.len() - 8 {
            return Err("the column of address bytes ends too early".into());
        }
        Ok(absent)
    }
}

/// The message for a step that no version has, or only a later one.
#[cold]
fn unknown_step(step: u8) -> String {
    format!("step {step}; 0 to {STEP_TARGET} are known, and from version 3 on 4, 5 and 7")
}

/// What an address code means.
#[derive(Clone, Copy)]
struct Rule {
    bytes: u8,
    from_last: bool,
    mask: u64,
    sign: u64,
}

const RULES: [Rule; 32] = {
    let mut rules = [Rule { bytes: 0, from_last: false, mask: 0, sign: 0 }; 32];
    let mut code = 1;
    while code < CODE_NOT_EXECUTED as usize {
        let bytes = code % BASES as usize;
        rules[code].from_last = code >= BASES as usize;
        rules[code].bytes = bytes as u8;
        if bytes > 0 {
            rules[code].mask = u64::MAX >> (64 - 8 * bytes);
            rules[code].sign = 1 << (8 * bytes - 1);
        }
        code += 1;
    }
    rules
};

#[cfg(test)]
mod tests {
    use super::super::encode::width;
    use super::*;

    #[test]
    fn widths_hold_their_values() {
        for (v, n) in [(0, 0), (1, 1), (-1, 1), (127, 1), (128, 2), (-128, 1), (-129, 2), (i64::MAX, 8), (i64::MIN, 8)]
        {
            assert_eq!(width(v), n, "{v}");
            let rule = RULES[n];
            let raw = v as u64 & rule.mask;
            assert_eq!((raw ^ rule.sign).wrapping_sub(rule.sign) as i64, v);
        }
    }
}
