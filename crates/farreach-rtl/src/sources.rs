//! The files of `rtl/`, which are part of the program.

/// One of them.
#[derive(Clone, Copy)]
pub struct Source {
    /// Its name.
    pub name: &'static str,
    /// What is in it.
    pub text: &'static str,
}

macro_rules! sources {
    ($($name:literal),* $(,)?) => {
        &[$(Source { name: $name, text: include_str!(concat!("../../../rtl/", $name)) }),*]
    };
}

/// All that simulation and synthesis read.
pub const SOURCES: &[Source] = sources![
    "clustered.sv",
    "complete.sv",
    "encode.sv",
    "first_set.sv",
    "harness.cpp",
    "integrated.sv",
    "join_search.sv",
    "lfsr.sv",
    "lint.vlt",
    "partial.sv",
    "policy.sv",
    "ports.svh",
    "range_bank.sv",
    "range_tlb.sv",
    "range_walker.sv",
    "replacement.sv",
    "segment.sv",
    "set_associative.sv",
    "set_bank.sv",
    "single.sv",
    "superpage.sv",
    "tlb_pkg.sv",
    "tlb_port.sv",
    "walk_cache.sv",
    "walker.sv",
];

/// The files of a module: those that name each other, from its own on, and those that are no modules.
pub(crate) fn needed<'a, T: AsRef<str>>(module: &str, all: &'a [(&'static str, T)]) -> Vec<&'a (&'static str, T)> {
    let stem = |name: &'static str| name.strip_suffix(".sv").filter(|stem| *stem != "tlb_pkg");
    let mut named = vec![module.to_owned()];
    let mut i = 0;
    while i < named.len() {
        let text = all.iter().find(|(name, _)| stem(name) == Some(&named[i])).map_or("", |(_, text)| text.as_ref());
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        for word in words {
            let is_file = all.iter().any(|(name, _)| stem(name) == Some(word));
            if is_file && !named.iter().any(|n| n == word) {
                named.push(word.to_owned());
            }
        }
        i += 1;
    }
    let is_needed = |name: &'static str| stem(name).is_none_or(|stem| named.iter().any(|n| n == stem));
    all.iter().filter(|(name, _)| is_needed(name)).collect()
}
