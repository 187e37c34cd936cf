//! A key-value store built like memcached: a chained hash index over items in slabs of three sizes, with one list per
//! size, ordered by last change. Nine of ten requests read a value, one replaces it. Popularity follows Zipf's law. The
//! store is warm.

use super::kernel::{Kernel, Settings};
use super::memory::{Memory, Native, Site, site};
use super::random::Rng;
use super::traced::{Layout, Traced};

pub(super) const KERNEL: Kernel = Kernel {
    name: "kv",
    class: "key-value store",
    stands_for: "memcached",
    about: "hash index and slabs of items, requests by Zipf's law, one of ten a change",
    default_size: 64 << 20,
    small_size: 8 << 20,
    smallest: 4 << 20,
    largest: 8 << 30,
    layout: Layout::Mapped,
    text_pages: 3,
    traced: run::<Traced>,
    native: run::<Native>,
};

/// Memory is copied 32 bytes at a time.
type Cell = [u64; 4];
/// The units of an item before its value: link of the hash chain, links of the list backward and forward, key; and
/// version, length of the value in units, size class. Links are 1 + number of the item's first unit.
const HEADER: usize = 2;
const NEXT: usize = 0;
const FORWARD: usize = 2;
const KEY: usize = 3;
/// Units of an item, by class: 96, 448 and 960 bytes.
const CLASSES: [usize; 3] = [3, 14, 30];
const SLAB: usize = (1 << 20) / 32;
/// Units of the buffers for requests and answers.
const BUFFER: usize = 2048;

/// The key of an item, by its number: all different, in no order.
fn key(item: usize) -> u64 {
    (item as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn content(key: u64, version: u64, unit: usize) -> Cell {
    [key, version, unit as u64, 0]
}

struct Store<M: Memory> {
    items: usize,
    slabs: M::Array<Cell>,
    buckets: M::Array<u32>,
    count: usize,
    /// First and last item of each class's list.
    ends: M::Array<u32>,
    request: M::Array<Cell>,
    answer: M::Array<Cell>,
    sent: usize,
}

impl<M: Memory> Store<M> {
    fn new(m: &mut M, s: &Settings) -> Store<M> {
        let slabs = s.size as usize / (1 << 20);
        let mut unit = vec![Cell::default(); slabs * SLAB];
        let places: Vec<(usize, usize)> = (0..slabs)
            .flat_map(|slab| {
                let class = slab % CLASSES.len();
                (0..SLAB / CLASSES[class]).map(move |k| (class, slab * SLAB + k * CLASSES[class]))
            })
            .collect();
        let count = places.len().next_power_of_two();
        let mut buckets = vec![0u32; count];
        let mut ends = [0u32; 2 * CLASSES.len()];
        for (item, &(class, at)) in places.iter().enumerate() {
            let (key, link) = (key(item), at as u32 + 1);
            let bucket = &mut buckets[Self::bucket(key, count)];
            let last = ends[2 * class + 1];
            unit[at] = [std::mem::replace(bucket, link).into(), last.into(), 0, key];
            unit[at + 1] = [0, (CLASSES[class] - HEADER) as u64, class as u64, 0];
            (HEADER..CLASSES[class]).for_each(|k| unit[at + k] = content(key, 0, k));
            match last {
                0 => ends[2 * class] = link,
                last => unit[last as usize - 1][FORWARD] = link.into(),
            }
            ends[2 * class + 1] = link;
        }
        Store {
            items: places.len(),
            slabs: m.input(unit.into_iter()),
            buckets: m.input(buckets.into_iter()),
            count,
            ends: m.input(ends.into_iter()),
            request: m.array(2),
            answer: m.array(BUFFER),
            sent: 0,
        }
    }

    fn bucket(key: u64, count: usize) -> usize {
        (key ^ key >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) as usize >> 7 & (count - 1)
    }

    /// The first unit of the item that the request names.
    fn find(&mut self, m: &mut M) -> Option<usize> {
        const REQUEST: Site = site(0, 0);
        const HASH: Site = site(0, 1);
        const BUCKET: Site = site(0, 2);
        const ITEM: Site = site(0, 3);
        let key = m.load(REQUEST, &self.request, 0)[0];
        m.work(HASH);
        m.work(HASH);
        let mut link = m.load(BUCKET, &self.buckets, Self::bucket(key, self.count)) as usize;
        while link != 0 {
            let item = m.load(ITEM, &self.slabs, link - 1);
            if item[KEY] == key {
                return Some(link - 1);
            }
            link = item[NEXT] as usize;
        }
        None
    }

    /// Sends the value of the key in the request. Returns its version.
    fn get(&mut self, m: &mut M) -> Option<u64> {
        const INFO: Site = site(1, 0);
        const FROM: Site = site(1, 1);
        const TO: Site = site(1, 2);
        let item = self.find(m)?;
        let [version, units, ..] = m.load(INFO, &self.slabs, item + 1);
        for k in 0..units as usize {
            let unit = m.load(FROM, &self.slabs, item + HEADER + k);
            m.store(TO, &mut self.answer, self.sent % BUFFER, unit);
            self.sent += 1;
        }
        Some(version)
    }

    /// Replaces the value of the key in the request. The item moves to the front of its list.
    fn set(&mut self, m: &mut M) -> Option<u64> {
        const INFO: Site = site(2, 0);
        const VALUE: Site = site(2, 1);
        const SOURCE: Site = site(2, 2);
        let item = self.find(m)?;
        let [version, units, class, _] = m.update(INFO, &mut self.slabs, item + 1, |[v, u, c, _]| [v + 1, u, c, 0]);
        for k in HEADER..HEADER + units as usize {
            let key = m.load(SOURCE, &self.request, 1)[0];
            m.store(VALUE, &mut self.slabs, item + k, content(key, version, k));
        }
        self.make_first(m, item, class as usize);
        Some(version)
    }

    fn make_first(&mut self, m: &mut M, item: usize, class: usize) {
        const LINKS: Site = site(2, 3);
        const SIDE: [Site; 2] = [site(2, 4), site(2, 5)];
        const LAST: Site = site(2, 6);
        const FIRST: [Site; 2] = [site(2, 7), site(2, 8)];
        const OLD_FIRST: Site = site(2, 9);
        const OWN: Site = site(2, 10);
        let [_, back, forward, _] = m.load(LINKS, &self.slabs, item);
        if back == 0 {
            return;
        }
        m.update(SIDE[0], &mut self.slabs, back as usize - 1, |[n, b, _, k]| [n, b, forward, k]);
        match forward {
            0 => m.store(LAST, &mut self.ends, 2 * class + 1, back as u32),
            _ => {
                m.update(SIDE[1], &mut self.slabs, forward as usize - 1, |[n, _, f, k]| [n, back, f, k]);
            }
        }
        let first = m.load(FIRST[0], &self.ends, 2 * class);
        let link = item as u32 + 1;
        m.store(FIRST[1], &mut self.ends, 2 * class, link);
        m.update(OLD_FIRST, &mut self.slabs, first as usize - 1, |[n, _, f, k]| [n, link.into(), f, k]);
        m.update(OWN, &mut self.slabs, item, |[n, _, _, k]| [n, 0, first.into(), k]);
    }
}

/// Requests: an item, and whether it is changed. Popular items are spread at random, they are not the first ones.
fn request(items: usize, rng: &mut Rng) -> (usize, bool) {
    let rank = rng.zipf(items) as u64;
    let item = ((u128::from(rank.wrapping_mul(0xd6e8_feb8_6659_fd93)) * items as u128) >> 64) as usize;
    (item, rng.below(10) == 0)
}

fn run<M: Memory>(m: &mut M, s: &Settings) -> u64 {
    let mut store = Store::new(m, s);
    let mut rng = Rng::new(s.seed);
    let mut sum = 0u64;
    while m.budget_left() {
        let (item, change) = request(store.items, &mut rng);
        let key = key(item);
        m.read(&mut store.request, [[key, 0, 0, 0]; 2].into_iter());
        let version = if change { store.set(m) } else { store.get(m) };
        sum = sum.rotate_left(5) ^ key ^ version.unwrap_or(u64::MAX);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stores_what_a_map_stores() {
        let mut m = Native::new(u64::MAX);
        let mut store = Store::new(&mut m, &Settings { size: 4 << 20, references: 1, seed: 0 });
        let mut versions = vec![0u64; store.items];
        let mut rng = Rng::new(2);
        let mut last = [None; 3];
        for _ in 0..50_000 {
            let (item, change) = request(store.items, &mut rng);
            store.request[..].fill([key(item), 0, 0, 0]);
            let sent = store.sent;
            if change {
                versions[item] += 1;
                assert_eq!(store.set(&mut m), Some(versions[item]));
                let at = store.find(&mut m).unwrap();
                last[store.slabs[at + 1][2] as usize] = Some(at as u32 + 1);
            } else {
                assert_eq!(store.get(&mut m), Some(versions[item]));
                let expected = (sent..store.sent).map(|k| content(key(item), versions[item], HEADER + k - sent));
                assert!(expected.eq((sent..store.sent).map(|k| store.answer[k % BUFFER])));
            }
        }
        store.request[0] = [12345, 0, 0, 0];
        assert_eq!(store.get(&mut m), None);
        // Each list holds every item of its class, the one changed last in front, and is linked both ways.
        let mut listed = 0;
        for (class, last) in last.into_iter().enumerate() {
            assert_eq!(Some(store.ends[2 * class]), last);
            let (mut before, mut link) = (0, u64::from(store.ends[2 * class]));
            while link != 0 {
                let item = store.slabs[link as usize - 1];
                assert_eq!(item[1], before);
                (before, link, listed) = (link, item[FORWARD], listed + 1);
            }
            assert_eq!(before, u64::from(store.ends[2 * class + 1]));
        }
        assert_eq!(listed, store.items);
    }
}
