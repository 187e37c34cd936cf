//! The modules there are. A module of your own is a file in `rtl/`, its name in `sources.rs`, and a line in
//! [`MODULES`].

use farreach_hw::tlb::{ArrayShape, lfsr_state};
use farreach_types::params::Params;

/// A module.
#[derive(Debug)]
pub struct Module {
    /// Its name; `NAME.sv` is its file.
    pub name: &'static str,
    /// One line for people, with the rules it is.
    pub about: &'static str,
    /// Cycles from a lookup to its answer; 0: it depends.
    pub latency: u64,
    /// Ports beyond those that all have.
    pub extra: &'static [Extra],
    /// The design that is this module and nothing else, if there is one.
    pub design: Option<Whole>,
}

/// Ports that only some modules have; `rtl/harness.cpp` is compiled for them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extra {
    /// `req_line`.
    Line,
    /// `req_root` and memory.
    Memory,
    /// `ans_base` and `ans_limit`.
    Range,
}

/// A design that is one module.
#[derive(Clone, Copy, Debug)]
pub struct Whole {
    /// Value of the key `kind`.
    pub kind: &'static str,
    /// Parameters for the keys of the design, or why the module is no such design.
    pub parameters: fn(&Params) -> Result<Parameters, String>,
}

/// A module that is this design; `parameters` looks at its keys.
const fn whole(kind: &'static str, parameters: fn(&Params) -> Result<Parameters, String>) -> Option<Whole> {
    Some(Whole { kind, parameters })
}

/// All modules. Of several that are one design, the first whose parameters fit is taken.
pub const MODULES: &[&Module] = &[
    &Module { design: whole("single", fully_associative), ..plain("single", "base pages, T94-3") },
    &Module {
        design: whole("superpage", fully_associative),
        ..plain("superpage", "a page size for each entry, T94-4")
    },
    &Module { design: whole("complete", fully_associative), ..plain("complete", "complete subblocks, T94-5") },
    &Module { design: whole("partial", fully_associative), ..plain("partial", "partial subblocks, T94-6") },
    &Module {
        design: whole("integrated", fully_associative),
        ..plain("integrated", "partial subblocks and superpages, T94-24")
    },
    &Module { design: whole("single", in_sets), ..SET_ASSOCIATIVE },
    &DEEP_SETS,
    &RANGE_TLB,
    &CLUSTERED,
    &SEGMENT,
    &WALKER,
    &RANGE_WALKER,
];

/// An array in sets, for a first level.
pub const SET_ASSOCIATIVE: Module = plain("set_associative", "base pages in sets, T94-15, a first level");
/// An array in sets, for a second level.
pub const DEEP_SETS: Module =
    Module { latency: 6, ..plain("set_associative", "base pages in sets, six cycles, the second level of RMM15 8.4") };
/// A fully associative array of one page size.
pub const SINGLE: Module = plain("single", "base pages, T94-3");
/// The range TLB.
pub const RANGE_TLB: Module = Module { latency: 6, ..plain("range_tlb", "ranges, six cycles, RMM15-2") };
/// The clustered TLB.
pub const CLUSTERED: Module =
    Module { extra: &[Extra::Line], ..plain("clustered", "clusters of eight pages, RMM15-42") };
/// The registers of a direct segment.
pub const SEGMENT: Module = plain("segment", "the registers of a direct segment, DS13-2");
/// The page walker.
pub const WALKER: Module = Module {
    latency: 0,
    extra: &[Extra::Memory],
    ..plain("walker", "page walks with caches of upper levels, DS13-36")
};
/// The range-table walker.
pub const RANGE_WALKER: Module = Module {
    latency: 0,
    extra: &[Extra::Memory, Extra::Range],
    ..plain("range_walker", "searches of range tables, RMM15-9")
};

/// A module with nothing special about it.
const fn plain(name: &'static str, about: &'static str) -> Module {
    Module { name, about, latency: 3, extra: &[], design: None }
}

/// Parameters of a module by name.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Parameters(Vec<(&'static str, u64)>);

impl Parameters {
    /// These.
    pub fn of(all: &[(&'static str, u64)]) -> Parameters {
        Parameters(all.to_vec())
    }
    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.0.iter().copied()
    }
    /// The value of one that is there.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.0.iter().find(|(n, _)| *n == name).map(|(_, value)| *value)
    }
    /// With one more, or another value of one.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: u64) -> Parameters {
        match self.0.iter_mut().find(|(n, _)| *n == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name, value)),
        }
        self
    }
}

/// The module that is a design, and its parameters.
///
/// # Errors
/// No module is this design with these keys; it says which there are, or why.
pub fn for_design(kind: &str, params: &Params) -> Result<(&'static Module, Parameters), String> {
    let mut why = None;
    for module in MODULES {
        let Some(whole) = module.design.filter(|whole| whole.kind == kind) else { continue };
        match (whole.parameters)(params) {
            Ok(parameters) => return Ok((module, parameters)),
            Err(reason) => why = why.or(Some(reason)),
        }
    }
    Err(why.unwrap_or_else(|| format!("kind = {kind}: there is no RTL of it")))
}

/// `POLICY` of `rtl/tlb_pkg.sv`.
///
/// # Errors
/// It has no such policy.
pub fn policy(name: &str, key: &str) -> Result<u64, String> {
    match name {
        "used-bit" => Ok(0),
        "lru" => Ok(1),
        "fifo" => Ok(2),
        "lfsr" => Ok(3),
        "plru" => Err(format!("{key} = plru: there is no RTL of it; {key} must be one of used-bit, lru, fifo, lfsr")),
        other => Err(format!("{key} = {other}: RTL has no such generator of random numbers; {key} must be lfsr")),
    }
}

/// With the seed of its shift register, if it has one. Without, modules that differ in nothing else are the same.
pub fn seeded(all: Parameters, seed: u64) -> Parameters {
    const RANDOM: u64 = 3;
    if all.get("POLICY") == Some(RANDOM) { all.with("SEED", lfsr_state(seed).into()) } else { all }
}

/// The keys that all designs of one array have.
fn one_array(params: &Params) -> Result<Parameters, String> {
    for (key, only) in [("preload", "none"), ("all_valid", "false"), ("lookup", "one-array"), ("cores", "1")] {
        let value = params.as_json().get(key).map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned));
        if let Some(other) = value.filter(|value| value != only) {
            return Err(format!("{key} = {other}: there is no RTL of it; {key} must be {only}"));
        }
    }
    let entries = params.int("entries");
    if entries < 2 {
        return Err(format!("entries = {entries}: RTL has at least 2"));
    }
    let mut all = Parameters::of(&[
        ("ENTRIES", entries),
        ("POLICY", policy(params.text("replacement"), "replacement")?),
        ("FILL_SETS_USED", params.flag("fill_sets_used").into()),
        ("ASID_W", 12),
        ("VPN_W", 64 - u64::from(params.page_shift())),
        ("PFN_W", 48 - u64::from(params.page_shift())),
        ("SIZE_W", 4),
    ]);
    all = seeded(all, params.int("seed"));
    if params.has("factor") {
        let factor = params.int("factor");
        if factor < 2 {
            return Err(format!("factor = {factor}: RTL has at least 2 pages in a region"));
        }
        all = all.with("FACTOR", factor).with("PARTS", factor);
    }
    if params.has("sizes") {
        // A size field of four bits, as T94 has it, or of five where that is too little.
        let largest = params.sizes("sizes").last().map_or(0, |size| size.ilog2() - params.page_shift());
        all = all.with("SIZE_W", if largest < 16 { 4 } else { 5 });
    }
    Ok(all)
}

fn fully_associative(params: &Params) -> Result<Parameters, String> {
    let ways = params.int("ways");
    if ways != 0 && ways != params.int("entries") {
        return Err(format!("ways = {ways}: the RTL of this kind is fully associative; ways must be 0"));
    }
    one_array(params)
}

fn in_sets(params: &Params) -> Result<Parameters, String> {
    let (entries, ways) = (params.int("entries"), params.int("ways"));
    if ways < 2 || ways == entries {
        return Err(format!("ways = {ways}: RTL has at least 2 ways, and 2 sets"));
    }
    Ok(one_array(params)?.with("WAYS", ways).with("BANKS", 1).with("DEEP", 0))
}

/// Module and parameters of an array of one page size in a hierarchy. `second`: of the second level.
///
/// # Errors
/// There is no such module.
pub fn for_array(
    shape: &ArrayShape,
    second: bool,
    replacement: &str,
    seed: u64,
) -> Result<(&'static Module, Parameters), String> {
    let [order] = shape.orders[..] else {
        return Err("an array of several page sizes: RTL of a hierarchy has an array for each".into());
    };
    let (entries, ways, order) = (shape.entries as u64, shape.ways as u64, u64::from(order));
    if entries < 2 || ways < 2 {
        return Err(format!("an array of {entries} entries in {ways} ways: RTL has at least 2 of each"));
    }
    let all = Parameters::of(&[
        ("ENTRIES", entries),
        ("POLICY", policy(replacement, "replacement")?),
        ("ASID_W", 12),
        ("VPN_W", 36 - order),
        ("PFN_W", 36 - order),
        ("SIZE_W", 4),
    ]);
    let all = seeded(all, seed);
    let sets = entries / ways;
    Ok(match (sets, second) {
        (1, _) => (&SINGLE, all),
        (_, false) => (&SET_ASSOCIATIVE, all.with("WAYS", ways).with("BANKS", 1).with("DEEP", 0)),
        (_, true) => (&DEEP_SETS, all.with("WAYS", ways).with("BANKS", (sets / 16).max(1)).with("DEEP", 1)),
    })
}
