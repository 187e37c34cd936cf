//! The writer's side of the model: executions of blocks become steps, targets, address codes and address bytes.

use prefetch_index::prefetch_index;

use super::Totals;
use super::columns::Columns;
use super::model::{
    BASES, CODE_NOT_EXECUTED, HEAD, Model, NAMES, NEXT, STEP_LIKELY, STEP_OTHER, STEP_TARGET, cell, halves,
};
use super::wire::put_varint;
use farreach_types::event::{Broken, NOT_EXECUTED, OP_BIT, addresses, block_id, words_behind};

/// How many items the look-ahead is in front.
const AHEAD: usize = 8;

/// Fetches the cells of blocks that are coded soon into the cache: of a large program they are all over the memory.
pub(crate) struct LookAhead {
    at: usize,
}

impl LookAhead {
    pub fn new(model: &Model, words: &[u64]) -> LookAhead {
        let mut ahead = LookAhead { at: 0 };
        (0..AHEAD).for_each(|_| ahead.step(model, words));
        ahead
    }

    /// Goes one item further.
    #[inline(always)]
    pub fn step(&mut self, model: &Model, words: &[u64]) {
        let Some(&word) = words.get(self.at) else { return };
        self.at += 1;
        if word & OP_BIT == 0 {
            self.at += words_behind(word);
            if let Some(place) = model.by_id.get(block_id(word)) {
                prefetch_index(&model.cells, place as usize);
                // Most blocks end in the next cache line.
                prefetch_index(&model.cells, place as usize + HEAD + 4);
            }
        }
    }
}

/// Of one execution.
pub(crate) struct Executed {
    /// Its address words.
    pub words: usize,
    /// Its data references.
    pub refs: usize,
}

impl Model {
    /// Appends the execution of a block that stands at `words[from]`, and counts what happened.
    #[inline(always)]
    pub fn put_execution(
        &mut self,
        words: &[u64],
        from: usize,
        columns: &mut Columns,
        sums: &mut Totals,
    ) -> Result<Executed, Broken> {
        let id = block_id(words[from]);
        let place = self.by_id.get(id).ok_or(Broken::UndefinedBlock { id })?;
        self.put_step(place, columns);
        let (shape, need) = self.enter(place as usize);
        let addrs = addresses(words, from, need)?;
        shape.add_to(sums);
        let refs = shape.refs();
        if refs > 0 {
            let codes = columns.codes.room(refs);
            let data = columns.data.room(8 * refs);
            let cells = &mut self.cells[place as usize + HEAD..];
            let put = if refs == need {
                put_addresses(addrs.iter().copied(), &mut cells[..2 * refs], &mut self.address, codes, data)
            } else {
                let (states, shared) = cells[..3 * refs].split_at_mut(2 * refs);
                let address = |&at: &u64| {
                    let (word, offset) = halves(at);
                    addrs[word as usize].wrapping_add(offset.into())
                };
                put_addresses(shared.iter().map(address), states, &mut self.address, codes, data)
            };
            if put.absent {
                (0..refs).filter(|&i| codes[i] == CODE_NOT_EXECUTED).for_each(|i| self.uncount(i, sums));
            }
            columns.codes.advance(refs);
            columns.data.advance(put.bytes);
        }
        Ok(Executed { words: need, refs })
    }

    /// Appends how the next block is found, without a branch for the predictable ones: which of them it is cannot be foreseen.
    #[inline(always)]
    fn put_step(&mut self, place: u32, columns: &mut Columns) {
        let next = &mut self.cells[self.current + NEXT];
        let (likely, other) = halves(*next);
        let step = if place == other { STEP_OTHER } else { STEP_TARGET };
        let step = if place == likely { STEP_LIKELY } else { step };
        *next = if place == likely { *next } else { cell(place, likely) };
        columns.steps.push(step);
        if step == STEP_TARGET {
            let (number, _) = halves(self.cells[place as usize + NAMES]);
            put_varint(&mut columns.targets, u64::from(number));
        }
    }
}

/// What [`put_addresses`] did.
struct Put {
    bytes: usize,
    /// Some references did not happen.
    absent: bool,
}

/// Codes addresses against the predictions in `states`. `data` has eight bytes for each.
#[inline(always)]
fn put_addresses(
    addrs: impl Iterator<Item = u64>,
    states: &mut [u64],
    address: &mut u64,
    codes: &mut [u8],
    data: &mut [u8],
) -> Put {
    let mut put = Put { bytes: 0, absent: false };
    for ((addr, state), code) in addrs.zip(states.chunks_exact_mut(2)).zip(codes) {
        if addr == NOT_EXECUTED {
            *code = CODE_NOT_EXECUTED;
            put.absent = true;
            continue;
        }
        let gap = addr.wrapping_sub(*address);
        let by_gap = gap.wrapping_sub(state[1]) as i64;
        let by_last = addr.wrapping_sub(state[0]) as i64;
        let (gap_width, last_width) = (width(by_gap), width(by_last));
        let from_last = last_width < gap_width;
        let value = if from_last { by_last } else { by_gap };
        let bytes = if from_last { last_width } else { gap_width };
        *code = bytes as u8 + if from_last { BASES } else { 0 };
        data[put.bytes..put.bytes + 8].copy_from_slice(&value.to_le_bytes());
        put.bytes += bytes;
        (state[0], state[1]) = (addr, gap);
        *address = addr;
    }
    put
}

/// Bytes that hold `value` in two's complement; 0 for 0.
#[inline(always)]
pub(super) fn width(value: i64) -> usize {
    let bits = 64 - (value ^ value >> 63).leading_zeros() as usize + usize::from(value != 0);
    bits.div_ceil(8)
}
