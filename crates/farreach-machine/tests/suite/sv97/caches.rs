//! The cache model against a plain one that shares no code with it: sets as lists with time stamps, every level asked
//! at every reference.

use farreach_hw::cache::{Cache, Found, Shape, Side};
use farreach_types::translation::Attr;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

const ATTR: Attr = Attr(3);

/// Lines with the time of their last use, and whether they are modified.
struct Plain {
    sets: u64,
    ways: usize,
    lines: Vec<(u64, u64, bool)>,
    now: u64,
}

impl Plain {
    fn new(shape: Shape) -> Plain {
        let lines = shape.size / shape.line;
        let ways = if shape.ways == 0 { lines } else { shape.ways };
        Plain { sets: lines / ways, ways: ways as usize, lines: Vec::new(), now: 0 }
    }
    fn at(&mut self, line: u64) -> Option<&mut (u64, u64, bool)> {
        self.lines.iter_mut().find(|l| l.0 == line)
    }
    fn uses(&mut self, line: u64) -> bool {
        self.now += 1;
        let now = self.now;
        self.at(line).map(|l| l.1 = now).is_some()
    }
    fn put(&mut self, line: u64, dirty: bool) -> Option<(u64, bool)> {
        self.now += 1;
        let set: Vec<_> = self.lines.iter().copied().filter(|l| l.0 % self.sets == line % self.sets).collect();
        let victim = (set.len() == self.ways).then(|| *set.iter().min_by_key(|l| l.1).unwrap());
        if let Some(victim) = victim {
            self.lines.retain(|l| l.0 != victim.0);
        }
        self.lines.push((line, self.now, dirty));
        victim.map(|v| (v.0, v.2))
    }
    fn take(&mut self, line: u64) -> Option<bool> {
        let found = self.at(line).map(|l| l.2);
        self.lines.retain(|l| l.0 != line);
        found
    }
    fn sorted(&self) -> Vec<(u64, bool)> {
        let mut all: Vec<_> = self.lines.iter().map(|l| (l.0, l.2)).collect();
        all.sort_unstable();
        all
    }
}

/// Two levels, second inclusive, by the rules as `Side` states them.
struct PlainSide {
    l1: Plain,
    l2: Plain,
    parts: u64,
}

impl PlainSide {
    fn fill(&mut self, line: u64, store: bool) {
        if let Some((victim, true)) = self.l1.put(line, store) {
            self.l2.at(victim / self.parts).expect("inclusive").2 = true;
        }
    }
    /// 1, 2, or 3 with the evicted lines.
    fn reference(&mut self, line: u64, store: bool) -> (u8, Option<(u64, bool)>) {
        if self.l1.uses(line) {
            self.l1.at(line).unwrap().2 |= store;
            return (1, None);
        }
        if self.l2.uses(line / self.parts) {
            self.fill(line, store);
            return (2, None);
        }
        let lost = self.l2.put(line / self.parts, false).map(|(victim, mut dirty)| {
            for part in victim * self.parts..(victim + 1) * self.parts {
                dirty |= self.l1.take(part).unwrap_or(false);
            }
            (victim * self.parts, dirty)
        });
        self.fill(line, store);
        (3, lost)
    }
}

fn shapes() -> Vec<(Shape, Shape)> {
    let shape = |size, line, ways| Shape { size, line, ways };
    vec![
        (shape(128, 16, 1), shape(512, 16, 1)),
        (shape(128, 16, 1), shape(512, 64, 1)),
        (shape(256, 32, 2), shape(1024, 32, 4)),
        (shape(256, 16, 4), shape(384, 16, 3)),
        (shape(128, 16, 0), shape(512, 128, 0)),
        (shape(1024, 16, 1), shape(256, 16, 1)),
    ]
}

#[test]
fn as_a_plain_model() {
    for (case, (s1, s2)) in shapes().into_iter().enumerate() {
        let mut random = Pcg64Mcg::seed_from_u64(case as u64);
        let mut side = Side::new(&[s1], s2).unwrap();
        let mut plain = PlainSide { l1: Plain::new(s1), l2: Plain::new(s2), parts: s2.line / s1.line };
        for step in 0..20_000u32 {
            // Hot lines, a few sets, and sometimes any line.
            let line = match random.random_range(0..8) {
                0..4 => random.random_range(0..24u64),
                4..7 => random.random_range(0..12u64) * (s2.size / s2.line),
                _ => random.random_range(0..1 << 40),
            };
            let place = format!("case {case}, step {step}, line {line:#x}");
            match random.random_range(0..100) {
                0..2 => {
                    let gone = side.remove(line).map(|lost| (lost.number, lost.dirty));
                    let first = line / plain.parts * plain.parts;
                    let dirty = plain.l2.take(line / plain.parts);
                    let parts: Vec<bool> = (first..first + plain.parts).filter_map(|p| plain.l1.take(p)).collect();
                    assert_eq!(gone, dirty.map(|d| (first, d || parts.contains(&true))), "{place}");
                }
                what => {
                    let store = what < 40;
                    let (level, lost) = plain.reference(line, store);
                    match side.reference(line, store) {
                        Found::L1(0) => assert_eq!(level, 1, "{place}"),
                        Found::L1(_) => panic!("there is but one, {place}"),
                        Found::L2 => assert_eq!(level, 2, "{place}"),
                        Found::Memory => {
                            assert_eq!(level, 3, "{place}");
                            let gone = side.insert(line, ATTR, store).map(|l| (l.number, l.dirty));
                            assert_eq!(gone, lost, "{place}");
                        }
                    }
                }
            }
            assert!(side.l1().peek(line).is_none_or(|line| line.attr() == ATTR), "{place}");
            if step % 64 == 0 {
                let listed = |c: &Cache| {
                    let mut all: Vec<_> = c.lines().map(|l| (l.number(), l.dirty())).collect();
                    all.sort_unstable();
                    all
                };
                assert_eq!((listed(side.l1()), listed(side.l2())), (plain.l1.sorted(), plain.l2.sorted()), "{place}");
            }
        }
    }
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    let shape = |size, line, ways| Shape { size, line, ways };
    for (s, word) in
        [(shape(96, 16, 1), "power of two"), (shape(128, 16, 3), "power of two"), (shape(8, 16, 1), "power of two")]
    {
        assert!(Cache::new(s).unwrap_err().contains(word), "{s:?}");
    }
    assert!(Cache::new(shape(96, 16, 3)).is_ok(), "two sets of three");
    assert!(Side::new(&[shape(128, 32, 1)], shape(512, 16, 1)).unwrap_err().contains("shorter"));
}
