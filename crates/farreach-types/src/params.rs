//! Keys of a machine description: what each may be, its default, and the resolved values.
//!
//! Every design and every policy declares its own keys; a description (TOML, or `key=value` on the command line) is
//! checked against all keys of the parts it names. Unknown keys and values out of range are refused with key, value and
//! what is allowed.

use crate::addr::Bytes;
use crate::suggest::did_you_mean;
use serde_json::{Map, Value as Json};

/// What a key accepts.
#[derive(Clone, Copy, Debug)]
pub enum Allowed {
    /// A whole number.
    Int {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
    /// A power of two.
    PowerOfTwo {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
    /// `true` or `false`.
    Flag,
    /// A number.
    Number {
        /// Smallest.
        min: f64,
        /// Largest.
        max: f64,
    },
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A power-of-two number of bytes such as `4K`.
    PageSize {
        /// Smallest, in bytes.
        min: u64,
        /// Largest, in bytes.
        max: u64,
    },
    /// An ascending list of page sizes, such as `["4K", "64K"]` or, on the command line, `4K+64K`.
    PageSizes {
        /// Smallest, in bytes.
        min: u64,
        /// Largest, in bytes.
        max: u64,
    },
    /// As `PageSizes`, or `none` for an empty list.
    PageSizesOrNone {
        /// Smallest, in bytes.
        min: u64,
        /// Largest, in bytes.
        max: u64,
    },
    /// A number of bytes such as `96M`, or a word that stands for a special value.
    Size {
        /// Smallest, in bytes.
        min: u64,
        /// The special word, stored as JSON text.
        or: &'static str,
    },
    /// Any text.
    Text,
    /// The name of a file to read; empty for none.
    File,
    /// A list of texts; on the command line joined by `+`.
    Texts,
}

/// One key of a design or policy.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Name in TOML, on the command line and in the JSON `config`.
    pub name: &'static str,
    /// Default value, written as on the command line.
    pub default: &'static str,
    /// What it accepts.
    pub allowed: Allowed,
    /// One line for display.
    pub about: &'static str,
}

/// Everything random in a machine, in hardware and operating system, starts from it (XC-4).
pub const SEED: Key = Key {
    name: "seed",
    default: "0",
    allowed: Allowed::Int { min: 0, max: u64::MAX },
    about: "seed of everything random",
};

/// The base page of a machine: what its page table maps, its faults bring in and its TLB looks up (XC-1, PS-2).
pub const PAGE_SIZE: Key = Key {
    name: "page_size",
    default: "4K",
    allowed: Allowed::PageSize { min: 1 << 12, max: 1 << 21 },
    about: "the base page of the system; sizes and regions are multiples of it",
};

impl std::fmt::Display for Allowed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Allowed::Int { min, max } => write!(f, "a whole number from {min} to {max}"),
            Allowed::PowerOfTwo { min, max } => write!(f, "a power of two from {min} to {max}"),
            Allowed::Flag => write!(f, "true or false"),
            Allowed::Number { min, max } if max.is_finite() => write!(f, "a number from {min} to {max}"),
            Allowed::Number { min, .. } => write!(f, "a number of at least {min}"),
            Allowed::OneOf(words) => write!(f, "one of {}", words.join(", ")),
            Allowed::PageSize { min, max } => write!(f, "a power of two from {} to {}", Bytes(*min), Bytes(*max)),
            Allowed::PageSizes { min, max } => {
                write!(f, "an ascending list of powers of two from {} to {}, such as 4K+64K", Bytes(*min), Bytes(*max))
            }
            Allowed::PageSizesOrNone { min, max } => {
                write!(f, "'none' or {}", Allowed::PageSizes { min: *min, max: *max })
            }
            Allowed::Size { min, or } => {
                write!(f, "a size such as 96M, in K, M, G or T, of at least {}, or '{or}'", Bytes(*min))
            }
            Allowed::Text => write!(f, "a text"),
            Allowed::File => write!(f, "the name of a file"),
            Allowed::Texts => write!(f, "a list of texts"),
        }
    }
}

impl Key {
    /// Whether this is the default, in its resolved form.
    pub fn is_default(&self, value: &Json) -> bool {
        self.parse(&Json::from(self.default)).as_ref() == Some(value)
    }

    /// Checks a value as TOML or the command line gave it and brings it into its one resolved form. The error names
    /// key, value and what is allowed.
    pub fn check(&self, value: &Json) -> Result<Json, String> {
        self.parse(value).ok_or_else(|| {
            let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let meant = match self.allowed {
                Allowed::OneOf(words) => did_you_mean(&shown, words.iter().copied()),
                _ => String::new(),
            };
            format!("{} = {shown} is not allowed: {} must be {}{meant}", self.name, self.name, self.allowed)
        })
    }

    /// The words that a map of values gives for this key, a list joined by `+` or an array; its default if none.
    pub fn words(&self, given: &Map<String, Json>) -> Vec<String> {
        let words = |text: &str| text.split('+').map(|word| word.trim().to_owned()).collect();
        match given.get(self.name) {
            Some(Json::Array(items)) => items.iter().filter_map(|item| Some(item.as_str()?.to_owned())).collect(),
            Some(Json::String(text)) => words(text),
            _ => words(self.default),
        }
    }

    fn parse(&self, value: &Json) -> Option<Json> {
        let int = || value.as_u64().or_else(|| value.as_str()?.trim().parse().ok());
        let bytes = |v: &Json| v.as_u64().or_else(|| v.as_str()?.parse::<Bytes>().ok().map(|b| b.0));
        let page = |v: &Json, min, max| bytes(v).filter(|n| n.is_power_of_two() && (min..=max).contains(n));
        let list = || match value {
            Json::Array(items) => Some(items.clone()),
            Json::String(s) if s.is_empty() => Some(Vec::new()),
            Json::String(s) => Some(s.split('+').map(|t| Json::from(t.trim())).collect()),
            Json::Number(_) => Some(vec![value.clone()]),
            _ => None,
        };
        match self.allowed {
            Allowed::Int { min, max } => int().filter(|n| (min..=max).contains(n)).map(Json::from),
            Allowed::PowerOfTwo { min, max } => {
                int().filter(|n| n.is_power_of_two() && (min..=max).contains(n)).map(Json::from)
            }
            Allowed::Flag => value.as_bool().or_else(|| value.as_str()?.parse().ok()).map(Json::from),
            Allowed::Number { min, max } => value
                .as_f64()
                .or_else(|| value.as_str()?.trim().parse().ok())
                .filter(|n| n.is_finite() && (min..=max).contains(n))
                // Zero has one form: -0 becomes 0.
                .map(|n| Json::from(n + 0.0)),
            Allowed::OneOf(words) => value.as_str().filter(|w| words.contains(w)).map(Json::from),
            Allowed::PageSize { min, max } => page(value, min, max).map(Json::from),
            Allowed::PageSizesOrNone { .. } if value.as_str() == Some("none") => Some(Json::Array(Vec::new())),
            Allowed::PageSizesOrNone { .. } if value.as_array().is_some_and(Vec::is_empty) => Some(value.clone()),
            Allowed::PageSizes { min, max } | Allowed::PageSizesOrNone { min, max } => {
                let sizes: Vec<u64> = list()?.iter().map(|v| page(v, min, max)).collect::<Option<_>>()?;
                (!sizes.is_empty() && sizes.is_sorted_by(|a, b| a < b)).then(|| Json::from(sizes))
            }
            Allowed::Size { or, .. } if value.as_str() == Some(or) => Some(Json::from(or)),
            Allowed::Size { min, .. } => bytes(value).filter(|n| *n >= min).map(Json::from),
            Allowed::Text | Allowed::File => {
                value.as_str().map(Json::from).or_else(|| value.is_number().then(|| value.to_string().into()))
            }
            Allowed::Texts => {
                list()?.iter().map(|v| v.as_str().map(Json::from)).collect::<Option<Vec<_>>>().map(Json::from)
            }
        }
    }
}

/// The number of keys in some lists together.
pub const fn total(lists: &[&[&'static Key]]) -> usize {
    let (mut n, mut i) = (0, 0);
    while i < lists.len() {
        n += lists[i].len();
        i += 1;
    }
    n
}

/// The keys of some lists, one list after the other; `N` is their [`total`]. Called through [`joined_keys!`].
///
/// [`joined_keys!`]: crate::joined_keys
pub const fn joined<const N: usize>(lists: &[&[&'static Key]]) -> [&'static Key; N] {
    let mut all = [&SEED; N];
    let (mut n, mut i) = (0, 0);
    while i < lists.len() {
        let mut k = 0;
        while k < lists[i].len() {
            all[n] = lists[i][k];
            (n, k) = (n + 1, k + 1);
        }
        i += 1;
    }
    assert!(n == N);
    all
}

/// Joins constant lists of keys: `joined_keys!(FIRST, &[&ONE, &TWO])` is a constant list of all their keys.
#[macro_export]
macro_rules! joined_keys {
    ($($list:expr),* $(,)?) => {{
        const LISTS: &[&[&$crate::params::Key]] = &[$($list),*];
        const ALL: &[&$crate::params::Key] = &$crate::params::joined::<{ $crate::params::total(LISTS) }>(LISTS);
        ALL
    }};
}

/// Refuses a given key that is none of the declared ones, and names those like it.
pub fn unknown(keys: &[&Key], given: &Map<String, Json>) -> Option<String> {
    let name = given.keys().find(|name| !keys.iter().any(|key| key.name == *name))?;
    Some(format!("unknown key '{name}'{}", did_you_mean(name, keys.iter().map(|key| key.name))))
}

/// The resolved keys of a machine, each checked. Getters panic on a key that was not declared or has another type: that
/// is a mistake of the program, not of the user.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Params {
    values: Map<String, Json>,
}

impl Params {
    /// Resolves `given` against the declared keys: defaults filled in, everything checked. A key may be declared by
    /// several parts (the first declaration's default counts).
    pub fn resolve(keys: &[&Key], given: &Map<String, Json>) -> Result<Params, String> {
        if let Some(refusal) = unknown(keys, given) {
            return Err(refusal);
        }
        let mut values = Map::new();
        for key in keys {
            if values.contains_key(key.name) {
                continue;
            }
            let value = given.get(key.name).cloned().unwrap_or_else(|| Json::from(key.default));
            values.insert(key.name.to_owned(), key.check(&value)?);
        }
        Ok(Params { values })
    }

    /// All keys with their values, for the result.
    pub fn as_json(&self) -> &Map<String, Json> {
        &self.values
    }

    /// Whether the machine has this key.
    pub fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    fn get(&self, name: &str) -> &Json {
        self.values.get(name).unwrap_or_else(|| panic!("key '{name}' is read but not declared"))
    }

    /// A whole number, or a number of bytes.
    pub fn int(&self, name: &str) -> u64 {
        self.get(name).as_u64().unwrap_or_else(|| panic!("key '{name}' is not a whole number"))
    }
    /// `true` or `false`.
    pub fn flag(&self, name: &str) -> bool {
        self.get(name).as_bool().unwrap_or_else(|| panic!("key '{name}' is not a flag"))
    }
    /// A number.
    pub fn number(&self, name: &str) -> f64 {
        self.get(name).as_f64().unwrap_or_else(|| panic!("key '{name}' is not a number"))
    }
    /// A word.
    pub fn text(&self, name: &str) -> &str {
        self.get(name).as_str().unwrap_or_else(|| panic!("key '{name}' is not a text"))
    }
    /// A size, or `None` for the special word.
    pub fn size(&self, name: &str) -> Option<u64> {
        self.get(name).as_u64()
    }
    /// A list of sizes in bytes.
    pub fn sizes(&self, name: &str) -> Vec<u64> {
        self.get(name).as_array().map(|a| a.iter().filter_map(Json::as_u64).collect()).unwrap_or_default()
    }
    /// log2 of the base page ([`PAGE_SIZE`]).
    pub fn page_shift(&self) -> u32 {
        self.int(PAGE_SIZE.name).trailing_zeros()
    }
    /// log2 of the base pages in `size`, a power of two that the key `name` has. Refused below the base page.
    pub fn order(&self, name: &str, size: u64) -> Result<u32, String> {
        let page = self.int(PAGE_SIZE.name);
        let refuse = || {
            format!("{name} = {} is not allowed: {name} must be a multiple of page_size, {}", Bytes(size), Bytes(page))
        };
        size.trailing_zeros().checked_sub(page.trailing_zeros()).ok_or_else(refuse)
    }
    /// A word, or a list of words.
    pub fn words(&self, name: &str) -> Vec<String> {
        match self.get(name).as_str() {
            Some(word) => vec![word.to_owned()],
            None => self.texts(name),
        }
    }
    /// A list of texts.
    pub fn texts(&self, name: &str) -> Vec<String> {
        let items = self.get(name).as_array();
        items.map(|a| a.iter().filter_map(|v| v.as_str().map(str::to_owned)).collect()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: [Key; 3] = [
        Key { name: "entries", default: "64", allowed: Allowed::Int { min: 1, max: 65536 }, about: "" },
        Key { name: "sizes", default: "4K+64K", allowed: Allowed::PageSizes { min: 4096, max: 1 << 30 }, about: "" },
        Key { name: "memory", default: "unlimited", allowed: Allowed::Size { min: 4096, or: "unlimited" }, about: "" },
    ];

    fn resolve(given: Json) -> Result<Params, String> {
        Params::resolve(&KEYS.iter().collect::<Vec<_>>(), given.as_object().unwrap())
    }

    #[test]
    fn defaults_and_overrides() {
        let p = resolve(serde_json::json!({"entries": "32"})).unwrap();
        assert_eq!((p.int("entries"), p.sizes("sizes"), p.size("memory")), (32, vec![4096, 65536], None));
        assert_eq!(resolve(serde_json::json!({"memory": "1M"})).unwrap().size("memory"), Some(1 << 20));
        let price = Key { name: "price", default: "1", allowed: Allowed::Number { min: 0.0, max: 9.0 }, about: "" };
        for zero in [serde_json::json!("-0"), serde_json::json!(-0.0)] {
            assert_eq!(price.check(&zero).unwrap().to_string(), "0.0", "{zero}");
        }
    }

    #[test]
    fn refusals_name_key_value_and_what_is_allowed() {
        for (given, words) in [
            (serde_json::json!({"entries": 0}), ["entries", "= 0", "1 to 65536"]),
            (serde_json::json!({"sizes": ["64K", "4K"]}), ["sizes", "64K", "ascending"]),
            (serde_json::json!({"memory": "lots"}), ["memory", "lots", "unlimited"]),
            (serde_json::json!({"entrys": 1}), ["unknown", "entrys", "entries"]),
        ] {
            let e = resolve(given).unwrap_err();
            assert!(words.iter().all(|w| e.contains(w)), "{e}");
        }
    }
}
