//! The policies that the store has itself, as the key `replacement` names them.

use super::{Listed, NAME};
use crate::tlb::parts::store::replacement::Replacement;

/// One of them, by its name.
macro_rules! of_the_store {
    ($name:literal, $about:literal) => {
        Listed {
            name: $name,
            about: $about,
            everywhere: true,
            build: |array| Replacement::by_name(array.geometry, NAME, $name, array.seed),
            ..Listed::NEW
        }
    };
}

pub const LRU: Listed = of_the_store!("lru", "the entry used longest ago");
pub const PLRU: Listed = of_the_store!("plru", "of two halves always that used longer ago, by a tree of bits");
pub const FIFO: Listed = of_the_store!("fifo", "the entry filled first");
pub const RANDOM: Listed = of_the_store!("random", "any of the set");
pub const LFSR: Listed = of_the_store!("lfsr", "any of the set, by a shift register");
