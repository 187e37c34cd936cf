//! Numbers in sentences.

/// A count as the papers print it: thousands from ten thousand on.
pub fn misses(n: u64) -> String {
    if n < 10_000 { n.to_string() } else { format!("{} k", (n + 500) / 1000) }
}

/// A percentage with one decimal, or with two significant digits where that would be printed as zero.
pub fn percent(x: f64) -> String {
    match x.abs() {
        a if a > 0.0 && a < 0.01 => format!("{x:.4} %"),
        a if a > 0.0 && a < 0.95 => format!("{x:.2} %"),
        _ => format!("{x:.1} %"),
    }
}

/// `a, b and c`.
pub fn list(items: &[String]) -> String {
    match items {
        [] => "none".into(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Cycles per instruction.
pub fn cpi(x: f64) -> String {
    if x > 0.0 && x < 0.001 { format!("{x:.6}") } else { format!("{x:.4}") }
}
