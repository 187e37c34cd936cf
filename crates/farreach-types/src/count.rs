//! Counts on the command line.

/// Powers of ten by the letter that stands for them, as results are printed.
const LETTERS: [(char, u32); 4] = [('K', 3), ('M', 6), ('G', 9), ('T', 12)];

/// A whole number of at least `MIN`: digits, or digits with a point, and behind them a letter for thousands:
/// `300000000`, `300M`, `1.5G`.
///
/// # Errors
/// The text is not allowed; the message says what is.
///
/// ```
/// use farreach_types::count::parse_count;
/// assert_eq!(["7", "64k", "1.5G"].map(|text| parse_count::<1>(text)), [Ok(7), Ok(64_000), Ok(1_500_000_000)]);
/// assert!(parse_count::<1>("0").is_err() && parse_count::<1>("1.5").is_err() && parse_count::<1>("0.0005K").is_err());
/// ```
pub fn parse_count<const MIN: u64>(text: &str) -> Result<u64, String> {
    parse(text).filter(|n| *n >= MIN).ok_or_else(|| {
        format!(
            "a whole number from {MIN} to {} is allowed, also with K, M, G or T behind it for 10^3, 10^6, 10^9, 10^12, \
             such as 300M or 1.5G",
            u64::MAX
        )
    })
}

fn parse(text: &str) -> Option<u64> {
    let letter =
        |&(letter, power): &(char, u32)| Some((text.strip_suffix([letter, letter.to_ascii_lowercase()])?, power));
    let (digits, power) = LETTERS.iter().find_map(letter).unwrap_or((text, 0));
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let dotted = digits.len() > whole.len();
    // Digits alone: the standard parser would also take a sign.
    if whole.is_empty() || dotted == part.is_empty() || !(whole.bytes().chain(part.bytes())).all(|b| b.is_ascii_digit())
    {
        return None;
    }
    let zeros = power.checked_sub(part.len() as u32)?;
    format!("{whole}{part}").parse::<u64>().ok()?.checked_mul(10u64.pow(zeros))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_can_be_written() {
        for (text, n) in [
            ("0", 0),
            ("18446744073709551615", u64::MAX),
            ("8.63G", 8_630_000_000),
            ("0.5k", 500),
            ("18t", 18_000_000_000_000),
        ] {
            assert_eq!(parse_count::<0>(text), Ok(n), "{text}");
        }
    }

    #[test]
    fn what_is_no_whole_number_is_refused() {
        let wrong = [
            "", "M", ".5M", "1.M", "1.5", "1.2345K", "-1", "+1", "1 M", "1e6", "0x10", "1,5M", "1..5M", "3MM", "3MB",
            "١M",
        ];
        let large = ["18446744073709551616", "18446745T", "99999999999999999999999G"];
        for text in wrong.into_iter().chain(large) {
            let why = parse_count::<0>(text).expect_err(text);
            assert!(why.contains("from 0 to 18446744073709551615") && why.contains("1.5G"), "{text}: {why}");
        }
        assert!(parse_count::<1>("0K").is_err());
    }
}
