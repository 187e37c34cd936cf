//! Packet traces of gem5; `crate::gem5` has the layout.

use super::{Holds, Sink, Step, Target};
use crate::TraceInfo;
use crate::frt::wire::put_varint;
use crate::gem5::{INST_FETCH, LOAD, MAGIC, OBJECT, STORE};
use farreach_types::event::{Access, Kind};

/// For the registry.
pub(super) const TARGET: Target = Target {
    name: "gem5",
    about: "Packet trace of gem5: a packet for each reference, with its instruction",
    text: false,
    endings: &["gz"],
    sink: |info| Box::new(Gem5 { references: 0, pc: None, header: Some(header(info)) }),
};

/// A tick is a picosecond; each reference takes this number. The trace has no times.
const SECOND: u64 = 1_000_000_000_000;
const STEP: u64 = 1000;

struct Gem5 {
    references: u64,
    /// The last instruction.
    pc: Option<u64>,
    /// Until it is written.
    header: Option<Vec<u8>>,
}

fn number(message: &mut Vec<u8>, field: u64, value: u64) {
    put_varint(message, field << 3);
    put_varint(message, value);
}

/// Appends a message, behind its length.
fn put(out: &mut Vec<u8>, message: &[u8]) {
    put_varint(out, message.len() as u64);
    out.extend_from_slice(message);
}

fn header(info: &TraceInfo) -> Vec<u8> {
    let said = info.header.as_ref().and_then(|header| header.more.get("addresses")?.as_str());
    let object = format!("{OBJECT}{}", said.unwrap_or("virtual"));
    let mut message = Vec::new();
    put_varint(&mut message, 1 << 3 | 2);
    put(&mut message, object.as_bytes());
    number(&mut message, 3, SECOND);
    let mut out = MAGIC.to_vec();
    put(&mut out, &message);
    out
}

impl Sink for Gem5 {
    fn holds(&self) -> Holds {
        Holds { spaces: false, threads: false, sizes: true, code: false, systems: true }
    }

    fn step(&mut self, step: &Step, out: &mut Vec<u8>) -> Result<(), String> {
        out.extend(self.header.take().into_iter().flatten());
        let fetch = step.instr.map(|instr| Access { kind: Kind::Fetch, addr: instr.pc, size: instr.len });
        self.pc = fetch.map(|fetch| fetch.addr).or(self.pc);
        let mut message = Vec::with_capacity(64);
        for access in fetch.iter().chain(step.data) {
            message.clear();
            number(&mut message, 1, self.references * STEP);
            number(&mut message, 2, if access.kind == Kind::Store { STORE } else { LOAD });
            number(&mut message, 3, access.addr);
            number(&mut message, 4, access.size.into());
            number(&mut message, 5, if access.kind == Kind::Fetch { INST_FETCH } else { 0 });
            if let Some(pc) = self.pc {
                number(&mut message, 7, pc);
            }
            put(out, &message);
            self.references += 1;
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Vec<String> {
        out.extend(self.header.take().into_iter().flatten());
        vec!["ticks count references: a trace has no times".into()]
    }
}
