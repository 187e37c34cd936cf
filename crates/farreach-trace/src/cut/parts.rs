//! Blocks that are executed in parts, and the words of a batch that pass.

use farreach_types::event::{Batch, Block, DataRef, MAX_BLOCKS, OP_BIT, Op};
use hashbrown::{HashMap, HashSet};
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

    /// An execution that the batch does not have.
    pub fn push_block(&mut self, id: u32, addrs: &[u64]) {
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

/// Parts of blocks, by block and positions. Their ids begin at the largest that there may be, and go down. A stream
/// that was cut before has blocks with such ids, too; one that is defined when a part has its id gets another one.
pub struct Parts {
    made: HashMap<(u32, u32, u32), u32>,
    code: HashMap<u32, Arc<[u8]>>,
    /// The ids that were given away.
    given: HashSet<u32>,
    /// Blocks of the stream that have another id now.
    renamed: HashMap<u32, u32>,
    /// Ids from here on were given away, or are the stream's.
    next: u32,
}

impl Default for Parts {
    fn default() -> Parts {
        Parts {
            made: HashMap::new(),
            code: HashMap::new(),
            given: HashSet::new(),
            renamed: HashMap::new(),
            next: MAX_BLOCKS,
        }
    }
}

impl Parts {
    /// Whether no id was given away.
    pub fn is_empty(&self) -> bool {
        self.given.is_empty()
    }

    /// Whether blocks of the stream have other ids now.
    pub fn renames(&self) -> bool {
        !self.renamed.is_empty()
    }

    /// The id of a block of the stream.
    #[inline]
    pub fn name(&self, id: u32) -> u32 {
        if self.renamed.is_empty() { id } else { self.renamed.get(&id).copied().unwrap_or(id) }
    }

    /// The stream has a new block with this id. `used`: whether it had a block with an id before.
    pub fn defined(&mut self, id: u32, used: impl Fn(u32) -> bool) -> Result<(), String> {
        if self.given.contains(&id) {
            let new = self.next_id(used)?;
            self.renamed.insert(id, new);
        }
        Ok(())
    }

    fn next_id(&mut self, used: impl Fn(u32) -> bool) -> Result<u32, String> {
        let id = (0..self.next).rev().find(|id| !used(*id));
        let id = id.ok_or_else(|| format!("more than {MAX_BLOCKS} blocks, with those that were cut"))?;
        self.next = id;
        self.given.insert(id);
        Ok(id)
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
        used: impl Fn(u32) -> bool,
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
            None => self.next_id(used)?,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_blocks_have_ids_of_their_own() {
        let mut parts = Parts::default();
        // A stream that was cut before, whose first part is known.
        let used = |id: u32| [0, 1, MAX_BLOCKS - 1].contains(&id);
        assert_eq!(parts.next_id(used), Ok(MAX_BLOCKS - 2));
        assert!(!parts.renames() && !parts.is_empty());
        // Its second part comes later.
        parts.defined(MAX_BLOCKS - 2, used).unwrap();
        let now = [0, MAX_BLOCKS - 1, MAX_BLOCKS - 2].map(|id| parts.name(id));
        assert_eq!(now, [0, MAX_BLOCKS - 1, MAX_BLOCKS - 3]);
        assert_eq!(parts.next_id(used), Ok(MAX_BLOCKS - 4));
        assert!(parts.next_id(|_| true).unwrap_err().contains("blocks, with those that were cut"));
    }
}
