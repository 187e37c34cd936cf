//! A table whose ways are made of pieces of memory and grow in place, one by one (ME-1 to ME-3).
//!
//! A way of `n` entries that grows looks at one more bit of the same hash: the entry at `i` stays, or moves to `i + n`,
//! which is free. A way that shrinks puts the entry at `i + n/2` to `i`; where that is taken it is inserted anew. A way
//! that needs more than 64 pieces goes to pieces of the next size as a whole.

use super::super::memory::{COLLISIONS, LINE, MOVES, RESIZES, gave, took};
use super::super::{Mapping, Places, mix};
use super::Hashed;
use super::elastic::{Entry, Rules, SPARSE, Upkeep};
use farreach_types::addr::Asid;
use farreach_types::counts::OwnCounts;

/// Pieces of one size in a way (ME-1).
const MOST_CHUNKS: u64 = 64;

/// One way.
struct Way {
    /// The size of its pieces, by its place among the sizes, and in bytes.
    size: usize,
    chunk: u64,
    chunks: Vec<u64>,
    /// Its entries, and as many as it will have; equal if it rests.
    many: usize,
    target: usize,
    /// Places below are as in the way that it becomes.
    moved: usize,
    /// Of the larger of both.
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
            target: many,
            moved: 0,
            entries: vec![Entry::default(); many],
            live: 0,
        };
        way.take(rules, places, own);
        way
    }

    /// Takes the memory that its entries need. Returns whether they went to other pieces.
    fn take(&mut self, rules: &Rules, places: &mut Places, own: &mut OwnCounts) -> bool {
        let bytes = self.entries.len() as u64 * LINE;
        let before = self.size;
        while bytes > MOST_CHUNKS * self.chunk && self.size + 1 < rules.chunks.len() {
            self.size += 1;
            self.chunk = rules.chunks[self.size];
        }
        let goes = self.size > before && !self.chunks.is_empty();
        if goes {
            gave(own, self.chunks.len() as u64 * rules.chunks[before]);
            self.chunks.clear();
        }
        while (self.chunks.len() as u64) < bytes.div_ceil(self.chunk) {
            took(own, self.chunk);
            self.chunks.push(places.take(self.chunk, LINE));
        }
        goes
    }

    fn bytes(&self) -> u64 {
        self.chunks.len() as u64 * self.chunk
    }

    fn address(&self, at: usize) -> u64 {
        let byte = at as u64 * LINE;
        self.chunks[(byte / self.chunk) as usize] + byte % self.chunk
    }

    /// The place of an entry with this hash.
    fn place(&self, hash: usize) -> usize {
        let below = hash & (self.many.min(self.target) - 1);
        if below < self.moved { hash & (self.target - 1) } else { hash & (self.many - 1) }
    }

    fn is_full(&self, threshold: f64) -> bool {
        self.live as f64 > threshold * self.target as f64
    }
}

/// See the module.
pub(in super::super) struct Chunked {
    asid: Asid,
    order: u8,
    ways: Vec<Way>,
}

impl Chunked {
    fn hash(&self, rules: &Rules, way: usize, tag: u64) -> usize {
        let bits = if rules.identity {
            tag.checked_shr(way as u32 * rules.first.trailing_zeros()).unwrap_or(0)
        } else {
            mix(u64::from(self.asid.0) << 52 ^ tag, rules.seed.wrapping_add(way as u64))
        };
        bits as usize
    }

    fn place(&self, rules: &Rules, way: usize, tag: u64) -> usize {
        self.ways[way].place(self.hash(rules, way, tag))
    }

    fn find(&mut self, rules: &Rules, tag: u64) -> Option<(usize, usize)> {
        let places = (0..self.ways.len()).map(|way| (way, self.place(rules, way, tag)));
        { places }.find(|&(way, at)| {
            let entry = self.ways[way].entries[at];
            entry.pages != 0 && entry.tag == tag
        })
    }

    /// A way, by its free places (ME-3).
    fn draw(&self, upkeep: &mut Upkeep) -> usize {
        let free = |way: &Way| way.target - way.live.min(way.target);
        let mut left = upkeep.below(self.ways.iter().map(free).sum::<usize>().max(1));
        let chosen = self.ways.iter().position(|way| {
            let here = left < free(way);
            left = left.wrapping_sub(if here { 0 } else { free(way) });
            here
        });
        chosen.unwrap_or(0)
    }

    /// Puts in an entry. If it fails, a way grows at once.
    fn insert(&mut self, mut entry: Entry, upkeep: &mut Upkeep) {
        while let Err(left) = self.put(entry, upkeep) {
            entry = left;
            let live: usize = self.ways.iter().map(|way| way.live).sum();
            let all: usize = self.ways.iter().map(|way| way.target).sum();
            let is_hopeless = upkeep.rules.identity && (live as f64) < all as f64 / 64.0;
            assert!(!is_hopeless, "ec_hash = identity has no place for {entry:?}: use mix");
            match (0..self.ways.len()).find(|&way| self.ways[way].many != self.ways[way].target) {
                Some(way) => self.complete(way, upkeep),
                None => {
                    let way = (0..self.ways.len()).min_by_key(|&way| self.ways[way].target).expect("ways");
                    self.begin(way, self.ways[way].many * 2, upkeep);
                }
            }
        }
    }

    /// Puts in an entry, and others elsewhere for it. The error is the entry that finds no place.
    fn put(&mut self, mut entry: Entry, upkeep: &mut Upkeep) -> Result<(), Entry> {
        let mut way = self.draw(upkeep);
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
            upkeep.walk_tables.placed(self.asid, self.order, tag, way as u8);
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

    /// A way begins to have this many entries.
    fn begin(&mut self, way: usize, target: usize, upkeep: &mut Upkeep) {
        *upkeep.own.at(RESIZES) += 1;
        let way = &mut self.ways[way];
        way.target = target;
        way.moved = 0;
        if target > way.many {
            way.entries.resize(target, Entry::default());
            if way.take(upkeep.rules, upkeep.places, upkeep.own) {
                *upkeep.own.at(MOVES) += way.live as u64;
            }
        }
    }

    /// Moves the next entry of a way, if it has to.
    fn advance(&mut self, way: usize, upkeep: &mut Upkeep) {
        let (many, target, from) = (self.ways[way].many, self.ways[way].target, self.ways[way].moved);
        self.ways[way].moved += 1;
        let source = if target > many { from } else { from + target };
        let entry = self.ways[way].entries[source];
        if entry.pages != 0 {
            let to = self.place(upkeep.rules, way, entry.tag);
            if to != source {
                *upkeep.own.at(MOVES) += 1;
                self.ways[way].entries[source] = Entry::default();
                if self.ways[way].entries[to].pages == 0 {
                    self.ways[way].entries[to] = entry;
                } else {
                    debug_assert!(target < many, "ME-2: the other half is free");
                    self.ways[way].live -= 1;
                    self.insert(entry, upkeep);
                }
            }
        }
        let way = &mut self.ways[way];
        if way.many != way.target && way.moved == way.many.min(way.target) {
            let needs = (way.target as u64 * LINE).div_ceil(way.chunk) as usize;
            gave(upkeep.own, way.chunks.len().saturating_sub(needs) as u64 * way.chunk);
            way.chunks.truncate(needs);
            way.entries.truncate(way.target);
            (way.many, way.moved) = (way.target, 0);
        }
    }

    /// All entries of a way that are left move at once.
    fn complete(&mut self, way: usize, upkeep: &mut Upkeep) {
        let target = self.ways[way].target;
        while self.ways[way].target == target && self.ways[way].many != target {
            self.advance(way, upkeep);
        }
    }

    /// One step of a way that changes its size, drawn at random.
    fn step(&mut self, upkeep: &mut Upkeep) {
        let changes = |way: &&Way| way.many != way.target;
        let many = self.ways.iter().filter(changes).count();
        if many > 0 {
            let choice = upkeep.below(many);
            let mut open = (0..self.ways.len()).filter(|&way| self.ways[way].many != self.ways[way].target);
            let way = open.nth(choice).expect("one of them");
            self.advance(way, upkeep);
        }
    }

    /// Whether a way may have this many entries (ME-3).
    fn may_have(&self, way: usize, target: usize) -> bool {
        let others = || self.ways.iter().enumerate().filter(|(other, _)| *other != way).map(|(_, other)| other.target);
        others().all(|other| target <= 2 * other && other <= 2 * target)
    }
}

impl Hashed for Chunked {
    fn new(mapping: Mapping, rules: &Rules, places: &mut Places, own: &mut OwnCounts) -> Chunked {
        let ways = (0..rules.ways).map(|_| Way::new(rules.first, rules, places, own)).collect();
        Chunked { asid: mapping.asid, order: mapping.order, ways }
    }

    fn bytes(&self) -> u64 {
        self.ways.iter().map(Way::bytes).sum()
    }

    fn read(&self, rules: &Rules, way: usize, tag: u64) -> (u64, u8) {
        let at = self.place(rules, way, tag);
        let entry = self.ways[way].entries[at];
        (self.ways[way].address(at), if entry.tag == tag { entry.pages } else { 0 })
    }

    fn set(&mut self, tag: u64, page: u8, upkeep: &mut Upkeep) {
        if let Some((way, at)) = self.find(upkeep.rules, tag) {
            self.ways[way].entries[at].pages |= page;
            return;
        }
        self.insert(Entry { tag, pages: page }, upkeep);
        for way in 0..self.ways.len() {
            let Way { many, target, .. } = self.ways[way];
            if many == target && self.ways[way].is_full(upkeep.rules.threshold) && self.may_have(way, 2 * many) {
                self.begin(way, 2 * many, upkeep);
            }
        }
        for _ in 0..upkeep.rules.moves {
            self.step(upkeep);
        }
    }

    fn clear(&mut self, tag: u64, page: u8, upkeep: &mut Upkeep) {
        let (way, at) = self.find(upkeep.rules, tag).expect("it has the page");
        let entry = &mut self.ways[way].entries[at];
        entry.pages &= !page;
        if entry.pages != 0 {
            return;
        }
        self.ways[way].live -= 1;
        let Way { many, target, .. } = self.ways[way];
        let is_large = many == target && many > upkeep.rules.first;
        if is_large && !self.ways[way].is_full(SPARSE) && self.may_have(way, many / 2) {
            self.begin(way, many / 2, upkeep);
        }
    }

    fn check(&self, rules: &Rules) -> u64 {
        let mut pages = 0;
        for (number, way) in self.ways.iter().enumerate() {
            let mut live = 0;
            for (at, entry) in way.entries.iter().enumerate().filter(|(_, entry)| entry.pages != 0) {
                assert_eq!(self.place(rules, number, entry.tag), at, "ME-2: tag {}", entry.tag);
                pages += u64::from(entry.pages.count_ones());
                live += 1;
            }
            assert_eq!(live, way.live, "EC-8: entries are the sum over ways");
            assert!(self.may_have(number, way.target), "ME-3");
            let is_last = way.size + 1 == rules.chunks.len();
            assert!(is_last || way.chunks.len() as u64 <= MOST_CHUNKS, "ME-1");
        }
        pages
    }
}
