//! The loop of the page-size study: it expands batches of the stream, a block at a time where possible, and passes
//! references and unmappings to [`Sides`]. The limit ends the run at the same reference as for every machine.

use super::super::SAMPLES;
use super::super::compiled::{Compiled, Hot, PAGE};
use super::super::tally::{ProcessCounts, Progress, Tally};
use super::super::worker_pool::BatchEngine;
use super::parts::{Part, Parts};
use super::sides::{Row, Sides};
use farreach_types::Error;
use farreach_types::addr::{Asid, BASE_SHIFT, Vpn, VpnRange};
use farreach_types::event::{Advice, Batch, Block, Boundary, Instr, Kind, NOT_EXECUTED, OP_BIT, Op};

/// See the module.
pub(super) struct PageEngine {
    pub sides: Sides,
    pub process_counts: ProcessCounts,
    compiled: Compiled,
    current: Option<Asid>,
    limit: u64,
    plain: bool,
    /// What there was when the warm-up ended, if there was one.
    begun: Option<(Tally, Vec<Row>)>,
    parts: Parts,
}

impl PageEngine {
    /// `orders`: page sizes over 4 KB, as powers of two, ascending. `entries`: of the TLBs for which phases are told.
    /// `limit`: instructions after which to stop. `plain`: without shortcuts.
    pub fn new(orders: &[u32], entries: u64, limit: Option<u64>, plain: bool) -> PageEngine {
        PageEngine {
            sides: Sides::new(orders, plain),
            process_counts: ProcessCounts::default(),
            compiled: Compiled::default(),
            current: None,
            limit: limit.unwrap_or(u64::MAX),
            plain,
            begun: None,
            parts: Parts::new(entries),
        }
    }

    /// What was counted of all.
    pub fn tally(&self) -> Tally {
        self.begun.as_ref().map_or(self.sides.tally, |(before, _)| self.sides.tally.since(before))
    }

    /// What was counted at each size. Memory is that of all that was simulated.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows = self.sides.rows();
        for (row, before) in rows.iter_mut().zip(self.begun.iter().flat_map(|(_, rows)| rows)) {
            row.begin_after(before);
        }
        rows
    }

    /// What was counted in each phase; none if the run has none.
    pub fn phases(&self) -> Vec<Part> {
        self.parts.phases(&self.sides)
    }

    /// One block, reference by reference, up to the limit.
    fn plain_block(&mut self, asid: Asid, block: &Block, words: &[u64]) {
        let mut instrs = block.instrs.iter();
        let mut fetched = 0;
        for (r, addr) in block.data(words) {
            for instr in instrs.by_ref().take((r.after - fetched) as usize) {
                if !self.fetch(asid, instr) {
                    return;
                }
            }
            fetched = r.after;
            if block.instrs.is_empty() && self.done() {
                return;
            }
            if addr != NOT_EXECUTED {
                self.sides.reference(asid, r.kind, addr, u64::from(r.size));
            }
        }
        for instr in instrs {
            if !self.fetch(asid, instr) {
                return;
            }
        }
    }

    /// One fetch; false if the limit was reached before it.
    fn fetch(&mut self, asid: Asid, instr: &Instr) -> bool {
        if self.done() {
            return false;
        }
        self.sides.reference(asid, Kind::Fetch, instr.pc, u64::from(instr.len));
        true
    }

    fn op(&mut self, asid: Asid, op: &Op) -> Result<(), String> {
        let range = |start: u64, len: u64| VpnRange::of_bytes(start, len, BASE_SHIFT);
        self.process_counts.follow(asid, op)?;
        match op {
            Op::Define { id, block } => self.compiled.define(*id, block).map_err(|e| format!("block {id}: {e}"))?,
            Op::Fork { child } => self.sides.touched_pages.fork(asid, *child),
            Op::Map(mapping) => self.map(asid, range(mapping.start, mapping.len)),
            Op::Unmap { start, len } => self.unmap(asid, range(*start, *len)),
            Op::Advise { start, len, advice: Advice::DontNeed } => self.sides.release(asid, range(*start, *len)),
            Op::Remap { old_start, old_len, new_start, new_len } => {
                let (old, new) = (range(*old_start, *old_len), range(*new_start, *new_len));
                if old.start != new.start {
                    self.unmap(asid, old);
                    self.map(asid, new);
                } else if old.pages > new.pages {
                    self.unmap(asid, VpnRange::between(new.end(), old.end()));
                } else {
                    self.map(asid, VpnRange::between(old.end(), new.end()));
                }
            }
            Op::End(_) => {
                self.sides.release(asid, VpnRange { start: Vpn(0), pages: 1 << (64 - BASE_SHIFT) });
                self.sides.touched_pages.forget(asid);
            }
            Op::Guest(_) => {
                return Err("the page-size study gives programs pages of one size, and a whole system has chosen the \
                            sizes of its pages itself; use `farreach sim` with machines on placement = guest"
                    .into());
            }
            Op::Samples => return Err(SAMPLES.into()),
            Op::Boundary(Boundary::Counted) => {
                self.begun = Some((self.sides.tally, self.sides.rows()));
                self.parts.begin(&mut self.sides);
            }
            Op::Boundary(Boundary::Phase) => self.parts.end_phase(&mut self.sides)?,
            Op::Pages
            | Op::Code { .. }
            | Op::Start { .. }
            | Op::Protect { .. }
            | Op::Advise { .. }
            | Op::KernelStore { .. }
            | Op::Thp(_)
            | Op::ThreadStart { .. }
            | Op::ThreadExit { .. }
            | Op::Switch { .. } => {}
        }
        Ok(())
    }

    fn map(&mut self, asid: Asid, range: VpnRange) {
        self.unmap(asid, range);
        self.sides.touched_pages.map(asid, range);
    }

    fn unmap(&mut self, asid: Asid, range: VpnRange) {
        self.sides.release(asid, range);
        self.sides.touched_pages.unmap(asid, range);
    }
}

/// One block that fetches from one page or not at all.
#[inline]
fn hot_block(sides: &mut Sides, asid: Asid, hot: Hot) {
    sides.tally.references.fetch += u64::from(hot.instrs);
    if hot.instrs > 0 {
        sides.lookup(asid, hot.vpn, Kind::Fetch);
    }
    let (mut loads, mut stores) = (0, 0);
    for r in hot.refs {
        let addr = r.address(hot.addrs);
        if r.reach(addr) < PAGE && addr != NOT_EXECUTED {
            sides.lookup(asid, addr >> BASE_SHIFT, r.kind());
            loads += u64::from(r.kind() == Kind::Load);
            stores += u64::from(r.kind() == Kind::Store);
        } else if addr != NOT_EXECUTED {
            sides.reference(asid, r.kind(), addr, r.size());
        }
    }
    sides.tally.references.load += loads;
    sides.tally.references.store += stores;
}

impl BatchEngine for PageEngine {
    fn feed(&mut self, batch: &Batch) -> Result<(), Error> {
        let (asid, words) = (batch.asid, &batch.words[..]);
        if self.current != Some(asid) && !batch.is_empty() {
            self.current = Some(asid);
            self.sides.nothing_is_last();
        }
        let mut at = 0;
        while at < words.len() && !self.done() {
            let room = |hot: &Hot| !self.plain && self.limit - self.sides.tally.limit_count() >= hot.limit_count();
            if let Some(hot) = self.compiled.hot(words, at).filter(room) {
                at += 1 + hot.addrs.len();
                hot_block(&mut self.sides, asid, hot);
                continue;
            }
            let word = words[at];
            if word & OP_BIT != 0 {
                let op = batch.op(word).map_err(|why| batch.broken(at, why))?;
                self.op(asid, op).map_err(|why| batch.broken(at, why))?;
                at += 1;
                continue;
            }
            // The blocks are moved out of `self`, so that they need not be copied while the rest changes.
            let blocks = std::mem::take(&mut self.compiled.blocks);
            let executed = blocks.execution(words, at).map(|(block, addrs)| {
                self.plain_block(asid, block, addrs);
                addrs.len()
            });
            self.compiled.blocks = blocks;
            at += 1 + executed.map_err(|why| batch.broken(at, why))?;
        }
        Ok(())
    }

    fn done(&self) -> bool {
        self.sides.tally.limit_count() >= self.limit
    }

    fn progress(&self) -> Progress {
        self.sides.tally.progress()
    }
}
