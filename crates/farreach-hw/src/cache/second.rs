//! The second level of [`Levels`](super::Levels): a cache whose replacement is a choice, and some of whose lines may
//! belong to a part of the translation hardware (VIC-1).

use super::replacement::{CACHE_L2_REPLACEMENT, Keeper, LEAF};
use super::{Cache, Line, push};
use farreach_types::params::Params;
use farreach_types::translation::Attr;

/// The bit in the numbers of lines that belong to a part. No address is so high, so that data never hits such a line,
/// nor the reverse (VIC-6).
pub(crate) const PART: u64 = 1 << 55;

/// The latest of the four predictions of SRRIP, which a line keeps in its protection bits (VIC-5).
const DISTANT: u8 = 3;

/// See the module. With SRRIP lines keep their way, and the first empty one is filled.
#[derive(Clone, Debug)]
pub(super) struct Second {
    cache: Cache,
    srrip: bool,
    /// Whether lines of parts enter with the nearest prediction, and are passed over as victims (VIC-5).
    keeps_parts: bool,
    /// FL-6, ITP-2.
    keeper: Option<Keeper>,
    /// Lines of parts that were evicted.
    lost: Vec<u64>,
}

impl Second {
    pub fn new(cache: Cache, params: &Params) -> Second {
        let is = |key: &str, value: &str| params.has(key) && params.text(key) == value;
        Second {
            srrip: is(CACHE_L2_REPLACEMENT.name, "srrip"),
            keeps_parts: is("vic_priority", "always"),
            keeper: Keeper::new(params, 24),
            ..Second::plain(cache)
        }
    }

    /// With LRU, and without a preference.
    pub fn plain(cache: Cache) -> Second {
        Second { cache, srrip: false, keeps_parts: false, keeper: None, lost: Vec::new() }
    }

    /// A reference; whether the line is there.
    #[inline(always)]
    pub fn find(&mut self, number: u64) -> bool {
        if self.srrip { self.find_srrip(number) } else { self.cache.find(number).is_some() }
    }

    #[inline(never)]
    fn find_srrip(&mut self, number: u64) -> bool {
        let found = self.cache.peek_mut(number);
        found.map(|line| line.set_attr(Attr(0))).is_some()
    }

    /// The line, without a reference to it, to change it.
    pub fn peek_mut(&mut self, number: u64) -> Option<&mut Line> {
        self.cache.peek_mut(number)
    }

    /// Inserts a line that is not there. Returns the one of data that it evicts.
    #[inline(always)]
    pub fn insert(&mut self, number: u64, dirty: bool) -> Option<Line> {
        let victim = match (self.srrip, self.keeps_parts) {
            (false, false) if self.keeper.is_some() => self.insert_kept(number, dirty),
            (false, false) => self.cache.insert(number, Attr(0), dirty),
            (false, true) => self.insert_lru(number, dirty),
            (true, _) => self.insert_srrip(number, dirty),
        }?;
        if victim.number() & PART != 0 {
            self.lose(victim);
            return None;
        }
        Some(victim)
    }

    #[cold]
    fn lose(&mut self, victim: Line) {
        self.lost.push(victim.number());
    }

    #[inline(never)]
    fn insert_kept(&mut self, number: u64, dirty: bool) -> Option<Line> {
        self.keeper.as_mut()?.insert(&mut self.cache, number, dirty)
    }

    /// Lines are kept from now on, or are not (FL-6, ITP-2).
    pub fn keep(&mut self, on: bool) {
        self.keeper.iter_mut().for_each(|keeper| keeper.set(on));
    }

    /// This line, if it is there, holds leaves of data pages (ITP-2).
    pub fn mark_leaf(&mut self, number: u64) {
        if let Some(line) = self.keeper.as_ref().and_then(|_| self.cache.peek_mut(number)) {
            line.set_attr(LEAF);
        }
    }

    /// LRU, but the oldest line is passed over if it belongs to a part.
    #[inline(never)]
    fn insert_lru(&mut self, number: u64, dirty: bool) -> Option<Line> {
        let (at, ways) = (self.cache.set(number), self.cache.ways);
        let set = &mut self.cache.lines[at..at + ways];
        let passed = ways > 1 && set[ways - 1].valid() && set[ways - 1].number() & PART != 0;
        let way = ways - 1 - usize::from(passed);
        let victim = set[way];
        push(set, way, Line::new(number, Attr(0), dirty));
        victim.valid().then_some(victim)
    }

    #[inline(never)]
    fn insert_srrip(&mut self, number: u64, dirty: bool) -> Option<Line> {
        let (at, ways) = (self.cache.set(number), self.cache.ways);
        let new = self.entering(number, dirty);
        let set = &mut self.cache.lines[at..at + ways];
        let way = set.iter().position(|line| !line.valid()).unwrap_or_else(|| {
            let way = distant(set, None);
            let passed = self.keeps_parts && ways > 1 && set[way].number() & PART != 0;
            if passed { distant(set, Some(way)) } else { way }
        });
        let victim = std::mem::replace(&mut set[way], new);
        victim.valid().then_some(victim)
    }

    /// A line of a part takes the place of this one, if that is there and in the same set (VIC-3). Returns the one that
    /// was there. With LRU places are times of use, which begin anew.
    pub fn turn(&mut self, number: u64, turned: u64) -> Option<Line> {
        if !self.srrip || self.cache.set(number) != self.cache.set(turned) {
            return None;
        }
        let new = self.entering(number, false);
        self.cache.peek_mut(turned).map(|line| std::mem::replace(line, new))
    }

    /// A line as it enters with SRRIP.
    fn entering(&self, number: u64, dirty: bool) -> Line {
        let near = self.keeps_parts && number & PART != 0;
        Line::new(number, Attr(if near { 0 } else { DISTANT - 1 }), dirty)
    }

    /// Removes a line.
    pub fn remove(&mut self, number: u64) -> Option<Line> {
        if !self.srrip {
            return self.cache.remove(number);
        }
        self.cache.peek_mut(number).map(|line| std::mem::replace(line, Line::EMPTY))
    }

    /// See [`Levels::lost_part`](super::Levels::lost_part).
    pub fn lost(&mut self) -> Option<u64> {
        self.lost.pop()
    }

    #[inline]
    pub fn has_lost(&self) -> bool {
        !self.lost.is_empty()
    }
}

/// The way of a full set with the latest prediction, the lowest of them, but for this one. Time passes for all until it
/// is [`DISTANT`].
fn distant(set: &mut [Line], but: Option<usize>) -> usize {
    let mut latest: Option<(usize, u8)> = None;
    for (way, line) in set.iter().enumerate().filter(|(way, _)| Some(*way) != but) {
        if latest.is_none_or(|(_, prediction)| line.attr().0 > prediction) {
            latest = Some((way, line.attr().0));
        }
    }
    let (victim, prediction) = latest.expect("two ways");
    let passes = DISTANT - prediction;
    set.iter_mut().for_each(|line| line.set_attr(Attr((line.attr().0 + passes).min(DISTANT))));
    victim
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Shape;

    fn second(ways: u64, srrip: bool, keeps_parts: bool) -> Second {
        let cache = Cache::new(Shape { size: 64 * ways, line: 64, ways }).unwrap();
        Second { srrip, keeps_parts, ..Second::plain(cache) }
    }

    /// VIC-6.
    #[test]
    fn data_never_hits_a_line_of_a_part_nor_the_reverse() {
        for srrip in [false, true] {
            let mut second = second(2, srrip, false);
            second.insert(5 | PART, false);
            assert!(!second.find(5) && second.find(5 | PART));
            second.insert(5, true);
            assert!(second.remove(5).unwrap().dirty() && second.find(5 | PART));
        }
    }

    /// VIC-5: lines enter far, a hit makes them near, and time passes when a victim is sought.
    #[test]
    fn srrip_evicts_what_was_not_used() {
        let mut second = second(2, true, false);
        second.insert(1, false);
        second.insert(2, false);
        assert!(second.find(1));
        assert_eq!(second.insert(3, false).unwrap().number(), 2);
        assert_eq!(second.insert(4, false).unwrap().number(), 3, "line 1 is at 1, line 3 at 2");
        assert_eq!(second.insert(5, false).unwrap().number(), 1, "line 1 and line 4 are at 2, and the lowest way goes");
    }

    /// VIC-5: a line of a part is passed over once, and is evicted if the next choice is one too.
    #[test]
    fn lines_of_parts_are_passed_over() {
        for srrip in [false, true] {
            let mut second = second(2, srrip, true);
            second.insert(1 | PART, false);
            if srrip {
                second.peek_mut(1 | PART).unwrap().set_attr(Attr(DISTANT));
            }
            second.insert(2, false);
            assert_eq!(second.insert(3, false).unwrap().number(), 2, "{srrip}");
            second.remove(3);
            second.insert(4 | PART, false);
            assert!(second.insert(5, false).is_none());
            assert!(second.has_lost() && second.lost().is_some_and(|number| number & PART != 0));
        }
    }
}
