//! How long something takes, as people say it.

use farreach_report::format::counted;

/// The range that is said of an estimate, as parts of it: samples are short, and other programs share the processors.
const RANGE: [f64; 2] = [0.7, 1.6];

/// Seconds from when to when, as people say it.
pub fn spoken(seconds: f64) -> String {
    let of = |unit: f64, one: &str| match RANGE.map(|part| (part * seconds / unit).round() as u64) {
        [from, to] if from == to => counted(to, one),
        [from, to] => format!("{from} to {}", counted(to, one)),
    };
    match seconds * RANGE[1] {
        s if s < 1.0 => "a second".into(),
        s if s < 120.0 => of(1.0, "second"),
        s if s < 10_800.0 => of(60.0, "minute"),
        _ => of(3600.0, "hour"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_said_as_a_range() {
        for (seconds, text) in [
            (0.1, "a second"),
            (1.0, "1 to 2 seconds"),
            (10.0, "7 to 16 seconds"),
            (300.0, "4 to 8 minutes"),
            (20_000.0, "4 to 9 hours"),
        ] {
            assert_eq!(spoken(seconds), text, "{seconds}");
        }
    }
}
