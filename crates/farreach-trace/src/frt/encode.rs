//! The writer's side of the model: executions of blocks become steps, targets, address codes and address bytes.

use multiversion::multiversion;
use prefetch_index::prefetch_index;

use super::columns::Columns;
use super::model::{
    BASES, CODE_NOT_EXECUTED, Model, NAMES, SHAPE, STEP_LIKELY, STEP_OTHER, STEP_PREDICTED, STEP_TARGET, Shape, WORDS,
    halves,
};
use super::wire::put_varint;
use super::{MAX_BLOCK_ITEMS, Totals};
use crate::ahead::LookAhead;
use farreach_types::event::{Broken, NOT_EXECUTED, OP_BIT, addresses, block_id};

/// Codes for which room is made at a time: at least those of the largest block.
const ROOM: usize = 2 * MAX_BLOCK_ITEMS;

/// Prefetches what the coding of this block needs.
#[inline(always)]
pub(crate) fn prefetch(model: &Model, id: u32) {
    if let Some(number) = model.by_id.get(id) {
        let place = model.heads[number as usize].place as usize;
        prefetch_index(&model.cells, place);
        // Most blocks end in the next cache line.
        prefetch_index(&model.cells, place + WORDS + 4);
    }
}

/// A run of blocks.
pub(crate) struct Run {
    /// The word behind it.
    pub end: usize,
    /// The block at `end` breaks the contract.
    pub broken: Option<Broken>,
}

/// Appends the executions of blocks from `words[from]` on, up to an event or until `most` words are in the chunk;
/// counts their references.
///
/// Compiled twice: counting leading zeros, which each reference needs, takes some processors four cycles and eight
/// micro-operations without the newer instruction.
#[multiversion(targets("x86_64+bmi1+bmi2+lzcnt"))]
pub(crate) fn put_blocks(
    model: &mut Model,
    words: &[u64],
    from: usize,
    most: usize,
    ahead: &mut LookAhead,
    columns: &mut Columns,
    sums: &mut Totals,
) -> Run {
    let (steps, codes, data) =
        (columns.steps.room(words.len() - from), columns.codes.room(ROOM), columns.data.room(8 * ROOM));
    let (mut coded, mut executed, mut bytes) = (0, 0, 0);
    let (mut current, mut address, mut counted) = (model.current, model.address, Totals::default());
    let mut run = Run { end: from, broken: None };
    while let Some(&word) = words.get(run.end).filter(|&word| word & OP_BIT == 0) {
        ahead.step(words, |id| prefetch(model, id));
        let id = block_id(word);
        let Some(number) = model.by_id.get(id) else {
            run.broken = Some(Broken::UndefinedBlock { id });
            break;
        };
        let head = model.heads[number as usize];
        let about = &model.cells[head.place as usize..][..WORDS];
        let (shape, need) = (Shape(about[SHAPE]), halves(about[NAMES]).1 as usize);
        if coded + need > ROOM || run.end - from >= most {
            break;
        }
        let addrs = match addresses(words, run.end, need) {
            Ok(addrs) => addrs,
            Err(why) => {
                run.broken = Some(why);
                break;
            }
        };
        // Without a branch: the processor could not predict it.
        let next = &mut model.heads[current as usize].next;
        let [likely, other] = *next;
        let step = if number == other { STEP_OTHER } else { STEP_TARGET };
        let step = if number == likely { STEP_LIKELY } else { step };
        *next = if number == likely { *next } else { [number, likely] };
        if step == STEP_TARGET {
            put_varint(&mut columns.targets, number.into());
        }
        current = number;
        if head.chunk != model.chunk {
            model.refresh(current);
        }
        shape.add_to(&mut counted);
        let cells = &mut model.cells[head.place as usize + WORDS..];
        let coder =
            Coder { codes: &mut codes[coded..coded + need], data: &mut data[bytes..], bytes: 0, any: 0, absent: false };
        let coder = coder.put(&mut cells[..2 * need], addrs, &mut address);
        bytes += coder.bytes;
        let (any, absent) = (coder.any, coder.absent);
        if absent {
            let mut absent = (0..need).filter(|&i| codes[coded + i] == CODE_NOT_EXECUTED);
            run.broken = absent.find_map(|i| model.uncount(id, i, &mut counted).err());
            if run.broken.is_some() {
                break;
            }
        }
        // Codes that are all 0 are left out. Without a branch, as for the step.
        steps[executed] = step | if any == 0 { STEP_PREDICTED } else { 0 };
        executed += 1;
        coded += if any == 0 { 0 } else { need };
        run.end += 1 + need;
    }
    (model.current, model.address) = (current, address);
    sums.instructions += counted.instructions;
    sums.loads += counted.loads;
    sums.stores += counted.stores;
    columns.steps.advance(executed);
    columns.codes.advance(coded);
    columns.data.advance(bytes);
    run
}

/// Codes the addresses of one execution.
struct Coder<'a> {
    codes: &'a mut [u8],
    /// At least eight bytes for each code.
    data: &'a mut [u8],
    /// Bytes of `data` in use.
    bytes: usize,
    /// All codes, combined by or.
    any: u8,
    /// Some references did not happen.
    absent: bool,
}

impl Coder<'_> {
    /// Codes address words against the predictions in `states`; `address` is the word before.
    #[inline(always)]
    fn put(mut self, states: &mut [u64], addrs: &[u64], address: &mut u64) -> Self {
        let mut before = *address;
        for ((&addr, state), code) in addrs.iter().zip(states.chunks_exact_mut(2)).zip(&mut *self.codes) {
            if addr == NOT_EXECUTED {
                *code = CODE_NOT_EXECUTED;
                (self.any, self.absent) = (CODE_NOT_EXECUTED, true);
                continue;
            }
            let gap = addr.wrapping_sub(before);
            let by_gap = fold(gap.wrapping_sub(state[1]) as i64);
            let by_last = fold(addr.wrapping_sub(state[0]) as i64);
            // The shorter of the two; the first one if they are equally long.
            let width = width_of_folded(by_gap.min(by_last));
            let from_last = by_gap > LARGEST[width];
            let base = if from_last { state[0] } else { before.wrapping_add(state[1]) };
            *code = width as u8 + if from_last { BASES } else { 0 };
            self.any |= *code;
            self.data[self.bytes..self.bytes + 8].copy_from_slice(&addr.wrapping_sub(base).to_le_bytes());
            self.bytes += width;
            (state[0], state[1]) = (addr, gap);
            before = addr;
        }
        *address = before;
        self
    }
}

/// Twice the distance from 0 or -1: small values of either sign become small.
#[inline(always)]
fn fold(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

/// The largest folded value of each width.
const LARGEST: [u64; 9] = {
    let mut largest = [0; 9];
    let mut width = 1;
    while width < 9 {
        largest[width] = u64::MAX >> (64 - 8 * width);
        width += 1;
    }
    largest
};

/// Bytes that hold a value in two's complement, given what [`fold`] makes of it; 0 for 0.
#[inline(always)]
fn width_of_folded(folded: u64) -> usize {
    (71 - folded.leading_zeros() as usize) / 8
}

/// Bytes that hold `value` in two's complement; 0 for 0.
#[cfg(test)]
pub(super) fn width(value: i64) -> usize {
    width_of_folded(fold(value))
}
