//! Records of whole systems: which address space runs, and what the guest does to its translations.

use std::sync::Arc;

use farreach_types::addr::{Asid, KERNEL};
use farreach_types::event::{Arch, Batch, End, Guest, Invalidate, MOST_PROCESSORS, Op, Register};

use super::super::layout::{invalidate, record};
use super::Notice;
use super::chunk::Chunk;
use super::payload::Payload;
use farreach_types::counts::GuestChecks;

/// Bytes that one record of table entries may reach over.
const FRAME: u64 = 4096;

/// What the stream of a whole system has said so far.
#[derive(Default)]
pub(super) struct System {
    /// 0 before `FR_MACHINE`.
    processors: u32,
    /// Address spaces that have begun, besides that of the kernel.
    spaces: u32,
    /// The address space that runs. None until `FR_SPACE` names that of the processor.
    space: Option<Asid>,
    /// Events of earlier chunks that belong to the address space which the next `FR_SPACE` names.
    held: Vec<Op>,
    /// Name of the address space that begins next.
    name: Option<Arc<str>>,
    summed: bool,
    ended: bool,
}

/// A batch of one event.
pub(super) fn alone(asid: Asid, op: Op) -> Batch {
    batch_of(asid, vec![op])
}

fn batch_of(asid: Asid, ops: Vec<Op>) -> Batch {
    let mut batch = Batch::new(asid);
    ops.into_iter().for_each(|op| batch.push_op(op));
    batch
}

impl System {
    /// The address space that events belong to, as far as it is known.
    pub fn running(&self) -> Asid {
        self.space.unwrap_or(KERNEL)
    }

    /// Whether blocks may run.
    pub fn runs(&self) -> bool {
        self.space.is_some()
    }

    /// Why no block may run.
    pub fn idle(&self) -> Option<&'static str> {
        match self.space {
            Some(_) => None,
            None if self.processors == 0 => Some("before FR_MACHINE, which is the first record"),
            None if self.ended => Some("behind FR_END"),
            None => Some("where no FR_SPACE has told its address space"),
        }
    }

    /// Address spaces without an end, that of the kernel first.
    pub fn alive(&self) -> Vec<Asid> {
        if self.processors == 0 || self.ended { Vec::new() } else { (0..=self.spaces).map(Asid).collect() }
    }

    /// Refuses a record that may not stand here.
    pub fn check(&self, kind: u32) -> Result<(), String> {
        const COMMON: [u32; 4] = [record::DEFINE, record::CUT, record::END, record::LIMIT];
        // The emulator itself, a process as any other.
        if kind == record::START && self.processors == 0 {
            return Ok(());
        }
        if kind < record::MACHINE && !COMMON.contains(&kind) {
            return Err(format!("record {kind} is of programs; this is the stream of a whole system"));
        }
        if (kind == record::MACHINE) != (self.processors == 0) {
            return Err(format!("record {kind}; the first record, and no other, is FR_MACHINE ({})", record::MACHINE));
        }
        if self.ended {
            return Err(format!("record {kind} stands behind FR_END"));
        }
        if self.summed != (kind == record::END) {
            return Err(format!("record {kind}; FR_SUMMARY is the last record before FR_END"));
        }
        Ok(())
    }

    /// A record of whole systems.
    pub fn record(&mut self, run: &mut Chunk, p: &Payload) -> Result<(), String> {
        let guest = match p.kind {
            record::MACHINE => return self.machine(run, p),
            record::SPACE => return self.space(run, p),
            record::NAME => return self.name(run, p),
            record::PROCESSOR => {
                p.has(1)?;
                let thread = p.below(0, self.processors.into(), "processor")? as u32;
                if self.space.take().is_some() {
                    run.split(KERNEL);
                }
                run.push(Op::Switch { thread });
                return Ok(());
            }
            record::PRIVILEGE => {
                p.has(1)?;
                Guest::Privilege { kernel: p.below(0, 2, "privilege")? == 1 }
            }
            record::REGISTER => {
                p.has(2)?;
                let register = Register::ALL[p.below(0, Register::ALL.len() as u64, "register")? as usize];
                Guest::Register { register, value: p.at(1)? }
            }
            record::ENTRIES => entries(p)?,
            record::INVALIDATE => Guest::Invalidate(invalidation(p)?),
            record::EXCEPTION => {
                p.has(1)?;
                Guest::Exception { vector: p.below(0, 1 << 32, "vector")? as u32 }
            }
            record::STALE => {
                p.has(2)?;
                Guest::Stale { page: p.page(0)?, address: p.page(1)? }
            }
            record::SUMMARY => {
                let counts = <[u64; GuestChecks::COUNTERS]>::try_from(p.words);
                p.has(GuestChecks::COUNTERS)?;
                self.summed = true;
                run.notices.push(Notice::Summary(GuestChecks::from_words(counts.expect("its length"))));
                return Ok(());
            }
            other => return Err(format!("unknown record {other}")),
        };
        run.push(Op::Guest(guest));
        Ok(())
    }

    fn machine(&mut self, run: &mut Chunk, p: &Payload) -> Result<(), String> {
        p.has(2)?;
        let (arch, processors, memory) = (p.at(0)? as u32, (p.at(0)? >> 32) as u32, p.at(1)?);
        let known = Arch::ALL.get((arch as usize).wrapping_sub(1));
        let arch = *known
            .ok_or_else(|| format!("record {}: instruction set {arch} (1 to {} allowed)", p.kind, Arch::ALL.len()))?;
        if processors == 0 || processors > MOST_PROCESSORS || memory == 0 || !memory.is_multiple_of(FRAME) {
            return Err(format!(
                "record {}: {processors} processors and {memory:#x} bytes of memory (1 to {MOST_PROCESSORS}, \
                 and a multiple of {FRAME} above 0 allowed)",
                p.kind
            ));
        }
        self.processors = processors;
        run.push(Op::Start { pid: 0, parent: None, program: "kernel".into() });
        run.push(Op::Guest(Guest::Machine { arch, processors, memory }));
        run.split(KERNEL);
        Ok(())
    }

    fn space(&mut self, run: &mut Chunk, p: &Payload) -> Result<(), String> {
        p.has(1)?;
        let number = p.at(0)?;
        let next = u64::from(self.spaces) + 1;
        if number == 0 || number > next {
            return Err(format!("record {}: address space {number} (1 to {next}, the next new one, allowed)", p.kind));
        }
        let asid = Asid(number as u32);
        let start = (number == next).then(|| {
            self.spaces += 1;
            let program = self.name.take().unwrap_or_else(|| "".into());
            Op::Start { pid: asid.0, parent: None, program }
        });
        match self.space {
            None if !self.held.is_empty() => {
                let held = std::mem::take(&mut self.held);
                run.before.push(batch_of(asid, start.into_iter().chain(held).collect()));
            }
            None => start.into_iter().for_each(|op| run.push_first(op)),
            Some(now) => {
                if now != asid {
                    run.split(asid);
                }
                start.into_iter().for_each(|op| run.push(op));
            }
        }
        run.batch.asid = asid;
        self.space = Some(asid);
        Ok(())
    }

    fn name(&mut self, run: &mut Chunk, p: &Payload) -> Result<(), String> {
        let (number, bytes) = (p.at(0)? as u32, (p.at(0)? >> 32) as usize);
        p.has(1 + bytes.div_ceil(8))?;
        let name = p.text(1, bytes)?;
        let next = self.spaces + 1;
        if number == 0 || number > next {
            return Err(format!("record {}: a name of address space {number} (1 to {next} allowed)", p.kind));
        }
        let asid = Asid(number);
        let op = Op::Guest(Guest::Name(Arc::clone(&name)));
        if number == next {
            self.name = Some(name);
        } else if self.space == Some(asid) {
            run.push(op);
        } else {
            if let Some(now) = self.space {
                run.split(now);
            }
            run.before.push(alone(asid, op));
        }
        Ok(())
    }

    /// The guest has ended, and so have all its address spaces.
    pub fn end(&mut self, run: &mut Chunk, end: End) {
        // What no address space followed.
        let held = std::mem::take(&mut self.held);
        if !held.is_empty() {
            run.before.push(batch_of(KERNEL, held));
        }
        run.split(KERNEL);
        run.before.extend(self.alive().into_iter().map(|asid| alone(asid, Op::End(end))));
        (self.space, self.ended) = (None, true);
    }

    /// At the end of a chunk: keeps the events whose address space is not known.
    pub fn hold(&mut self, run: &mut Chunk) {
        if self.space.is_none() {
            self.held.append(&mut run.take_events());
        }
    }
}

fn entries(p: &Payload) -> Result<Guest, String> {
    let (address, values) = (p.at(0)?, &p.words[1..]);
    let bytes = 8 * values.len() as u64;
    if !address.is_multiple_of(8) || values.is_empty() || address % FRAME + bytes > FRAME {
        return Err(format!(
            "record {}: {bytes} bytes of a table at {address:#x} (a multiple of 8, and at least one word within a \
             frame of {FRAME} bytes, allowed)",
            p.kind
        ));
    }
    Ok(Guest::Entries { address, values: values.into() })
}

fn invalidation(p: &Payload) -> Result<Invalidate, String> {
    p.has(3)?;
    let (flags, tag) = (p.at(0)? as u32, (p.at(0)? >> 32) as u32);
    if flags & !invalidate::ALL != 0 {
        return Err(format!("record {}: flags {flags:#x} (bits of {:#x} allowed)", p.kind, invalidate::ALL));
    }
    let tag = if flags & invalidate::TAGGED == 0 {
        None
    } else {
        Some(u16::try_from(tag).map_err(|_| format!("record {}: tag {tag:#x} (16 bits allowed)", p.kind))?)
    };
    let bytes = if flags & invalidate::ADDRESSED == 0 { None } else { Some((p.page(1)?, p.page(2)?)) };
    if let Some((start, len)) = bytes.filter(|(start, len)| *len == 0 || start.checked_add(*len).is_none()) {
        return Err(format!("record {}: {len:#x} bytes from {start:#x} (above 0 and below 2^64 allowed)", p.kind));
    }
    let has = |flag| flags & flag != 0;
    Ok(Invalidate {
        tag,
        bytes,
        global: has(invalidate::GLOBAL),
        leaves: has(invalidate::LEAVES),
        broadcast: has(invalidate::BROADCAST),
    })
}
