//! Free prefetching (SBFP): the line in which a walk finds the entry of its page has those of seven neighbours, too. A
//! table of counters says at which distances neighbours were asked for soon after. Neighbours at these distances go to
//! the buffer, the others to a sampler, which learns for the table.

use super::buffer::Source;
use super::queue::Queue;
use super::{FDT_UPDATES, ORDERS, Page, SAMPLER_HITS, index};
use farreach_types::addr::Asid;
use farreach_types::counts::OwnCounts;
use farreach_types::params::{Allowed, Key, Params};

/// SBFP-5.
pub const PREFETCH_FREE: Key = Key {
    name: "prefetch_free",
    default: "none",
    allowed: Allowed::OneOf(&["none", "all", "sbfp", "static"]),
    about: "page table entries in the line that a walk reads go to the prefetch buffer: none, all, those at distances \
            that proved useful (sbfp), those of prefetch_static",
};
/// SBFP-5.
pub const PREFETCH_STATIC: Key = Key {
    name: "prefetch_static",
    default: "1",
    allowed: Allowed::Texts,
    about: "prefetch_free = static: distances in pages, from -7 to 7, joined by +",
};
/// SBFP-1.
pub const SBFP_THRESHOLD: Key = Key {
    name: "sbfp_threshold",
    default: "100",
    allowed: Allowed::Int { min: 0, max: 1023 },
    about: "prefetch_free = sbfp: count of a distance above which its neighbours go to the buffer",
};
/// SBFP-1.
pub const SBFP_SAMPLER: Key = Key {
    name: "sbfp_sampler",
    default: "64",
    allowed: Allowed::Int { min: 1, max: 65536 },
    about: "prefetch_free = sbfp: pages in the sampler, first in, first out",
};
/// SBFP-2.
pub const SAMPLER_KEEP: Key = Key {
    name: "sampler_keep",
    default: "false",
    allowed: Allowed::Flag,
    about: "prefetch_free = sbfp: a page that is found in the sampler stays there",
};
/// SBFP-4.
pub const FDT_PER_SIZE: Key = Key {
    name: "fdt_per_size",
    default: "false",
    allowed: Allowed::Flag,
    about: "prefetch_free = sbfp: each page size has a table of distances of its own",
};

/// Entries in a line.
pub(super) const LINE: i64 = 8;

/// A counter that reaches this halves all of its table (SBFP-2).
const MOST: u16 = 1023;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    None,
    All,
    Sampled,
    Static,
}

/// What happens to a neighbour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Use {
    /// It goes to the buffer.
    Fill,
    /// It goes to the sampler.
    Sample,
    /// Nothing.
    Nothing,
}

/// Counters by distance, from -7 on; that of 0 stays 0.
type Distances = [u16; 15];

/// The place of a distance.
fn place(distance: i8) -> usize {
    (distance + 7) as usize
}

/// See the module.
pub(super) struct Free {
    mode: Mode,
    fixed: [bool; 15],
    threshold: u16,
    /// By size; one, if all sizes share it.
    tables: Vec<Distances>,
    sampler: Queue<Page, i8>,
    most: usize,
    keeps: bool,
}

impl Free {
    pub fn new(params: &Params) -> Result<Free, String> {
        let most = params.int(SBFP_SAMPLER.name) as usize;
        let tables = if params.flag(FDT_PER_SIZE.name) { ORDERS.len() } else { 1 };
        let mut fixed = [false; 15];
        let texts = params.texts(PREFETCH_STATIC.name);
        for text in &texts {
            let distance = text.parse().ok().filter(|distance| (-7..=7).contains(distance) && *distance != 0_i8);
            let distance = distance.ok_or_else(|| {
                let (key, all) = (PREFETCH_STATIC.name, texts.join("+"));
                format!("{key} = {all} is not allowed: '{text}' is no distance; {key} must be a list of -7 to 7, not 0")
            })?;
            fixed[place(distance)] = true;
        }
        Ok(Free {
            mode: match params.text(PREFETCH_FREE.name) {
                "all" => Mode::All,
                "sbfp" => Mode::Sampled,
                "static" => Mode::Static,
                _ => Mode::None,
            },
            fixed,
            threshold: params.int(SBFP_THRESHOLD.name) as u16,
            tables: vec![[0; 15]; tables],
            sampler: Queue::new(most),
            most,
            keeps: params.flag(SAMPLER_KEEP.name),
        })
    }

    /// Whether lines are looked at.
    pub fn is_on(&self) -> bool {
        self.mode != Mode::None
    }

    fn table(&self, order: u8) -> usize {
        if self.tables.len() > 1 { index(order) } else { 0 }
    }

    /// Whether the table sends neighbours at this distance to the buffer, with `prefetch_free = sbfp` (SBFP-3).
    pub fn is_counted_useful(&self, order: u8, distance: i8) -> bool {
        self.mode == Mode::Sampled && self.tables[self.table(order)][place(distance)] > self.threshold
    }

    /// What happens to a neighbour (SBFP-3, SBFP-5).
    pub fn use_of(&self, order: u8, distance: i8) -> Use {
        let fills = match self.mode {
            Mode::None => return Use::Nothing,
            Mode::All => true,
            Mode::Static => self.fixed[place(distance)],
            Mode::Sampled if self.is_counted_useful(order, distance) => true,
            Mode::Sampled => return Use::Sample,
        };
        if fills { Use::Fill } else { Use::Nothing }
    }

    /// SBFP-2: a distance was useful.
    fn count(&mut self, order: u8, distance: i8, own: &mut OwnCounts) {
        *own.at(FDT_UPDATES) += 1;
        let table = self.table(order);
        let counters = &mut self.tables[table];
        counters[place(distance)] += 1;
        if counters[place(distance)] == MOST {
            counters.iter_mut().for_each(|counter| *counter >>= 1);
        }
        debug_assert!(
            self.tables.iter().flatten().map(|&count| u64::from(count)).sum::<u64>() <= *own.at(FDT_UPDATES),
            "SBFP-6"
        );
    }

    /// The buffer answered with this entry.
    pub fn hit(&mut self, page: Page, source: Source, own: &mut OwnCounts) {
        if let (Mode::Sampled, Source::Free(distance)) = (self.mode, source) {
            self.count(page.order, distance, own);
        }
    }

    /// The buffer did not answer: the sampler is searched (SBFP-2).
    pub fn missed(&mut self, page: Page, own: &mut OwnCounts) {
        if self.mode != Mode::Sampled {
            return;
        }
        let found = if self.keeps { self.sampler.get(&page).copied() } else { self.sampler.remove(&page) };
        if let Some(distance) = found {
            *own.at(SAMPLER_HITS) += 1;
            self.count(page.order, distance, own);
        }
    }

    /// Puts a neighbour into the sampler. A page that is there keeps its distance.
    pub fn sample(&mut self, page: Page, distance: i8) {
        if self.sampler.contains(&page) {
            return;
        }
        if self.sampler.len() == self.most {
            self.sampler.pop();
        }
        self.sampler.push(page, distance);
    }

    /// Forgets which distances were useful (HW-9).
    pub fn forget(&mut self) {
        self.tables.iter_mut().for_each(|counters| *counters = [0; 15]);
    }

    /// Without process ids, the pages of other processes leave the sampler (HW-9).
    pub fn drop_others(&mut self, asid: Asid) {
        self.sampler.drop_where(|page, _| page.asid != asid);
    }

    /// The counters of -7 to 7 for a size.
    #[cfg(test)]
    pub fn distances(&self, order: u8) -> Distances {
        self.tables[self.table(order)]
    }
}
