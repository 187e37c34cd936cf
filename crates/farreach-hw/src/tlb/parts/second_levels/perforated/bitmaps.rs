//! The superpages with holes that walks found, with their bitmaps, and the cache of bitmaps (PRF-2).

use farreach_types::addr::{Asid, Vpn};
use farreach_types::params::{Allowed, Key, Params};
use farreach_types::translation::Perforated;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// PRF-2.
pub const PRF_BITMAPS: Key = Key {
    name: "prf_bitmaps",
    default: "16",
    allowed: Allowed::Int { min: 0, max: 4096 },
    about: "bitmaps of superpages with holes that are cached beside the second level; 0: each is read in memory",
};

/// log2 of the bytes of a bitmap.
const BITMAP: u32 = 6;
/// Where the bitmaps of superpages lie, in the order in which walks came to them.
const FIRST: u64 = 1 << 52;

/// A superpage, by process and number.
pub(super) type Name = (Asid, u64);

/// The name of the superpage around a page.
pub(super) fn name(asid: Asid, vpn: Vpn) -> Name {
    (asid, vpn.0 >> Perforated::ORDER)
}

/// See the module.
pub(super) struct Bitmaps {
    /// Each superpage with the number of its bitmap in memory. What is known of it goes with the first change in it.
    known: HashMap<Name, (Perforated, u64), FixedState>,
    /// Bitmaps that have a place in memory.
    placed: u64,
    /// The cached bitmaps, that used longest ago first.
    cached: Vec<Name>,
    most_cached: usize,
}

impl Bitmaps {
    pub fn new(params: &Params) -> Bitmaps {
        let most_cached = params.int(PRF_BITMAPS.name) as usize;
        Bitmaps { known: HashMap::default(), placed: 0, cached: Vec::with_capacity(most_cached + 1), most_cached }
    }

    /// The superpage around a page, if a walk found it.
    pub fn known(&self, asid: Asid, vpn: Vpn) -> Option<Perforated> {
        self.known.get(&name(asid, vpn)).map(|(superpage, _)| *superpage)
    }

    /// A walk finds a superpage.
    pub fn learn(&mut self, name: Name, superpage: Perforated) {
        let placed = &mut self.placed;
        self.known.entry(name).or_insert_with(|| {
            *placed += 1;
            (superpage, *placed - 1)
        });
    }

    /// Asks the bitmap of a superpage that a walk found. Returns its address if it must be read, which caches it.
    pub fn ask(&mut self, name: Name) -> Option<u64> {
        if let Some(place) = self.cached.iter().position(|held| *held == name) {
            self.cached[place..].rotate_left(1);
            return None;
        }
        self.cached.push(name);
        if self.cached.len() > self.most_cached {
            self.cached.remove(0);
        }
        Some(FIRST + (self.known[&name].1 << BITMAP))
    }

    /// Some superpages are not what they were.
    pub fn forget(&mut self, goes: impl Fn(Name) -> bool) {
        self.known.retain(|name, _| !goes(*name));
        self.uncache(goes);
    }

    /// Some bitmaps leave the cache.
    pub fn uncache(&mut self, goes: impl Fn(Name) -> bool) {
        self.cached.retain(|name| !goes(*name));
    }
}
