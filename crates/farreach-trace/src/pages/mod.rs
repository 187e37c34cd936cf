//! A stream with the pages of its data references alone, for machines that look at nothing else: a *page trace*.
//!
//! Two things change, and no lookup of a page does. An address becomes the first one of its page at which the reference
//! touches the same pages. And blocks that the program executes one after the other, again and again with the same of
//! their references on the same pages, become one block, a [*path*](paths). References of a path to the same page share
//! an address word. So most executions of blocks and most words are gone: a page trace is small, and soon simulated.

mod paths;

use crate::ahead::LookAhead;
use farreach_types::addr::{Asid, BASE_SHIFT};
use farreach_types::error::Result;
use farreach_types::event::{Batch, Block, ById, NOT_EXECUTED, OP_BIT, Op, Source, block_id, words_behind};
use paths::{Paths, Piece, Step};
use prefetch_index::prefetch_index;
use std::sync::Arc;

/// A batch is passed on once it has this many words.
const BATCH_WORDS: usize = 1 << 14;

/// The page trace of a source. See the module.
pub struct Pages<S> {
    source: S,
    /// The blocks of the source.
    pieces: ById<Piece>,
    paths: Paths,
    /// What is to be passed on next.
    out: Batch,
    /// The stream has said what it is.
    begun: bool,
    /// The source has ended, perhaps with an error, which is passed on last.
    ended: Option<Result<()>>,
}

impl<S: Source> Pages<S> {
    /// That of this source. A page trace stays as it is, but for the paths.
    pub fn new(source: S) -> Pages<S> {
        Pages {
            source,
            pieces: ById::default(),
            paths: Paths::new(),
            out: Batch::new(Asid(0)),
            begun: false,
            ended: None,
        }
    }

    /// With blocks that are executed one after the other this often, at least, as paths; for tests.
    #[doc(hidden)]
    pub fn with_paths_executed(mut self, often: u16) -> Pages<S> {
        self.paths.often = [often; 8];
        self
    }

    /// Appends a batch of the source, which is of the same address space.
    fn take(&mut self, batch: &Batch) -> Result<()> {
        if !std::mem::replace(&mut self.begun, true) {
            self.out.push_op(Op::Pages);
        }
        let words = &batch.words[..];
        let mut ahead = LookAhead::new(words, |id| prefetch_index(self.pieces.slots(), id as usize));
        let mut at = 0;
        while let Some(&word) = words.get(at) {
            ahead.step(words, |id| prefetch_index(self.pieces.slots(), id as usize));
            if word & OP_BIT != 0 {
                match batch.op(word).map_err(|why| batch.broken(at, why))? {
                    Op::Define { id, block } => {
                        block.validate().map_err(|why| batch.broken(at, format!("block {id}: {why}")))?;
                        if self.pieces.get(*id).is_none() {
                            self.pieces.insert(*id, Piece::of(*id, Arc::clone(block)));
                        }
                    }
                    // It says what this stream is, too. Paths have no code.
                    Op::Pages | Op::Code { .. } => {}
                    op => {
                        self.paths.end(&self.pieces, &mut self.out);
                        self.out.push_op(op.clone());
                    }
                }
                at += 1;
                continue;
            }
            let end = at + 1 + words_behind(word);
            let piece = self.pieces.get(block_id(word));
            let known = piece.zip(words.get(at + 1..end)).filter(|(piece, addrs)| addrs.len() == piece.words());
            let Some((piece, addrs)) = known else {
                return Err(batch.broken(at, self.why_broken(words, at)));
            };
            match self.paths.follow(piece, addrs) {
                Step::Followed => {}
                Step::Ended => {
                    self.paths.end(&self.pieces, &mut self.out);
                    if let Step::Ended = self.paths.follow(piece, addrs) {
                        self.paths.alone(piece, addrs, &mut self.out);
                    }
                }
            }
            at = end;
        }
        Ok(())
    }

    /// Nothing more is taken. What was before is passed on, then `how`.
    fn end(&mut self, how: Result<()>) {
        self.paths.end(&self.pieces, &mut self.out);
        self.ended = Some(how);
    }

    /// What is wrong with the execution at `words[at]`.
    #[cold]
    fn why_broken(&self, words: &[u64], at: usize) -> String {
        let id = block_id(words[at]);
        match self.pieces.get(id) {
            None => format!("block {id} was never defined"),
            Some(piece) => format!("block {id} has {} address words, not those of its execution", piece.words()),
        }
    }
}

impl<S: Source> Source for Pages<S> {
    fn next_batch(&mut self) -> Result<Option<Batch>> {
        while self.ended.is_none() {
            let batch = match self.source.next_batch() {
                Ok(Some(batch)) => batch,
                end => {
                    self.end(end.map(|_| ()));
                    break;
                }
            };
            let mut ready = None;
            if batch.asid != self.out.asid {
                self.paths.end(&self.pieces, &mut self.out);
                ready = Some(std::mem::replace(&mut self.out, Batch::new(batch.asid)));
            }
            if let Err(why) = self.take(&batch) {
                self.end(Err(why));
            }
            let ready = ready.filter(|ready| !ready.is_empty());
            if ready.is_some() {
                return Ok(ready);
            }
            if self.out.words.len() >= BATCH_WORDS {
                let asid = self.out.asid;
                return Ok(Some(std::mem::replace(&mut self.out, Batch::new(asid))));
            }
        }
        let rest = std::mem::take(&mut self.out);
        if !rest.is_empty() {
            return Ok(Some(rest));
        }
        self.ended.replace(Ok(())).unwrap_or(Ok(())).map(|()| None)
    }
}

/// Bytes of a page.
const PAGE: u64 = 1 << BASE_SHIFT;

/// The first address of the page at which `size` bytes touch the same pages.
#[inline(always)]
fn first_alike(addr: u64, size: u32) -> u64 {
    let past = u64::from(size - 1) % PAGE;
    let crosses = addr % PAGE + past >= PAGE;
    addr - addr % PAGE + if crosses { PAGE - past } else { 0 }
}

/// The addresses of all references of an execution, as a page trace has them.
fn addresses_alike<'a>(block: &'a Block, addrs: &'a [u64]) -> impl Iterator<Item = u64> + 'a {
    block.data(addrs).map(|(r, addr)| if addr == NOT_EXECUTED { addr } else { first_alike(addr, r.size) })
}
