//! Walks of a virtual machine whose guest and host have tables of any organisation (HW-12, FL-1, DS13-40), as a guest's
//! walk whose lines the host translates one step at a time.
//!
//! Each step of the guest: the host's walks of its lines in parallel, then the lines. Last the host's walk of the data
//! page. What the rules leave open is in OW-40 to OW-45.

use super::PlainTable;
use super::book::{Book, Used};
use super::clustered::{Clustered, ClusteredConfig};
use super::cuckoo::{Cuckoo, CuckooConfig};
use super::flat::{Flat, FlatConfig};
use super::hashed::{Hashed, HashedConfig};
use super::{Found, SIZES};
use std::collections::{BTreeMap, BTreeSet};

/// A piece of memory that a table has in a row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Piece {
    pub asid: u32,
    /// FL: the upper level of the node. HT, EC: the order of the pages. CL: 0 heads, 1 a node.
    pub part: u64,
    /// FL: page div the span of the node. HT: buckets. CL: the block of the node. EC: resizes that ended (one more for
    /// the new table), times ways, plus the way. A row of walk tables: part 64 or 65, and its number.
    pub number: u64,
    pub bytes: u64,
}

/// What one reference reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Line {
    pub piece: Piece,
    /// Bytes from the beginning of the piece.
    pub offset: u64,
}

/// What a walk reads.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Reads {
    pub steps: Vec<Vec<Line>>,
    /// OW-43: a walk cache has the address of the first line.
    pub known: bool,
    /// OW-44: rows that are fetched behind the walk.
    pub rows: Vec<Line>,
}

/// A table that can say which lines a walk would read now, for a page that is mapped. It changes nothing.
pub trait Lines: PlainTable {
    fn lines(&self, asid: u32, vpn: u64) -> Reads;
}

/// Key `table` of a dimension, with the keys of its table. Radix: [`FlatConfig`] without merged levels.
#[derive(Clone, Debug)]
pub enum Organisation {
    Flat(FlatConfig),
    Hashed(HashedConfig),
    Clustered(ClusteredConfig),
    Cuckoo(CuckooConfig),
}

impl Organisation {
    fn table(self) -> Box<dyn Lines> {
        match self {
            Organisation::Flat(config) => Box::new(Flat::new(config)),
            Organisation::Hashed(config) => Box::new(Hashed::new(config)),
            Organisation::Clustered(config) => Box::new(Clustered::new(config)),
            Organisation::Cuckoo(config) => Box::new(Cuckoo::new(config)),
        }
    }
}

/// Keys of the machine.
#[derive(Clone, Debug)]
pub struct NestedConfig {
    pub guest: Organisation,
    pub host: Organisation,
    /// `host_page`: 0, 9 or 18.
    pub host_order: u8,
    /// `nested_tlb`: entries.
    pub nested_tlb: usize,
}

/// From a line of a guest's table to its guest frame.
pub type Placed = Box<dyn FnMut(Line) -> u64>;

/// OW-45.
pub fn one_after_the_other() -> Placed {
    let (mut pieces, mut next) = (BTreeMap::new(), 1u64 << 47);
    Box::new(move |line| {
        let base = *pieces.entry(line.piece).or_insert_with(|| {
            let align = line.piece.bytes.next_power_of_two().clamp(64, 2 << 20);
            // A node of CL is no power of two: it needs only lines of its own.
            let align = if line.piece.bytes.is_power_of_two() { align } else { 64 };
            let base = next.next_multiple_of(align);
            next = base + line.piece.bytes;
            base
        });
        (base + line.offset) / 4096
    })
}

/// The model.
pub struct Nested {
    guest: Box<dyn Lines>,
    host: Box<dyn Lines>,
    host_order: u8,
    /// Pages of the host that it maps.
    backed: BTreeSet<u64>,
    tlb: Used<u64>,
    /// By process and first page: order and guest frame.
    mapped: BTreeMap<(u32, u64), (u8, u64)>,
    placed: Placed,
    book: Book,
}

impl Nested {
    /// Without processes.
    pub fn new(config: NestedConfig, placed: Placed) -> Nested {
        assert!(SIZES.contains(&config.host_order));
        Nested {
            guest: config.guest.table(),
            host: config.host.table(),
            host_order: config.host_order,
            backed: BTreeSet::new(),
            tlb: Used::new(config.nested_tlb),
            mapped: BTreeMap::new(),
            placed,
            book: Book::new(&[
                "guest_references",
                "host_references",
                "host_background",
                "host_walks",
                "nested_hits",
                "known",
            ]),
        }
    }

    /// The guest maps a page, moves it to another frame, or promotes what was mapped there to it (OW-1).
    pub fn map(&mut self, asid: u32, vpn: u64, order: u8, frame: u64) {
        assert_eq!(frame % (1 << order), 0, "aligned in both spaces");
        self.guest.map(asid, vpn, order);
        let apart = |first: u64, held: u8| first + (1 << held) <= vpn || vpn + (1 << order) <= first;
        self.mapped.retain(|key, page| key.0 != asid || apart(key.1, page.0));
        self.mapped.insert((asid, vpn), (order, frame));
    }

    /// The guest unmaps a page.
    pub fn unmap(&mut self, asid: u32, vpn: u64, order: u8) {
        self.guest.unmap(asid, vpn, order);
        assert_eq!(self.mapped.remove(&(asid, vpn)).unwrap().0, order);
    }

    /// A process of the guest ends.
    pub fn gone(&mut self, asid: u32) {
        self.guest.gone(asid);
        self.mapped.retain(|key, _| key.0 != asid);
    }

    /// Another process of the guest runs.
    pub fn switch(&mut self, to: u32) {
        self.guest.switch(to);
    }

    /// The host maps the page around a guest frame, if it did not yet (OW-40).
    pub fn back(&mut self, frame: u64) {
        if self.backed.insert(frame >> self.host_order) {
            self.host.map(0, frame >> self.host_order << self.host_order, self.host_order);
        }
    }

    /// The host translates a guest frame, with references of this kind.
    fn host_walk(&mut self, frame: u64, kind: &'static str) -> Found {
        self.back(frame);
        let page = frame >> self.host_order;
        if self.tlb.hit(&page) {
            self.book.add("nested_hits", 1);
            return Found { references: 0, steps: 0 };
        }
        self.tlb.put(page);
        let reads = self.host.lines(0, frame);
        let found = self.host.walk(0, frame);
        check(&reads, found);
        self.book.add("host_walks", 1);
        self.book.add(kind, found.references);
        found
    }

    /// Whether a walk to this page now would begin at a line whose place is known (OW-43).
    pub fn knows_first(&self, asid: u32, vpn: u64) -> bool {
        self.guest.lines(asid, vpn).known
    }

    /// A walk to a page that the guest has mapped: a last-level miss of the TLBs.
    pub fn walk(&mut self, asid: u32, vpn: u64) -> Found {
        let reads = self.guest.lines(asid, vpn);
        let (mut references, mut steps) = (0, 0);
        for (at, step) in reads.steps.iter().enumerate() {
            let mut deepest = 0;
            for &line in step {
                if at == 0 && reads.known {
                    self.book.add("known", 1);
                    continue;
                }
                let frame = (self.placed)(line);
                let found = self.host_walk(frame, "host_references");
                references += found.references;
                deepest = deepest.max(found.steps);
            }
            references += step.len() as u64;
            steps += deepest + 1;
        }
        let found = self.guest.walk(asid, vpn);
        check(&reads, found);
        self.book.add("guest_references", found.references);
        let data = self.host_walk(self.frame(asid, vpn), "host_references");
        for &row in &reads.rows {
            let frame = (self.placed)(row);
            self.host_walk(frame, "host_background");
        }
        self.book.walk(references + data.references, steps + data.steps)
    }

    /// The guest frame of a base page.
    pub fn frame(&self, asid: u32, vpn: u64) -> u64 {
        let found = |&order: &u8| self.mapped.get(&(asid, vpn >> order << order)).filter(|page| page.0 == order);
        let (order, frame) = SIZES.iter().find_map(found).expect("the page is mapped");
        frame + vpn % (1 << order)
    }

    /// `walks`, `references`, `steps`, and where the references were.
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.book.all()
    }

    /// Counters of each dimension's table by itself: guest, host.
    pub fn tables(&self) -> [BTreeMap<&'static str, u64>; 2] {
        [self.guest.counts(), self.host.counts()]
    }
}

/// The lines are those that the table's own walk counts.
fn check(reads: &Reads, found: Found) {
    assert_eq!(reads.steps.len() as u64, found.steps);
    assert_eq!(reads.steps.iter().flatten().count() as u64, found.references);
}
