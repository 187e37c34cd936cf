//! What a module is asked, what it answers, and what the simulator says it should: the port contract of
//! `rtl/README.md`, in the form in which `rtl/harness.cpp` takes it.

use farreach_types::event::Kind;
use std::fmt;

/// `req_op`, as `rtl/tlb_pkg.sv` has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Translate a page.
    Lookup,
    /// Take a translation of a page that missed.
    Fill,
    /// The mapping of a page changed.
    DropPage,
    /// An address space is gone.
    DropSpace,
    /// Another process runs, and tags have no process.
    DropAll,
    /// A superpage was split.
    Demote,
}

/// One request. Fields that a module or an operation does not have are 0.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// What is asked for.
    pub op: Op,
    /// Fetch, load or store.
    pub kind: Kind,
    /// Address space.
    pub asid: u32,
    /// The page, in units of the array.
    pub page: u64,
    /// One past the last page of a range.
    pub limit: u64,
    /// Frame; OFFSET of a range.
    pub frame: u64,
    /// Where a table begins in memory.
    pub root: u64,
    /// Attributes.
    pub attr: u8,
    /// log2 of the pages that the entry shall translate as one.
    pub size: u8,
    /// A line of page table entries ([`pte_word`]), or memory: addresses and what is there in turn.
    pub further: Vec<u64>,
}

/// Words of a request before the further ones.
const HEAD: usize = 5;
/// Further words that a request can have.
pub const MOST_FURTHER: usize = 255;

impl Request {
    /// A request about a page.
    pub fn new(op: Op, asid: u32, page: u64) -> Request {
        let further = Vec::new();
        Request { op, kind: Kind::Load, asid, page, limit: 0, frame: 0, root: 0, attr: 0, size: 0, further }
    }

    /// Appends its words. `state`: the module is also asked for its valid, modified and used bits.
    pub fn write(&self, state: bool, into: &mut Vec<u64>) {
        assert!(self.further.len() <= MOST_FURTHER, "{} words beside a request", self.further.len());
        let flag = |flag: bool, at: u32| u64::from(flag) << at;
        let head = self.op as u64
            | flag(self.kind == Kind::Fetch, 3)
            | flag(self.kind == Kind::Store, 4)
            | flag(state, 5)
            | u64::from(self.size) << 8
            | u64::from(self.attr) << 16
            | (self.further.len() as u64) << 24
            | u64::from(self.asid) << 32;
        into.extend([head, self.page, self.limit, self.frame, self.root]);
        into.extend(&self.further);
    }

    /// What its words ask for.
    pub fn op(words: &[u64]) -> Op {
        const OPS: [Op; 6] = [Op::Lookup, Op::Fill, Op::DropPage, Op::DropSpace, Op::DropAll, Op::Demote];
        OPS[(words[0] & 7) as usize]
    }

    /// Reads it back.
    pub fn read(words: &[u64]) -> Request {
        let head = words[0];
        let kind = match head >> 3 & 3 {
            1 => Kind::Fetch,
            2 => Kind::Store,
            _ => Kind::Load,
        };
        let further = (head >> 24 & 0xff) as usize;
        Request {
            op: Request::op(words),
            kind,
            asid: (head >> 32) as u32,
            page: words[1],
            limit: words[2],
            frame: words[3],
            root: words[4],
            attr: (head >> 16) as u8,
            size: (head >> 8) as u8,
            further: words[HEAD..HEAD + further].to_vec(),
        }
    }
}

/// A page table entry in a line: attributes from bit 0, frame from bit 8, bit 63 present.
pub fn pte_word(frame: u64, attr: u8) -> u64 {
    1 << 63 | frame << 8 | u64::from(attr)
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.op {
            Op::Lookup => "LOOKUP",
            Op::Fill => "FILL",
            Op::DropPage => "DROP_PAGE",
            Op::DropSpace => "DROP_SPACE",
            Op::DropAll => "DROP_ALL",
            Op::Demote => "DEMOTE",
        };
        write!(f, "{name} {:?} asid {} page {:#x}", self.kind, self.asid, self.page)?;
        if self.op == Op::Fill {
            write!(f, " frame {:#x} attributes {:#x} size {}", self.frame, self.attr, self.size)?;
            if self.limit > 0 {
                write!(f, " limit {:#x}", self.limit)?;
            }
        }
        if self.root > 0 {
            write!(f, " root {:#x}", self.root)?;
        }
        Ok(())
    }
}

/// What a module answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// An entry translates the page; a walk found it.
    pub hit: bool,
    /// None does, but one has its tag.
    pub part: bool,
    /// Another entry went.
    pub evict: bool,
    /// Memory was read where there is none.
    pub stray_read: bool,
    /// Of the entry.
    pub size: u8,
    /// Attributes.
    pub attr: u8,
    /// Which entry; of a walker, how much it read.
    pub slot: u32,
    /// Frame; of a range walker OFFSET.
    pub frame: u64,
    /// Cycle in which the request was accepted.
    pub accepted: u64,
    /// Cycle of the answer.
    pub answered: u64,
    /// BASE and LIMIT, of a range walker.
    pub range: (u64, u64),
}

impl Answer {
    /// Words of an answer.
    pub const WORDS: usize = 6;

    /// From its words.
    pub fn read(words: &[u64]) -> Answer {
        let head = words[0];
        Answer {
            hit: head & 1 != 0,
            part: head >> 1 & 1 != 0,
            evict: head >> 2 & 1 != 0,
            stray_read: head >> 3 & 1 != 0,
            size: (head >> 8) as u8,
            attr: (head >> 16) as u8,
            slot: (head >> 32) as u32,
            frame: words[1],
            accepted: words[2],
            answered: words[3],
            range: (words[4], words[5]),
        }
    }
}

/// What the simulator says the answer is. Only what is named is compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expected {
    /// A lookup that an entry answers.
    Hit {
        /// Frame.
        frame: u64,
        /// Attributes.
        attr: u8,
    },
    /// A lookup that no entry answers; `part`: one has the tag.
    Miss {
        /// See [`Answer::part`].
        part: bool,
    },
    /// A lookup that no entry answers, with any tags.
    Absent,
    /// A fill.
    Filled {
        /// The entry.
        slot: u32,
        /// Whether another went for it.
        evicts: bool,
    },
    /// A walk.
    Walked {
        /// Frame of the page.
        frame: u64,
        /// Attributes.
        attr: u8,
        /// log2 of the pages of its mapping.
        size: u8,
        /// Entries of tables read.
        reads: u32,
    },
    /// A search of a range table.
    Searched {
        /// BASE, LIMIT, OFFSET, attributes; `None`: no range has the page.
        found: Option<(u64, u64, u64, u8)>,
        /// Nodes visited.
        nodes: u32,
    },
    /// Nothing but an end.
    Done,
}

impl Expected {
    /// Whether this answer is right; `frames` are the bits of a frame that the module has.
    pub fn agrees(&self, answer: &Answer, frames: u32) -> bool {
        let cut = |frame: u64| if frames >= 64 { frame } else { frame & ((1 << frames) - 1) };
        !answer.stray_read
            && match *self {
                Expected::Hit { frame, attr } => answer.hit && (answer.frame, answer.attr) == (cut(frame), attr),
                Expected::Miss { part } => !answer.hit && answer.part == part,
                Expected::Absent => !answer.hit,
                Expected::Filled { slot, evicts } => (answer.slot, answer.evict) == (slot, evicts),
                Expected::Walked { frame, attr, size, reads } => {
                    answer.hit
                        && (answer.frame, answer.attr, answer.size, answer.slot) == (cut(frame), attr, size, reads)
                }
                Expected::Searched { found, nodes } => {
                    let range = found.is_none_or(|(base, limit, offset, attr)| {
                        (answer.range, answer.frame, answer.attr) == ((base, limit), cut(offset), attr)
                    });
                    answer.hit == found.is_some() && answer.slot == nodes && range
                }
                Expected::Done => true,
            }
    }

    /// What was wanted and what came, for people.
    pub fn against(&self, a: &Answer) -> (String, String) {
        let stray = if a.stray_read { "; it read memory where there is no table" } else { "" };
        let hit = |frame: u64, attr: u8| format!("hit, frame {frame:#x}, attributes {attr:#x}");
        let miss = |part: bool| if part { "miss, but the tag is there" } else { "miss" }.to_owned();
        let filled =
            |slot: u32, evicts: bool| format!("entry {slot}, {}", if evicts { "which held another" } else { "vacant" });
        let looked_up = || if a.hit { hit(a.frame, a.attr) } else { miss(a.part) };
        let (wanted, came) = match *self {
            Expected::Hit { frame, attr } => (hit(frame, attr), looked_up()),
            Expected::Miss { part } => (miss(part), looked_up()),
            Expected::Absent => (miss(false), looked_up()),
            Expected::Filled { slot, evicts } => (filled(slot, evicts), filled(a.slot, a.evict)),
            Expected::Walked { frame, attr, size, reads } => (
                format!("{}, size {size}, {reads} reads", hit(frame, attr)),
                format!("{}, size {}, {} reads", looked_up(), a.size, a.slot),
            ),
            Expected::Searched { found, nodes } => {
                let range = |found: Option<(u64, u64, u64, u8)>| match found {
                    None => "no range".to_owned(),
                    Some((base, limit, offset, attr)) => {
                        format!("range {base:#x} to {limit:#x}, OFFSET {offset:#x}, attributes {attr:#x}")
                    }
                };
                let came = a.hit.then_some((a.range.0, a.range.1, a.frame, a.attr));
                (format!("{}, {nodes} nodes", range(found)), format!("{}, {} nodes", range(came), a.slot))
            }
            Expected::Done => ("an end".to_owned(), "an end".to_owned()),
        };
        (wanted, came + stray)
    }
}
