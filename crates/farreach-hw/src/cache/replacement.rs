//! Replacement in the second level and the last level of [`Levels`](super::Levels): a registry of names, and those
//! that keep lines of page tables while translations are missed often.
//!
//! An entry is a line in [`POLICIES`], and an arm in `second.rs` or here.

use super::second::PART;
use super::{Cache, Line, push};
use crate::tlb::host::GUEST;
use crate::tlb::walk::by_caches;
use farreach_types::params::{Allowed, Key, Params};
use farreach_types::translation::Attr;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Name of [`CACHE_L2_REPLACEMENT`].
const NAME: &str = "cache_l2_replacement";

/// VIC-5, FL-6, ITP-2.
pub const CACHE_L2_REPLACEMENT: Key = Key {
    name: NAME,
    default: "lru",
    allowed: Allowed::OneOf(&NAMES),
    about: "how the second-level cache chooses a victim; srrip: by predictions of 2 bits, far at first and near after \
            a hit; pt_priority: lines of page tables go last, in the last level too; xptp: lines with leaves of data \
            pages do",
};
/// FL-6.
pub const PT_PRIORITY_AT: Key = Key {
    name: "pt_priority_at",
    default: "1",
    allowed: Allowed::Number { min: 0.0, max: 1000.0 },
    about: "cache_l2_replacement = pt_priority: TLB misses per 1000 lookups beyond which tables go last, over 100000 \
            lookups",
};
/// ITP-2.
pub const XPTP_AT: Key = Key {
    name: "xptp_at",
    default: "1",
    allowed: Allowed::Number { min: 0.0, max: 1000.0 },
    about: "cache_l2_replacement = xptp: TLB misses per 1000 lookups beyond which leaves go last, over 100000 lookups",
};

/// A policy as the registry knows it.
pub struct Listed {
    /// Value of [`CACHE_L2_REPLACEMENT`].
    pub name: &'static str,
    /// The keys it reads.
    pub keys: &'static [&'static Key],
}

/// All policies.
pub const POLICIES: [Listed; 4] = [
    Listed { name: "lru", keys: &[] },
    Listed { name: "srrip", keys: &[] },
    Listed { name: "pt_priority", keys: &[&PT_PRIORITY_AT] },
    Listed { name: "xptp", keys: &[&XPTP_AT] },
];

/// Values of [`CACHE_L2_REPLACEMENT`].
const NAMES: [&str; POLICIES.len()] = {
    let mut names = [""; POLICIES.len()];
    let mut i = 0;
    while i < POLICIES.len() {
        names[i] = POLICIES[i].name;
        i += 1;
    }
    names
};

/// The keys of the policy of this name.
pub(crate) fn keys(name: &str) -> Option<&'static [&'static Key]> {
    POLICIES.iter().find(|policy| policy.name == name).map(|policy| policy.keys)
}

/// The name that a machine gives, if it is one of those that keep lines.
fn keeps(params: &Params) -> Option<(&str, Kept)> {
    let name = params.has(NAME).then(|| params.text(NAME))?;
    Some((name, [("pt_priority", Kept::Tables), ("xptp", Kept::Leaves)].into_iter().find(|(of, _)| *of == name)?.1))
}

/// Refuses machines for which the policy is not defined.
pub(crate) fn check_replacement(params: &Params) -> Result<(), String> {
    let Some((name, kept)) = keeps(params) else { return Ok(()) };
    let refuse = |with: String, why: &str| Err(format!("{NAME} = {name} is not allowed with {with}: {why}"));
    if !by_caches(params) {
        return refuse("walk_cost = fixed".into(), "nothing reads through caches; walk_cost must be caches");
    }
    let text = |key: &str| if params.has(key) { params.text(key) } else { "" };
    if params.has("vic_priority") {
        return refuse("behind = victima".into(), "its own lines have a priority there (VIC-5)");
    }
    if kept == Kept::Leaves && text("table") != "radix" {
        let why = "leaves are told apart in a radix tree alone (ITP-2); table must be radix";
        return refuse(format!("table = {}", text("table")), why);
    }
    if kept == Kept::Leaves && text(GUEST.name) != GUEST.default {
        let why = "it is not defined in virtual machines (HW-12); guest must be none";
        return refuse(format!("guest = {}", text(GUEST.name)), why);
    }
    Ok(())
}

/// Which lines are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kept {
    /// FL-6: those of page tables, and of other tables that translation hardware reads.
    Tables,
    /// ITP-2: those that hold leaves of data pages.
    Leaves,
}

/// The mark of a line that holds leaves of data pages, in its protection bits.
pub(super) const LEAF: Attr = Attr(1);

/// The first line above all memory of programs, where tables are (PT-3); those of guests come first.
const TABLES: u64 = 1 << (35 + 12 - 6);

fn is_table(line: &Line) -> bool {
    line.number() >= TABLES && line.number() & PART == 0
}

/// LRU, but for lines that are kept while it is told to.
#[derive(Clone, Debug)]
pub(super) struct Keeper {
    kept: Kept,
    on: bool,
    /// For FL-6: one draw each time the oldest line is of a table.
    numbers: Pcg64Mcg,
}

/// FL-6: of 100 choices, those in which the oldest line goes though it is of a table.
const GOES: u32 = 1;
/// ITP-2: the lines that are looked at, from the oldest.
const OLDEST: usize = 4;

impl Keeper {
    /// From the keys; `None`: the policy keeps nothing. `place`: of its generator.
    pub fn new(params: &Params, place: u64) -> Option<Keeper> {
        keeps(params).map(|(_, kept)| Keeper::of(kept, params.int("seed").wrapping_add(place)))
    }

    pub fn of(kept: Kept, seed: u64) -> Keeper {
        Keeper { kept, on: false, numbers: Pcg64Mcg::seed_from_u64(seed) }
    }

    /// Whether it keeps tables, in the last level too.
    pub fn is_everywhere(&self) -> bool {
        self.kept == Kept::Tables
    }

    /// Lines are kept from now on, or are not.
    pub fn set(&mut self, on: bool) {
        self.on = on;
    }

    /// The way to fill of a set, whose lines are in order of their use, the newest first, empty ones last.
    fn victim(&mut self, set: &[Line]) -> usize {
        let oldest = set.len() - 1;
        if !self.on || !set[oldest].valid() {
            return oldest;
        }
        let kept = self.kept;
        let from = match kept {
            Kept::Tables if !is_table(&set[oldest]) => return oldest,
            Kept::Tables if self.goes() => return oldest,
            Kept::Tables => 0,
            Kept::Leaves => set.len().saturating_sub(OLDEST),
        };
        let is_kept = |line: &Line| match kept {
            Kept::Tables => is_table(line),
            Kept::Leaves => line.attr() == LEAF,
        };
        set[from..].iter().rposition(|line| !is_kept(line)).map_or(oldest, |way| from + way)
    }

    fn goes(&mut self) -> bool {
        ((u64::from(self.numbers.next_u32()) * 100) >> 32) < GOES.into()
    }

    /// As [`Cache::insert`].
    pub fn insert(&mut self, cache: &mut Cache, number: u64, dirty: bool) -> Option<Line> {
        let (at, ways) = (cache.set(number), cache.ways);
        let set = &mut cache.lines[at..at + ways];
        let way = self.victim(set);
        let victim = set[way];
        push(set, way, Line::new(number, Attr(0), dirty));
        victim.valid().then_some(victim)
    }
}

/// Lookups after which it is decided anew whether lines are kept.
pub(crate) const WINDOW: u32 = 100_000;

/// How often translations are missed: page walks per lookup, over the last [`WINDOW`] that are over (FL-6, ITP-2).
pub(crate) struct Pressure {
    /// Per 1000 lookups.
    above: f64,
    lookups: u32,
    walks: u32,
}

impl Pressure {
    /// From the keys; `None`: no policy asks.
    pub fn new(params: &Params) -> Option<Pressure> {
        let (_, kept) = keeps(params)?;
        let key = if kept == Kept::Tables { &PT_PRIORITY_AT } else { &XPTP_AT };
        Some(Pressure { above: params.number(key.name), lookups: 0, walks: 0 })
    }

    /// A lookup begins. Behind the end of a window, whether it had more walks than is asked for.
    pub fn looked_up(&mut self) -> Option<bool> {
        let over = self.lookups == WINDOW;
        let high = f64::from(self.walks) * 1000.0 > self.above * f64::from(WINDOW);
        if over {
            (self.lookups, self.walks) = (0, 0);
        }
        self.lookups += 1;
        over.then_some(high)
    }

    /// It was answered by a walk.
    pub fn walked(&mut self) {
        self.walks += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Shape;

    const TABLE: u64 = TABLES << 5;

    fn cache(ways: u64) -> Cache {
        Cache::new(Shape { size: 64 * ways, line: 64, ways }).unwrap()
    }

    /// Lines that leave when these are inserted, one after the other.
    fn left(keeper: &mut Keeper, cache: &mut Cache, lines: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let each = lines.into_iter().filter_map(|line| keeper.insert(cache, line, false));
        each.map(|line| line.number()).collect()
    }

    #[test]
    fn fl_6_a_table_goes_in_one_choice_of_a_hundred() {
        let mut keeper = Keeper::of(Kept::Tables, 3);
        let mut cache = cache(4);
        // Off: as LRU.
        assert_eq!(left(&mut keeper, &mut cache, [TABLE, 1, 2, 3, 4]), [TABLE]);
        keeper.set(true);
        // The oldest is data: it goes. Then the table is the oldest, and the data before it go instead.
        assert_eq!(left(&mut keeper, &mut cache, [TABLE + 1]), [1]);
        let mut gone = 0;
        for n in 0..100_000u64 {
            // The table is made the oldest.
            for line in [2, 3, 4].map(|line| 3 * n + line) {
                cache.find(line);
            }
            let victims = left(&mut keeper, &mut cache, [3 * n + 5, 3 * n + 6, 3 * n + 7]);
            if victims.contains(&(TABLE + 1)) {
                gone += 1;
                keeper.insert(&mut cache, TABLE + 1, false);
            }
        }
        // Three choices a round.
        assert!((2800..3200).contains(&gone), "{gone} of 300000 choices");
        // All are tables: the oldest goes.
        let mut tables = Cache::new(Shape { size: 128, line: 64, ways: 2 }).unwrap();
        assert_eq!(left(&mut keeper, &mut tables, [TABLE, TABLE + 1, TABLE + 2]), [TABLE]);
        // A line of a part of the hardware is no table.
        assert!(!is_table(&Line::new(PART | TABLE, Attr(0), false)));
    }

    #[test]
    fn itp_2_leaves_of_data_go_if_all_of_the_oldest_four_are() {
        let mut keeper = Keeper::of(Kept::Leaves, 0);
        let mut cache = cache(6);
        let mark = |cache: &mut Cache, line| cache.peek_mut(line).unwrap().set_attr(LEAF);
        left(&mut keeper, &mut cache, 1..=6);
        [1, 2].into_iter().for_each(|line| mark(&mut cache, line));
        keeper.set(true);
        // 6 5 4 3 2L 1L
        assert_eq!(left(&mut keeper, &mut cache, [7]), [3]);
        // 7 6 5 4 2L 1L
        mark(&mut cache, 5);
        mark(&mut cache, 4);
        assert_eq!(left(&mut keeper, &mut cache, [8]), [1], "all of the oldest four are leaves");
        // 8 7 6 5L 4L 2L
        assert_eq!(left(&mut keeper, &mut cache, [9]), [6]);
        // 9 8 7 5L 4L 2L
        keeper.set(false);
        assert_eq!(left(&mut keeper, &mut cache, [10]), [2]);
    }

    #[test]
    fn fl_6_and_itp_2_are_on_behind_a_window_with_enough_walks() {
        let mut pressure = Pressure { above: 1.0, lookups: 0, walks: 0 };
        let mut window = |walks: u32| {
            let answers = (0..WINDOW).filter_map(|n| {
                let answer = pressure.looked_up();
                if n < walks {
                    pressure.walked();
                }
                answer
            });
            answers.collect::<Vec<_>>()
        };
        assert!(window(101).is_empty());
        assert_eq!(window(100), [true], "101 of the window before");
        assert_eq!(window(0), [false], "100 are not more than 1 per 1000");
        assert_eq!(window(0), [false]);
    }
}
