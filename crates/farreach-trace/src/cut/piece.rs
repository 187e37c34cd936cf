//! What of a run is wanted.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A piece of a run; its default is the whole. Numbers are of instructions, of references in a stream without
/// instruction fetches.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Piece {
    /// Where it begins; at the beginning if nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Place>,
    /// Units that are left out.
    #[serde(skip_serializing_if = "is_zero")]
    pub skip: u64,
    /// Units behind them that warm up what simulates, and are not counted.
    #[serde(skip_serializing_if = "is_zero")]
    pub warmup: u64,
    /// Units behind these that are counted; then it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// Units of a phase, into which what is counted is divided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<u64>,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// A place in a run.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Place {
    /// Pieces that the program marks: each is what it executes behind a mark of a begin, up to the next mark of an end.
    Mark,
    /// The first execution of the instruction at this address, in any process.
    Address(u64),
    /// The first execution of this function: a symbol of a program or library that is mapped.
    Function(String),
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Place, String> {
        if text == "mark" {
            return Ok(Place::Mark);
        }
        if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            let address = u64::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'));
            return address.map(Place::Address).ok_or_else(|| format!("'{text}' is no address of 64 bits"));
        }
        let named = text.chars().next().is_some_and(|c| !c.is_ascii_digit() && c != '-' && c != '+');
        if !named || text.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(format!(
                "'{text}': a function such as main, an address such as 0x401000, or the word mark is allowed"
            ));
        }
        Ok(Place::Function(text.to_owned()))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Mark => f.write_str("mark"),
            Place::Address(address) => write!(f, "{address:#x}"),
            Place::Function(name) => f.write_str(name),
        }
    }
}

impl TryFrom<String> for Place {
    type Error = String;

    fn try_from(text: String) -> Result<Place, String> {
        text.parse()
    }
}

impl From<Place> for String {
    fn from(place: Place) -> String {
        place.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_they_are_printed() {
        for text in ["mark", "main", "_ZN3foo3barEv", "0x401000", "std::io::stdin", "0xffffffffffffffff"] {
            assert_eq!(text.parse::<Place>().map(|place| place.to_string()), Ok(text.to_owned()));
        }
        assert_eq!("0X10".parse(), Ok(Place::Address(16)));
        for text in ["", "12", "0x", "0xg", "0x+1", "-main", "a b", "0x10000000000000000"] {
            assert!(text.parse::<Place>().is_err(), "{text}");
        }
    }
}
