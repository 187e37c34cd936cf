//! The knob "superpage-align new mappings" (T94-53), for streams whose addresses are recorded already: every new mapping begins at a
//! multiple of a given size, in a relocated address space.
//!
//! * A *cluster* is what one placement decision of the recorded system put somewhere. It moves as a whole, so everything inside it
//!   keeps its distance. New clusters are: a new mapping, the new place of a moved one, the heap, a stack.
//! * Not new, and so part of the cluster that is there: growth of the heap and of a stack, growth in place, a mapping that replaces
//!   part of another one (the segments of a library, which the loader maps over a first mapping of the whole file), and
//!   before the first reference of a program, a mapping that begins where another ends (the segments of the program itself).
//! * Each cluster gets a place of its own above [`AREA`], where no program has addresses, with [`ROOM`] before and behind it to
//!   grow. Places are used again when a cluster is gone, the lowest first, so equal streams have equal addresses, and a program
//!   that maps and unmaps all day does not wander.
//! * Blocks are defined again under new numbers wherever their code lies in another place.
//! * References outside any mapping stay where they are. One that cannot be told so (it meets the area, or begins in one
//!   cluster and ends in another) is an error that names its address.
//!
//! The result is a renaming of pages: the sequence of references, their kinds, sizes and offsets in a page are the same, and two
//! of them are to the same page exactly if they were before. So designs that do not look at page numbers, such as a fully
//! associative TLB of one page size, miss exactly as before.

use crate::Error;
use crate::addr::{Asid, BASE_SHIFT, Bytes};
use crate::error::Result;
use crate::event::{Backing, Batch, Block, Blocks, DataRef, Instr, MAX_BLOCKS, Mapping, NOT_EXECUTED, OP_BIT, Op, Source};
use hashbrown::{HashMap, HashSet};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where relocated addresses begin: beyond what a program on a 64-bit machine can map.
pub const AREA: u64 = 1 << 56;
/// What every cluster has before and behind it; also the largest size there is to align to.
pub const ROOM: u64 = 1 << 36;
/// Where relocated addresses end.
const AREA_END: u64 = 1 << 63;
const PAGE: u64 = 1 << BASE_SHIFT;
/// Places remembered for data references.
const RECENT: usize = 1 << 10;

/// A stream with every new mapping aligned. See the module.
pub struct Relocated<S> {
    source: S,
    relocator: Relocator,
}

impl<S: Source> Relocated<S> {
    /// Aligns to `size` bytes.
    ///
    /// # Errors
    /// As [`Relocator::new`].
    pub fn new(source: S, size: u64) -> std::result::Result<Relocated<S>, String> {
        Ok(Relocated { source, relocator: Relocator::new(size)? })
    }
}

impl<S: Source> Source for Relocated<S> {
    fn next_batch(&mut self) -> Result<Option<Batch>> {
        self.source.next_batch()?.map(|batch| self.relocator.apply(&batch)).transpose()
    }
}

/// The transformation, for those who have batches in hand.
pub struct Relocator {
    size: u64,
    blocks: Blocks,
    spaces: HashMap<Asid, Space>,
    /// New number of a block whose instructions begin at these addresses.
    placed: HashMap<(u32, Box<[u64]>), u32>,
}

/// One address space.
#[derive(Clone, Default)]
struct Space {
    /// What is mapped, by first byte.
    pieces: BTreeMap<u64, Piece>,
    clusters: Vec<Option<Cluster>>,
    /// Places there ever were, in ascending order; the cluster that is there.
    places: Vec<Place>,
    /// Bytes of all first clusters of places, as if packed one behind the other.
    packed: u64,
    /// Pages referenced while nothing was mapped there.
    wild: HashSet<u64>,
    /// There was a reference.
    running: bool,
    /// Changes with everything that is mapped.
    generation: u64,
    /// New numbers of blocks, each with the generation in which it was found.
    code: HashMap<u32, (u64, u32)>,
    recent: Recent,
}

/// Mapped bytes of one cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Piece {
    end: u64,
    cluster: usize,
    /// What it is; the rules for new mappings ask.
    class: Class,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Class {
    Heap,
    Stack,
    Other,
}

/// What moves as a whole.
#[derive(Clone, Copy)]
struct Cluster {
    /// Added to an old address to get the new one.
    delta: u64,
    /// Mapped bytes.
    live: u64,
    /// Index of its place.
    place: usize,
}

/// A part of the area.
#[derive(Clone, Copy)]
struct Place {
    start: u64,
    /// Where a cluster begins.
    base: u64,
    end: u64,
    taken: bool,
}

/// Direct-mapped memory of page number, generation and delta. Empty until it is used.
#[derive(Clone, Default)]
struct Recent(Box<[(u64, u64, u64)]>);

/// Part of a range of old addresses: its bytes, and the cluster that is mapped there.
struct Part {
    start: u64,
    end: u64,
    piece: Option<Piece>,
}

impl Relocator {
    /// Aligns to `size` bytes.
    ///
    /// # Errors
    /// The size is not a power of two from 4 KB to 64 GB.
    pub fn new(size: u64) -> std::result::Result<Relocator, String> {
        if !size.is_power_of_two() || !(PAGE..=ROOM).contains(&size) {
            let (least, most) = (Bytes(PAGE), Bytes(ROOM));
            return Err(format!(
                "mappings cannot be aligned to {}: a power of two from {least} to {most} is allowed",
                Bytes(size)
            ));
        }
        Ok(Relocator { size, blocks: Blocks::default(), spaces: HashMap::new(), placed: HashMap::new() })
    }

    /// The next batch of the stream, relocated.
    ///
    /// # Errors
    /// The stream breaks its contract, or has a reference that cannot be relocated.
    pub fn apply(&mut self, batch: &Batch) -> Result<Batch> {
        let mut out = Batch::new(batch.asid);
        let mut at = 0;
        self.words(batch, &mut at, &mut out).map_err(|what| Error::Trace {
            file: format!("alignment to {}", Bytes(self.size)),
            place: format!("address space {}, word {at}", batch.asid.0),
            what,
        })?;
        Ok(out)
    }

    fn words(&mut self, batch: &Batch, at: &mut usize, out: &mut Batch) -> std::result::Result<(), String> {
        let words = &batch.words[..];
        while let Some(&word) = words.get(*at) {
            if word & OP_BIT != 0 {
                let index = word & !OP_BIT;
                let op = usize::try_from(index).ok().and_then(|i| batch.ops.get(i));
                self.op(batch.asid, op.ok_or_else(|| format!("event {index} of {}", batch.ops.len()))?, out)?;
                *at += 1;
                continue;
            }
            let block = Arc::clone(self.blocks.get(word).ok_or_else(|| format!("block {word} was never defined"))?);
            let need = block.refs.len();
            let addrs = words.get(*at + 1..*at + 1 + need).ok_or_else(|| format!("block {word} is cut"))?;
            let id = self.block(batch.asid, word as u32, &block, out)?;
            out.words.push(u64::from(id));
            let space = self.spaces.entry(batch.asid).or_default();
            for (r, &addr) in block.refs.iter().zip(addrs) {
                out.words.push(space.reference(*r, addr)?);
            }
            *at += 1 + need;
        }
        Ok(())
    }

    /// The new number of a block, defined if need be.
    fn block(&mut self, asid: Asid, id: u32, block: &Block, out: &mut Batch) -> std::result::Result<u32, String> {
        let space = self.spaces.entry(asid).or_default();
        space.running = true;
        match space.code.get(&id) {
            Some(&(generation, new)) if generation == space.generation => return Ok(new),
            _ => {}
        }
        let move_one = |i: &Instr| Ok(Instr { pc: space.moved(i.pc, i.len, "instruction")?, ..*i });
        let instrs = block.instrs.iter().map(move_one).collect::<std::result::Result<Box<[Instr]>, String>>()?;
        let next = self.placed.len() as u32;
        let key = (id, instrs.iter().map(|i| i.pc).collect());
        let new = *self.placed.entry(key).or_insert(next);
        if new == next {
            if next >= MAX_BLOCKS {
                return Err(format!("more than {MAX_BLOCKS} blocks in all the places where code lay"));
            }
            out.push_op(Op::Define { id: new, block: Arc::new(Block { instrs, refs: block.refs.clone() }) });
        }
        space.code.insert(id, (space.generation, new));
        Ok(new)
    }

    fn op(&mut self, asid: Asid, op: &Op, out: &mut Batch) -> std::result::Result<(), String> {
        if let Op::Define { id, block } = op {
            return self.blocks.define(*id, block).map_err(|why| format!("block {id}: {why}"));
        }
        let size = self.size;
        let space = self.spaces.entry(asid).or_default();
        match op {
            Op::Map(m) => space.map(m, size, out)?,
            Op::Unmap { start, len } => space.unmap(*start, end(*start, *len)?, out)?,
            Op::Remap { old_start, old_len, new_start, new_len } => {
                space.remap((*old_start, end(*old_start, *old_len)?), (*new_start, end(*new_start, *new_len)?), size, out)?;
            }
            Op::Protect { start, len, prot } => {
                for (start, len) in space.images(*start, end(*start, *len)?)? {
                    out.push_op(Op::Protect { start, len, prot: *prot });
                }
            }
            Op::Advise { start, len, advice } => {
                for (start, len) in space.images(*start, end(*start, *len)?)? {
                    out.push_op(Op::Advise { start, len, advice: *advice });
                }
            }
            Op::Fork { child } => {
                let copy = space.clone();
                self.spaces.insert(*child, copy);
                out.push_op(op.clone());
            }
            Op::End(_) => {
                self.spaces.remove(&asid);
                out.push_op(op.clone());
            }
            _ => out.push_op(op.clone()),
        }
        Ok(())
    }
}

fn end(start: u64, len: u64) -> std::result::Result<u64, String> {
    start.checked_add(len).ok_or_else(|| format!("{len} bytes at {start:#x} reach past 2^64"))
}

impl Space {
    fn find(&self, addr: u64) -> Option<&Piece> {
        self.pieces.range(..=addr).next_back().map(|(_, p)| p).filter(|p| addr < p.end)
    }

    fn delta(&self, piece: &Piece) -> u64 {
        self.clusters[piece.cluster].expect("mapped clusters live").delta
    }

    /// The new address of a byte.
    fn byte(&self, addr: u64) -> std::result::Result<u64, String> {
        match self.find(addr) {
            Some(piece) => Ok(addr.wrapping_add(self.delta(piece))),
            None => self.unmoved(addr),
        }
    }

    /// An address outside all mappings keeps its place, unless something was put there.
    fn unmoved(&self, addr: u64) -> std::result::Result<u64, String> {
        let hit = |p: &Place| p.taken && (p.start..p.end).contains(&addr);
        if addr >= AREA && self.places.iter().any(hit) {
            return Err(format!("the address {addr:#x} is not mapped, and lies where a mapping was moved to"));
        }
        Ok(addr)
    }

    /// The new address of a reference.
    #[inline]
    fn reference(&mut self, r: DataRef, addr: u64) -> std::result::Result<u64, String> {
        if addr == NOT_EXECUTED {
            return Ok(addr);
        }
        let page = addr >> BASE_SHIFT;
        let slot = (page ^ page >> 10) as usize % RECENT;
        match self.recent.0.get(slot) {
            Some(&(p, generation, delta))
                if p == page && generation == self.generation && (addr & (PAGE - 1)) + u64::from(r.size) <= PAGE =>
            {
                Ok(addr.wrapping_add(delta))
            }
            _ => {
                let new = self.moved(addr, r.size, "reference")?;
                if self.recent.0.is_empty() {
                    self.recent.0 = vec![(u64::MAX, 0, 0); RECENT].into();
                }
                self.recent.0[slot] = (page, self.generation, new.wrapping_sub(addr));
                Ok(new)
            }
        }
    }

    /// The new address of `size` bytes that are referenced.
    fn moved(&mut self, addr: u64, size: u32, what: &str) -> std::result::Result<u64, String> {
        let last = addr.checked_add(u64::from(size) - 1).ok_or_else(|| format!("{size} bytes at {addr:#x} reach past 2^64"))?;
        let new = self.byte(addr)?;
        for page in addr >> BASE_SHIFT..=last >> BASE_SHIFT {
            let byte = addr.max(page << BASE_SHIFT);
            if self.find(byte).is_none() {
                self.wild.insert(page);
            }
            if self.byte(byte)? != new.wrapping_add(byte - addr) {
                return Err(format!("the {what} of {size} bytes at {addr:#x} begins in one mapping and ends in another"));
            }
        }
        Ok(new)
    }
}

/// Changes of the mappings.
impl Space {
    /// A range as the pieces in it and the gaps between them, ascending.
    fn parts(&self, start: u64, end: u64) -> Vec<Part> {
        let first = self.pieces.range(..=start).next_back().map_or(start, |(s, _)| *s);
        let (mut parts, mut at) = (Vec::new(), start);
        for (&s, &piece) in self.pieces.range(first..end.max(first)).filter(|(_, p)| p.end > start) {
            if s > at {
                parts.push(Part { start: at, end: s, piece: None });
            }
            at = piece.end.min(end);
            parts.push(Part { start: s.max(start), end: at, piece: Some(piece) });
        }
        if at < end {
            parts.push(Part { start: at, end, piece: None });
        }
        parts
    }

    /// Where a range lies now, as starts and lengths. Gaps count only if there were references to them.
    fn images(&self, start: u64, end: u64) -> std::result::Result<Vec<(u64, u64)>, String> {
        let mut images: Vec<(u64, u64)> = Vec::new();
        for part in self.parts(start, end) {
            let new = match part.piece {
                Some(piece) => part.start.wrapping_add(self.delta(&piece)),
                None if self.was_referenced(&part) => self.unmoved(part.start)?,
                None => continue,
            };
            match images.last_mut() {
                Some((s, len)) if *s + *len == new => *len += part.end - part.start,
                _ => images.push((new, part.end - part.start)),
            }
        }
        Ok(images)
    }

    /// Whether there were references to a gap. Looks at whichever is less: its pages, or all such pages.
    fn was_referenced(&self, gap: &Part) -> bool {
        let pages = gap.start >> BASE_SHIFT..gap.end.div_ceil(PAGE);
        if pages.end - pages.start < self.wild.len() as u64 {
            pages.into_iter().any(|p| self.wild.contains(&p))
        } else {
            self.wild.iter().any(|p| pages.contains(p))
        }
    }

    /// Nothing is mapped in a range any more. Clusters of which nothing is left give up their places.
    fn remove(&mut self, start: u64, end: u64) {
        self.generation += 1;
        for part in self.parts(start, end) {
            let Some(piece) = part.piece else { continue };
            let (&s, _) = self.pieces.range(..=part.start).next_back().expect("the piece was just listed");
            self.pieces.remove(&s);
            if s < part.start {
                self.pieces.insert(s, Piece { end: part.start, ..piece });
            }
            if part.end < piece.end {
                self.pieces.insert(part.end, piece);
            }
            let cluster = self.clusters[piece.cluster].as_mut().expect("mapped clusters live");
            cluster.live -= part.end - part.start;
            if cluster.live == 0 {
                self.places[cluster.place].taken = false;
                self.clusters[piece.cluster] = None;
            }
        }
        if !self.wild.is_empty() {
            let pages = start >> BASE_SHIFT..end >> BASE_SHIFT;
            self.wild.retain(|p| !pages.contains(p));
        }
    }

    /// Maps an empty range as part of a cluster.
    fn insert(&mut self, start: u64, end: u64, cluster: usize, class: Class) -> std::result::Result<(), String> {
        self.generation += 1;
        let c = self.clusters[cluster].as_mut().expect("the caller chose a cluster that lives");
        let place = self.places[c.place];
        let new = start.wrapping_add(c.delta);
        if new < place.start || place.end - new < end - start {
            return Err(format!("the mapping at {start:#x} grew by more than {}", Bytes(ROOM)));
        }
        c.live += end - start;
        self.pieces.insert(start, Piece { end, cluster, class });
        Ok(())
    }

    /// A new cluster for a range: at the lowest place that is free and large enough.
    fn cluster(&mut self, start: u64, end: u64, size: u64) -> std::result::Result<usize, String> {
        let len = end - start;
        let fits = |p: &Place| !p.taken && p.end - p.base >= len + ROOM;
        let place = match self.places.iter().position(fits) {
            Some(place) => place,
            None => {
                // Low bits as if the clusters were packed: sets of a set-associative TLB are used as by a compact placement.
                let from = self.places.last().map_or(AREA, |p| p.end);
                let base = from + ROOM + self.packed % ROOM;
                self.packed = (self.packed + len).next_multiple_of(size);
                let end = (base + len).checked_next_multiple_of(ROOM).and_then(|e| e.checked_add(ROOM));
                let end = end.filter(|&e| e <= AREA_END && len < AREA_END).ok_or("the mappings do not fit in 64 bits")?;
                self.places.push(Place { start: from, base, end, taken: false });
                self.places.len() - 1
            }
        };
        self.places[place].taken = true;
        let new = Cluster { delta: self.places[place].base.wrapping_sub(start), live: 0, place };
        match self.clusters.iter().position(Option::is_none) {
            Some(i) => self.clusters[i] = Some(new),
            None => self.clusters.push(Some(new)),
        }
        Ok(self.clusters.iter().position(|c| c.is_some_and(|c| c.place == place)).expect("just put there"))
    }

    /// The cluster that a mapping of this class continues, if it does.
    fn continued(&self, start: u64, end: u64, class: Class) -> Option<usize> {
        let below = || self.pieces.range(..start).next_back().map(|(_, p)| p).filter(|p| p.end == start);
        let above = || self.pieces.get(&end);
        let piece = match class {
            Class::Heap => self.pieces.values().find(|p| p.class == Class::Heap),
            Class::Stack => above().filter(|p| p.class == Class::Stack),
            Class::Other if !self.running => below().filter(|p| p.class == Class::Other),
            Class::Other => None,
        };
        piece.map(|p| p.cluster)
    }

    /// Makes room for a mapping: unmaps what it replaces in other clusters, and says which parts of it go to which cluster,
    /// ascending and without gaps.
    fn claim(
        &mut self,
        (start, end): (u64, u64),
        class: Class,
        size: u64,
        out: &mut Batch,
    ) -> std::result::Result<Vec<(u64, u64, usize)>, String> {
        // Clusters of which something will be left keep what is replaced in them.
        let parts = self.parts(start, end);
        let mut covered: HashMap<usize, u64> = HashMap::new();
        for part in &parts {
            part.piece.iter().for_each(|p| *covered.entry(p.cluster).or_default() += part.end - part.start);
        }
        let stays = |c: usize| self.clusters[c].is_some_and(|cluster| cluster.live > covered[&c]);
        let mut runs: Vec<(u64, u64, usize)> = Vec::new();
        for part in &parts {
            let Some(cluster) = part.piece.map(|p| p.cluster).filter(|&c| stays(c)) else { continue };
            match runs.last_mut() {
                Some((_, end, last)) if *last == cluster => *end = part.end,
                Some((_, end, _)) => {
                    *end = part.start;
                    runs.push((part.start, part.end, cluster));
                }
                None => runs.push((start, part.end, cluster)),
            }
        }
        if let Some(last) = runs.last_mut() {
            last.1 = end;
        }
        let continued = self.continued(start, end, class).filter(|_| runs.is_empty());
        // Held while it is emptied, if it is the one to be continued.
        let held = continued.inspect(|&c| self.clusters[c].as_mut().expect("found by a piece").live += 1);
        let images = self.images(start, end)?;
        self.remove(start, end);
        if let Some(c) = held {
            self.clusters[c].as_mut().expect("held").live -= 1;
        }
        if runs.is_empty() {
            let cluster = match continued {
                Some(cluster) => cluster,
                None => self.cluster(start, end, size)?,
            };
            runs.push((start, end, cluster));
        }
        let delta = |c: usize| self.clusters[c].expect("chosen above").delta;
        let inside = |s: u64, len: u64| {
            runs.iter().any(|&(from, to, c)| {
                let new = from.wrapping_add(delta(c));
                s >= new && s + len <= new + (to - from)
            })
        };
        // What lies where the mapping will be goes by itself.
        for (start, len) in images.into_iter().filter(|&(s, len)| !inside(s, len)) {
            out.push_op(Op::Unmap { start, len });
        }
        for &(from, to, cluster) in &runs {
            self.insert(from, to, cluster, class)?;
        }
        Ok(runs)
    }

    fn map(&mut self, m: &Mapping, size: u64, out: &mut Batch) -> std::result::Result<(), String> {
        let class = match m.backing {
            Backing::Heap => Class::Heap,
            Backing::Stack => Class::Stack,
            _ => Class::Other,
        };
        let range = (m.start, end(m.start, m.len)?);
        if m.len == 0 {
            return Err(format!("a mapping of no bytes at {:#x}", m.start));
        }
        for (from, to, cluster) in self.claim(range, class, size, out)? {
            let backing = match &m.backing {
                Backing::File { path, offset } => Backing::File { path: path.clone(), offset: offset + (from - m.start) },
                other => other.clone(),
            };
            let start = from.wrapping_add(self.clusters[cluster].expect("just claimed").delta);
            out.push_op(Op::Map(Mapping { start, len: to - from, backing, ..m.clone() }));
        }
        Ok(())
    }

    fn unmap(&mut self, start: u64, end: u64, out: &mut Batch) -> std::result::Result<(), String> {
        for (start, len) in self.images(start, end)? {
            out.push_op(Op::Unmap { start, len });
        }
        self.remove(start, end);
        Ok(())
    }

    fn remap(&mut self, old: (u64, u64), new: (u64, u64), size: u64, out: &mut Batch) -> std::result::Result<(), String> {
        let (old_len, new_len) = (old.1 - old.0, new.1 - new.0);
        let Some(&piece) = self.find(old.0) else {
            // The trace never said what is there.
            let old_start = self.unmoved(old.0)?;
            for (from, to, cluster) in self.claim(new, Class::Other, size, out)? {
                let new_start = from.wrapping_add(self.clusters[cluster].expect("just claimed").delta);
                out.push_op(Op::Remap { old_start, old_len, new_start, new_len: to - from });
            }
            return Ok(());
        };
        let old_start = old.0.wrapping_add(self.delta(&piece));
        if self.parts(old.0, old.1).iter().any(|p| p.piece.is_none_or(|p| p.cluster != piece.cluster)) {
            return Err(format!("the {old_len} bytes moved from {:#x} are not one mapping", old.0));
        }
        if old.0 == new.0 {
            let keep = old.0 + old_len.min(new_len);
            // Growth over other mappings replaces them.
            if new.1 > old.1 {
                self.unmap(old.1, new.1, out)?;
                self.insert(old.1, new.1, piece.cluster, piece.class)?;
            } else {
                self.remove(keep, old.1);
            }
            out.push_op(Op::Remap { old_start, old_len, new_start: old_start, new_len });
            return Ok(());
        }
        if old.0 < new.1 && new.0 < old.1 {
            return Err(format!("the {old_len} bytes at {:#x} are moved over themselves, to {:#x}", old.0, new.0));
        }
        self.unmap(new.0, new.1, out)?;
        let class = if piece.class == Class::Heap { Class::Other } else { piece.class };
        let cluster = self.cluster(new.0, new.1, size)?;
        self.insert(new.0, new.1, cluster, class)?;
        let new_start = new.0.wrapping_add(self.clusters[cluster].expect("just made").delta);
        out.push_op(Op::Remap { old_start, old_len, new_start, new_len });
        self.remove(old.0, old.1);
        Ok(())
    }
}
