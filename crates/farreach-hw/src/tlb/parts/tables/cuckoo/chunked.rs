//! A table whose ways are made of pieces of memory and grow in place, one by one (ME-1 to ME-3).
//!
//! A way of `n` entries that grows looks at one more bit of the same hash: the entry at `i` stays, or moves to `i + n`,
//! which is free. Until all have been looked at its occupancy is that of `n` entries. A way that needs more than 64
//! pieces goes to pieces of the next size as a whole, which counts no moves. Nothing shrinks.

use super::super::memory::{COLLISIONS, LINE, MOVES, RESIZES, gave, took};
use super::super::{Mapping, Places, mix};
use super::Hashed;
use super::elastic::{Entry, Rules, Tag, Upkeep};
use farreach_types::counts::OwnCounts;

/// Pieces of one size in a way (ME-1).
const MOST_CHUNKS: u64 = 64;

/// One way.
struct Way {
    /// The size of its pieces, by its place among the sizes, and in bytes.
    size: usize,
    chunk: u64,
    chunks: Vec<u64>,
    /// Its entries; of one that grows those that it had.
    many: usize,
    /// While it grows: entries below are looked for in the larger way.
    moved: Option<usize>,
    /// Of the larger way, if it grows.
    entries: Vec<Entry>,
    live: usize,
}

impl Way {
    fn new(many: usize, rules: &Rules, places: &mut Places, own: &mut OwnCounts) -> Way {
        let mut way = Way {
            size: 0,
            chunk: rules.chunks[0],
            chunks: Vec::new(),
            many,
            moved: None,
            entries: vec![Entry::default(); many],
            live: 0,
        };
        way.take(rules, places, own);
        way
    }

    /// Takes the memory that its entries need.
    fn take(&mut self, rules: &Rules, places: &mut Places, own: &mut OwnCounts) {
        let bytes = self.entries.len() as u64 * LINE;
        while bytes > MOST_CHUNKS * self.chunk && self.size + 1 < rules.chunks.len() {
            gave(own, self.bytes());
            self.chunks.clear();
            self.size += 1;
            self.chunk = rules.chunks[self.size];
        }
        while (self.chunks.len() as u64) < bytes.div_ceil(self.chunk) {
            took(own, self.chunk);
            self.chunks.push(places.take(self.chunk, LINE));
        }
    }

    fn bytes(&self) -> u64 {
        self.chunks.len() as u64 * self.chunk
    }

    fn address(&self, at: usize) -> u64 {
        let byte = at as u64 * LINE;
        self.chunks[(byte / self.chunk) as usize] + byte % self.chunk
    }

    /// The place of an entry with this hash (ME-2).
    fn place(&self, hash: usize) -> usize {
        let at = hash & (self.many - 1);
        if self.moved.is_some_and(|moved| at < moved) { hash & (2 * self.many - 1) } else { at }
    }

    /// As many as it will have.
    fn target(&self) -> usize {
        if self.moved.is_some() { 2 * self.many } else { self.many }
    }
}

/// See the module.
pub(in super::super) struct Chunked {
    order: u8,
    ways: Vec<Way>,
}

impl Chunked {
    fn hash(&self, rules: &Rules, way: usize, tag: Tag) -> usize {
        let bits = if rules.identity {
            tag.group.checked_shr(way as u32 * rules.first.trailing_zeros()).unwrap_or(0)
        } else {
            mix(u64::from(tag.asid.0) << 52 ^ tag.group, rules.seed.wrapping_add(way as u64))
        };
        bits as usize
    }

    fn place(&self, rules: &Rules, way: usize, tag: Tag) -> usize {
        self.ways[way].place(self.hash(rules, way, tag))
    }

    fn find(&mut self, rules: &Rules, tag: Tag) -> Option<(usize, usize)> {
        let places = (0..self.ways.len()).map(|way| (way, self.place(rules, way, tag)));
        { places }.find(|&(way, at)| {
            let entry = self.ways[way].entries[at];
            entry.pages != 0 && entry.tag == tag
        })
    }

    /// A way, by its free places (ME-3).
    fn draw(&self, upkeep: &mut Upkeep) -> usize {
        let free = |way: &Way| way.many.saturating_sub(way.live);
        let sum: usize = self.ways.iter().map(free).sum();
        if sum == 0 {
            return upkeep.below(self.ways.len());
        }
        let mut left = upkeep.below(sum);
        let mut way = 0;
        while left >= free(&self.ways[way]) {
            left -= free(&self.ways[way]);
            way += 1;
        }
        way
    }

    /// Puts in an entry, beginning in this way. Each time it fails, a way grows, or those that do are completed.
    fn insert(&mut self, mut entry: Entry, mut way: usize, upkeep: &mut Upkeep) {
        while let Err(left) = self.put(entry, way, upkeep) {
            entry = left;
            if self.ways.iter().all(|way| way.moved.is_none()) {
                let smallest = (0..self.ways.len()).min_by_key(|&way| self.ways[way].many);
                self.begin(smallest.expect("ways"), upkeep);
            } else {
                for way in 0..self.ways.len() {
                    while self.ways[way].moved.is_some() {
                        self.advance(way, upkeep);
                    }
                }
            }
            way = self.draw(upkeep);
        }
    }

    /// Puts in an entry, and others elsewhere for it. The error is the entry that finds no place.
    fn put(&mut self, mut entry: Entry, mut way: usize, upkeep: &mut Upkeep) -> Result<(), Entry> {
        let mut swaps = 0;
        loop {
            let at = self.place(upkeep.rules, way, entry.tag);
            let slot = &mut self.ways[way].entries[at];
            let is_free = slot.pages == 0;
            if !is_free && swaps == upkeep.rules.retries {
                return Err(entry);
            }
            let tag = entry.tag;
            std::mem::swap(slot, &mut entry);
            upkeep.walk_tables.placed(tag.asid, self.order, tag.group, way as u8);
            if is_free {
                self.ways[way].live += 1;
                return Ok(());
            }
            swaps += 1;
            *upkeep.own.at(COLLISIONS) += 1;
            let other = upkeep.below(self.ways.len() - 1);
            way = other + usize::from(other >= way);
        }
    }

    /// A way begins to grow.
    fn begin(&mut self, way: usize, upkeep: &mut Upkeep) {
        *upkeep.own.at(RESIZES) += 1;
        let way = &mut self.ways[way];
        way.moved = Some(0);
        way.entries.resize(2 * way.many, Entry::default());
        way.take(upkeep.rules, upkeep.places, upkeep.own);
    }

    /// Looks at the next entry of a way that grows, and moves it if it has to.
    fn advance(&mut self, way: usize, upkeep: &mut Upkeep) {
        let from = self.ways[way].moved.expect("it grows");
        self.ways[way].moved = Some(from + 1);
        let entry = self.ways[way].entries[from];
        let to = self.place(upkeep.rules, way, entry.tag);
        let way = &mut self.ways[way];
        if entry.pages != 0 && to != from {
            debug_assert_eq!(to, from + way.many, "ME-2: one more bit of the same hash");
            *upkeep.own.at(MOVES) += 1;
            way.entries.swap(from, to);
        }
        if from + 1 == way.many {
            (way.many, way.moved) = (2 * way.many, None);
        }
    }

    /// One step of a way that grows, drawn at random.
    fn step(&mut self, upkeep: &mut Upkeep) {
        let many = self.ways.iter().filter(|way| way.moved.is_some()).count();
        if many > 0 {
            let choice = upkeep.below(many);
            let way = (0..self.ways.len()).filter(|&way| self.ways[way].moved.is_some()).nth(choice);
            self.advance(way.expect("one of them"), upkeep);
        }
    }
}

impl Hashed for Chunked {
    fn new(mapping: Mapping, rules: &Rules, places: &mut Places, own: &mut OwnCounts) -> Chunked {
        let ways = (0..rules.ways).map(|_| Way::new(rules.first, rules, places, own)).collect();
        Chunked { order: mapping.order, ways }
    }

    fn bytes(&self) -> u64 {
        self.ways.iter().map(Way::bytes).sum()
    }

    fn read(&self, rules: &Rules, way: usize, tag: Tag) -> (u64, u8) {
        let at = self.place(rules, way, tag);
        let entry = self.ways[way].entries[at];
        (self.ways[way].address(at), if entry.tag == tag { entry.pages } else { 0 })
    }

    fn set(&mut self, tag: Tag, page: u8, upkeep: &mut Upkeep) {
        if let Some((way, at)) = self.find(upkeep.rules, tag) {
            self.ways[way].entries[at].pages |= page;
            return;
        }
        let drawn = self.draw(upkeep);
        let Way { many, live, moved, .. } = self.ways[drawn];
        let is_full = (live + 1) as f64 / many as f64 > upkeep.rules.threshold;
        if is_full && moved.is_none() && self.ways.iter().all(|other| other.many >= many) {
            self.begin(drawn, upkeep);
        }
        self.insert(Entry { tag, pages: page }, drawn, upkeep);
        for _ in 0..upkeep.rules.moves {
            self.step(upkeep);
        }
    }

    fn clear(&mut self, tag: Tag, page: u8, upkeep: &mut Upkeep) {
        let (way, at) = self.find(upkeep.rules, tag).expect("it has the page");
        let entry = &mut self.ways[way].entries[at];
        entry.pages &= !page;
        if entry.pages == 0 {
            self.ways[way].live -= 1;
        }
    }

    fn check(&self, rules: &Rules) -> u64 {
        let mut pages = 0;
        for (number, way) in self.ways.iter().enumerate() {
            let mut live = 0;
            for (at, entry) in way.entries.iter().enumerate().filter(|(_, entry)| entry.pages != 0) {
                assert_eq!(self.place(rules, number, entry.tag), at, "ME-2: {:?}", entry.tag);
                pages += u64::from(entry.pages.count_ones());
                live += 1;
            }
            assert_eq!(live, way.live, "EC-8: entries are the sum over ways");
            assert!(self.ways.iter().all(|other| way.target() <= 2 * other.target()), "ME-3");
            let is_last = way.size + 1 == rules.chunks.len();
            assert!(is_last || way.chunks.len() as u64 <= MOST_CHUNKS, "ME-1");
        }
        pages
    }
}
