//! "Did you mean": the known names most like an unknown one.

/// Most names that are suggested.
const MOST: usize = 3;
/// Fewest characters that may be looked for inside other names.
const WORD: usize = 3;

/// The names most like the given one, best first and at most three; none if no name is like it.
///
/// A name is like another if one character in three differs at most, or if it contains it. The part behind the slash of
/// a name counts by itself too, so that `partial` finds `t94/partial`.
///
/// ```
/// use farreach_types::suggest::nearest;
/// let names = ["t94/partial", "t94/single", "ds13/2m", "ps/2m"];
/// assert_eq!(nearest("t94/patrial", names), ["t94/partial"]);
/// assert_eq!(nearest("rmm15/2m", names), ["ds13/2m", "ps/2m"]);
/// assert!(nearest("something else", names).is_empty());
/// ```
pub fn nearest<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let given = given.to_lowercase();
    let mut like: Vec<(usize, &str)> =
        names.into_iter().filter_map(|name| distance(&given, &name.to_lowercase()).map(|far| (far, name))).collect();
    like.sort_by_key(|(far, _)| *far);
    like.dedup();
    like.into_iter().take(MOST).map(|(_, name)| name).collect()
}

/// Distance of two names; `None` if they are not alike.
fn distance(given: &str, name: &str) -> Option<usize> {
    let edits = |given: &str, name: &str| {
        let most = given.chars().count() / 3;
        Some(strsim::damerau_levenshtein(given, name)).filter(|&edits| edits <= most && edits < name.chars().count())
    };
    let tail = |name: &str| name.rsplit('/').next().unwrap_or_default().to_owned();
    let tails = || (given.contains('/') || name.contains('/')).then(|| edits(&tail(given), &tail(name))).flatten();
    let within = |long: &str, short: &str| short.len() >= WORD && long.contains(short);
    // A name inside another is further away than any with a few characters changed.
    let inside = || (within(name, given) || within(given, name)).then(|| 100 + given.len().abs_diff(name.len()));
    edits(given, name).or_else(|| tails().map(|far| far + 1)).or_else(inside)
}

/// The end of a message that refuses a name: `; did you mean 'a', 'b' or 'c'?`, or nothing if no name is like it.
///
/// ```
/// use farreach_types::suggest::did_you_mean;
/// assert_eq!(did_you_mean("entrys", ["ways", "entries"]), "; did you mean 'entries'?");
/// assert_eq!(did_you_mean("size", ["l1_size", "l2_size", "ways"]), "; did you mean 'l1_size' or 'l2_size'?");
/// assert_eq!(did_you_mean("cpi", ["ways"]), "");
/// ```
pub fn did_you_mean<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<String> = nearest(given, names).into_iter().map(|name| format!("'{name}'")).collect();
    match &names[..] {
        [] => String::new(),
        [one] => format!("; did you mean {one}?"),
        [first @ .., last] => format!("; did you mean {} or {last}?", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn likeness() {
        let names = ["entries", "ways", "walk_cost", "walk_levels", "l1_size", "l2_size", "page_size", "memory"];
        for (given, like) in [
            ("entrys", &["entries"][..]),
            ("ENTRIES", &["entries"]),
            ("entires", &["entries"]),
            ("walk_level", &["walk_levels"]),
            ("size", &["l1_size", "l2_size", "page_size"]),
            ("memory_size", &["memory"]),
            ("way", &["ways"]),
            // Too short to tell likeness from chance.
            ("l", &[]),
            ("", &[]),
            ("xyz", &[]),
        ] {
            assert_eq!(nearest(given, names), like, "{given}");
        }
        assert_eq!(nearest("single", ["t94/single", "t94/simple"]), ["t94/single", "t94/simple"]);
        assert_eq!(nearest("4k", ["ps/8k"]), Vec::<&str>::new());
        assert_eq!(nearest("ways", ["ways_", "ways_"]), ["ways_"], "a name is suggested once");
        assert_eq!(nearest("ds13", ["ds13/4k", "ds13/segment", "ps/4k"]), ["ds13/4k", "ds13/segment"]);
    }
}
