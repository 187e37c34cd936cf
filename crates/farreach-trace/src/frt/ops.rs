//! The event column: every [`Op`] as a tag byte and varints. Changes of the address space are records of it too, so
//! that this column alone, chunk after chunk, gives every definition and every event with the address space it belongs
//! to.

use std::sync::Arc;

use super::guests::{self, TableState};
use super::wire::{Cursor, put_string, put_varint, unzigzag, zigzag};
use super::{MAX_BLOCK_ITEMS, MAX_CODE_BYTES, MAX_STRING_BYTES};
use farreach_types::addr::Asid;
use farreach_types::event::{
    Advice, Backing, Block, DataRef, End, Instr, Kind, MAX_BLOCKS, Mapping, Op, Prot, ThpRule,
};
use farreach_types::plural::with_noun;

const ASID: u8 = 0;
const DEFINE: u8 = 1;
const REDEFINE: u8 = 2;
const START: u8 = 3;
const FORK: u8 = 4;
const MAP: u8 = 5;
const UNMAP: u8 = 6;
const REMAP: u8 = 7;
const PROTECT: u8 = 8;
const ADVISE: u8 = 9;
const THREAD_START: u8 = 10;
const THREAD_EXIT: u8 = 11;
const SWITCH: u8 = 12;
const END: u8 = 13;
const THP: u8 = 14;
// 15 to 22 are events of whole systems.
const DEFINE_SHARED: u8 = 23;
const PAGES: u8 = 24;
const SAMPLES: u8 = 25;
const CODE: u8 = 26;
const KERNEL_STORE: u8 = 27;

/// One record of the event column.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Record {
    /// What follows belongs to this address space.
    Asid(Asid),
    /// A block for the first time.
    Define { id: u32, block: Arc<Block> },
    /// A block that was defined before, named by its number in the file.
    Redefine(u32),
    /// Any other event.
    Op(Op),
}

/// The state that definitions and page tables are coded against; it begins anew with every chunk.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OpState {
    next_id: u32,
    next_pc: u64,
    tables: TableState,
}

pub(crate) fn put_asid(out: &mut Vec<u8>, asid: Asid) {
    out.push(ASID);
    put_varint(out, u64::from(asid.0));
}

pub(crate) fn put_redefine(out: &mut Vec<u8>, number: u32) {
    out.push(REDEFINE);
    put_varint(out, u64::from(number));
}

impl OpState {
    /// Appends the definition of a new block.
    pub fn put_define(&mut self, out: &mut Vec<u8>, id: u32, block: &Block) {
        let shared = block.words() < block.refs.len();
        out.push(if shared { DEFINE_SHARED } else { DEFINE });
        put_varint(out, zigzag(i64::from(id) - i64::from(self.next_id)));
        self.next_id = id + 1;
        put_varint(out, block.instrs.len() as u64);
        put_varint(out, block.refs.len() as u64);
        for i in &block.instrs {
            let gap = i.pc.wrapping_sub(self.next_pc) as i64;
            out.push(i.len as u8 | if gap == 0 { 0 } else { 0x80 });
            if gap != 0 {
                put_varint(out, zigzag(gap));
            }
            self.next_pc = i.pc.wrapping_add(u64::from(i.len));
        }
        let (mut after, mut words) = (0, 0);
        for r in &block.refs {
            put_varint(out, u64::from(r.after - after));
            put_varint(out, u64::from(r.size) << 1 | u64::from(r.kind == Kind::Store));
            after = r.after;
            if shared {
                put_varint(out, u64::from(words - r.word) << 1 | u64::from(r.offset != 0));
                if r.offset != 0 {
                    put_varint(out, r.offset.into());
                }
                words = words.max(r.word + 1);
            }
        }
    }

    /// Reads the next record.
    pub fn take(&mut self, c: &mut Cursor) -> Result<Record, String> {
        let op = match c.byte()? {
            ASID => return Ok(Record::Asid(Asid(c.u32("address space")?))),
            DEFINE => return self.take_define(c, false),
            DEFINE_SHARED => return self.take_define(c, true),
            REDEFINE => return Ok(Record::Redefine(c.u32("block number")?)),
            START => {
                let pid = c.u32("process id")?;
                let parent = match c.varint()? {
                    0 => None,
                    n => {
                        Some(Asid(u32::try_from(n - 1).map_err(|_| format!("parent {} does not fit 32 bits", n - 1))?))
                    }
                };
                Op::Start { pid, parent, program: c.string()?.into() }
            }
            FORK => Op::Fork { child: Asid(c.u32("address space")?) },
            MAP => take_map(c)?,
            UNMAP => Op::Unmap { start: c.varint()?, len: c.varint()? },
            REMAP => {
                Op::Remap { old_start: c.varint()?, old_len: c.varint()?, new_start: c.varint()?, new_len: c.varint()? }
            }
            PROTECT => Op::Protect { start: c.varint()?, len: c.varint()?, prot: take_prot(c.byte()?)? },
            ADVISE => {
                let (start, len) = (c.varint()?, c.varint()?);
                let advice = match c.byte()? {
                    0 => Advice::DontNeed,
                    1 => Advice::HugePage,
                    2 => Advice::NoHugePage,
                    3 => Advice::WillNeed,
                    4 => Advice::Populate,
                    5 => Advice::Collapse,
                    n => return Err(format!("advice {n}; 0 to 5 are known")),
                };
                Op::Advise { start, len, advice }
            }
            KERNEL_STORE => Op::kernel_store(c.varint()?, c.varint()?)?,
            PAGES => Op::Pages,
            SAMPLES => Op::Samples,
            CODE => self.take_code(c)?,
            THREAD_START => Op::ThreadStart { thread: c.u32("thread")? },
            THREAD_EXIT => Op::ThreadExit { thread: c.u32("thread")? },
            SWITCH => Op::Switch { thread: c.u32("thread")? },
            END => Op::End(match c.byte()? {
                0 => End::Exit(take_i32(c)?),
                1 => End::Signal(take_i32(c)?),
                2 => End::Exec,
                3 => End::Lost,
                n => return Err(format!("kind of end {n}; 0 to 3 are known")),
            }),
            THP => Op::Thp(match c.byte()? {
                0 => ThpRule::System,
                1 => ThpRule::Advised,
                2 => ThpRule::Never,
                n => return Err(format!("rule {n} of transparent huge pages; 0 to 2 are known")),
            }),
            tag @ guests::MACHINE..=guests::STALE => Op::Guest(self.tables.take(tag, c)?),
            n => return Err(format!("event {n}; {ASID} to {KERNEL_STORE} are known")),
        };
        Ok(Record::Op(op))
    }

    /// Of the block defined last, mostly.
    fn take_code(&mut self, c: &mut Cursor) -> Result<Op, String> {
        let id = (i64::from(self.next_id) - 1).checked_add(unzigzag(c.varint()?));
        let id = id.and_then(|id| u32::try_from(id).ok()).ok_or("code of a block whose id does not fit 32 bits")?;
        let len = c.varint()?;
        if len > MAX_CODE_BYTES as u64 {
            return Err(format!("code of {len} bytes; at most {MAX_CODE_BYTES} are possible"));
        }
        Ok(Op::Code { id, bytes: c.bytes(len as usize, "code")?.into() })
    }

    fn take_define(&mut self, c: &mut Cursor, shared: bool) -> Result<Record, String> {
        let id = i64::from(self.next_id).checked_add(unzigzag(c.varint()?));
        let id = id.and_then(|id| u32::try_from(id).ok()).filter(|&id| id < MAX_BLOCKS);
        let id = id.ok_or(format!("a block id that is not below {MAX_BLOCKS}"))?;
        self.next_id = id + 1;
        let (instrs, refs) = (c.varint()?, c.varint()?);
        if instrs > MAX_BLOCK_ITEMS as u64 || refs > MAX_BLOCK_ITEMS as u64 {
            return Err(format!(
                "block {id} claims {} and {}; at most {MAX_BLOCK_ITEMS} of each",
                with_noun(instrs, "instruction"),
                with_noun(refs, "reference")
            ));
        }
        let instrs: Result<Box<[Instr]>, String> = (0..instrs)
            .map(|_| {
                let len = c.byte()?;
                let gap = if len & 0x80 != 0 { unzigzag(c.varint()?) } else { 0 };
                let instr = Instr { pc: self.next_pc.wrapping_add(gap as u64), len: u32::from(len & 0x7f) };
                self.next_pc = instr.pc.wrapping_add(u64::from(instr.len));
                Ok(instr)
            })
            .collect();
        let instrs = instrs?;
        let (mut after, mut words) = (0u32, 0u32);
        let refs: Result<Box<[DataRef]>, String> = (0..refs)
            .map(|_| {
                let step = c.u32("distance")?;
                after = after.checked_add(step).ok_or("a reference stands past all instructions")?;
                let packed = c.varint()?;
                let size = u32::try_from(packed >> 1).map_err(|_| "the size of a reference does not fit 32 bits")?;
                let kind = if packed & 1 == 1 { Kind::Store } else { Kind::Load };
                let (mut word, mut offset) = (words, 0);
                if shared {
                    let back = c.varint()?;
                    word = u32::try_from(back >> 1).ok().and_then(|back| words.checked_sub(back)).ok_or_else(|| {
                        format!("block {id}: a reference shares a word {} back, of {words}", back >> 1)
                    })?;
                    offset = if back & 1 == 1 { c.u32("offset")? } else { 0 };
                }
                words = words.max(word + 1);
                Ok(DataRef { after, kind, size, word, offset })
            })
            .collect();
        let block = Block { instrs, refs: refs? };
        block.validate().map_err(|why| format!("block {id}: {why}"))?;
        Ok(Record::Define { id, block: Arc::new(block) })
    }
}

/// Appends any event but a definition.
pub(crate) fn put_op(out: &mut Vec<u8>, op: &Op, state: &mut OpState) -> Result<(), String> {
    let mut put = |tag: u8, values: &[u64]| {
        out.push(tag);
        values.iter().for_each(|&v| put_varint(out, v));
    };
    match op {
        Op::Define { .. } => unreachable!("definitions have a coder of their own"),
        Op::Pages => put(PAGES, &[]),
        Op::Samples => put(SAMPLES, &[]),
        Op::Boundary(_) => return Err("a boundary of parts of a run is not stored".into()),
        Op::Code { id, bytes } => {
            put(CODE, &[zigzag(i64::from(*id) + 1 - i64::from(state.next_id)), bytes.len() as u64]);
            out.extend_from_slice(bytes);
        }
        Op::Start { pid, parent, program } => {
            fits(program)?;
            put(START, &[u64::from(*pid), parent.map_or(0, |p| u64::from(p.0) + 1)]);
            put_string(out, program);
        }
        Op::Fork { child } => put(FORK, &[u64::from(child.0)]),
        Op::Map(m) => {
            let backing = match &m.backing {
                Backing::Anonymous => 0,
                Backing::Heap => 1,
                Backing::Stack => 2,
                Backing::File { path, .. } => {
                    fits(path)?;
                    3
                }
                Backing::Kernel => 4,
            };
            put(MAP, &[m.start, m.len]);
            out.push(prot_byte(m.prot) | u8::from(m.shared) << 3);
            out.push(backing);
            if let Backing::File { path, offset } = &m.backing {
                put_varint(out, *offset);
                put_string(out, path);
            }
        }
        Op::Unmap { start, len } => put(UNMAP, &[*start, *len]),
        Op::Remap { old_start, old_len, new_start, new_len } => {
            put(REMAP, &[*old_start, *old_len, *new_start, *new_len])
        }
        Op::Protect { start, len, prot } => {
            put(PROTECT, &[*start, *len]);
            out.push(prot_byte(*prot));
        }
        Op::Advise { start, len, advice } => {
            put(ADVISE, &[*start, *len]);
            out.push(match advice {
                Advice::DontNeed => 0,
                Advice::HugePage => 1,
                Advice::NoHugePage => 2,
                Advice::WillNeed => 3,
                Advice::Populate => 4,
                Advice::Collapse => 5,
            });
        }
        Op::KernelStore { start, len } => put(KERNEL_STORE, &[*start, *len]),
        Op::Guest(guest) => state.tables.put(out, guest)?,
        Op::Thp(rule) => {
            let rule = match rule {
                ThpRule::System => 0,
                ThpRule::Advised => 1,
                ThpRule::Never => 2,
            };
            out.extend_from_slice(&[THP, rule]);
        }
        Op::ThreadStart { thread } => put(THREAD_START, &[u64::from(*thread)]),
        Op::ThreadExit { thread } => put(THREAD_EXIT, &[u64::from(*thread)]),
        Op::Switch { thread } => put(SWITCH, &[u64::from(*thread)]),
        Op::End(end) => {
            let (kind, value) = match *end {
                End::Exit(n) => (0, Some(n)),
                End::Signal(n) => (1, Some(n)),
                End::Exec => (2, None),
                End::Lost => (3, None),
            };
            out.extend_from_slice(&[END, kind]);
            if let Some(n) = value {
                put_varint(out, zigzag(i64::from(n)));
            }
        }
    }
    Ok(())
}

fn take_map(c: &mut Cursor) -> Result<Op, String> {
    let (start, len, flags) = (c.varint()?, c.varint()?, c.byte()?);
    let prot = take_prot(flags & !8)?;
    let backing = match c.byte()? {
        0 => Backing::Anonymous,
        1 => Backing::Heap,
        2 => Backing::Stack,
        3 => {
            let offset = c.varint()?;
            Backing::File { path: c.string()?.into(), offset }
        }
        4 => Backing::Kernel,
        n => return Err(format!("backing {n}; 0 to 4 are known")),
    };
    Ok(Op::Map(Mapping { start, len, prot, shared: flags & 8 != 0, backing }))
}

fn prot_byte(p: Prot) -> u8 {
    u8::from(p.read) | u8::from(p.write) << 1 | u8::from(p.exec) << 2
}

fn take_prot(byte: u8) -> Result<Prot, String> {
    if byte > 7 {
        return Err(format!("protection {byte}; three bits are known"));
    }
    Ok(Prot { read: byte & 1 != 0, write: byte & 2 != 0, exec: byte & 4 != 0 })
}

fn take_i32(c: &mut Cursor) -> Result<i32, String> {
    let v = unzigzag(c.varint()?);
    i32::try_from(v).map_err(|_| format!("status {v} does not fit 32 bits"))
}

fn fits(path: &str) -> Result<(), String> {
    if path.len() > MAX_STRING_BYTES {
        return Err(format!("a path of {} bytes; a file takes {MAX_STRING_BYTES}", path.len()));
    }
    Ok(())
}
