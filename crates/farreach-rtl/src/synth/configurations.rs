//! What is synthesised.

use crate::modules::{
    CLUSTERED, DEEP_SETS, Module, Parameters, RANGE_TLB, RANGE_WALKER, SEGMENT, SET_ASSOCIATIVE, SINGLE, WALKER,
};

/// A structure of one size.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// Its name, which stands for all of it.
    pub name: String,
    /// The structure without its size: the name of its [`crate::excerpt::Excerpt`].
    pub structure: &'static str,
    /// Entries.
    pub entries: u64,
    /// Its module.
    pub module: &'static Module,
    /// Its parameters.
    pub parameters: Parameters,
    /// It is also synthesised with the other libraries.
    pub everywhere: bool,
    /// It is mapped with less effort: arrays that would take hours, and one of another size to see what that changes.
    pub quick: bool,
}

/// Widths of T94-1: 52 bits of page number, 36 of frame, 12 of process, 8 attributes.
const T94: [(&str, u64); 4] = [("ASID_W", 12), ("VPN_W", 52), ("PFN_W", 36), ("ATTR_W", 8)];
/// Widths of RMM15: 48 bits of address on either side (RMM15-7), else as before.
const RMM15: [(&str, u64); 4] = [("ASID_W", 12), ("VPN_W", 36), ("PFN_W", 36), ("ATTR_W", 8)];

/// A TLB of T94.
fn t94(structure: &'static str, entries: u64, everywhere: bool) -> Configuration {
    let module = crate::MODULES.iter().find(|m| m.name == structure).expect("T94's designs are modules");
    let mut parameters = Parameters::of(&T94).with("ENTRIES", entries).with("SIZE_W", 4);
    if ["complete", "partial", "integrated"].contains(&structure) {
        parameters = parameters.with("FACTOR", 16).with("PARTS", 16);
    }
    let name = format!("{structure}-{entries}");
    Configuration { name, structure, entries, module, parameters, everywhere, quick: false }
}

fn rmm15(
    structure: &'static str,
    entries: u64,
    module: &'static Module,
    own: &[(&'static str, u64)],
    everywhere: bool,
) -> Configuration {
    let mut parameters = Parameters::of(&RMM15);
    for &(name, value) in own {
        parameters = parameters.with(name, value);
    }
    let sized = entries > 0;
    let name = if sized { format!("{structure}-{entries}") } else { structure.to_owned() };
    let parameters = if sized { parameters.with("ENTRIES", entries) } else { parameters };
    Configuration { name, structure, entries, module, parameters, everywhere, quick: false }
}

/// A first level of 4 ways, LRU.
const FIRST_LEVEL: [(&str, u64); 4] = [("WAYS", 4), ("BANKS", 1), ("DEEP", 0), ("POLICY", 1)];

/// A second level of 4 ways, LRU, in banks of 16 sets.
fn second_level(entries: u64) -> Configuration {
    let own = [("WAYS", 4), ("BANKS", entries / 64), ("DEEP", 1), ("POLICY", 1)];
    rmm15("l2", entries, &DEEP_SETS, &own, entries == 128)
}

/// A range TLB with used bits, in banks of 8.
fn range_tlb(entries: u64, everywhere: bool) -> Configuration {
    rmm15("range", entries, &RANGE_TLB, &[("BANKS", entries / 8), ("POLICY", 0)], everywhere)
}

/// All of them: those with which the papers are compared, and those of their machines. `farreach rtl synth` takes
/// minutes for the largest.
pub fn configurations() -> Vec<Configuration> {
    let mut all = Vec::new();
    all.extend([8, 16, 32, 64, 128].map(|entries| range_tlb(entries, entries == 32)));
    all.extend([128, 256, 512].map(second_level));
    // DS13 Table 1: first levels, for data and for fetches. Numbers of pages of 2 MB and 1 GB are shorter.
    let wide = |width: u64| [("VPN_W", width), ("PFN_W", width)];
    all.push(rmm15("l1d", 64, &SET_ASSOCIATIVE, &FIRST_LEVEL, true));
    all.push(rmm15("l1d-2m", 32, &SET_ASSOCIATIVE, &[&FIRST_LEVEL[..], &wide(27)].concat(), false));
    all.push(rmm15("l1d-1g", 4, &SINGLE, &[&[("POLICY", 1)][..], &wide(18)].concat(), false));
    all.push(rmm15("l1i", 128, &SET_ASSOCIATIVE, &FIRST_LEVEL, false));
    all.push(rmm15("l1i-2m", 8, &SINGLE, &[&[("POLICY", 1)][..], &wide(27)].concat(), false));
    all.push(rmm15("segment", 0, &SEGMENT, &[], true));
    // Both walkers read what the excerpt of one of them says.
    let walker =
        |caches: u64| rmm15("walker", 0, &WALKER, &[("CACHE_1", caches), ("CACHE_2", 0), ("CACHE_3", 0)], false);
    all.push(walker(2));
    all.push(Configuration { name: "walker-bare".into(), ..walker(0) });
    all.push(rmm15("range-walker", 0, &RANGE_WALKER, &[], false));
    for structure in ["single", "superpage", "partial"] {
        all.extend([16, 32, 64].map(|entries| t94(structure, entries, entries == 16)));
    }
    all.extend([8, 16].map(|entries| t94("complete", entries, false)));
    // Larger ones take abc hours.
    all.extend([32, 64].map(|entries| Configuration { quick: true, ..t94("complete", entries, false) }));
    all.push(Configuration { name: "complete-quick-16".into(), quick: true, ..t94("complete", 16, false) });
    // With used bits, as the range TLB: a list of 512 entries by their use would be larger than they are.
    let clusters = rmm15("clusters", 512, &CLUSTERED, &[("FACTOR", 8), ("PARTS", 8), ("POLICY", 0)], false);
    all.push(Configuration { quick: true, ..clusters });
    all.push(t94("integrated", 64, false));
    let sets = Parameters::of(&[&T94[..], &[("WAYS", 4), ("BANKS", 4), ("DEEP", 0), ("POLICY", 3)]].concat());
    all.push(Configuration {
        name: "set-associative-256".into(),
        structure: "set-associative",
        entries: 256,
        module: &SET_ASSOCIATIVE,
        parameters: sets.with("ENTRIES", 256),
        everywhere: false,
        quick: false,
    });
    all
}
