//! A TLB in memory, large enough for every page of most programs (POM). Its lines are cacheable as any data.
//!
//! A set is one line of 64 bytes with four entries. Base pages and pages of 2 MB have a half each; a predictor says
//! which half to read first.
//! In a virtual machine an entry has what both dimensions make together, so that a hit spares both walks (POM-6).

use super::{Account, Addition, By, Context, Counter, Law, ListedAddition, Miss, Victim, native_or_nested};
use crate::cache::{Begins, Purpose};
use crate::tlb::contract::EntryView;
use crate::tlb::parts::hierarchy::nodes::RADIX;
use crate::tlb::parts::hierarchy::walk::leaf_level;
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::event::Kind;
use farreach_types::params::{Allowed, Key, Params};
use farreach_types::translation::{Attr, Translation};

/// POM-1: half of 16 MB, 16 bytes an entry.
pub const POM_4K: Key = Key {
    name: "pom_4k",
    default: "524288",
    allowed: Allowed::PowerOfTwo { min: 4, max: 1 << 26 },
    about: "entries of the TLB in memory for base pages, 16 bytes each, in sets of four",
};
/// POM-1.
pub const POM_2M: Key = Key {
    name: "pom_2m",
    about: "entries of the TLB in memory for pages of 2 MB, 16 bytes each, in sets of four",
    ..POM_4K
};
/// POM-3.
pub const POM_PREDICTOR: Key = Key {
    name: "pom_predictor",
    default: "512",
    allowed: Allowed::PowerOfTwo { min: 1, max: 1 << 20 },
    about: "bits that predict the page size of a miss, by the low bits of its page",
};
/// POM-4.
pub const POM_FIRST: Key = Key {
    name: "pom_first",
    default: "l2",
    allowed: Allowed::OneOf(&["l2", "l1d"]),
    about: "the cache at which reads of the TLB in memory begin",
};

const PROBES_FIRST: usize = 0;
const PROBES_SECOND: usize = 1;
const WRITES: usize = 2;
const HITS: usize = 3;
/// Of base pages; those of 2 MB follow.
const HITS_4K: usize = 4;
const EVICTED: usize = 6;
const INVALIDATED: usize = 7;

/// The addition as the registry knows it.
pub const LISTED: ListedAddition = ListedAddition {
    name: "pom",
    about: "a large TLB in memory, read through the caches (POM)",
    keys: &[&POM_4K, &POM_2M, &POM_PREDICTOR, &POM_FIRST],
    counters: &[
        Counter::new("probes_first", "reads of the half that was predicted"),
        Counter::new("probes_second", "reads of the other half"),
        Counter::new("writes", "entries written after walks"),
        Counter::new("hits", "misses that it answered"),
        Counter::new("hits_4k", "of these, from the half of base pages"),
        Counter::new("hits_2m", "of these, from the half of 2 MB"),
        Counter::new("evicted", "valid entries that others took the place of"),
        Counter::new("invalidated", "entries dropped by changes, with one background reference each"),
    ],
    answers: Some("hits"),
    laws: &[
        Law {
            name: "POM-3",
            sides: |part, _| {
                let of = |name| part.counters.get(name);
                let made = part.memory.made.references + part.memory.made.background_references;
                (made, of("probes_first") + of("probes_second") + of("writes") + of("invalidated"))
            },
        },
        Law {
            name: "POM-1",
            sides: |part, _| {
                let of = |name| part.counters.get(name);
                (of("hits"), of("hits_4k") + of("hits_2m"))
            },
        },
    ],
    check: native_or_nested,
    build: |params, _| Ok(Box::new(Pom::new(params))),
    ..ListedAddition::NEW
};

/// Entries in a set.
const WAYS: usize = 4;
/// Bytes of a set.
const LINE: u64 = 64;
/// Its memory: above all programs and tables.
const FIRST: u64 = 1 << 54;

/// An entry; all zero: invalid.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Entry {
    /// Number of the page among those of its size.
    page: u64,
    /// Frame of its first base page.
    pfn: u64,
    asid: u32,
    attr: u8,
    valid: bool,
}

/// The entries for one page size.
struct Half {
    /// log2 of the base pages of a page.
    order: u8,
    mask: u64,
    /// Set after set; inside a set the most recently used first, with invalid ones in between.
    entries: Vec<Entry>,
    live: u64,
    /// Where it lies in memory.
    address: u64,
}

impl Half {
    fn new(order: u8, entries: u64, address: u64) -> Half {
        let empty = vec![Entry::default(); entries as usize];
        Half { order, mask: entries / WAYS as u64 - 1, entries: empty, live: 0, address }
    }

    /// POM-2.
    fn set(&self, asid: Asid, page: u64) -> usize {
        ((page ^ u64::from(asid.0)) & self.mask) as usize
    }

    fn page(&self, vpn: Vpn) -> u64 {
        vpn.0 >> self.order
    }

    /// The address of the line of a page's set.
    fn line(&self, asid: Asid, vpn: Vpn) -> u64 {
        self.address + self.set(asid, self.page(vpn)) as u64 * LINE
    }

    /// The place of a page's entry.
    fn find(&self, asid: Asid, page: u64) -> Option<usize> {
        let first = self.set(asid, page) * WAYS;
        let set = &self.entries[first..first + WAYS];
        set.iter().position(|e| e.valid && e.page == page && e.asid == asid.0).map(|way| first + way)
    }

    fn translation(&self, entry: &Entry, vpn: Vpn) -> Translation {
        Translation { pfn: Pfn(entry.pfn + vpn.offset_in(self.order.into())), attr: Attr(entry.attr) }
    }

    fn probe(&self, asid: Asid, vpn: Vpn) -> Option<Translation> {
        self.find(asid, self.page(vpn)).map(|at| self.translation(&self.entries[at], vpn))
    }

    /// As [`Half::probe`]; the entry is then the most recently used of its set.
    fn lookup(&mut self, asid: Asid, vpn: Vpn) -> Option<Translation> {
        let at = self.find(asid, self.page(vpn))?;
        self.entries[at / WAYS * WAYS..=at].rotate_right(1);
        Some(self.translation(&self.entries[at / WAYS * WAYS], vpn))
    }

    /// Writes the entry of a page that has none. Returns whether a valid one left for it.
    fn write(&mut self, asid: Asid, vpn: Vpn, page: Translation) -> bool {
        let first = self.set(asid, self.page(vpn)) * WAYS;
        let entry = Entry {
            page: self.page(vpn),
            pfn: page.pfn.align_down(self.order.into()).0,
            asid: asid.0,
            attr: page.attr.0,
            valid: true,
        };
        let set = &mut self.entries[first..first + WAYS];
        let at = set.iter().position(|entry| !entry.valid).unwrap_or(WAYS - 1);
        let evicts = set[at].valid;
        set[..=at].rotate_right(1);
        set[0] = entry;
        self.live += u64::from(!evicts);
        evicts
    }

    fn drop(&mut self, at: usize) {
        self.entries[at] = Entry::default();
        self.live -= 1;
    }

    /// Drops the entries of a process that meet these pages. `each`: told of the line of each.
    fn drop_pages(&mut self, asid: Asid, pages: VpnRange, mut each: impl FnMut(u64)) {
        if self.live == 0 || pages.pages == 0 {
            return;
        }
        let (first, last) = (pages.start.0 >> self.order, (pages.end().0 - 1) >> self.order);
        if last - first < self.mask {
            for page in first..=last {
                if let Some(at) = self.find(asid, page) {
                    self.drop(at);
                    each(self.address + ((at / WAYS) as u64) * LINE);
                }
            }
        } else {
            for at in 0..self.entries.len() {
                let entry = &self.entries[at];
                if entry.valid && entry.asid == asid.0 && (first..=last).contains(&entry.page) {
                    self.drop(at);
                    each(self.address + ((at / WAYS) as u64) * LINE);
                }
            }
        }
    }
}

/// See the module.
struct Pom {
    /// Base pages, 2 MB.
    halves: [Half; 2],
    /// Whether the last miss of these low bits was of a page of 2 MB.
    predictor: Box<[bool]>,
    begins: Begins,
}

impl Pom {
    fn new(params: &Params) -> Pom {
        let [small, large] = [POM_4K, POM_2M].map(|key| params.int(key.name));
        let lines = small / WAYS as u64;
        Pom {
            halves: [Half::new(0, small, FIRST), Half::new(RADIX, large, FIRST + lines * LINE)],
            predictor: vec![false; params.int(POM_PREDICTOR.name) as usize].into(),
            begins: if params.text(POM_FIRST.name) == "l2" { Begins::L2 } else { Begins::L1d },
        }
    }

    fn predicted(&mut self, vpn: Vpn) -> &mut bool {
        let place = vpn.0 as usize & (self.predictor.len() - 1);
        &mut self.predictor[place]
    }

    /// Drops the entries of a process in these pages, with a background reference for each (POM-5).
    fn drop(&mut self, asid: Asid, pages: VpnRange, account: &mut Account) {
        let begins = self.begins;
        for half in &mut self.halves {
            half.drop_pages(asid, pages, |line| {
                *account.own().at(INVALIDATED) += 1;
                account.step_from(begins, &[line]);
            });
        }
    }
}

impl Addition for Pom {
    /// POM-3.
    fn missed(&mut self, miss: &Miss, context: &mut Context) -> Option<Translation> {
        let (asid, vpn) = (miss.at.asid, miss.at.vpn);
        let first = usize::from(*self.predicted(vpn));
        for (half, probes) in [(first, PROBES_FIRST), (1 - first, PROBES_SECOND)] {
            *context.own().at(probes) += 1;
            context.step_from(self.begins, Purpose::Demand, &[self.halves[half].line(asid, vpn)]);
            if let Some(found) = self.halves[half].lookup(asid, vpn) {
                *context.own().at(HITS) += 1;
                *context.own().at(HITS_4K + half) += 1;
                return Some(found);
            }
        }
        None
    }

    fn filled(&mut self, miss: &Miss, by: By, _: Option<Victim>, context: &mut Context) {
        if matches!(by, By::Addition(place) if place < context.place) {
            return; // it was not asked
        }
        let (asid, vpn) = (miss.at.asid, miss.at.vpn);
        let level = leaf_level(miss.order, RADIX);
        *self.predicted(vpn) = level > 0;
        if by != By::Walk || level > 1 {
            return;
        }
        let half = &mut self.halves[usize::from(level)];
        let line = half.line(asid, vpn);
        let evicts = half.write(asid, vpn, Translation { pfn: miss.pte.pfn, attr: miss.pte.attr });
        *context.own().at(WRITES) += 1;
        *context.own().at(EVICTED) += u64::from(evicts);
        context.step_from(self.begins, Purpose::Background, &[line]);
    }

    fn drop_pages(&mut self, asid: Asid, pages: VpnRange, _: bool, account: &mut Account) -> u64 {
        self.drop(asid, pages, account);
        0
    }

    fn drop_space(&mut self, asid: Asid, account: &mut Account) -> u64 {
        self.drop(asid, VpnRange::ALL, account);
        0
    }

    /// POM-5: entries say whose they are.
    fn switch(&mut self, _: Asid, _: &mut Account) -> u64 {
        0
    }

    fn probe(&self, asid: Asid, vpn: Vpn, _: Kind) -> Option<Translation> {
        self.halves.iter().find_map(|half| half.probe(asid, vpn))
    }

    /// A slot is a place in a set, which goes by age.
    fn views(&self, mut before: usize, into: &mut Vec<EntryView>) {
        for half in &self.halves {
            let valid = half.entries.iter().enumerate().filter(|(_, entry)| entry.valid && half.live > 0);
            into.extend(valid.map(|(slot, entry)| EntryView {
                slot: before + slot,
                asid: Asid(entry.asid),
                base: Vpn(entry.page << half.order),
                order: half.order,
                pages: vec![(0, Translation { pfn: Pfn(entry.pfn), attr: Attr(entry.attr) }, false)],
                sb_enabled: None,
                used: None,
            }));
            before += half.entries.len();
        }
    }

    fn entries(&self) -> usize {
        self.halves.iter().map(|half| half.entries.len()).sum()
    }
}
