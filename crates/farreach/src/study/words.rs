//! Numbers in sentences.

/// A count as the papers print it: thousands from ten thousand on.
pub fn misses(n: u64) -> String {
    if n < 10_000 { n.to_string() } else { format!("{} k", (n + 500) / 1000) }
}

/// A percentage with one decimal.
pub fn percent(x: f64) -> String {
    format!("{x:.1} %")
}

/// `a, b and c`.
pub fn list(items: &[String]) -> String {
    match items {
        [] => "none".into(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}
