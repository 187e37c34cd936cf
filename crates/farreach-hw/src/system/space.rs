//! 64-bit programs on a 32-bit machine: segment registers assigned on demand.
//!
//! The rule: each 256 MB chunk of a program's address space that it touches gets a segment identifier of its own. A
//! chunk is accessible while one of the process's eight user registers holds its identifier. A reference to another
//! chunk traps; software puts it into the register loaded longest ago (the first free one while there is one) and
//! exchanges that register's group of the URPT with the copies of kernel memory. So the large address space is used by
//! moving segments in and out of the 4 GB window (SV97-23).

use super::global::{RESERVED_IDS, SEGMENT_SHIFT, TABLE_PAGES, USER_REGISTERS, kernel};
use farreach_types::addr::{Asid, BASE_SHIFT, Vpn, VpnRange};
use farreach_types::translation::Attr;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::collections::VecDeque;

/// Everything allowed: the protection of a segment by default.
const ALL: Attr = Attr(Attr::READ | Attr::WRITE | Attr::EXEC);

/// log2 of the pages of a segment.
const SEGMENT_PAGES: u32 = SEGMENT_SHIFT - BASE_SHIFT;
/// log2 of the entries in a page of its table.
const LEAF_SHIFT: u32 = BASE_SHIFT - 2;

/// A segment in a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Identifier.
    pub id: u32,
    /// What the register allows, besides what each line allows (F-18).
    pub attr: Attr,
}

/// The effect of making a chunk accessible.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entered {
    /// Its segment.
    pub segment: Segment,
    /// Whether a register was loaded.
    pub loaded: bool,
    /// Whether its identifier is new.
    pub fresh: bool,
    /// An identifier taken from another chunk: all lines cached under it must be flushed before it is used (SV97-24).
    pub reused: Option<u32>,
}

#[derive(Clone, Copy, Default)]
struct Registers {
    /// Chunk and identifier.
    held: [Option<(u64, u32)>; USER_REGISTERS],
    next: u8,
}

/// The segments of all address spaces.
pub struct Space {
    limit: u32,
    chunks: HashMap<(Asid, u64), Segment, FixedState>,
    registers: HashMap<Asid, Registers, FixedState>,
    /// Identifiers in use, oldest first.
    assigned: VecDeque<u32>,
    free: VecDeque<u32>,
    next: u32,
}

impl Space {
    /// Identifiers of `id_bits` bits, at most [`super::global::ID_BITS`].
    pub fn new(id_bits: u32) -> Space {
        Space {
            limit: RESERVED_IDS.min(1 << id_bits),
            chunks: HashMap::default(),
            registers: HashMap::default(),
            assigned: VecDeque::new(),
            free: VecDeque::new(),
            next: 0,
        }
    }

    /// The chunk of an address.
    #[inline(always)]
    pub fn chunk(addr: u64) -> u64 {
        addr >> SEGMENT_SHIFT
    }

    /// Makes a chunk accessible.
    pub fn enter(&mut self, asid: Asid, chunk: u64) -> Entered {
        let known = self.chunks.get(&(asid, chunk)).copied();
        let registers = self.registers.entry(asid).or_default();
        if let Some(segment) = known.filter(|s| registers.held.contains(&Some((chunk, s.id)))) {
            return Entered { segment, loaded: false, fresh: false, reused: None };
        }
        let (segment, reused) = match known {
            Some(segment) => (segment, None),
            None => {
                let (id, reused) = self.assign(asid);
                let segment = Segment { id, attr: ALL };
                self.chunks.insert((asid, chunk), segment);
                self.assigned.push_back(id);
                (segment, reused)
            }
        };
        let registers = self.registers.entry(asid).or_default();
        let slot = registers.held.iter().position(Option::is_none).unwrap_or_else(|| {
            let slot = usize::from(registers.next);
            registers.next = (registers.next + 1) % USER_REGISTERS as u8;
            slot
        });
        registers.held[slot] = Some((chunk, segment.id));
        Entered { segment, loaded: true, fresh: known.is_none(), reused }
    }

    /// An identifier: a new one, one whose owner has ended, or the oldest that the running process does not hold in a
    /// register. If it holds them all, the oldest.
    fn assign(&mut self, running: Asid) -> (u32, Option<u32>) {
        if self.next < self.limit {
            self.next += 1;
            return (self.next - 1, None);
        }
        if let Some(id) = self.free.pop_front() {
            return (id, None);
        }
        let held = |id: u32| self.registers.get(&running).is_some_and(|r| r.held.iter().flatten().any(|h| h.1 == id));
        let oldest = self.assigned.iter().position(|&id| !held(id)).unwrap_or(0);
        let id = self.assigned.remove(oldest).expect("all identifiers are assigned");
        self.chunks.retain(|_, segment| segment.id != id);
        for registers in self.registers.values_mut() {
            registers.held.iter_mut().filter(|h| h.is_some_and(|(_, held)| held == id)).for_each(|h| *h = None);
        }
        (id, Some(id))
    }

    /// The segment of a chunk that was touched and still has its identifier.
    pub fn known(&self, asid: Asid, chunk: u64) -> Option<Segment> {
        self.chunks.get(&(asid, chunk)).copied()
    }

    /// Whether a global page is one of these pages of an address space.
    pub fn lies_in(&self, page: u64, asid: Asid, range: VpnRange) -> bool {
        let vpn = |chunk: u64| Vpn(chunk << SEGMENT_PAGES | page & ((1 << SEGMENT_PAGES) - 1));
        self.chunks.iter().any(|(&(owner, chunk), segment)| {
            owner == asid && u64::from(segment.id) == page >> SEGMENT_PAGES && range.contains(vpn(chunk))
        })
    }

    /// Gives a chunk of one address space the identifier of a chunk of another: shared memory without synonyms (SV97-9,
    /// SV97-23). `None` if that chunk has none, or this one has one.
    pub fn share(&mut self, asid: Asid, chunk: u64, with: (Asid, u64)) -> Option<Segment> {
        let segment = *self.chunks.get(&with)?;
        if self.chunks.contains_key(&(asid, chunk)) {
            return None;
        }
        self.chunks.insert((asid, chunk), segment);
        Some(segment)
    }

    /// Changes what a segment register allows (F-18); whether the chunk has a segment.
    pub fn protect(&mut self, asid: Asid, chunk: u64, attr: Attr) -> bool {
        self.chunks.get_mut(&(asid, chunk)).map(|segment| segment.attr = attr).is_some()
    }

    /// Physical address of the root entry for a global page, as `running` finds it: in its own URPT if one of its
    /// registers holds the segment, else in the group that kernel memory keeps.
    pub fn root(&self, running: Asid, page: u64) -> u64 {
        let (id, table_page) = ((page >> SEGMENT_PAGES) as u32, page >> LEAF_SHIFT & (TABLE_PAGES - 1));
        let registers = self.registers.get(&running);
        let slot = registers.and_then(|r| r.held.iter().position(|h| h.is_some_and(|(_, held)| held == id)));
        let group = match slot {
            Some(slot) => kernel::control_block(running.0) + slot as u64 * TABLE_PAGES * 4,
            None => kernel::group(id),
        };
        group + table_page * 4
    }

    /// The address space has ended. Returns the identifiers that no other space uses.
    pub fn end(&mut self, asid: Asid) -> Vec<u32> {
        self.registers.remove(&asid);
        self.chunks.retain(|(owner, _), _| *owner != asid);
        let (chunks, free) = (&self.chunks, &mut self.free);
        let mut gone = Vec::new();
        self.assigned.retain(|&id| {
            // The first owner may have ended while others still use a shared segment.
            let dead = !chunks.values().any(|s| s.id == id);
            if dead {
                gone.push(id);
                free.push_back(id);
            }
            !dead
        });
        gone
    }
}
