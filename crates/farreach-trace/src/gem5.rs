//! Packet traces of gem5, of `MemTraceProbe` and `CommMonitor`.
//!
//! `gem5`, then messages of protobuf, each behind its length as a varint: a header, and a packet for each request.
//!
//! | field | 1 | 2 | 3 | 4 | 5 | 6 | 7 |
//! |---|---|---|---|---|---|---|---|
//! | header | name of the object | version | ticks a second | names of requestors | | | |
//! | packet | tick | command | address | size | flags | id | instruction |
//!
//! Doubts: whether addresses are virtual is a matter of the object that made the trace, and not told: the user says so
//! (`addresses`). Numbers of commands depend on the version of gem5, but for 1, a read, and 4, a write. Others are
//! refused unless the user says what they are (`load`, `store`, `skip`). Behind a cache there are lines of it, and what
//! hits it is missing. The instruction of a packet is not read: fetches are packets of their own, told by a flag.
//!
//! No reference, and passed over: software prefetches, and walks of page tables, both told by flags.

use std::collections::BTreeMap;

use crate::assemble::{Assembled, Assembler, Reader};
use crate::input::{Bytes, Input};
use crate::lines::fits;
use crate::settings::{Settings, list};
use crate::{Format, Header, Opened};
use farreach_types::error::{Error, Result};
use farreach_types::event::{Kind, MAX_INSTR_BYTES, MAX_REF_BYTES};

pub(crate) const MAGIC: &[u8] = b"gem5";
/// Commands that every version of gem5 has.
pub(crate) const LOAD: u64 = 1;
pub(crate) const STORE: u64 = 4;
/// Traces that farreach writes are of an object with this name, and behind it which addresses they have.
pub(crate) const OBJECT: &str = "farreach.";
/// The longest message. The header has a name for each requestor.
const MOST: usize = 1 << 20;
/// Flags of a request.
pub(crate) const INST_FETCH: u64 = 0x100;
const PREFETCH: u64 = 0x0100_0000;
const PT_WALK: u64 = 0x2000_0000;

/// Packet traces, for the registry.
pub(crate) const FORMAT: Format = Format {
    name: "gem5",
    about: "packet traces of gem5 (MemTraceProbe, CommMonitor); --addresses says which addresses they have",
    lacks: "processes, threads, mappings; behind a cache what hits it",
    settings: "addresses=virtual|physical, and more",
    detect: |head| head.starts_with(MAGIC),
    open,
};

/// What a command is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum What {
    Load,
    Store,
    Skip,
}

fn open(input: Input, settings: &str) -> Result<Opened> {
    let mut info = input.info(FORMAT.name);
    let fail = |what| Error::Trace { file: info.file.clone(), place: "format gem5".into(), what };
    let settings = Settings::parse(settings, &["addresses", "load", "store", "skip"]).map_err(fail)?;
    let mut commands = BTreeMap::from([(LOAD, What::Load), (STORE, What::Store)]);
    for (key, what) in [("load", What::Load), ("store", What::Store), ("skip", What::Skip)] {
        for number in settings.get(key).into_iter().flat_map(|numbers| numbers.split('|')) {
            let number: u64 =
                number.parse().map_err(|_| fail(format!("{key} = {number} is not allowed: allowed are numbers")))?;
            if commands.insert(number, what).is_some_and(|former| former != what) {
                return Err(fail(format!("command {number} is of two kinds; 1 is a load, 4 a store")));
            }
        }
    }
    let mut reader = Gem5Reader {
        input: input.into_bytes(),
        buf: vec![0; 2 * MOST],
        from: 0,
        to: 0,
        before: 0,
        packets: 0,
        tick: 0,
        commands,
        made: Assembler::new(0),
    };
    let object = reader.header()?;
    let addresses = match settings.get("addresses").or(object.strip_prefix(OBJECT)) {
        Some(addresses @ ("virtual" | "physical")) => addresses,
        other => {
            return Err(fail(format!(
                "{}the trace does not tell whether its addresses are virtual: say --addresses virtual, or --addresses \
                 physical if it was made behind the TLB, as most are",
                other.map_or(String::new(), |other| format!("addresses = {other} is not allowed; "))
            )));
        }
    };
    let more = [("original_format", "gem5"), ("addresses", addresses)];
    info.header = Some(Header {
        recorder: format!("gem5, {object}"),
        more: more.into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect(),
        ..Header::default()
    });
    Ok(Opened { source: Box::new(Assembled::new(reader)), info })
}

struct Gem5Reader {
    input: Bytes,
    buf: Vec<u8>,
    /// Bytes of `buf` that were read, and that are valid.
    from: usize,
    to: usize,
    /// Bytes of the trace before `buf`.
    before: u64,
    packets: u64,
    /// That of the last packet.
    tick: u64,
    commands: BTreeMap<u64, What>,
    made: Assembler,
}

/// Takes a number off the front; `None` if the bytes end in it.
fn varint(bytes: &mut &[u8]) -> Result<Option<u64>, String> {
    let mut value = 0u64;
    for (i, &byte) in bytes.iter().enumerate() {
        let part = u64::from(byte & 0x7f);
        if i > 9 || (i == 9 && part > 1) {
            return Err("a number has more than 64 bits".into());
        }
        value |= part << (7 * i);
        if byte < 0x80 {
            *bytes = &bytes[i + 1..];
            return Ok(Some(value));
        }
    }
    if bytes.len() > 9 { Err("a number has more than 64 bits".into()) } else { Ok(None) }
}

/// A field of a message.
enum Field<'a> {
    Number(u64),
    Text(&'a [u8]),
}

/// Takes a field off the front of a message.
fn field<'a>(message: &mut &'a [u8]) -> Result<(u64, Field<'a>), String> {
    let mut next = || varint(message)?.ok_or_else(|| "the message ends within a number".to_owned());
    let tag = next()?;
    let value = next()?;
    match tag & 7 {
        0 => Ok((tag >> 3, Field::Number(value))),
        2 => match usize::try_from(value).ok().and_then(|length| message.split_at_checked(length)) {
            Some((text, rest)) => {
                *message = rest;
                Ok((tag >> 3, Field::Text(text)))
            }
            None => Err(format!("field {} has {value} bytes, and {} are left", tag >> 3, message.len())),
        },
        kind => Err(format!("field {} is of type {kind}; 0 and 2 are allowed", tag >> 3)),
    }
}

/// The fields of a packet, by number less one.
fn packet(mut message: &[u8]) -> Result<[Option<u64>; 7], String> {
    let mut fields = [None; 7];
    while !message.is_empty() {
        match field(&mut message)? {
            (number @ 1..=7, Field::Number(value)) => {
                if fields[number as usize - 1].replace(value).is_some() {
                    return Err(format!("field {number} stands twice"));
                }
                if [2, 4].contains(&number) && value > u64::from(u32::MAX) {
                    return Err(format!("field {number} is {value}, which has more than 32 bits"));
                }
            }
            (number, _) => {
                return Err(format!("field {number}, with this type, is none of a packet: fields are 1 to 7"));
            }
        }
    }
    Ok(fields)
}

impl Gem5Reader {
    /// The name of the object that made the trace.
    fn header(&mut self) -> Result<String> {
        self.refill()?;
        if self.buf[..self.to].get(..4) != Some(MAGIC) {
            return Err(self.fail("the trace does not begin with 'gem5'".into()));
        }
        self.from = 4;
        let Some(length) = self.message()? else { return Err(self.fail("the trace is cut before its header".into())) };
        let mut message = &self.buf[self.from..self.from + length];
        let (mut object, mut ticks) = (None, None);
        let parsed = (|| {
            while !message.is_empty() {
                match field(&mut message)? {
                    (1, Field::Text(name)) => object = Some(String::from_utf8_lossy(name).into_owned()),
                    (2, Field::Number(0)) => {}
                    (2, Field::Number(version)) => return Err(format!("version {version} is not known, only 0 is")),
                    (3, Field::Number(value)) => ticks = Some(value),
                    (4, Field::Text(_)) => {}
                    (number, _) => return Err(format!("field {number}, with this type, is none of a packet trace")),
                }
            }
            object
                .filter(|_| ticks.is_some_and(|ticks| ticks > 0))
                .ok_or_else(|| "it lacks the name of its object, or how many ticks a second has".to_owned())
        })();
        let object = parsed.map_err(|what| self.fail(format!("the header is that of no packet trace: {what}")))?;
        self.from += length;
        Ok(object)
    }

    /// Moves the rest to the front and reads on; whether there was anything.
    fn refill(&mut self) -> Result<bool> {
        self.before += self.from as u64;
        self.buf.copy_within(self.from..self.to, 0);
        (self.from, self.to) = (0, self.to - self.from);
        let at = self.before + self.to as u64;
        let got = self.input.fill_some(&mut self.buf[self.to..], |got| format!("byte {}", at + got as u64))?;
        self.to += got;
        Ok(got > 0)
    }

    /// Moves `from` to the next message, which is in `buf` as a whole, and says how long it is; `None` at the end.
    fn message(&mut self) -> Result<Option<usize>> {
        loop {
            let mut rest = &self.buf[self.from..self.to];
            let length = varint(&mut rest).map_err(|what| self.fail(format!("length of a message: {what}")))?;
            match length {
                Some(length) if length == 0 || length > MOST as u64 => {
                    return Err(
                        self.fail(format!("a message of {length} bytes is not allowed: allowed are 1 to {MOST}"))
                    );
                }
                Some(length) if length <= rest.len() as u64 => {
                    self.from = self.to - rest.len();
                    return Ok(Some(length as usize));
                }
                _ => {}
            }
            if !self.refill()? {
                return match self.to - self.from {
                    0 => Ok(None),
                    left => Err(self.fail(format!("the last message, of which there are {left} bytes, is cut"))),
                };
            }
        }
    }

    /// The reference that a packet is.
    fn take(&mut self, fields: [Option<u64>; 7]) -> Result<(), String> {
        let [Some(tick), Some(command), Some(addr), Some(size), flags, ..] = fields else {
            return Err("the packet lacks tick, command, address or size: fields 1 to 4".into());
        };
        if tick < self.tick {
            return Err(format!("tick {tick} is before that of the packet before, {}", self.tick));
        }
        self.tick = tick;
        let Some(&what) = self.commands.get(&command) else {
            let known: Vec<_> = self.commands.keys().collect();
            return Err(format!(
                "command {command} is not known: known are {}; its meaning depends on the version of gem5, so say \
                 --kinds load={command}, store={command} or skip={command} (enum Command of src/mem/packet.hh)",
                list(&known)
            ));
        };
        let flags = flags.unwrap_or(0);
        if what == What::Skip || flags & (PREFETCH | PT_WALK) != 0 {
            return Ok(());
        }
        let kind = match what {
            _ if flags & INST_FETCH != 0 => Kind::Fetch,
            What::Store => Kind::Store,
            _ => Kind::Load,
        };
        let most = if kind == Kind::Fetch { MAX_INSTR_BYTES } else { MAX_REF_BYTES };
        if size == 0 || size > most.into() {
            return Err(format!("size {size} is not allowed: size must be from 1 to {most}"));
        }
        fits(addr, size as u32)?;
        match kind {
            Kind::Fetch => self.made.instr(addr, size as u32),
            kind => self.made.data(addr, size as u32, kind),
        }
    }
}

impl Reader for Gem5Reader {
    fn assembler(&mut self) -> &mut Assembler {
        &mut self.made
    }

    fn read_more(&mut self) -> Result<bool> {
        while !self.made.is_full() {
            let Some(length) = self.message()? else { return Ok(false) };
            let fields = packet(&self.buf[self.from..self.from + length]);
            fields.and_then(|fields| self.take(fields)).map_err(|what| self.fail(what))?;
            self.from += length;
            self.packets += 1;
        }
        Ok(true)
    }

    fn fail(&self, what: String) -> Error {
        let place = format!("packet {}, byte {}", self.packets, self.before + self.from as u64);
        Error::Trace { file: self.input.file.clone(), place, what }
    }
}
