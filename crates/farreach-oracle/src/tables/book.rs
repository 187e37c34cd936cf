//! What every table keeps: the pages that are mapped, counters, and lists in order of use.

use super::{Found, SIZES};
use std::collections::BTreeMap;

/// All mapped pages.
#[derive(Clone, Default, Debug)]
pub struct Pages {
    /// By process: order by first page.
    by_asid: BTreeMap<u32, BTreeMap<u64, u8>>,
    /// Pages of an order that a process has.
    number: BTreeMap<(u32, u8), u64>,
}

impl Pages {
    /// Whether it is new: this page was not mapped with this order. No other mapping may overlap it.
    pub fn add(&mut self, asid: u32, vpn: u64, order: u8) -> bool {
        assert_eq!(vpn % (1 << order), 0, "a superpage is aligned");
        let new = self.by_asid.entry(asid).or_default().insert(vpn, order).is_none();
        *self.number.entry((asid, order)).or_default() += u64::from(new);
        new
    }

    /// It was mapped.
    pub fn take(&mut self, asid: u32, vpn: u64, order: u8) {
        let was = self.by_asid.get_mut(&asid).and_then(|pages| pages.remove(&vpn));
        assert_eq!(was, Some(order), "page {vpn} of process {asid} is mapped");
        *self.number.get_mut(&(asid, order)).unwrap() -= 1;
    }

    /// The pages of a process that is gone, by first page and order.
    pub fn end(&mut self, asid: u32) -> Vec<(u64, u8)> {
        self.number.retain(|key, _| key.0 != asid);
        self.by_asid.remove(&asid).unwrap_or_default().into_iter().collect()
    }

    /// The order of the mapping of a base page.
    pub fn order(&self, asid: u32, vpn: u64) -> Option<u8> {
        let pages = self.by_asid.get(&asid)?;
        SIZES.into_iter().find(|&order| pages.get(&(vpn >> order << order)) == Some(&order))
    }

    /// Whether the process has a page of this order.
    pub fn has(&self, asid: u32, order: u8) -> bool {
        self.number.get(&(asid, order)).is_some_and(|&n| n > 0)
    }

    /// Mappings that begin in an aligned block, by first page and order.
    pub fn within(&self, asid: u32, first: u64, pages: u64) -> Vec<(u64, u8)> {
        let Some(all) = self.by_asid.get(&asid) else { return Vec::new() };
        all.range(first..first + pages).map(|(&vpn, &order)| (vpn, order)).collect()
    }

    /// Mappings of another order that overlap this page, ascending (OW-1).
    pub fn in_the_way(&self, asid: u32, vpn: u64, order: u8) -> Vec<(u64, u8)> {
        let mut out: Vec<_> = self.within(asid, vpn, 1 << order).into_iter().filter(|page| page.1 != order).collect();
        if let Some(larger) = self.order(asid, vpn).filter(|&larger| larger > order) {
            out = vec![(vpn >> larger << larger, larger)];
        }
        out
    }

    /// All, by process, first page and order.
    pub fn all(&self) -> Vec<(u32, u64, u8)> {
        let each = self.by_asid.iter();
        each.flat_map(|(&asid, pages)| pages.iter().map(move |(&vpn, &order)| (asid, vpn, order))).collect()
    }
}

/// Counters by name.
#[derive(Clone, Debug)]
pub struct Book(BTreeMap<&'static str, u64>);

impl Book {
    /// Those of PT-2, and these.
    pub fn new(own: &[&'static str]) -> Book {
        let common = ["walks", "references", "steps", "fault_references", "table_bytes", "table_bytes_most"];
        let more = ["table_contiguous", "resizes", "moves", "collisions", "table_writes"];
        Book(common.iter().chain(&more).chain(own).map(|&name| (name, 0)).collect())
    }

    /// Adds to one.
    pub fn add(&mut self, name: &'static str, n: u64) {
        *self.0.get_mut(name).unwrap_or_else(|| panic!("no counter {name}")) += n;
    }

    fn at_least(&mut self, name: &'static str, n: u64) {
        let held = self.0.get_mut(name).unwrap();
        *held = n.max(*held);
    }

    /// The bytes that there are now, and the largest allocation among them (OW-3).
    pub fn memory(&mut self, bytes: u64, contiguous: u64) {
        self.0.insert("table_bytes", bytes);
        self.at_least("table_bytes_most", bytes);
        self.at_least("table_contiguous", contiguous);
    }

    /// A walk to a mapped page.
    pub fn walk(&mut self, references: u64, steps: u64) -> Found {
        self.add("walks", 1);
        self.add("references", references);
        self.add("steps", steps);
        Found { references, steps }
    }

    /// A failed search.
    pub fn fault(&mut self, references: u64) -> u64 {
        self.add("fault_references", references);
        references
    }

    /// All.
    pub fn all(&self) -> BTreeMap<&'static str, u64> {
        self.0.clone()
    }
}

/// Keys in the order of their last use, the oldest first, as many as there is room for.
#[derive(Clone, Debug)]
pub struct Used<K> {
    room: usize,
    keys: Vec<K>,
}

impl<K: PartialEq> Used<K> {
    /// An empty list.
    pub fn new(room: usize) -> Used<K> {
        Used { room, keys: Vec::new() }
    }

    /// Whether it is there; uses nothing.
    pub fn has(&self, key: &K) -> bool {
        self.keys.contains(key)
    }

    /// Whether it is there; it is the newest then.
    pub fn hit(&mut self, key: &K) -> bool {
        let Some(place) = self.keys.iter().position(|k| k == key) else { return false };
        let key = self.keys.remove(place);
        self.keys.push(key);
        true
    }

    /// A new key, in the place of the oldest if there is no room.
    pub fn put(&mut self, key: K) {
        assert!(!self.has(&key));
        if self.room == 0 {
            return;
        }
        if self.keys.len() == self.room {
            self.keys.remove(0);
        }
        self.keys.push(key);
    }

    /// Drops keys.
    pub fn drop_if(&mut self, goes: impl Fn(&K) -> bool) {
        self.keys.retain(|key| !goes(key));
    }

    /// Whether there is room for any.
    pub fn has_room(&self) -> bool {
        self.room > 0
    }

    /// All, the oldest first.
    pub fn keys(&self) -> &[K] {
        &self.keys
    }
}
