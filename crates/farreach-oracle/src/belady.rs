//! The fewest misses that any replacement in a set-associative array can have (REP-1, `opt`), by the rule of Belady:
//! the entry that is used again last, or never, leaves.
//!
//! * OA-1 The array is filled by every miss, unless `bypass`: then a miss may leave it as it is, which helps where
//!   designs do so (DPP). A free way is used before anything leaves.
//! * OA-2 An entry that is dropped before its next lookup is used no more. What is dropped leaves a free way. Dropping
//!   what is not there does nothing, but what comes next is a miss.
//! * OA-3 Among entries that are used no more the choice changes no count. The caller gives the set of each key, so
//!   that any index will do; a page that has entries in several sets is several keys.

use std::collections::HashMap;
use std::hash::Hash;

/// What happens to an array, in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event<K> {
    /// Of a key in its set.
    Lookup(u64, K),
    /// A change of the page table drops a key from its set, if it is there.
    Invalidate(u64, K),
    /// A switch or another change drops everything.
    Flush,
}

/// The array.
#[derive(Clone, Copy, Debug)]
pub struct BeladyConfig {
    /// Entries of a set.
    pub ways: usize,
    /// OA-1.
    pub bypass: bool,
}

/// What the best choices give.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Optimum {
    pub misses: u64,
    pub hits: u64,
    /// Entries that left for others.
    pub evictions: u64,
    /// Misses that filled nothing.
    pub bypassed: u64,
    /// By lookup: whether it hits. Other choices may be as good.
    pub answers: Vec<bool>,
}

/// For each event the position of the next lookup of its key, if the key is not dropped before.
fn next_uses<K: Copy + Eq + Hash>(events: &[Event<K>]) -> Vec<Option<usize>> {
    let mut next = HashMap::new();
    let mut uses = vec![None; events.len()];
    for (at, event) in events.iter().enumerate().rev() {
        match *event {
            Event::Lookup(set, key) => uses[at] = next.insert((set, key), at),
            Event::Invalidate(set, key) => {
                next.remove(&(set, key));
            }
            Event::Flush => next.clear(),
        }
    }
    uses
}

/// The fewest misses, and choices that have them.
pub fn optimum<K: Copy + Eq + Hash>(config: BeladyConfig, events: &[Event<K>]) -> Optimum {
    let uses = next_uses(events);
    let mut sets: HashMap<u64, Vec<(K, Option<usize>)>> = HashMap::new();
    let mut out = Optimum::default();
    for (event, next) in events.iter().zip(uses) {
        match *event {
            Event::Flush => sets.clear(),
            Event::Invalidate(set, key) => sets.entry(set).or_default().retain(|entry| entry.0 != key),
            Event::Lookup(set, key) => {
                let set = sets.entry(set).or_default();
                let held = set.iter().position(|entry| entry.0 == key);
                out.answers.push(held.is_some());
                match held {
                    Some(place) => {
                        out.hits += 1;
                        set[place].1 = next;
                    }
                    None => {
                        out.misses += 1;
                        fill(config, set, (key, next), &mut out);
                    }
                }
            }
        }
    }
    out
}

fn fill<K>(config: BeladyConfig, set: &mut Vec<(K, Option<usize>)>, new: (K, Option<usize>), out: &mut Optimum) {
    let when = |next: Option<usize>| next.unwrap_or(usize::MAX);
    if set.len() == config.ways {
        let last = (0..set.len()).max_by_key(|&place| when(set[place].1));
        let last = last.filter(|&place| !config.bypass || when(set[place].1) > when(new.1));
        let Some(place) = last else {
            out.bypassed += 1;
            return;
        };
        set.remove(place);
        out.evictions += 1;
    }
    set.push(new);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dice::{Dice, seeds};
    use crate::lru::Sets;
    use std::collections::BTreeSet;

    fn lookups(pages: &[u64]) -> Vec<Event<u64>> {
        pages.iter().map(|&page| Event::Lookup(0, page)).collect()
    }

    fn misses(ways: usize, bypass: bool, events: &[Event<u64>]) -> u64 {
        optimum(BeladyConfig { ways, bypass }, events).misses
    }

    /// The stream of Belady's anomaly: FIFO has 9 misses with three frames and 10 with four.
    #[test]
    fn rep_1_by_hand() {
        let stream = lookups(&[1, 2, 3, 4, 1, 2, 5, 1, 2, 3, 4, 5]);
        assert_eq!([1, 2, 3, 4, 5].map(|ways| misses(ways, false, &stream)), [12, 9, 7, 6, 5]);
        // A cycle of three in two ways: every other lookup hits, once the array is full.
        let out = optimum(BeladyConfig { ways: 2, bypass: false }, &lookups(&[1, 2, 3, 1, 2, 3, 1, 2]));
        assert_eq!(out.answers, [false, false, false, true, false, true, false, true]);
        assert_eq!((out.misses, out.hits, out.evictions), (5, 3, 3));
        // One way: alternating pages never hit, unless one of them may stay.
        let stream = lookups(&[1, 2, 1, 2, 1, 2]);
        assert_eq!([false, true].map(|bypass| misses(1, bypass, &stream)), [6, 4]);
    }

    #[test]
    fn rep_1_drops_and_sets_by_hand() {
        use Event::{Flush, Invalidate, Lookup};
        // 1 is dropped before it is used again, so it leaves for 3 and 2 stays.
        let stream = [Lookup(0, 1), Lookup(0, 2), Lookup(0, 3), Invalidate(0, 1), Lookup(0, 1), Lookup(0, 2)];
        assert_eq!(misses(2, false, &stream), 4);
        // Dropped 2 leaves room.
        let stream = [Lookup(0, 1), Lookup(0, 2), Invalidate(0, 2), Lookup(0, 3), Lookup(0, 1), Lookup(0, 3)];
        assert_eq!(optimum(BeladyConfig { ways: 2, bypass: false }, &stream).evictions, 0);
        let stream = [Lookup(0, 1), Flush, Lookup(0, 1), Lookup(1, 1), Lookup(0, 1), Lookup(1, 1), Invalidate(1, 1)];
        assert_eq!(misses(1, false, &stream), 3);
    }

    /// Every choice at every miss, from this event on, with these keys by set.
    fn search(config: BeladyConfig, events: &[Event<u64>], held: &BTreeSet<(u64, u64)>) -> u64 {
        let Some((event, rest)) = events.split_first() else { return 0 };
        let mut now = held.clone();
        match *event {
            Event::Flush => now.clear(),
            Event::Invalidate(set, key) => {
                now.remove(&(set, key));
            }
            Event::Lookup(set, key) if !now.contains(&(set, key)) => {
                let in_set: Vec<_> = now.iter().copied().filter(|entry| entry.0 == set).collect();
                let mut choices = Vec::new();
                if in_set.len() < config.ways {
                    choices.push(now.clone());
                } else {
                    choices.extend(in_set.iter().map(|victim| {
                        let mut others = now.clone();
                        others.remove(victim);
                        others
                    }));
                }
                for others in &mut choices {
                    others.insert((set, key));
                }
                choices.extend(config.bypass.then_some(now));
                return 1 + choices.iter().map(|next| search(config, rest, next)).min().unwrap();
            }
            Event::Lookup(..) => {}
        }
        search(config, rest, &now)
    }

    fn any_events(dice: &mut Dice, length: usize, keys: u64, sets: u64) -> Vec<Event<u64>> {
        let event = |_| match (dice.below(20), dice.below(keys)) {
            (0..3, key) => Event::Invalidate(key % sets, key),
            (3, _) => Event::Flush,
            (_, key) => Event::Lookup(key % sets, key),
        };
        (0..length).map(event).collect()
    }

    #[test]
    fn rep_1_no_choice_is_better() {
        let mut better_than_filling = 0;
        for seed in seeds(2000) {
            let mut dice = Dice::new(seed);
            let (sets, ways) = (1 + dice.below(2), 1 + dice.below(3) as usize);
            let (length, keys) = (8 + dice.below(5) as usize, 3 + dice.below(4));
            let events = any_events(&mut dice, length, keys, sets);
            let both = [false, true].map(|bypass| {
                let config = BeladyConfig { ways, bypass };
                let least = search(config, &events, &BTreeSet::new());
                assert_eq!(optimum(config, &events).misses, least, "seed {seed}: {config:?} {events:?}");
                least
            });
            better_than_filling += u64::from(both[1] < both[0]);
        }
        assert!(better_than_filling > 100, "{better_than_filling}");
    }

    /// On longer streams: no more misses than LRU, with a way more, or with a miss that may fill nothing.
    #[test]
    fn rep_1_bounds_on_random_streams() {
        for seed in seeds(100) {
            let mut dice = Dice::new(seed);
            let events = any_events(&mut dice, 2000, 40, 4);
            for ways in 1..6 {
                let out = optimum(BeladyConfig { ways, bypass: false }, &events);
                let mut lru = Sets::new(4 * ways, ways);
                let mut lru_misses = 0;
                for event in &events {
                    match *event {
                        Event::Flush => {
                            lru.drop_if(|_| true);
                        }
                        Event::Invalidate(_, key) => {
                            lru.drop_if(|held| *held == key);
                        }
                        Event::Lookup(set, key) if lru.hit(set, |held| *held == key).is_none() => {
                            lru_misses += 1;
                            lru.put(set, key);
                        }
                        Event::Lookup(..) => {}
                    }
                }
                assert!(out.misses <= lru_misses);
                assert!(misses(ways + 1, false, &events) <= out.misses);
                assert!(misses(ways, true, &events) <= out.misses);
                assert_eq!(out.misses + out.hits, out.answers.len() as u64);
            }
        }
    }
}
