//! An L2 cache with data lines and TLB lines, replaced by SRRIP of 2 bits (VIC-1, VIC-3, VIC-5).
//!
//! * OB-50 The set of a TLB line is `page div 8` mod sets, that of a data line its number mod sets. A data line that
//!   becomes a TLB line of another set leaves its own, and the TLB line needs a way in its set as any other.
//! * OB-51 The lowest free way is taken before any victim. Among equals the lowest way is the victim. New lines begin
//!   at 2, hits set 0.
//! * OB-52 Passing over: at each choice, the first victim is left alone if it is a TLB line, and the next one goes,
//!   of either kind. In a set of one way nothing is passed over.

use super::Line;

/// What a way holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content {
    /// Number of the line of 64 bytes.
    Data(u64),
    Tlb(Line),
}

/// The model.
pub struct PlainCache {
    /// Content and re-reference value, by set and way.
    sets: Vec<Vec<Option<(Content, u8)>>>,
    /// VIC-5: the second level misses more than 5 times in 1000 instructions.
    pub pressure: bool,
}

impl PlainCache {
    pub fn new(sets: usize, ways: usize) -> PlainCache {
        PlainCache { sets: vec![vec![None; ways]; sets], pressure: false }
    }

    fn set(&mut self, content: Content) -> &mut Vec<Option<(Content, u8)>> {
        let sets = self.sets.len() as u64;
        let index = match content {
            Content::Data(line) => line % sets,
            Content::Tlb(line) => line.block % sets,
        };
        &mut self.sets[index as usize]
    }

    fn way(&mut self, content: Content) -> Option<usize> {
        self.set(content).iter().position(|way| way.is_some_and(|w| w.0 == content))
    }

    /// A hit, if it is there.
    pub fn used(&mut self, content: Content) -> bool {
        let Some(way) = self.way(content) else { return false };
        self.set(content)[way] = Some((content, 0));
        true
    }

    /// It becomes invalid. VIC-6.
    pub fn dropped(&mut self, content: Content) {
        if let Some(way) = self.way(content) {
            self.set(content)[way] = None;
        }
    }

    fn choose(set: &mut [Option<(Content, u8)>], but: Option<usize>) -> usize {
        loop {
            let far = (0..set.len()).find(|way| Some(*way) != but && set[*way].is_some_and(|w| w.1 == 3));
            match far {
                Some(way) => return way,
                None => set.iter_mut().flatten().for_each(|way| way.1 = 3.min(way.1 + 1)),
            }
        }
    }

    /// Puts in what is not there. What left for it.
    pub fn insert(&mut self, content: Content) -> Option<Content> {
        let pressure = self.pressure;
        let set = self.set(content);
        let way = set.iter().position(Option::is_none).unwrap_or_else(|| {
            let first = PlainCache::choose(set, None);
            match set[first] {
                Some((Content::Tlb(_), _)) if pressure && set.len() > 1 => PlainCache::choose(set, Some(first)),
                _ => first,
            }
        });
        let value = if pressure && matches!(content, Content::Tlb(_)) { 0 } else { 2 };
        set[way].replace((content, value)).map(|old| old.0)
    }

    /// A data access. A TLB line that left for it.
    pub fn data(&mut self, line: u64) -> Option<Line> {
        if self.used(Content::Data(line)) {
            return None;
        }
        tlb(self.insert(Content::Data(line)))
    }

    /// VIC-3: a TLB line from the data line with its entries. A TLB line that left for it.
    pub fn turn(&mut self, line: Line, from: u64) -> Option<Line> {
        let (new, old) = (Content::Tlb(line), Content::Data(from));
        let sets = self.sets.len() as u64;
        if let Some(way) = self.way(old).filter(|_| line.block % sets == from % sets) {
            let value = if self.pressure { 0 } else { 2 };
            self.set(new)[way] = Some((new, value));
            return None;
        }
        self.dropped(old);
        tlb(self.insert(new))
    }

    /// Everything that is there.
    pub fn contents(&self) -> Vec<Content> {
        self.sets.iter().flatten().flatten().map(|way| way.0).collect()
    }
}

fn tlb(content: Option<Content>) -> Option<Line> {
    match content? {
        Content::Tlb(line) => Some(line),
        Content::Data(_) => None,
    }
}
