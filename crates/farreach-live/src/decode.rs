//! From the words of a chunk to a [`Batch`]: blocks stay as they are, records become [`Op`]s. A chunk of a whole system
//! becomes a batch each time that another address space runs.

use farreach_types::addr::Asid;
use farreach_types::event::{
    Advice, Backing, Batch, Block, Broken, ById, End, Kind, MAX_BLOCKS, Mapping, OP_BIT, Op, ThpRule, addresses,
    block_id, block_word, words_behind,
};
use farreach_types::plural::with_noun;
use std::sync::Arc;

use self::chunk::Chunk;
use self::guest::System;
use self::payload::{Code, Payload, prot};
use super::counts::{Counts, Shape, Sum};
use super::fault;
use super::layout::{map, record};
use super::met::Told;
use farreach_types::counts::GuestChecks;

mod chunk;
mod guest;
mod payload;

/// What a chunk says about processes, for the caller to act on.
#[derive(Debug, PartialEq, Eq)]
pub enum Notice {
    /// A new image of process `pid`; the `Start` in the batch lacks its parent.
    Started { pid: u32, op: usize },
    /// A child will write ring `ring`; the `Fork` in the batch lacks its number.
    Fork { ring: u32, op: usize },
    /// The child of `ring` has this process id.
    Forked { ring: u32, pid: u32 },
    /// There is no child for `ring`.
    ForkFailed { ring: u32 },
    /// An exec begins; it may fail.
    Exec,
    /// It failed.
    ExecFailed,
    /// The process ended and this is its tally.
    Ended { tally: u64 },
    /// The program met a limit of the recorder, this often.
    Limit { told: Told, count: u64 },
    /// What the recorder of a whole system checked and met.
    Summary(GuestChecks),
}

/// Result of decoding one chunk.
pub struct Decoded {
    /// Batches before the last, of whole systems alone.
    pub before: Vec<Batch>,
    /// The last batch. Notices are about its events.
    pub batch: Batch,
    pub notices: Vec<Notice>,
    /// Counts of the words.
    pub counts: Counts,
    /// Counts of the instructions and references that did not run in blocks cut by a fault.
    pub cut: Counts,
}

/// The blocks of the run. Ids are unique in it, across processes.
#[derive(Default)]
pub struct Decoder {
    shapes: ById<Shape>,
    blocks: ById<Arc<Block>>,
    /// The bytes of their instructions, of those that told them.
    code: ById<Code>,
    /// Of a whole system.
    system: Option<System>,
}

impl Decoder {
    /// For the stream of a whole system, which has records of its own.
    pub fn of_system() -> Decoder {
        Decoder { system: Some(System::default()), ..Decoder::default() }
    }

    /// The end of all address spaces whose end the stream of ring `asid` did not tell: a whole system has several.
    pub fn ends(&self, asid: Asid, end: End) -> Vec<Batch> {
        let asids = self.system.as_ref().map_or(vec![asid], System::alive);
        asids.into_iter().map(|asid| guest::alone(asid, Op::End(end))).collect()
    }

    /// Decodes a chunk. With `torn`, its writer died before publishing it, and an incomplete block or record at the end
    /// is left out. The error names the word and what is wrong with it.
    pub fn decode(&mut self, asid: Asid, words: Vec<u64>, torn: bool) -> Result<Decoded, String> {
        let asid = self.system.as_ref().map_or(asid, System::running);
        let batch = Batch { asid, words, ops: Vec::new() };
        let mut run = Chunk::new(batch);
        let mut sum = Sum::default();
        loop {
            if self.system.as_ref().is_none_or(System::runs) {
                self.blocks(&mut run, &mut sum, torn);
            }
            let at = run.read;
            let Some(&word) = run.batch.words.get(at) else { break };
            let result = if word & OP_BIT != 0 { self.record(&mut run, word) } else { Err(self.refuse(&run, word)) };
            match result {
                Ok(()) => {}
                Err(_) if torn => {
                    let end = run.read;
                    run.batch.words.truncate(end);
                }
                Err(what) => return Err(format!("word {at}: {what}")),
            }
        }
        if let Some(system) = &mut self.system {
            system.hold(&mut run);
        }
        let batch = run.finish();
        Ok(Decoded { before: run.before, batch, notices: run.notices, counts: sum.counts(), cut: run.cut })
    }

    /// Steps over blocks, up to a record or an invalid block. The next block is found without looking this one up, so
    /// that the processor can look up several at a time.
    fn blocks(&self, run: &mut Chunk, sum: &mut Sum, torn: bool) {
        let words = &run.batch.words[..];
        let (mut at, mut last, mut counted) = (run.read, run.last_block, *sum);
        while let Some(&word) = words.get(at) {
            let end = at + 1 + words_behind(word);
            let Some(shape) = self.shapes.get(block_id(word)).filter(|shape| shape.words() == words_behind(word))
            else {
                break;
            };
            if end > words.len() || torn && words[at + 1..end].contains(&0) {
                break;
            }
            counted.add(*shape);
            last = Some(at);
            at = end;
        }
        (run.read, run.last_block, *sum) = (at, last, counted);
    }

    /// Why this word is no block that can be stepped over.
    fn refuse(&self, run: &Chunk, word: u64) -> String {
        let id = block_id(word);
        if let Some(why) = self.system.as_ref().and_then(System::idle) {
            return format!("block {id} runs {why}");
        }
        let shape = self.shapes.get(id).ok_or(Broken::UndefinedBlock { id });
        match shape.and_then(|shape| addresses(&run.batch.words, run.read, shape.words())) {
            Ok(_) => format!("block {id} was not written to its end"),
            Err(why) => why.to_string(),
        }
    }

    fn define(&mut self, id: u64, block: Block) -> Result<Op, String> {
        block.validate()?;
        let shape = Shape::of(&block)?;
        let allowed = u32::try_from(id).ok().filter(|&id| id != 0 && id < MAX_BLOCKS);
        let id = allowed.ok_or_else(|| format!("block id {id:#x} is not from 1 to {:#x}", MAX_BLOCKS - 1))?;
        if self.blocks.get(id).is_some() {
            return Err(format!("block {id} is defined twice"));
        }
        self.shapes.insert(id, shape);
        let block = Arc::new(block);
        self.blocks.insert(id, Arc::clone(&block));
        Ok(Op::Define { id, block })
    }

    /// The bytes of a block that was defined.
    fn tell(&mut self, id: u32, bytes: Code) -> Op {
        self.code.insert(id, Arc::clone(&bytes));
        Op::Code { id, bytes }
    }

    fn record(&mut self, run: &mut Chunk, head: u64) -> Result<(), String> {
        let (kind, len) = ((head >> 32) as u32 & 0x7fff_ffff, head as u32 as usize);
        let from = run.read + 1;
        let payload = run
            .batch
            .words
            .get(from..from + len)
            .ok_or_else(|| format!("record {kind} of {} is cut off", with_noun(len as u64, "word")))?
            .to_vec();
        let p = Payload { kind, words: &payload };
        run.flush();
        run.read = from + len;
        run.run = run.read;
        match &mut self.system {
            Some(system) => {
                system.check(kind)?;
                if let record::END = kind {
                    let end = p.end()?;
                    run.notices.push(Notice::Ended { tally: p.at(1)? });
                    system.end(run, end);
                    return Ok(());
                }
                if kind >= record::MACHINE {
                    return system.record(run, &p);
                }
                if kind == record::START {
                    // It is the process that is read; the address spaces are those of the guest.
                    return Ok(());
                }
            }
            None if (record::MACHINE..=record::SUMMARY).contains(&kind) => {
                return Err(format!("record {kind} is of whole systems; this is the stream of a program"));
            }
            None => {}
        }
        let span = |p: &Payload| Ok::<_, String>((p.page(0)?, p.page(1)?));
        let op = match kind {
            record::DEFINE => {
                let (block, code) = p.block()?;
                let id = p.at(0)?;
                run.push(self.define(id, block)?);
                match code {
                    Some(bytes) => self.tell(id as u32, bytes),
                    None => return Ok(()),
                }
            }
            record::START => {
                let (pid, bytes) = (p.at(0)? as u32, (p.at(0)? >> 32) as usize);
                let program = p.text(1, bytes)?;
                run.notices.push(Notice::Started { pid, op: run.batch.ops.len() });
                Op::Start { pid, parent: None, program }
            }
            record::FORK => {
                run.notices.push(Notice::Fork { ring: p.at(0)? as u32, op: run.batch.ops.len() });
                Op::Fork { child: Asid(0) }
            }
            record::MAP => {
                let flags = p.at(2)?;
                let (start, len) = span(&p)?;
                if len == 0 {
                    return Err("a mapping of 0 bytes".into());
                }
                let backing = match flags as u32 >> map::BEHIND_SHIFT {
                    0 => Backing::Anonymous,
                    1 => Backing::Heap,
                    2 => Backing::Stack,
                    3 => Backing::File { path: p.text(4, (flags >> 32) as usize)?, offset: p.at(3)? },
                    4 => Backing::Kernel,
                    other => return Err(format!("mapping of unknown kind {other}")),
                };
                let op = Op::Map(Mapping { start, len, prot: prot(flags), shared: flags & map::SHARED != 0, backing });
                if flags & map::EARLY != 0 {
                    run.push_before_last_block(op);
                    return Ok(());
                }
                op
            }
            record::UNMAP => {
                let (start, len) = span(&p)?;
                Op::Unmap { start, len }
            }
            record::REMAP => {
                Op::Remap { old_start: p.page(0)?, old_len: p.page(1)?, new_start: p.page(2)?, new_len: p.page(3)? }
            }
            record::PROTECT => {
                let (start, len) = span(&p)?;
                Op::Protect { start, len, prot: prot(p.at(2)?) }
            }
            record::ADVISE => {
                let (start, len) = span(&p)?;
                let advice = match p.at(2)? {
                    0 => Advice::DontNeed,
                    1 => Advice::HugePage,
                    2 => Advice::NoHugePage,
                    3 => Advice::WillNeed,
                    4 => Advice::Populate,
                    5 => Advice::Collapse,
                    other => return Err(format!("unknown advice {other}")),
                };
                Op::Advise { start, len, advice }
            }
            record::KERNEL_STORE => Op::kernel_store(p.at(0)?, p.at(1)?)?,
            record::THP => Op::Thp(match p.at(0)? {
                0 => ThpRule::System,
                1 => ThpRule::Never,
                3 => ThpRule::Advised,
                other => return Err(format!("unknown rule of transparent huge pages {other}")),
            }),
            record::THREAD_START => Op::ThreadStart { thread: p.at(0)? as u32 },
            record::THREAD_EXIT => Op::ThreadExit { thread: p.at(0)? as u32 },
            record::SWITCH => Op::Switch { thread: p.at(0)? as u32 },
            record::CUT => return self.cut(run, p.at(0)?, p.at(1)?),
            record::END => {
                run.notices.push(Notice::Ended { tally: p.at(1)? });
                Op::End(p.end()?)
            }
            _ => {
                run.notices.push(match kind {
                    record::FORKED => Notice::Forked { ring: p.at(0)? as u32, pid: (p.at(0)? >> 32) as u32 },
                    record::FORK_FAILED => Notice::ForkFailed { ring: p.at(0)? as u32 },
                    record::EXEC => Notice::Exec,
                    record::EXEC_FAILED => Notice::ExecFailed,
                    record::LIMIT => Notice::Limit { told: p.limit()?, count: p.at(1)? },
                    other => return Err(format!("unknown record {other}")),
                });
                return Ok(());
            }
        };
        run.push(op);
        Ok(())
    }

    /// The instruction at `ip` of the last block faulted: the part of the block that ran becomes a block of its own,
    /// `id`.
    fn cut(&mut self, run: &mut Chunk, id: u64, ip: u64) -> Result<(), String> {
        let at = run.last_block.ok_or("a fault without a block")?;
        let whole = block_id(run.batch.words[at]);
        let block = self.blocks.get(whole).cloned().ok_or("a fault in an unknown block")?;
        let end = at + 1 + block.words();
        let (short, words) = fault::before(&block, &run.batch.words[at + 1..end], ip);
        let stores = |b: &Block| b.refs.iter().filter(|r| r.kind == Kind::Store).count();
        let cut = Counts {
            instructions: (block.instrs.len() - short.instrs.len()) as u64,
            loads: (block.refs.len() - stores(&block) - (short.refs.len() - stores(&short))) as u64,
            stores: (stores(&block) - stores(&short)) as u64,
        };
        // Checked before any change: if this is refused, a torn chunk ends here, with the block as it was counted.
        let code = self.code.get(whole).map(|bytes| bytes[..short.code_bytes()].into());
        let defined = if short.instrs.is_empty() { None } else { Some(self.define(id, short)?) };
        run.last_block = None;
        run.cut.add(&cut);
        // In place of the block: the definition of its part in one or two words, then its execution. At most two words
        // more; the record took three.
        let behind = run.batch.words[end..run.write].to_vec();
        run.write = at;
        if let Some(definition) = defined {
            run.push(definition);
            if let Some(bytes) = code {
                run.push(self.tell(id as u32, bytes));
            }
            run.append(&[block_word(id as u32, words.len())]);
            run.append(&words);
        }
        run.append(&behind);
        Ok(())
    }
}
