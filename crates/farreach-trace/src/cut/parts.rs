//! Blocks that are executed in parts, and the words of a batch that pass.

use farreach_types::event::{Batch, Block, DataRef, MAX_BLOCKS, OP_BIT, Op};
use hashbrown::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// What is left of a batch. Words that stand together are copied together, and not at all if all of them pass.
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
    /// Ids of the stream are below this.
    ids: u32,
}

impl Parts {
    /// The stream has a block with this id.
    pub fn defined(&mut self, id: u32) -> Result<(), String> {
        self.ids = self.ids.max(id.saturating_add(1));
        self.check()
    }

    fn check(&self) -> Result<(), String> {
        if u64::from(self.ids) + self.made.len() as u64 > u64::from(MAX_BLOCKS) {
            return Err(format!("more than {MAX_BLOCKS} blocks, with those that were cut"));
        }
        Ok(())
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
        let known = self.made.len() as u32;
        let part = *self.made.entry((id, start, end)).or_insert(MAX_BLOCKS - 1 - known);
        if self.made.len() as u32 > known {
            self.check()?;
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
