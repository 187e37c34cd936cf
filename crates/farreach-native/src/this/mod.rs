//! The processor at hand as a machine: `this` where the name of a preset is asked for; and its TLBs by measurement.

pub mod measure;
pub mod policy;
mod sweep;

use farreach_live::CpuidLeaf;
use farreach_machine::MachineSpec;
use farreach_machine::this::{Identity, Prices, describe};
use farreach_types::Error;
use farreach_types::addr::Bytes;
use std::path::Path;

/// The name that stands for it.
pub const NAME: &str = "this";

/// What the processor says of itself.
pub fn identity() -> Identity {
    match farreach_live::midr(Path::new("/")) {
        Some(midr) => Identity::Arm(midr),
        None => {
            let leaf = |l: CpuidLeaf| ((l.leaf, l.subleaf), l.registers);
            Identity::X86(farreach_live::cpuid().into_iter().map(leaf).collect())
        }
    }
}

/// Its description.
pub fn toml(prices: &Prices) -> String {
    describe(&identity(), prices)
}

/// The arrays for data of its first and second level: sizes of pages in bytes, and entries.
pub fn data_arrays() -> [Vec<(Vec<u64>, u64)>; 2] {
    let Ok(this) = parse(NAME, 0) else { return Default::default() };
    ["l1d", "l2"].map(|level| {
        let texts = if this.params.has(level) { this.params.texts(level) } else { Vec::new() };
        texts.iter().filter_map(|array| array_of(array)).collect()
    })
}

/// `4K|2M:1024/8`: the sizes, and the number of entries.
fn array_of(text: &str) -> Option<(Vec<u64>, u64)> {
    let (sizes, entries) = text.split_once(':')?;
    let sizes = sizes.split('|').map(|size| size.parse::<Bytes>().map(|size| size.0)).collect::<Result<_, _>>().ok()?;
    Some((sizes, entries.split('/').next()?.parse().ok()?))
}

/// As [`MachineSpec::parse`], where `this[:key=value,...]` is a name too. `seed`: of everything random.
///
/// # Errors
/// As of [`MachineSpec::parse`].
pub fn parse(text: &str, seed: u64) -> Result<MachineSpec, Error> {
    let text = policy::expanded(text);
    match text.split_once(':').unwrap_or((&text, "")) {
        (NAME, overrides) => MachineSpec::from_toml(&text, &toml(&Prices::default()), overrides, seed),
        _ => MachineSpec::parse(&text, seed),
    }
}

/// As [`MachineSpec::parse_all`], where `this[:key=value,...]` is a name too.
///
/// # Errors
/// As of [`parse`].
pub fn parse_all(texts: impl IntoIterator<Item = impl AsRef<str>>, seed: u64) -> Result<Vec<MachineSpec>, Error> {
    let mut all = Vec::new();
    for text in texts {
        let text = policy::expanded(text.as_ref());
        match text.split(':').next() {
            Some(NAME) => all.push(parse(&text, seed)?),
            _ => all.extend(MachineSpec::parse_all([&text], seed)?),
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_have_sizes_and_entries() {
        assert_eq!(array_of("4K|2M:1024/8"), Some((vec![4096, 2 << 20], 1024)));
        assert_eq!(array_of("1G:16"), Some((vec![1 << 30], 16)));
        assert_eq!(array_of("4K"), None);
    }

    #[test]
    fn this_is_a_name_like_any_other() {
        let all = parse_all(["this", "this:placement=thp", "ds13"], 0).unwrap();
        assert_eq!(all.len(), 6);
        assert_eq!((all[0].name.as_str(), all[1].params.text("placement")), ("this", "thp"));
        assert!(parse_all(["this:no=1"], 0).is_err() && parse_all(["thi"], 0).is_err());
    }
}
