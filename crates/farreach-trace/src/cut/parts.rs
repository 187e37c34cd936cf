//! Blocks that are executed in parts, and the words of a batch that pass.

use farreach_types::event::{Batch, Block, DataRef, MAX_BLOCKS, OP_BIT, Op};
use hashbrown::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// The part of a batch that stays. Words that stand together are copied together, and not at all if all of them pass.
pub struct Out<'w> {
    from: &'w [u64],
    words: Vec<u64>,
    /// Words that pass, and are not copied yet.
    pending: Range<usize>,
    /// The events of the batch, and new ones behind them.
    pub ops: Vec<Op>,
}

impl<'w> Out<'w> {
    /// Nothing of this batch yet.
    pub fn new(from: &'w [u64], ops: Vec<Op>) -> Out<'w> {
        Out { from, words: Vec::new(), pending: 0..0, ops }
    }

    /// These words pass.
    #[inline]
    pub fn pass(&mut self, range: Range<usize>) {
        if self.pending.end != range.start {
            self.copy();
            self.pending.start = range.start;
        }
        self.pending.end = range.end;
    }

    fn copy(&mut self) {
        self.words.extend_from_slice(&self.from[self.pending.clone()]);
        self.pending = 0..0;
    }

    /// An event that the batch does not have.
    pub fn push_op(&mut self, op: Op) {
        self.copy();
        self.words.push(OP_BIT | self.ops.len() as u64);
        self.ops.push(op);
    }

    fn push_block(&mut self, id: u32, addrs: &[u64]) {
        self.copy();
        let mut one = Batch::default();
        one.push_block(id, addrs);
        self.words.append(&mut one.words);
    }

    /// Its words and events.
    pub fn finish(mut self) -> (Vec<u64>, Vec<Op>) {
        self.copy();
        (self.words, self.ops)
    }
}

/// Parts of blocks, by block and positions.
#[derive(Default)]
pub struct Parts {
    made: HashMap<(u32, u32, u32), u32>,
    code: HashMap<u32, Arc<[u8]>>,
    /// The groups of [`GROUP`] ids of which the stream has some, as bits.
    groups: u64,
    /// The first id that was given to a part; the next ones are below it.
    first: Option<u32>,
}

/// Ids in a group of them.
const GROUP: u32 = MAX_BLOCKS / 64;

/// The middle of the longest run of groups without ids: a stream may have been cut before, with ids of its own parts.
fn middle(groups: u64) -> Option<u32> {
    let is_free = |at: u32| at < 64 && groups >> at & 1 == 0;
    let runs = (0..64).filter(|&at| is_free(at) && (at == 0 || !is_free(at - 1)));
    let (len, from) = runs.map(|from| ((from..).take_while(|&at| is_free(at)).count() as u32, from)).max()?;
    Some((from + len.div_ceil(2)) * GROUP - 1)
}

impl Parts {
    /// The stream has a block with this id.
    pub fn defined(&mut self, id: u32) -> Result<(), String> {
        self.groups |= 1 << (id / GROUP).min(63);
        match self.first {
            Some(first) if id <= first && first - id < self.made.len() as u32 => Err(too_many()),
            _ => Ok(()),
        }
    }

    /// An id for the next part.
    fn next_id(&mut self) -> Result<u32, String> {
        let first = match self.first {
            Some(first) => first,
            None => *self.first.insert(middle(self.groups).ok_or_else(too_many)?),
        };
        let id = first.checked_sub(self.made.len() as u32).filter(|id| self.groups >> (id / GROUP) & 1 == 0);
        id.ok_or_else(too_many)
    }

    /// The stream has the code of a block.
    pub fn code(&mut self, id: u32, bytes: &Arc<[u8]>) {
        self.code.insert(id, Arc::clone(bytes));
    }

    /// Executes the positions `range` of a block: its instructions with their references, or, if it has none, its
    /// references.
    pub fn execute(
        &mut self,
        id: u32,
        block: &Block,
        addrs: &[u64],
        range: Range<u32>,
        out: &mut Out,
    ) -> Result<(), String> {
        let Range { start, end } = range;
        // References of an instruction stand behind its fetch; what stands before the first one goes with that.
        let (instrs, refs) = match block.instrs.is_empty() {
            true => (0..0, start as usize..end as usize),
            false => {
                let behind = |at: u32| block.refs.partition_point(|r| r.after <= at);
                (start as usize..end as usize, if start == 0 { 0 } else { behind(start) }..behind(end))
            }
        };
        let known = self.made.get(&(id, start, end)).copied();
        let part = match known {
            Some(part) => part,
            None => self.next_id()?,
        };
        if known.is_none() {
            self.made.insert((id, start, end), part);
            // Each reference has an address word of its own, since others may be in another part.
            let of =
                |(word, r): (u32, &DataRef)| DataRef { after: r.after.saturating_sub(start), word, offset: 0, ..*r };
            let refs = (0..).zip(&block.refs[refs.clone()]).map(of).collect();
            let made = Block { instrs: block.instrs[instrs.clone()].into(), refs };
            let before: usize = block.instrs[..instrs.start].iter().map(|instr| instr.len as usize).sum();
            let code = self.code.get(&id).and_then(|code| code.get(before..before + made.code_bytes()));
            out.push_op(Op::Define { id: part, block: Arc::new(made) });
            if let Some(code) = code.filter(|code| !code.is_empty()) {
                out.push_op(Op::Code { id: part, bytes: code.into() });
            }
        }
        let addrs: Vec<u64> = block.refs[refs].iter().map(|r| r.address(addrs)).collect();
        out.push_block(part, &addrs);
        Ok(())
    }
}

fn too_many() -> String {
    format!("more than {MAX_BLOCKS} blocks, with those that were cut")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_parts_have_other_ids() {
        assert_eq!(middle(0), Some(32 * GROUP - 1));
        assert_eq!(middle(1), Some(33 * GROUP - 1));
        // Those of a stream that was cut before, too.
        assert_eq!(middle(1 | 1 << 32), Some(17 * GROUP - 1));
        assert_eq!(middle(u64::MAX), None);
        let mut parts = Parts::default();
        parts.defined(7).unwrap();
        let first = parts.next_id().unwrap();
        parts.made.insert((7, 0, 1), first);
        assert_eq!(parts.next_id(), Ok(first - 1));
        assert!(parts.defined(first).is_err() && parts.defined(first - 1).is_ok());
        assert!(parts.next_id().is_err(), "the stream has that group now");
    }
}
