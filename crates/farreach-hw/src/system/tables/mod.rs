//! Page tables behind the handler (SV97-18, F-23). Their *contents* are the operating system's page table (XC-3); here
//! are only the places of their entries, that is, the loads that find one.
//!
//! The linear table of SV97 is looked up from the leaf, in the global space, and is part of the machines themselves.
//! The others are walked from the root: a list of loads at physical addresses, in order. An organisation is one file
//! here and one line in [`TABLES`].

mod clustered;
mod guarded;
mod hashed;
pub(super) mod radix;

use super::keys;
use farreach_types::params::Params;
use farreach_types::suggest::did_you_mean;

/// A page table walked from the root.
pub trait Organisation: Send {
    /// The loads, at physical addresses, that find the entry of a mapped global page. `root`: where the root entry of
    /// the page's part of the process's tree lies; `order`: log2 of the base pages that the mapping is part of.
    fn path(&mut self, page: u64, root: u64, order: u8, loads: &mut Vec<u64>);

    /// The page was unmapped, or mapped to another frame.
    fn unmap(&mut self, page: u64);

    /// All pages of a segment were unmapped.
    fn gone(&mut self, id: u32);
}

/// An organisation as the registry knows it.
pub struct Table {
    /// Value of the key `table`.
    pub name: &'static str,
    /// One line for display.
    pub about: &'static str,
    /// Builds it; `None`: the linear table.
    build: fn(&Params) -> Option<Box<dyn Organisation>>,
}

/// All of them.
pub const TABLES: &[Table] = &[
    Table {
        name: "linear",
        about: "one linear table in the global space, looked up from below (SV97-12)",
        build: |_| None,
    },
    Table {
        name: "radix",
        about: "two levels from above, at physical addresses: URPT, then a page of entries",
        build: |_| Some(Box::new(radix::Radix::default())),
    },
    Table {
        name: "hashed",
        about: "buckets of chained 16-byte entries, one to a page",
        build: |p| Some(Box::new(hashed::Hashed::new(p.int(keys::BUCKETS.name)))),
    },
    Table {
        name: "clustered",
        about: "buckets of chained nodes for 16 pages each; one entry where all are one superpage",
        build: |p| Some(Box::new(clustered::Clustered::new(p.int(keys::BUCKETS.name)))),
    },
    Table {
        name: "guarded",
        about: "a tree of 16 branches to a node that leaves out levels without a choice",
        build: |_| Some(Box::new(guarded::Guarded::default())),
    },
];

/// The organisation that a description names.
pub fn table(params: &Params) -> Result<Option<Box<dyn Organisation>>, String> {
    let name = params.text(keys::TABLE.name);
    match TABLES.iter().find(|table| table.name == name) {
        Some(table) => Ok((table.build)(params)),
        None => {
            let names: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
            let meant = did_you_mean(name, names.iter().copied());
            Err(format!("table = {name} is not allowed: table must be one of {}{meant}", names.join(", ")))
        }
    }
}

/// Where the identifier begins in a global page number.
const ID_SHIFT: u32 = super::global::SEGMENT_SHIFT - farreach_types::addr::BASE_SHIFT;

/// The segment of a global page.
fn id_of(page: u64) -> u32 {
    (page >> ID_SHIFT) as u32
}

/// Memory for nodes of one size, a power of two, allocated in ascending order; returned nodes are reused first.
struct Arena {
    start: u64,
    size: u64,
    next: u64,
    free: Vec<u64>,
}

impl Arena {
    /// The first node lies 64 KB beyond the start of all tables; `start` bytes are for other data.
    fn new(start: u64, size: u64) -> Arena {
        Arena { start: super::global::kernel::TABLES + start.next_multiple_of(size), size, next: 0, free: Vec::new() }
    }
    fn take(&mut self) -> u64 {
        if let Some(node) = self.free.pop() {
            return node;
        }
        self.next += 1;
        // 2 GB less the other data; a machine of 4 GB has no room for more, so addresses repeat.
        let room = super::global::kernel::GROUPS - self.start;
        self.start + (self.next - 1) * self.size % (room - room % self.size)
    }
    fn free_node(&mut self, node: u64) {
        self.free.push(node);
    }
}

/// Spreads numbers evenly over `buckets`, a power of two (Fibonacci hashing).
fn bucket(number: u64, buckets: u64) -> u64 {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32 & (buckets - 1)
}
