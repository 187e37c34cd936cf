//! The payloads of records.

use std::sync::Arc;

use farreach_types::event::{Block, DataRef, End, Instr, Kind, Prot};
use farreach_types::plural::with_noun;

use super::super::met::Told;
use super::map;
use farreach_types::counts::LimitKind;

/// The bytes of the instructions of a block.
pub(super) type Code = Arc<[u8]>;

/// The payload of a record; reading past its end is an error.
pub(super) struct Payload<'a> {
    pub kind: u32,
    pub words: &'a [u64],
}

impl Payload<'_> {
    pub fn at(&self, i: usize) -> Result<u64, String> {
        self.words.get(i).copied().ok_or_else(|| format!("record {} has no word {i}", self.kind))
    }
    pub fn page(&self, i: usize) -> Result<u64, String> {
        let value = self.at(i)?;
        if value % 4096 != 0 {
            return Err(format!("record {}: word {i} is {value:#x}, not a multiple of 4096", self.kind));
        }
        Ok(value)
    }
    pub fn text(&self, from: usize, bytes: usize) -> Result<Arc<str>, String> {
        let words = self.words.get(from..from + bytes.div_ceil(8)).ok_or("a text is cut off")?;
        let raw: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).take(bytes).collect();
        Ok(String::from_utf8_lossy(&raw).into())
    }
    pub fn end(&self) -> Result<End, String> {
        let (status, signal) = (self.at(0)? as u32 as i32, (self.at(0)? >> 32) as i32);
        Ok(if signal != 0 { End::Signal(signal) } else { End::Exit(status) })
    }
    /// Refuses a payload of another length.
    pub fn has(&self, words: usize) -> Result<(), String> {
        if self.words.len() != words {
            let has = with_noun(self.words.len() as u64, "word");
            return Err(format!("record {} has {has} (exactly {words} allowed)", self.kind));
        }
        Ok(())
    }
    /// A word that must be below `end`; `what` names it.
    pub fn below(&self, i: usize, end: u64, what: &str) -> Result<u64, String> {
        let value = self.at(i)?;
        if value >= end {
            let last = end.wrapping_sub(1);
            return Err(format!("record {}: word {i}, the {what}, is {value:#x} (0 to {last:#x} allowed)", self.kind));
        }
        Ok(value)
    }
    pub fn limit(&self) -> Result<Told, String> {
        let (kind, bytes) = (self.at(0)? as u32, (self.at(0)? >> 32) as usize);
        let kind = LimitKind::ALL.get((kind as usize).wrapping_sub(1));
        let code = [self.at(4)?.to_le_bytes(), self.at(5)?.to_le_bytes()].concat();
        let shown = usize::try_from(self.at(3)?).ok().and_then(|bytes| code.get(..bytes));
        Ok(Told {
            kind: *kind.ok_or_else(|| format!("a limit of unknown kind {}", self.words[0] as u32))?,
            at: self.at(2)?,
            code: shown.ok_or_else(|| format!("an instruction of {} bytes", self.words[3]))?.to_vec(),
            text: self.text(6, bytes)?,
        })
    }
    /// A block, and the bytes of its instructions if they are told.
    pub fn block(&self) -> Result<(Block, Option<Code>), String> {
        let (instrs, refs) = (self.at(1)? as u32 as usize, (self.at(1)? >> 32) as usize);
        let parts = self.words[2..].split_at_checked(instrs);
        let Some((i, (r, code))) = parts.and_then(|(i, rest)| Some((i, rest.split_at_checked(refs)?))) else {
            let (i, r) = (with_noun(instrs as u64, "instruction"), with_noun(refs as u64, "reference"));
            return Err(format!("a definition of {i} and {r} has {}", with_noun(self.words.len() as u64, "word")));
        };
        let reference = |&w: &u64| DataRef {
            after: w as u32 & 0xffff,
            kind: if w >> 63 != 0 { Kind::Store } else { Kind::Load },
            size: (w >> 32) as u32 & 0x3_ffff,
            word: w as u32 >> 16,
            offset: (w >> 50) as u32 & 0x1fff,
        };
        let block = Block {
            instrs: i.iter().map(|&w| Instr { pc: w & ((1 << 57) - 1), len: (w >> 57) as u32 }).collect(),
            refs: r.iter().map(reference).collect(),
        };
        let bytes = block.code_bytes();
        if !code.is_empty() && code.len() != bytes.div_ceil(8) {
            return Err(format!(
                "a definition of {} of instructions has {} for them",
                with_noun(bytes as u64, "byte"),
                with_noun(code.len() as u64, "word")
            ));
        }
        let code = (!code.is_empty()).then(|| code.iter().flat_map(|w| w.to_le_bytes()).take(bytes).collect());
        Ok((block, code))
    }
}

/// The protection in the flags of a mapping.
pub(super) fn prot(flags: u64) -> Prot {
    Prot { read: flags & map::READ != 0, write: flags & map::WRITE != 0, exec: flags & map::EXECUTE != 0 }
}
