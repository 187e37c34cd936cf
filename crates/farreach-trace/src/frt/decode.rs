//! The reader's side of the model: steps, targets, address codes and address bytes become executions of blocks.

use super::Totals;
use super::model::{
    BASES, CHUNK, CODE_NOT_EXECUTED, HEAD, Model, NAMES, NEXT, SHAPE, STEP_LIKELY, STEP_OTHER, STEP_PREDICTED,
    STEP_TARGET, Shape, cell, halves,
};
use super::wire::Cursor;
use farreach_types::event::NOT_EXECUTED;

impl Model {
    /// Follows one step to a block, which becomes the current block; returns its id, the number of its address words,
    /// and its counts.
    #[inline]
    pub fn take_step(&mut self, step: u8, targets: &mut Cursor) -> Result<(u32, usize, Shape), String> {
        let next = &mut self.cells[self.current + NEXT];
        let (likely, other) = halves(*next);
        let place = match step & !STEP_PREDICTED {
            STEP_LIKELY => likely,
            STEP_OTHER => {
                *next = cell(other, likely);
                other
            }
            STEP_TARGET => {
                let number = targets.u32("block number")?;
                let place = self.places.get(number as usize).copied().ok_or_else(|| undefined(number, &self.places))?;
                *next = cell(place, likely);
                place
            }
            _ => return Err(unknown_step(step)),
        };
        if place == 0 {
            return Err(undefined(0, &self.places));
        }
        self.current = place as usize;
        let head = &self.cells[self.current..][..HEAD];
        let ((_, id), shape, (chunk, words)) = (halves(head[NAMES]), Shape(head[SHAPE]), halves(head[CHUNK]));
        if chunk != self.chunk {
            self.refresh(self.current);
        }
        Ok((id, words as usize, shape))
    }

    /// Appends the address words of the current block, `n` as predicted, to `words`.
    #[inline]
    pub fn take_predicted(&mut self, n: usize, words: &mut Vec<u64>) {
        let states = &mut self.cells[self.current + HEAD..][..2 * n];
        let mut address = self.address;
        words.extend(states.chunks_exact_mut(2).map(|state| {
            address = address.wrapping_add(state[1]);
            state[0] = address;
            address
        }));
        self.address = address;
    }

    /// Appends the address words of the current block, one for each code, to `words`; references that did not happen are
    /// subtracted from `sums`. `data` ends with eight bytes that belong to no address.
    #[inline]
    pub fn take_addresses(
        &mut self,
        codes: &[u8],
        data: &[u8],
        data_at: &mut usize,
        words: &mut Vec<u64>,
        sums: &mut Totals,
    ) -> Result<(), String> {
        let states = &mut self.cells[self.current + HEAD..][..2 * codes.len()];
        let (mut at, mut address) = (*data_at, self.address);
        let mut absent = false;
        let mut worst = 0;
        words.extend(codes.iter().zip(states.chunks_exact_mut(2)).map(|(&code, state)| {
            worst = worst.max(code);
            let rule = RULES[usize::from(code) & 31];
            let raw = data.get(at..at + 8).map_or(0, |b| u64::from_le_bytes(b.try_into().expect("eight bytes")));
            at += usize::from(rule.bytes);
            let value = ((raw & rule.mask) ^ rule.sign).wrapping_sub(rule.sign);
            if code == CODE_NOT_EXECUTED {
                absent = true;
                return NOT_EXECUTED;
            }
            let base = if rule.from_last { state[0] } else { address.wrapping_add(state[1]) };
            let addr = base.wrapping_add(value);
            (state[0], state[1]) = (addr, addr.wrapping_sub(address));
            address = addr;
            addr
        }));
        if worst > CODE_NOT_EXECUTED {
            return Err(format!("address code {worst}; 0 to {CODE_NOT_EXECUTED} are known"));
        }
        if at > data.len() - 8 {
            return Err("the column of address bytes ends too early".into());
        }
        if absent {
            for (i, _) in codes.iter().enumerate().filter(|(_, code)| **code == CODE_NOT_EXECUTED) {
                self.uncount(self.current, i, sums);
            }
        }
        (*data_at, self.address) = (at, address);
        Ok(())
    }
}

/// The message for a step that no version has, or only a later one.
#[cold]
pub(super) fn unknown_step(step: u8) -> String {
    format!("step {step}; 0 to {STEP_TARGET} are known, and from version 3 on 4, 5 and 7")
}

#[cold]
fn undefined(number: u32, places: &[u32]) -> String {
    format!("block {number} is executed, {} are defined", places.len() - 1)
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
