//! What writer and reader both predict: the next block from the block before it, the next address of a reference from its last
//! address and from the address before it in the stream. Only what differs from the prediction costs bytes.
//!
//! Definitions live as long as the trace; predictions begin anew with each chunk, so that a chunk needs nothing of the chunks
//! before it but their event columns.

use std::sync::Arc;

use super::wire::{Cursor, put_varint};
use super::{BLOCK_ITEMS, MAX_DEFINED_ITEMS, Totals};
use crate::tally::ByBlock;
use farreach_types::event::{Block, Kind, MAX_BLOCKS, NOT_EXECUTED};

/// Step codes: how the next item of the stream is found.
pub(crate) const STEP_LIKELY: u8 = 0;
pub(crate) const STEP_OTHER: u8 = 1;
pub(crate) const STEP_OP: u8 = 2;
pub(crate) const STEP_TARGET: u8 = 3;

/// Address code of a reference that did not happen. Below it, `code % 9` is the number of data bytes and `code / 9` the
/// prediction they correct.
pub(crate) const CODE_NOT_EXECUTED: u8 = 18;

/// A block as the coder knows it. Number 0 is no block: what stands before the first block of a chunk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    pub id: u32,
    pub instrs: u32,
    pub loads: u32,
    pub stores: u32,
    /// Writer: address words of an execution.
    pub words: u32,
    /// Its references are `first_ref .. first_ref + loads + stores` of the table.
    first_ref: u32,
    /// The chunk its predictions were last used in.
    chunk: u32,
    /// The last two blocks that followed it, newest first; 0 is none.
    next: [u32; 2],
}

/// Prediction of one static reference.
#[derive(Clone, Copy, Debug, Default)]
struct RefState {
    /// Its last address.
    last: u64,
    /// Its last address minus the address of the reference before it in the stream.
    gap: u64,
}

/// All blocks of the trace and the predictions of the current chunk.
#[derive(Debug)]
pub(crate) struct Model {
    known: Vec<Known>,
    blocks: Vec<Arc<Block>>,
    refs: Vec<RefState>,
    by_id: ByBlock,
    items: usize,
    /// Counts chunks from 1, so that fresh blocks (0) are always out of date.
    chunk: u32,
    /// Number of the block executed last in this chunk.
    current: u32,
    /// Address of the reference executed last in this chunk.
    address: u64,
}

/// What [`Model::define`] made of a definition.
pub(crate) enum Defined {
    New,
    Again(u32),
}

impl Model {
    pub fn new() -> Model {
        Model {
            known: vec![Known::default()],
            blocks: vec![Arc::default()],
            refs: Vec::new(),
            by_id: ByBlock::default(),
            items: 0,
            chunk: 0,
            current: 0,
            address: 0,
        }
    }

    /// Forgets all predictions.
    pub fn begin_chunk(&mut self) {
        self.chunk += 1;
        self.current = 0;
        self.address = 0;
        self.known[0].next = [0; 2];
    }

    /// Adds a definition.
    pub fn define(&mut self, id: u32, block: &Arc<Block>) -> Result<Defined, String> {
        if id >= MAX_BLOCKS {
            return Err(format!("block id {id} is not below {MAX_BLOCKS}"));
        }
        if let Some(number) = self.by_id.get(id) {
            if self.blocks[number as usize] != *block {
                return Err(format!("block {id} is defined twice, differently"));
            }
            return Ok(Defined::Again(number));
        }
        block.validate().map_err(|why| format!("block {id}: {why}"))?;
        self.items += BLOCK_ITEMS + block.instrs.len() + block.refs.len();
        if self.items > MAX_DEFINED_ITEMS {
            return Err(format!(
                "block {id}: all blocks together have more than {MAX_DEFINED_ITEMS} instructions and references"
            ));
        }
        let stores = block.refs.iter().filter(|r| r.kind == Kind::Store).count() as u32;
        self.by_id.insert(id, self.known.len() as u32);
        self.known.push(Known {
            id,
            instrs: block.instrs.len() as u32,
            loads: block.refs.len() as u32 - stores,
            stores,
            words: block.words() as u32,
            first_ref: self.refs.len() as u32,
            ..Known::default()
        });
        self.refs.resize(self.refs.len() + block.refs.len(), RefState::default());
        self.blocks.push(Arc::clone(block));
        Ok(Defined::New)
    }

    /// The block with this number in the file; numbers begin at 1.
    pub fn block(&self, number: u32) -> Option<(u32, &Arc<Block>)> {
        let known = self.known.get(number as usize).filter(|_| number != 0)?;
        Some((known.id, &self.blocks[number as usize]))
    }

    /// Makes `number` the current block, with fresh predictions if this chunk has not executed it yet.
    #[inline]
    fn enter(&mut self, number: u32) {
        self.current = number;
        let k = &mut self.known[number as usize];
        if k.chunk != self.chunk {
            k.chunk = self.chunk;
            k.next = [0; 2];
            let (from, n) = (k.first_ref as usize, (k.loads + k.stores) as usize);
            self.refs[from..from + n].fill(RefState::default());
        }
    }

    /// Writer: the number of address words of block `id`, which becomes the current block; appends how it was found.
    #[inline]
    pub fn put_step(&mut self, id: u32, steps: &mut Vec<u8>, targets: &mut Vec<u8>) -> Option<usize> {
        let [likely, other] = self.known[self.current as usize].next;
        let is = |number: u32| number != 0 && self.known[number as usize].id == id;
        let number = if is(likely) {
            steps.push(STEP_LIKELY);
            likely
        } else {
            let number = if is(other) {
                steps.push(STEP_OTHER);
                other
            } else {
                let number = self.by_id.get(id)?;
                steps.push(STEP_TARGET);
                put_varint(targets, u64::from(number));
                number
            };
            self.known[self.current as usize].next = [number, likely];
            number
        };
        self.enter(number);
        Some(self.known[number as usize].words as usize)
    }

    /// Writer: appends the addresses of the current block, one for each reference, and counts what happened. Returns how many they are.
    #[inline]
    pub fn put_addresses(&mut self, words: &[u64], codes: &mut Vec<u8>, data: &mut Vec<u8>, sums: &mut Totals) -> usize {
        let k = &self.known[self.current as usize];
        let refs = (k.loads + k.stores) as usize;
        if words.len() == refs {
            self.put(words.iter().copied(), codes, data, sums);
        } else {
            let block = Arc::clone(&self.blocks[self.current as usize]);
            self.put(block.data(words).map(|(_, addr)| addr), codes, data, sums);
        }
        refs
    }

    #[inline(always)]
    fn put(&mut self, addrs: impl Iterator<Item = u64>, codes: &mut Vec<u8>, data: &mut Vec<u8>, sums: &mut Totals) {
        let k = &self.known[self.current as usize];
        sums.instructions += u64::from(k.instrs);
        sums.loads += u64::from(k.loads);
        sums.stores += u64::from(k.stores);
        let refs = &mut self.refs[k.first_ref as usize..][..(k.loads + k.stores) as usize];
        for (i, (addr, r)) in addrs.zip(refs).enumerate() {
            if addr == NOT_EXECUTED {
                codes.push(CODE_NOT_EXECUTED);
                uncount(&self.blocks[self.current as usize], i, sums);
                continue;
            }
            let by_gap = addr.wrapping_sub(self.address.wrapping_add(r.gap)) as i64;
            let by_last = addr.wrapping_sub(r.last) as i64;
            let (base, value) = if width(by_last) < width(by_gap) { (9, by_last) } else { (0, by_gap) };
            let n = width(value);
            codes.push(base + n as u8);
            data.extend_from_slice(&value.to_le_bytes()[..n]);
            *r = RefState { last: addr, gap: addr.wrapping_sub(self.address) };
            self.address = addr;
        }
    }

    /// Reader: follows one step to a block, which becomes the current block.
    #[inline]
    pub fn take_step(&mut self, step: u8, targets: &mut Cursor) -> Result<&Known, String> {
        let next = &mut self.known[self.current as usize].next;
        let number = match step {
            STEP_LIKELY => next[0],
            STEP_OTHER => {
                next.swap(0, 1);
                next[0]
            }
            STEP_TARGET => {
                let number = targets.u32("block number")?;
                *next = [number, next[0]];
                number
            }
            n => return Err(format!("step {n}; 0 to {STEP_TARGET} are known")),
        };
        if number == 0 || number as usize >= self.known.len() {
            return Err(format!("block {number} is executed, {} are defined", self.known.len() - 1));
        }
        self.enter(number);
        Ok(&self.known[number as usize])
    }

    /// Reader: appends the addresses of the current block, one for each code, to `words`; `sums` loses what did not happen.
    /// `data` ends with eight bytes that belong to no address.
    #[inline]
    pub fn take_addresses(
        &mut self,
        codes: &[u8],
        data: &[u8],
        data_at: &mut usize,
        words: &mut Vec<u64>,
        sums: &mut Totals,
    ) -> Result<(), String> {
        let first = self.known[self.current as usize].first_ref as usize;
        let refs = &mut self.refs[first..first + codes.len()];
        let (mut at, mut address) = (*data_at, self.address);
        let mut absent = false;
        let mut worst = 0;
        words.extend(codes.iter().zip(refs).map(|(&code, r)| {
            worst = worst.max(code);
            let rule = RULES[usize::from(code) & 31];
            let raw = data.get(at..at + 8).map_or(0, |b| u64::from_le_bytes(b.try_into().expect("eight bytes")));
            at += usize::from(rule.bytes);
            let value = ((raw & rule.mask) ^ rule.sign).wrapping_sub(rule.sign);
            if code == CODE_NOT_EXECUTED {
                absent = true;
                return NOT_EXECUTED;
            }
            let base = if rule.from_last { r.last } else { address.wrapping_add(r.gap) };
            let addr = base.wrapping_add(value);
            *r = RefState { last: addr, gap: addr.wrapping_sub(address) };
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
            let block = &self.blocks[self.current as usize];
            codes.iter().enumerate().filter(|c| *c.1 == CODE_NOT_EXECUTED).for_each(|(i, _)| uncount(block, i, sums));
        }
        (*data_at, self.address) = (at, address);
        Ok(())
    }
}

/// Takes reference `i` of `block`, which did not happen, off the sums.
#[cold]
fn uncount(block: &Block, i: usize, sums: &mut Totals) {
    match block.refs[i].kind {
        Kind::Store => sums.stores -= 1,
        _ => sums.loads -= 1,
    }
}

/// Bytes that hold `value` in two's complement; 0 for 0.
#[inline]
fn width(value: i64) -> usize {
    if value == 0 { 0 } else { (72 - (value ^ value >> 63).leading_zeros() as usize) / 8 }
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
        let bytes = code % 9;
        rules[code].from_last = code >= 9;
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
    use super::*;

    #[test]
    fn widths_hold_their_values() {
        for (v, n) in [(0, 0), (1, 1), (-1, 1), (127, 1), (128, 2), (-128, 1), (-129, 2), (i64::MAX, 8), (i64::MIN, 8)] {
            assert_eq!(width(v), n, "{v}");
            let rule = RULES[n];
            let raw = v as u64 & rule.mask;
            assert_eq!((raw ^ rule.sign).wrapping_sub(rule.sign) as i64, v);
        }
    }
}
