//! The size of a guest's memory, as QEMU's option `-m` says it.

/// What QEMU gives a guest if nothing is said.
pub(super) const DEFAULT_MEMORY: u64 = 128 << 20;
/// QEMU rounds sizes up to a multiple of this.
const STEP: u64 = 8192;

const ALLOWED: &str = "allowed are a number of megabytes, or one with a unit: 512, 512M, 1.5G, size=2G";

/// Bytes of memory for the value of `-m`.
pub(super) fn memory(text: &str) -> Result<u64, String> {
    let mut bytes = DEFAULT_MEMORY;
    for (i, part) in text.split(',').enumerate() {
        let size = match part.split_once('=') {
            None if i == 0 => part,
            Some(("size", size)) => size,
            Some(("maxmem", _)) => {
                return Err("maxmem is not allowed: memory that is added later is not in the one piece in which page \
                            tables are read; give all of it as size"
                    .into());
            }
            // QEMU itself says what is wrong with others.
            _ => continue,
        };
        bytes = size_of(size).ok_or_else(|| format!("'{size}' is no size; {ALLOWED}"))?;
    }
    Ok(if bytes == 0 { DEFAULT_MEMORY } else { bytes })
}

/// A size with an optional unit; megabytes without one.
fn size_of(text: &str) -> Option<u64> {
    const UNITS: [char; 7] = ['b', 'k', 'm', 'g', 't', 'p', 'e'];
    let last = text.chars().last()?.to_ascii_lowercase();
    let (digits, unit) = match UNITS.iter().position(|&unit| unit == last) {
        Some(unit) => (&text[..text.len() - 1], unit),
        None => (text, 2),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() || !(whole.bytes().chain(part.bytes())).all(|b| b.is_ascii_digit()) || part.len() > 9 {
        return None;
    }
    let unit = 1u128 << (10 * unit);
    // Tenths, hundredths and so on of the unit, rounded down as QEMU does.
    let scale = 10u128.pow(part.len() as u32);
    let tenths = if part.is_empty() { 0 } else { part.parse::<u128>().ok()? * unit / scale };
    let bytes = whole.parse::<u64>().ok()?.into();
    let bytes = u128::checked_mul(bytes, unit)?.checked_add(tenths)?;
    u64::try_from(bytes).ok()?.checked_next_multiple_of(STEP)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_qemu() {
        for (text, bytes) in [
            ("1G", 1 << 30),
            ("2048", 2048 << 20),
            ("2048M", 2048 << 20),
            ("size=2048M", 2048 << 20),
            ("size=2048M,slots=2", 2048 << 20),
            ("slots=2,size=1g", 1 << 30),
            ("1.5G", 3 << 29),
            ("512k", 512 << 10),
            ("1000000B", 1_007_616),
            ("0", DEFAULT_MEMORY),
            ("slots=2", DEFAULT_MEMORY),
        ] {
            assert_eq!(memory(text), Ok(bytes), "{text}");
        }
        for text in ["", "G", "1X", "-1", "0x400", "size=", "99999999999E", "1.2.3"] {
            assert!(memory(text).unwrap_err().contains("is no size; allowed are"), "{text}");
        }
        assert!(memory("1G,slots=2,maxmem=4G").unwrap_err().starts_with("maxmem is not allowed"));
    }
}
