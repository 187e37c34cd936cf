//! Text that DRAMSim2 reads, in its three dialects, and DRAMSim3, whose text is that of mase.
//!
//! ```text
//! 0x1A2B40 P_MEM_WR 123       k6
//! 0x1A2B40 READ 123           mase
//! 0x1A2B40 write 00ff         misc
//! ```
//! Address, command, cycle; in misc the data of a write instead, or nothing. A text is of one dialect.
//!
//! Doubts: such texts are what reaches the memory, so references that hit caches are missing, addresses are mostly
//! physical ones, and the sizes, lines of a cache, are not told. DRAMSim2 takes `BOFF` for a write, which it is here
//! too, and `P_LOCK_WR` for a read, which is a store here.

use crate::assemble::Assembler;
use crate::input::Input;
use crate::lines::{self, Base, Lines, UNKNOWN_SIZE, Wrong, shown, whole_lines};
use crate::{Format, Opened};
use farreach_types::error::Result;
use farreach_types::event::Kind;

/// Text of DRAMSim, for the registry.
pub(crate) const FORMAT: Format = Format {
    name: "dramsim",
    about: "text of DRAMSim2 and 3 (lines such as '0x1A2B40 P_MEM_WR 123', '0x1A2B40 READ 123' or '0x1A2B40 read')",
    lacks: "what hits caches, sizes, processes; addresses are physical, unless its maker says otherwise",
    settings: "",
    detect: |head| whole_lines(head).next().is_some_and(|line| parse(line).is_ok()),
    open: |input: Input, _| -> Result<Opened> { Ok(lines::open(input, &FORMAT, DramSim { dialect: None })) },
};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Dialect {
    K6,
    Mase,
    Misc,
}

const COMMANDS: [(&str, Dialect, Kind); 11] = [
    ("P_MEM_RD", Dialect::K6, Kind::Load),
    ("P_MEM_WR", Dialect::K6, Kind::Store),
    ("P_FETCH", Dialect::K6, Kind::Fetch),
    ("P_LOCK_RD", Dialect::K6, Kind::Load),
    ("P_LOCK_WR", Dialect::K6, Kind::Store),
    ("BOFF", Dialect::K6, Kind::Store),
    ("READ", Dialect::Mase, Kind::Load),
    ("WRITE", Dialect::Mase, Kind::Store),
    ("IFETCH", Dialect::Mase, Kind::Fetch),
    ("read", Dialect::Misc, Kind::Load),
    ("write", Dialect::Misc, Kind::Store),
];

struct DramSim {
    /// That of the first line.
    dialect: Option<Dialect>,
}

fn parse(line: &[u8]) -> Result<(u64, Dialect, Kind), Wrong> {
    let mut fields = line.split(|b| matches!(b, b' ' | b'\t')).filter(|field| !field.is_empty());
    let addr = lines::number(fields.next().unwrap_or(b""), Base::Marked);
    let addr = addr.and_then(|addr| lines::fits(addr, UNKNOWN_SIZE).map(|()| addr)).map_err(|e| Wrong::at(1, e))?;
    let command = fields.next().unwrap_or(b"");
    let Some(&(_, dialect, kind)) = COMMANDS.iter().find(|c| c.0.as_bytes() == command) else {
        let known: Vec<_> = COMMANDS.iter().map(|c| c.0).collect();
        return Err(Wrong::at(2, format!("'{}' is not allowed: allowed are {}", shown(command), known.join(", "))));
    };
    match (dialect, fields.next()) {
        (Dialect::Misc, None) => {}
        (Dialect::Misc, Some(data)) if kind == Kind::Store && data.iter().all(u8::is_ascii_hexdigit) => {}
        (Dialect::Misc, Some(_)) => return Err(Wrong::at(3, "allowed are hexadecimal data of a write".to_owned())),
        (_, cycle) => drop(lines::number(cycle.unwrap_or(b""), Base::Decimal).map_err(|e| Wrong::at(3, e))?),
    }
    match fields.next() {
        None => Ok((addr, dialect, kind)),
        Some(_) => Err(Wrong::at(4, "the line has too many columns; there are address, command and cycle")),
    }
}

impl Lines for DramSim {
    fn line(&mut self, line: &[u8], made: &mut Assembler) -> Result<(), Wrong> {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        let (addr, dialect, kind) = parse(line)?;
        let first = *self.dialect.get_or_insert(dialect);
        if first != dialect {
            return Err(Wrong::at(2, format!("a command of {dialect:?} in a text of {first:?}")));
        }
        match kind {
            Kind::Fetch => made.instr(addr, UNKNOWN_SIZE)?,
            kind => made.data(addr, UNKNOWN_SIZE, kind)?,
        }
        Ok(())
    }
}
