//! Walkers, and the memory that they read.

use crate::part::{Part, Stop};
use crate::request::{Expected, MOST_FURTHER, Op, Request};
use farreach_hw::tlb::Lookup;
use farreach_types::addr::Asid;
use farreach_types::translation::{PageTableView, Pte, Range};
use hashbrown::HashMap;

/// Levels of the page table.
const LEVELS: u8 = 4;
/// log2 of the entries of a table.
const RADIX: u8 = 9;
/// The first frame of tables. The simulator has none; where they lie makes no difference to what is read.
const FIRST_FRAME: u64 = 1 << 34;
/// Bits of a page table entry, as `rtl/walker.sv` has them.
const PRESENT: u64 = 1;
const LEAF: u64 = 1 << 7;
const FRAME: u32 = 12;
const ATTRIBUTES: u32 = 52;

/// The page walker.
pub struct PageWalker {
    pub part: Part,
    /// By address space, level, and the part of the page number that leads to them.
    tables: HashMap<(Asid, u8, u64), u64>,
    next: u64,
}

impl PageWalker {
    pub fn new(part: Part) -> PageWalker {
        PageWalker { part, tables: HashMap::new(), next: FIRST_FRAME }
    }

    fn table(&mut self, asid: Asid, level: u8, page: u64) -> u64 {
        let next = &mut self.next;
        *self.tables.entry((asid, level, page >> (RADIX * (level + 1)))).or_insert_with(|| {
            *next += 1;
            *next - 1
        })
    }

    /// A walk that read this number of entries.
    pub fn walk(&mut self, at: Lookup, pte: Pte, reads: u32) -> Result<(), Stop> {
        let leaf = (pte.order / RADIX).min(2);
        let size = leaf * RADIX;
        let mut request = Request::new(Op::Lookup, at.asid.0, at.vpn.0);
        request.root = self.table(at.asid, LEVELS - 1, at.vpn.0) << FRAME;
        for level in (leaf..LEVELS).rev() {
            let index = at.vpn.0 >> (RADIX * level) & ((1 << RADIX) - 1);
            let address = self.table(at.asid, level, at.vpn.0) << FRAME | index << 3;
            let entry = if level > leaf {
                PRESENT | self.table(at.asid, level - 1, at.vpn.0) << FRAME
            } else {
                let frame = pte.pfn.align_down(size.into()).0;
                PRESENT | if level > 0 { LEAF } else { 0 } | frame << FRAME | u64::from(pte.attr.0) << ATTRIBUTES
            };
            request.further.extend([address, entry]);
        }
        let expected = Expected::Walked { frame: pte.pfn.0, attr: pte.attr.0, size, reads };
        self.part.ask(&request, expected, None)
    }

    /// A mapping of the address space changed.
    pub fn forget(&mut self, asid: Asid) -> Result<(), Stop> {
        self.part.ask(&Request::new(Op::DropSpace, asid.0, 0), Expected::Done, None)
    }

    /// The address space is gone, with its tables.
    pub fn gone(&mut self, asid: Asid) -> Result<(), Stop> {
        self.tables.retain(|&(of, ..), _| of != asid);
        self.forget(asid)
    }

    /// Another process runs.
    pub fn forget_all(&mut self) -> Result<(), Stop> {
        self.part.ask(&Request::new(Op::DropAll, 0, 0), Expected::Done, None)
    }
}

/// OFFSET of a range (RMM15-1).
pub fn offset(range: &Range) -> u64 {
    range.pfn.0.wrapping_sub(range.first.0)
}

/// A search of the range table of a process, node by node as it lies in memory. Nothing is asked of tables that have no
/// place in memory, or a path too long for a request.
pub fn search(walker: &mut Part, at: Lookup, table: &dyn PageTableView) -> Result<(), Stop> {
    let walk = table.ranges().walk(at.asid, at.vpn);
    let mut path = Vec::new();
    table.ranges().path(at.asid, at.vpn, &mut path);
    if path.len() != walk.nodes as usize || path.len() * 32 > MOST_FURTHER {
        return Ok(());
    }
    let mut request = Request::new(Op::Lookup, at.asid.0, at.vpn.0);
    request.root = path.first().copied().unwrap_or(0);
    request.further.reserve(path.len() * 32);
    for &node in &path {
        let Some(bytes) = table.ranges().node(at.asid, node) else { return Ok(()) };
        for (i, word) in bytes.chunks_exact(8).enumerate() {
            let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
            request.further.extend([node + 8 * i as u64, word]);
        }
    }
    let range = |r: Range| (r.first.0, r.first.0 + r.pages, offset(&r), r.attr.0);
    walker.ask(&request, Expected::Searched { found: walk.found.map(range), nodes: walk.nodes }, None)
}
