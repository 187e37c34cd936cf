//! The description as TOML, with the source of each key above it.

use super::arrays::{Array, G1, K4, M2, Side, entries, level};
use super::{Identity, Leaves, Signature, Vendor, amd, arrays, caches, cores, doubts};
use crate::description;
use crate::presets::PRESETS;
use farreach_types::addr::Bytes;
use serde_json::{Map, Value as Json};

/// A price with the sentence that says where it comes from.
#[derive(Clone, PartialEq, Debug)]
pub struct Price {
    /// In cycles.
    pub cycles: f64,
    /// A sentence without its period.
    pub source: String,
}

/// Prices that were measured on this machine; those that were not come from the preset of the core.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Prices {
    /// A reference that only the second level of a TLB answers.
    pub second_level: Option<Price>,
    /// A node of the page table that a walk reads.
    pub walk_reference: Option<Price>,
}

/// The preset of the core.
struct Base {
    preset: &'static str,
    /// Its keys.
    keys: Map<String, Json>,
}

impl Base {
    fn of(name: &'static str) -> Base {
        let preset = PRESETS.iter().find(|preset| preset.name == name).expect("a test looks for each");
        Base { preset: name, keys: description::parse(preset.toml).expect("presets are descriptions").keys }
    }

    fn value(&self, key: &str) -> Option<String> {
        self.keys.get(key).map(description::toml)
    }
}

/// The description of this processor: the preset of its core, with the caches that CPUID tells. Where there is no
/// preset, TLBs are as CPUID tells, and other keys have their defaults. Comments say what is told, what is taken from
/// where, and what differs.
pub fn describe(identity: &Identity, prices: &Prices) -> String {
    let mut out = Text::default();
    match identity {
        Identity::X86(leaves) => x86(&mut out, leaves),
        Identity::Arm(midr) => arm(&mut out, *midr),
    }
    out.prices(prices);
    out.lines.join("\n") + "\n"
}

/// The lines of a description.
#[derive(Default)]
struct Text {
    lines: Vec<String>,
}

const WIDTH: usize = 120;

impl Text {
    /// A comment, broken into lines.
    fn say(&mut self, text: &str) {
        let mut line = "#".to_owned();
        for word in text.split_whitespace() {
            if line.len() + 1 + word.len() > WIDTH {
                self.lines.push(std::mem::replace(&mut line, "#".into()));
            }
            line += " ";
            line += word;
        }
        self.lines.push(line);
    }

    fn key(&mut self, key: &str, value: &str) {
        self.lines.push(format!("{key} = {value}"));
    }

    /// Keys of the preset that are not there yet.
    fn rest(&mut self, base: &Base) {
        let there = |key: &str| self.lines.iter().any(|line| line.starts_with(&format!("{key} = ")));
        let keys: Vec<&String> = base.keys.keys().filter(|key| !there(key)).collect();
        if !keys.is_empty() {
            self.say(&format!("As in {}, whose comments name the sources (`farreach machines {0}`).", base.preset));
            keys.iter().for_each(|key| self.key(key, &base.value(key).expect("it has this key")));
        }
    }

    fn prices(&mut self, prices: &Prices) {
        let priced = [
            (&prices.second_level, &["l2_hit_data_cycles", "l2_hit_fetch_cycles"][..]),
            (&prices.walk_reference, &["walk_reference_cycles"]),
        ];
        for (price, keys) in priced {
            let Some(price) = price else { continue };
            self.lines.retain(|line| !keys.iter().any(|key| line.starts_with(&format!("{key} = "))));
            self.say(&format!("{}.", price.source));
            keys.iter().for_each(|key| self.key(key, &format!("{:?}", (price.cycles * 10.0).round() / 10.0)));
        }
    }
}

fn arm(out: &mut Text, midr: u64) {
    out.say(&format!("The TLBs of this processor: MIDR_EL1 {midr:#x}. Arm's cores do not describe their TLBs."));
    match cores::arm(midr) {
        Some((name, preset)) => {
            out.key("about", &format!("\"this processor: {name}\""));
            out.rest(&Base::of(preset));
        }
        None => {
            out.say(
                "No preset describes this core. Everything below is the default of farreach, not of this processor.",
            );
            out.key("about", "\"a processor that no preset describes\"");
            out.key("kind", "\"hierarchy\"");
        }
    }
}

fn x86(out: &mut Text, leaves: &Leaves) {
    let who = Signature::of(leaves);
    let brand = if who.brand.is_empty() { "no name".to_owned() } else { who.brand.clone() };
    out.say(&format!(
        "The TLBs of this processor. CPUID: {}, family {:#x}, model {:#x}, stepping {}, {brand}.",
        if who.vendor_name.is_empty() { "no vendor" } else { &who.vendor_name },
        who.family,
        who.model,
        who.stepping
    ));
    let (core, name) = core(out, &who, leaves);
    let base = core.map(|core| Base::of(core.preset));
    if who.threads > 1 {
        out.say(&format!("{} threads of a core share its TLBs; this machine has them for one.", who.threads));
    }
    if let Some(hypervisor) = &who.hypervisor {
        out.say(&format!(
            "This is a virtual machine (hypervisor {hypervisor}). A hypervisor may hide leaves or make them up, \
             family and model too. TLB entries are no larger than the pages of the host, and a walk goes through the \
             host's page tables too: `farreach machines --this --measure` shows both; `guest = \"walk\"` simulates \
             them."
        ));
    }
    out.key("about", &format!("\"this processor: {brand}{name}\""));
    out.key("kind", "\"hierarchy\"");
    let told = arrays(leaves);
    if told.iter().any(|array| array.side == Side::Store) {
        out.say("Left out is a TLB that stores have for themselves: loads and stores share the first level.");
    }
    for key in ["l1d", "l1i", "l2", "l2i"] {
        tlb(out, key, &told, who.vendor, base.as_ref());
    }
    let caches = caches::keys(leaves);
    if !caches.is_empty() {
        out.say(
            "CPUID: caches, for `walk_cost = caches`, with the fewest slices that have a power of two of sets. \
             Their cycles are defaults, unless they follow.",
        );
        caches.iter().for_each(|(key, value)| out.key(key, value));
    }
    match &base {
        Some(base) => out.rest(base),
        None => out.say(
            "Nothing is known of walk caches, coalescing and prices: other keys have the defaults of farreach, \
             which are those of a Sandy Bridge.",
        ),
    }
}

/// The core whose preset describes this processor, and its name in brackets.
fn core(out: &mut Text, who: &Signature, leaves: &Leaves) -> (Option<cores::Core>, String) {
    let Some(named) = cores::x86(who) else {
        out.say("No preset describes its core.");
        return (None, String::new());
    };
    let doubts = doubts::doubts(&named, leaves);
    if doubts.is_empty() {
        out.say(&format!("Its core is {}, described in {}.", named.name, named.preset));
        return (Some(named), format!(" ({})", named.name));
    }
    out.say(&format!(
        "Its model is that of {}, but CPUID also shows what that core has not: {}. So this is another processor, whose \
         model is hidden.",
        named.name,
        doubts.join(", ")
    ));
    let fit = doubts::others(who.vendor, leaves);
    let Some(taken) = fit.first().copied() else {
        out.say("No core that a preset describes has all of that.");
        return (None, " (its model is hidden)".into());
    };
    let names: Vec<&str> = fit.iter().map(|core| core.name).collect();
    out.say(&format!(
        "Assumed: {}, described in {}. Of the cores that presets describe, {} all that is shown; one that no preset \
         describes may have it too. `farreach machines --this --measure` tells more.",
        taken.name,
        taken.preset,
        if fit.len() == 1 { "it alone has".to_owned() } else { format!("these have: {};", names.join(", ")) }
    ));
    (Some(taken), format!(" (its model is hidden; taken for {})", taken.name))
}

/// What a key describes.
fn part(key: &str, arrays: &[Array]) -> Vec<Array> {
    let wanted = |array: &&Array| match key {
        "l1d" => array.level == 1 && matches!(array.side, Side::Data | Side::Both),
        "l1i" => array.level == 1 && matches!(array.side, Side::Fetch | Side::Both),
        "l2" => array.level == 2 && matches!(array.side, Side::Data | Side::Both),
        _ => array.level == 2 && array.side == Side::Fetch,
    };
    arrays.iter().filter(wanted).cloned().collect()
}

/// Entries for a page size in an array of a description such as `4K|2M:1536/12`; `None`: it has not that size.
fn entries_of(value: &Json, size: u64) -> Option<u64> {
    let elements = value.as_array()?.iter().filter_map(Json::as_str);
    elements.filter_map(|element| element.split_once(':')).find_map(|(sizes, shape)| {
        let has = sizes.split('|').any(|text| text.parse::<Bytes>().is_ok_and(|bytes| bytes.0 == size));
        has.then(|| shape.split('/').next()?.parse().ok())?
    })
}

/// One level: as in the preset of the core, with what CPUID says of it; without a preset as CPUID says.
fn tlb(out: &mut Text, key: &str, all: &[Array], vendor: Vendor, base: Option<&Base>) {
    let told = part(key, all);
    let theirs = base.and_then(|base| Some((base.preset, base.keys.get(key)?)));
    if entries(&told, K4) == 0 {
        // Not told, or not in full.
        match (key, theirs) {
            ("l2i", None) => {}
            (_, Some((preset, value))) => {
                let part = told.iter().map(Array::words).collect::<Vec<_>>().join("; ");
                let part = if part.is_empty() { String::new() } else { format!(" beyond {part}") };
                out.say(&format!("CPUID does not tell{part}; as in {preset}."));
                out.key(key, &description::toml(value));
            }
            _ => out.say(&format!("CPUID does not tell {key}: the default of farreach, not of this processor.")),
        }
        return;
    }
    let mut leaves: Vec<String> = told.iter().map(|array| format!("{:#x}", array.leaf)).collect();
    leaves.dedup();
    let words = told.iter().map(Array::words).collect::<Vec<_>>().join("; ");
    let said = format!("CPUID leaf {}: {words}.", leaves.join(", "));
    if let Some((preset, value)) = theirs {
        out.say(&format!("{said}{} Arrays as in {preset}.", differences(&told, value)));
        out.key(key, &description::toml(value));
        return;
    }
    let (arrays, assumed) = match vendor {
        Vendor::Amd => (amd::shared(&told), " Assumed: sizes with equal numbers of entries share them."),
        _ => (told, ""),
    };
    out.say(&format!("{said}{assumed} Where ways would not make a power of two of sets: fully associative."));
    out.key(key, &Json::from(level(&arrays)).to_string());
}

/// What the preset has otherwise than CPUID. Where both speak, published figures and measurements count: CPUID is known
/// to be wrong about the DTLB of Golden Cove, the ITLBs of Skylake and Sunny Cove, and the L2 ITLB of Zen 1.
fn differences(told: &[Array], value: &Json) -> String {
    let sizes = [K4, M2, G1].into_iter().filter(|size| entries(told, *size) > 0);
    let list: Vec<String> = sizes
        .filter(|size| entries_of(value, *size) != Some(entries(told, *size)))
        .map(|size| {
            let theirs = entries_of(value, size).map_or("none".to_owned(), |n| n.to_string());
            format!("{theirs} for {}", Bytes(size))
        })
        .collect();
    if list.is_empty() {
        String::new()
    } else {
        format!(" Published are other numbers, which are taken: {}.", list.join(", "))
    }
}
