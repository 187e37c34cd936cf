//! Programs side by side in one stream, as a kernel runs them on its processors: in turn, a time slice each.
//!
//! A slice is a number of instructions (of references, of a stream without fetches), and exact: see [`crate::cut`]. The
//! order of turns is that of the sources. One that has ended leaves; what of its address spaces still runs then (of a
//! trace that was cut, for instance) ends. A source with several processes has its slices for all of them, in which
//! they run as they did. Machines with several cores give each thread a core of its own, as ever.
//!
//! Address spaces, blocks and process ids get new numbers, so that no two sources share one. Files are shared by their
//! names, as they are by programs on one machine.

use crate::cut::{Cut, Piece};
use farreach_types::addr::Asid;
use farreach_types::error::{Error, Result};
use farreach_types::event::{Batch, ById, End, MAX_BLOCKS, OP_BIT, Op, Source, block_id, block_word, words_behind};
use hashbrown::{HashMap, HashSet};
use std::collections::{BTreeSet, VecDeque};

/// Several sources in turn. See the module.
pub struct Interleaved {
    /// The one whose turn it is comes first.
    turns: VecDeque<Turn>,
    next_space: u32,
    next_id: u32,
    pids: HashSet<u32>,
    /// Whether the sources are page traces, as soon as one has said so or has not.
    pages: Option<bool>,
    /// Address spaces that ended with their source.
    lost: Vec<Asid>,
}

/// One source.
struct Turn {
    source: Cut<Box<dyn Source + Send>>,
    spaces: HashMap<Asid, Asid>,
    ids: ById<u32>,
    pids: HashMap<u32, u32>,
    /// What comes behind the end of its latest slice, of the same batch.
    rest: Option<Batch>,
    /// Whether anything but definitions came.
    begun: bool,
    /// Its address spaces that run.
    alive: BTreeSet<Asid>,
}

impl Interleaved {
    /// These sources, with slices of this many instructions, at least 1.
    pub fn new(sources: Vec<Box<dyn Source + Send>>, slice: u64) -> Interleaved {
        let piece = Piece { every: Some(slice.max(1)), ..Piece::default() };
        let turn = |source| Turn {
            source: Cut::new(source, piece.clone()),
            spaces: HashMap::new(),
            ids: ById::default(),
            pids: HashMap::new(),
            rest: None,
            begun: false,
            alive: BTreeSet::new(),
        };
        Interleaved {
            turns: sources.into_iter().map(turn).collect(),
            next_space: 0,
            next_id: 0,
            pids: HashSet::new(),
            pages: None,
            lost: Vec::new(),
        }
    }

    /// The batch of the first turn under new numbers, up to the end of the slice. Whether the slice ended.
    fn take(&mut self, mut batch: Batch) -> Result<(Batch, bool)> {
        let broken = |at: usize, what: String| Error::Trace {
            file: Error::STREAM.into(),
            place: format!("address space {}, word {at}", batch.asid.0),
            what,
        };
        let Interleaved { turns, next_space, next_id, pids, pages, .. } = self;
        let turn = turns.front_mut().expect("it is its turn");
        let mut space = |asid: Asid| {
            *turn.spaces.entry(asid).or_insert_with(|| {
                *next_space += 1;
                Asid(*next_space - 1)
            })
        };
        let mut out = Batch::new(space(batch.asid));
        let mut at = 0;
        while at < batch.words.len() {
            let word = batch.words[at];
            if word & OP_BIT == 0 {
                let end = at + 1 + words_behind(word);
                let id = turn.ids.get(block_id(word));
                let id = id.ok_or_else(|| broken(at, format!("block {} was never defined", block_id(word))))?;
                let addrs = batch.words.get(at + 1..end).ok_or_else(|| broken(at, "the block is cut off".into()))?;
                out.words.push(block_word(*id, addrs.len()));
                out.words.extend_from_slice(addrs);
                turn.alive.insert(out.asid);
                at = end;
                continue;
            }
            let mut op = batch.op(word).map_err(|why| broken(at, why.to_string()))?.clone();
            at += 1;
            if !op.is_definition() && !std::mem::replace(&mut turn.begun, true) {
                let is_pages = op == Op::Pages;
                if *pages.get_or_insert(is_pages) != is_pages {
                    return Err(broken(at - 1, "page traces and whole traces do not go together".into()));
                }
                // It is said once of the whole stream.
                if is_pages && out.asid != Asid(0) {
                    continue;
                }
            }
            match &mut op {
                Op::Boundary(_) => {
                    let ops = std::mem::take(&mut batch.ops);
                    let words = batch.words.split_off(at);
                    turn.rest = Some(Batch { asid: batch.asid, words, ops });
                    return Ok((out, true));
                }
                Op::Define { id, .. } => match turn.ids.get(*id) {
                    Some(known) => *id = *known,
                    None => {
                        let new = *next_id;
                        if new >= MAX_BLOCKS {
                            return Err(broken(at - 1, format!("more than {MAX_BLOCKS} blocks in all programs")));
                        }
                        *next_id += 1;
                        turn.ids.insert(*id, new);
                        *id = new;
                    }
                },
                Op::Code { id, .. } => {
                    let known = turn.ids.get(*id);
                    *id =
                        *known.ok_or_else(|| broken(at - 1, format!("code of block {id}, which was never defined")))?;
                }
                Op::Start { pid, parent, .. } => {
                    *parent = parent.map(&mut space);
                    *pid = *turn.pids.entry(*pid).or_insert_with(|| {
                        let free = std::iter::once(*pid).chain(1..).find(|pid| !pids.contains(pid));
                        free.expect("there are fewer processes than numbers")
                    });
                    pids.insert(*pid);
                    turn.alive.insert(out.asid);
                }
                Op::Fork { child } => {
                    *child = space(*child);
                    turn.alive.insert(*child);
                }
                Op::End(_) => _ = turn.alive.remove(&out.asid),
                Op::Guest(_) => return Err(broken(at - 1, "a whole system, which can only run alone".into())),
                _ => {}
            }
            out.push_op(op);
        }
        Ok((out, false))
    }
}

impl Source for Interleaved {
    fn next_batch(&mut self) -> Result<Option<Batch>> {
        loop {
            if let Some(asid) = self.lost.pop() {
                let mut batch = Batch::new(asid);
                batch.push_op(Op::End(End::Lost));
                return Ok(Some(batch));
            }
            let Some(turn) = self.turns.front_mut() else { return Ok(None) };
            let next = match turn.rest.take() {
                Some(rest) => Some(rest),
                None => turn.source.next_batch()?,
            };
            let Some(batch) = next else {
                let ended = self.turns.pop_front().expect("it was its turn");
                // The last one is not ended: a stream of one source is that source.
                if !self.turns.is_empty() {
                    self.lost = ended.alive.into_iter().rev().collect();
                }
                continue;
            };
            let (out, slice_ended) = self.take(batch)?;
            if slice_ended {
                self.turns.rotate_left(1);
            }
            if !out.is_empty() {
                return Ok(Some(out));
            }
        }
    }
}
