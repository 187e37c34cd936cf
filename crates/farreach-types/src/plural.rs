//! Singular and plural of nouns beside numbers, for printed text.

use std::borrow::Cow;

/// The noun that goes with a number: unchanged for one, with its plural ending for any other. In `page of memory` the
/// first word is the noun that is counted.
///
/// ```
/// use farreach_types::plural::pluralize;
/// assert_eq!([pluralize(1, "page"), pluralize(0, "page")], ["page", "pages"]);
/// assert_eq!([pluralize(2, "pass"), pluralize(9, "entry"), pluralize(3, "key")], ["passes", "entries", "keys"]);
/// assert_eq!(pluralize(2, "change of the address space"), "changes of the address space");
/// ```
pub fn pluralize(n: u64, one: &str) -> Cow<'_, str> {
    if n == 1 {
        return one.into();
    }
    let (word, rest) = one.find(" of ").map_or((one, ""), |at| one.split_at(at));
    let many = match word.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'o', 'u'])) {
        Some(stem) => format!("{stem}ies"),
        None if word.ends_with(['s', 'x']) || word.ends_with("ch") => format!("{word}es"),
        None => format!("{word}s"),
    };
    (many + rest).into()
}

/// The singular of a plural that [`pluralize`] made.
///
/// ```
/// use farreach_types::plural::singular;
/// assert_eq!(["pages", "misses", "entries", "faults"].map(singular), ["page", "miss", "entry", "fault"]);
/// ```
pub fn singular(many: &str) -> Cow<'_, str> {
    match (many.strip_suffix("ies"), many.strip_suffix("sses")) {
        (Some(stem), _) => format!("{stem}y").into(),
        (_, Some(stem)) => format!("{stem}ss").into(),
        _ => many.strip_suffix('s').unwrap_or(many).into(),
    }
}

/// A number in digits with its noun.
///
/// ```
/// use farreach_types::plural::with_noun;
/// assert_eq!(with_noun(1, "instruction"), "1 instruction");
/// assert_eq!(with_noun(12_345, "instruction"), "12345 instructions");
/// ```
pub fn with_noun(n: u64, one: &str) -> String {
    format!("{n} {}", pluralize(n, one))
}
