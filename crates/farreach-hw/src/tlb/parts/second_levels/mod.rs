//! Second levels that a hierarchy can have by name (`second_level`): a file each, and a line in the registry at the end
//! of this one.
//!
//! `pages`, the default, are arrays for pages of given sizes (`hierarchy/paging.rs`), called directly. Every other one
//! is called through a pointer. What the first level misses reaches the second, and then the additions and the walk
//! (HW-2), with every second level; an addition answers and fills the same way in front of each.

use super::additions::{Counter, Law};
use super::hierarchy::{PAGING_KEYS, SecondLevel};
use super::tables::TABLE;
use farreach_types::params::{Allowed, Key, Params};

/// What the second level is (HW-1).
pub const SECOND_LEVEL: Key = Key {
    name: NAME,
    default: PAGES,
    allowed: Allowed::OneOf(&NAMES),
    about: "what answers misses of the first level; pages: the arrays of l2 and l2i; others have keys of their own",
};

/// By itself, because the registry is part of the key.
const NAME: &str = "second_level";

/// The value of [`SECOND_LEVEL`] for arrays of pages.
const PAGES: &str = "pages";

/// A second level as the registry knows it.
pub struct ListedSecondLevel {
    /// Value of [`SECOND_LEVEL`].
    pub name: &'static str,
    /// One line about it.
    pub about: &'static str,
    /// The keys it reads, beside those of everything but the second level.
    pub keys: &'static [&'static Key],
    /// Counters of its own, in `counts.parts.NAME`.
    pub counters: &'static [Counter],
    /// Laws that its counts keep.
    pub laws: &'static [Law],
    /// The key and value for which it needs the number of instructions, if it does (see [`ListedAddition`]).
    ///
    /// [`ListedAddition`]: super::additions::ListedAddition
    pub needs_fetches: fn(&Params) -> Option<String>,
    /// Refuses machines for which it is not defined; the error says why.
    pub check: fn(&Params) -> Result<(), String>,
    /// Bytes that a full one maps at best.
    pub reach: fn(&Params) -> u64,
    /// Builds it. The error names key, value and what is allowed.
    pub(in crate::tlb) build: fn(&Params) -> Result<Box<dyn SecondLevel>, String>,
}

impl ListedSecondLevel {
    /// What entries have if they do not say otherwise.
    const NEW: ListedSecondLevel = ListedSecondLevel {
        name: "",
        about: "",
        keys: &[],
        counters: &[],
        laws: &[],
        needs_fetches: |_| None,
        check: |_| Ok(()),
        reach: |_| 0,
        build: |_| Err(String::new()),
    };
}

/// The second level of this name; none for arrays of pages.
pub fn listed(name: &str) -> Option<&'static ListedSecondLevel> {
    SECOND_LEVELS.iter().copied().find(|listed| listed.name == name)
}

/// The second level that a machine names; none for arrays of pages, or if its kind has no choice.
pub fn chosen(params: &Params) -> Option<&'static ListedSecondLevel> {
    listed(params.has(SECOND_LEVEL.name).then(|| params.text(SECOND_LEVEL.name))?)
}

/// The keys of the second level of this name.
pub(in crate::tlb) fn keys(name: &str) -> Option<&'static [&'static Key]> {
    if name == PAGES { Some(PAGING_KEYS) } else { listed(name).map(|listed| listed.keys) }
}

/// The key with its value, for messages.
fn shown(listed: &ListedSecondLevel) -> String {
    format!("{} = {}", SECOND_LEVEL.name, listed.name)
}

/// Refuses other page tables than a radix tree; `what`: what only a radix tree has.
fn check_radix(params: &Params, listed: &ListedSecondLevel, what: &str) -> Result<(), String> {
    match params.text(TABLE.name) {
        table if table != TABLE.default => Err(format!(
            "{} is not allowed with {} = {table}: only a radix tree has {what}; {} must be {}",
            shown(listed),
            TABLE.name,
            TABLE.name,
            TABLE.default
        )),
        _ => Ok(()),
    }
}

/// Makes the registry.
macro_rules! second_levels {
    ($($module:ident,)*) => {
        $(pub mod $module;)*

        /// All but `pages`. A new one is one file here and one line at the end of `second_levels/mod.rs`.
        pub const SECOND_LEVELS: &[&ListedSecondLevel] = &[$(&$module::LISTED),*];
    };
}

/// Values of [`SECOND_LEVEL`].
const NAMES: [&str; SECOND_LEVELS.len() + 1] = {
    let mut names = [PAGES; SECOND_LEVELS.len() + 1];
    let mut i = 0;
    while i < SECOND_LEVELS.len() {
        names[i + 1] = SECOND_LEVELS[i].name;
        i += 1;
    }
    names
};

second_levels! {
    clustered,
    mix,
    anchor,
    skewed,
    mosaic,
    perforated,
}

#[cfg(test)]
mod tests;
