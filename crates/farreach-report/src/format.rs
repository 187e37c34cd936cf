//! Numbers and names for display. The exact numbers are in the JSON and CSV reports.

use farreach_types::counts::HugePageWords;
use farreach_types::plural::pluralize;
use std::ffi::OsString;

/// The text of an empty cell.
pub const NONE: &str = "–";

/// A count: exact below ten thousand, else three significant digits and `k`, `M`, `G`, `T`, `P`, `E`.
///
/// ```
/// use farreach_report::format::count;
/// assert_eq!([count(9_999), count(12_345), count(999_950), count(85_974_000)], ["9,999", "12.3k", "1.00M", "86.0M"]);
/// ```
pub fn count(n: u64) -> String {
    if n < 10_000 { grouped(n) } else { scaled(n as f64, 1000.0, &["", "k", "M", "G", "T", "P", "E"], "") }
}

/// All digits, in groups of three.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A count with its noun.
///
/// ```
/// use farreach_report::format::counted;
/// assert_eq!(counted(1, "instruction"), "1 instruction");
/// assert_eq!(counted(85_974_000, "instruction"), "86.0M instructions");
/// ```
pub fn counted(n: u64, one: &str) -> String {
    format!("{} {}", count(n), pluralize(n, one))
}

/// A signed count with its sign always shown, and a real minus.
pub fn signed(n: i64) -> String {
    let sign = match n {
        0 => "",
        1.. => "+",
        _ => "−",
    };
    format!("{sign}{}", count(n.unsigned_abs()))
}

/// Bytes in binary units, three significant digits.
///
/// ```
/// use farreach_report::format::bytes;
/// assert_eq!([bytes(0), bytes(4096), bytes(13_107_200)], ["0", "4 KiB", "12.5 MiB"]);
/// ```
pub fn bytes(n: u64) -> String {
    match n {
        0 => "0".into(),
        1..1024 => format!("{n} B"),
        _ => scaled(n as f64, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"], " "),
    }
}

fn scaled(n: f64, step: f64, units: &[&str], space: &str) -> String {
    let (mut n, mut unit) = (n, 0);
    // A value that three digits round up to the next unit is printed in that unit.
    while n >= step - 0.5 && unit + 1 < units.len() {
        n /= step;
        unit += 1;
    }
    let whole = step == 1024.0 && n.fract() == 0.0;
    format!("{}{space}{}", if whole { format!("{n:.0}") } else { digits(n) }, units[unit])
}

/// A number with about three significant digits.
pub fn digits(n: f64) -> String {
    match n.abs() {
        a if a >= 99.95 => format!("{n:.0}"),
        a if a >= 9.995 => format!("{n:.1}"),
        _ => format!("{n:.2}"),
    }
}

/// A percentage or rate: about three significant digits; only zero is printed as zero.
///
/// ```
/// use farreach_report::format::rate;
/// assert_eq!([0.0, 0.0004, 0.0362, 64.3, 132.31].map(rate), ["0", "<0.001", "0.036", "64.3", "132"]);
/// ```
pub fn rate(x: f64) -> String {
    match x {
        0.0 => "0".into(),
        x if x > 0.0 && x < 0.001 => "<0.001".into(),
        x if x > 0.0 && x < 0.9995 => format!("{x:.3}"),
        x => digits(x),
    }
}

/// Three significant digits, however small the number.
///
/// ```
/// use farreach_report::format::significant;
/// assert_eq!([0.0, 0.000_697, 0.097, 12.34].map(significant), ["0", "0.000697", "0.0970", "12.3"]);
/// ```
pub fn significant(x: f64) -> String {
    if x == 0.0 {
        return "0".into();
    }
    let digits = (2 - x.abs().log10().floor() as i32).clamp(0, 9) as usize;
    format!("{x:.digits$}")
}

/// The command line as one would type it in a shell.
///
/// ```
/// use farreach_report::format::shown;
/// let words = ["gcc", "-O2", "a b.c", "it's", ""].map(std::ffi::OsString::from);
/// assert_eq!(shown(&words), r"gcc -O2 'a b.c' 'it'\''s' ''");
/// ```
pub fn shown(command: &[OsString]) -> String {
    let quote = |word: &OsString| {
        let word = word.to_string_lossy();
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=+,:@%".contains(c);
        if !word.is_empty() && word.chars().all(plain) {
            word.into_owned()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    };
    command.iter().map(quote).collect::<Vec<_>>().join(" ")
}

/// Text from outside, safe to show: control characters, which could drive a terminal or break a page, and characters
/// that turn the direction of writing, become U+FFFD.
pub fn clean(text: &str) -> String {
    let hidden = |c: char| {
        c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    // U+FFFE and U+FFFF are no characters and not allowed in XML.
    text.chars().map(|c| if hidden(c) || matches!(c, '\u{fffe}' | '\u{ffff}') { '\u{fffd}' } else { c }).collect()
}

/// With a large first letter.
pub(super) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().collect::<String>() + letters.as_str())
}

/// Width of running text.
const TEXT: usize = 100;

/// Text in lines of a readable length.
pub(super) fn wrapped(text: &str, first: &str, rest: &str, width: usize) -> String {
    let mut lines = vec![first.to_owned()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is always a line");
        let used = line.chars().count();
        if used > rest.len() && used + 1 + word.chars().count() > TEXT.min(width) {
            lines.push(format!("{rest}{word}"));
        } else {
            let gap = if used > 0 && !line.ends_with(' ') { " " } else { "" };
            line.push_str(&format!("{gap}{word}"));
        }
    }
    lines.join("\n") + "\n"
}
/// What a program said about huge pages, and its allocator; nothing if it said nothing.
pub fn huge_page_words(said: &HugePageWords, allocator: Option<&str>) -> Option<String> {
    let HugePageWords { advised_bytes, refused_bytes, switched_off } = *said;
    let mut words = Vec::new();
    if advised_bytes > 0 {
        words.push(format!("asked for huge pages for {}", bytes(advised_bytes)));
    }
    if refused_bytes > 0 {
        let them = if words.is_empty() { "huge pages" } else { "them" };
        words.push(format!("refused {them} for {}", bytes(refused_bytes)));
    }
    if switched_off > 0 {
        words.push("switched transparent huge pages off for itself (prctl)".into());
    }
    let allocator = allocator.map_or(String::new(), |name| format!("; allocator {}", clean(name)));
    (!words.is_empty()).then(|| words.join(", ") + &allocator)
}
