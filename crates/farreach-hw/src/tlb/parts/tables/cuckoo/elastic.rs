//! The table of one page size, of a process or of all (EC-1 to EC-4), and while it changes its size the one that
//! follows it.

use super::super::memory::{COLLISIONS, LINE, MOVES, RESIZES, gave, took};
use super::super::{Mapping, Places, mix};
use super::Hashed;
use super::walk_tables::WalkTables;
use farreach_types::addr::Asid;
use farreach_types::counts::OwnCounts;
use rand::Rng;
use rand_pcg::Pcg64Mcg;

/// Occupancy below which a table shrinks (EC-4).
const SPARSE: f64 = 0.2;

/// The keys.
pub(in super::super) struct Rules {
    pub ways: usize,
    /// Entries of a way at first.
    pub first: usize,
    pub threshold: f64,
    pub scale: usize,
    /// Sizes of pieces of memory (ME-1).
    pub chunks: Vec<u64>,
    pub moves: u64,
    pub retries: u64,
    pub identity: bool,
    pub seed: u64,
}

/// What a change of a table needs.
pub(in super::super) struct Upkeep<'a> {
    pub rules: &'a Rules,
    pub rng: &'a mut Pcg64Mcg,
    pub places: &'a mut Places,
    pub walk_tables: &'a mut WalkTables,
    pub own: &'a mut OwnCounts,
}

impl Upkeep<'_> {
    /// A random number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        ((u64::from(self.rng.next_u32()) * n as u64) >> 32) as usize
    }
}

/// Eight pages of a process, in a table that may be of all (PT-5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct Tag {
    pub asid: Asid,
    /// Their number.
    pub group: u64,
}

impl Default for Tag {
    fn default() -> Tag {
        Tag { asid: Asid(0), group: 0 }
    }
}

/// Eight pages, and which of them are mapped; none: no entry.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Entry {
    pub tag: Tag,
    pub pages: u8,
}

/// All ways.
struct Ways {
    bases: Vec<u64>,
    /// Entries of a way.
    many: usize,
    /// Way by way.
    entries: Vec<Entry>,
    /// How many tables came before it (EC-2: each has hashes of its own).
    generation: u64,
}

impl Ways {
    fn new(many: usize, generation: u64, rules: &Rules, places: &mut Places, own: &mut OwnCounts) -> Ways {
        let bytes = many as u64 * LINE;
        let base = |_| {
            took(own, bytes);
            places.take(bytes, LINE)
        };
        let bases = (0..rules.ways).map(base).collect();
        Ways { bases, many, entries: vec![Entry::default(); many * rules.ways], generation }
    }

    fn bytes(&self) -> u64 {
        self.entries.len() as u64 * LINE
    }

    /// Where a tag belongs in a way.
    fn index(&self, rules: &Rules, way: usize, tag: Tag) -> usize {
        let bits = if rules.identity {
            // The digits of the way in every generation: further digits of small tags are all 0.
            tag.group.checked_shr(way as u32 * self.many.trailing_zeros()).unwrap_or(0)
        } else {
            let hash = way as u64 + rules.ways as u64 * self.generation;
            mix(u64::from(tag.asid.0) << 52 ^ tag.group, rules.seed.wrapping_add(hash))
        };
        bits as usize & (self.many - 1)
    }

    fn share(&self, entries: usize) -> f64 {
        entries as f64 / self.entries.len() as f64
    }
}

/// See the module.
pub(in super::super) struct Elastic {
    order: u8,
    old: Ways,
    /// The table that it becomes, while it does.
    new: Option<Ways>,
    /// Meanwhile, by way: entries below moved to the new table.
    moved: Vec<usize>,
    /// Entries in both.
    entries: usize,
    resizes: u64,
}

impl Hashed for Elastic {
    fn new(mapping: Mapping, rules: &Rules, places: &mut Places, own: &mut OwnCounts) -> Elastic {
        Elastic {
            order: mapping.order,
            old: Ways::new(rules.first, 0, rules, places, own),
            new: None,
            moved: vec![0; rules.ways],
            entries: 0,
            resizes: 0,
        }
    }

    fn bytes(&self) -> u64 {
        self.old.bytes() + self.new.as_ref().map_or(0, Ways::bytes)
    }

    fn read(&self, rules: &Rules, way: usize, tag: Tag) -> (u64, u8) {
        let (is_new, at) = self.route(rules, way, tag);
        let table = self.table(is_new);
        let entry = table.entries[at];
        let address = table.bases[way] + (at - way * table.many) as u64 * LINE;
        (address, if entry.tag == tag { entry.pages } else { 0 })
    }

    fn set(&mut self, tag: Tag, page: u8, upkeep: &mut Upkeep) {
        let rules = upkeep.rules;
        if let Some(entry) = self.find(rules, tag) {
            entry.pages |= page;
            return;
        }
        if self.new.is_none() && self.old.share(self.entries + 1) > rules.threshold {
            self.begin(self.old.many * rules.scale, upkeep);
        }
        self.entries += 1;
        self.insert(Entry { tag, pages: page }, upkeep);
        for _ in 0..rules.moves {
            self.step(upkeep);
        }
    }

    fn clear(&mut self, tag: Tag, page: u8, upkeep: &mut Upkeep) {
        let entry = self.find(upkeep.rules, tag).expect("it has the page");
        entry.pages &= !page;
        if entry.pages != 0 {
            return;
        }
        self.entries -= 1;
        let is_large = self.old.many > upkeep.rules.first;
        if is_large && self.new.is_none() && self.old.share(self.entries) < SPARSE {
            self.begin(self.old.many / 2, upkeep);
        }
    }

    fn check(&self, rules: &Rules) -> u64 {
        let (mut entries, mut pages) = (0, 0);
        for is_new in [false, true].into_iter().filter(|is_new| !is_new || self.new.is_some()) {
            let table = self.table(is_new);
            for (at, entry) in table.entries.iter().enumerate().filter(|(_, entry)| entry.pages != 0) {
                let way = at / table.many;
                assert_eq!(self.route(rules, way, entry.tag), (is_new, at), "EC-2: {:?}", entry.tag);
                entries += 1;
                pages += u64::from(entry.pages.count_ones());
            }
        }
        assert_eq!(entries, self.entries, "EC-8: entries are the sum over ways");
        pages
    }
}

impl Elastic {
    /// Where a tag is in a way, if it is there (EC-2): whether in the new table, and the place among all its entries.
    fn route(&self, rules: &Rules, way: usize, tag: Tag) -> (bool, usize) {
        let index = self.old.index(rules, way, tag);
        match &self.new {
            Some(new) if index < self.moved[way] => (true, way * new.many + new.index(rules, way, tag)),
            _ => (false, way * self.old.many + index),
        }
    }

    fn table(&self, is_new: bool) -> &Ways {
        if is_new { self.new.as_ref().expect("a table that it becomes") } else { &self.old }
    }

    fn entry(&mut self, (is_new, at): (bool, usize)) -> &mut Entry {
        let table = if is_new { self.new.as_mut().expect("a table that it becomes") } else { &mut self.old };
        &mut table.entries[at]
    }

    fn find(&mut self, rules: &Rules, tag: Tag) -> Option<&mut Entry> {
        let way = (0..rules.ways).find(|&way| self.read(rules, way, tag).1 != 0)?;
        Some(self.entry(self.route(rules, way, tag)))
    }

    /// Puts in an entry. If it fails, the table gets another size at once.
    fn insert(&mut self, mut entry: Entry, upkeep: &mut Upkeep) {
        while let Err(left) = self.place(entry, upkeep) {
            entry = left;
            match &self.new {
                None => self.begin(self.old.many * upkeep.rules.scale, upkeep),
                Some(new) => self.complete(new.generation, upkeep),
            }
        }
    }

    /// Puts in an entry, and others elsewhere for it. The error is the entry that finds no place.
    fn place(&mut self, mut entry: Entry, upkeep: &mut Upkeep) -> Result<(), Entry> {
        let rules = upkeep.rules;
        let mut way = upkeep.below(rules.ways);
        let mut swaps = 0;
        loop {
            let slot = self.entry(self.route(rules, way, entry.tag));
            let is_free = slot.pages == 0;
            if !is_free && swaps == rules.retries {
                return Err(entry);
            }
            let tag = entry.tag;
            std::mem::swap(slot, &mut entry);
            upkeep.walk_tables.placed(tag.asid, self.order, tag.group, way as u8);
            if is_free {
                return Ok(());
            }
            swaps += 1;
            *upkeep.own.at(COLLISIONS) += 1;
            let other = upkeep.below(rules.ways - 1);
            way = other + usize::from(other >= way);
        }
    }

    /// A table of another size begins (EC-4).
    fn begin(&mut self, many: usize, upkeep: &mut Upkeep) {
        self.resizes += 1;
        *upkeep.own.at(RESIZES) += 1;
        self.new = Some(Ways::new(many, self.resizes, upkeep.rules, upkeep.places, upkeep.own));
        self.moved.fill(0);
    }

    /// One step of a resize that is under way.
    fn step(&mut self, upkeep: &mut Upkeep) {
        if self.new.is_none() {
            return;
        }
        let many = self.old.many;
        let open = |moved: &usize| *moved < many;
        let choice = upkeep.below(self.moved.iter().copied().filter(open).count());
        let way = (0..self.moved.len()).filter(|&way| open(&self.moved[way])).nth(choice);
        self.advance(way.expect("a resize under way has entries to move"), upkeep);
    }

    /// Moves the next entry of a way, if there is one. The last frees the old table.
    fn advance(&mut self, way: usize, upkeep: &mut Upkeep) {
        let at = way * self.old.many + self.moved[way];
        let entry = std::mem::take(&mut self.old.entries[at]);
        self.moved[way] += 1;
        if entry.pages != 0 {
            *upkeep.own.at(MOVES) += 1;
            self.insert(entry, upkeep);
        }
        if self.new.is_some() && self.moved.iter().all(|moved| *moved == self.old.many) {
            self.finish(upkeep);
        }
    }

    /// All entries that are left move at once.
    fn complete(&mut self, generation: u64, upkeep: &mut Upkeep) {
        while self.new.as_ref().is_some_and(|new| new.generation == generation) {
            match self.moved.iter().position(|moved| *moved < self.old.many) {
                Some(way) => self.advance(way, upkeep),
                None => self.finish(upkeep),
            }
        }
    }

    fn finish(&mut self, upkeep: &mut Upkeep) {
        gave(upkeep.own, self.old.bytes());
        self.old = self.new.take().expect("a resize is under way");
    }

}
