//! Integers and strings of a column.

/// Appends `value` in groups of seven bits, low group first (LEB128).
#[inline]
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Maps signed values of small magnitude to small unsigned ones.
#[inline]
pub(crate) fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Undoes [`zigzag`].
#[inline]
pub(crate) fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Appends a length and the bytes of `text`.
pub(crate) fn put_string(out: &mut Vec<u8>, text: &str) {
    put_varint(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// Reads a column from its beginning to its end. Errors say what is wrong; the caller knows where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    /// Index of the next byte.
    pub at: usize,
}

impl<'a> Cursor<'a> {
    pub fn at(bytes: &'a [u8], at: usize) -> Cursor<'a> {
        Cursor { bytes, at }
    }

    #[inline]
    pub fn byte(&mut self) -> Result<u8, String> {
        let b = *self.bytes.get(self.at).ok_or("a column ends too early")?;
        self.at += 1;
        Ok(b)
    }

    #[inline]
    pub fn varint(&mut self) -> Result<u64, String> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let b = self.byte()?;
            if shift == 63 && b > 1 {
                break;
            }
            value |= u64::from(b & 0x7f) << shift;
            if b < 0x80 {
                return Ok(value);
            }
        }
        Err("an integer has more than 64 bits".into())
    }

    /// A varint that fits 32 bits; `what` names it.
    pub fn u32(&mut self, what: &str) -> Result<u32, String> {
        let v = self.varint()?;
        u32::try_from(v).map_err(|_| format!("{what} {v} does not fit 32 bits"))
    }

    pub fn string(&mut self) -> Result<&'a str, String> {
        let len = self.varint()?;
        if len > super::MAX_STRING_BYTES as u64 {
            return Err(format!("a path of {len} bytes; at most {} are possible", super::MAX_STRING_BYTES));
        }
        std::str::from_utf8(self.bytes(len as usize, "a path")?).map_err(|_| "a path is not UTF-8".into())
    }

    /// This number of bytes; `what` names them.
    pub fn bytes(&mut self, len: usize, what: &str) -> Result<&'a [u8], String> {
        let bytes = self.bytes.get(self.at..self.at + len);
        self.at += len;
        bytes.ok_or_else(|| format!("{what} reaches past the end of its column"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_come_back() {
        let mut out = Vec::new();
        let values = [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX];
        values.iter().for_each(|&v| put_varint(&mut out, v));
        let mut c = Cursor::at(&out, 0);
        for v in values {
            assert_eq!(c.varint(), Ok(v));
        }
        assert!(c.varint().is_err());
        for v in [0, 1, -1, i64::MIN, i64::MAX] {
            assert_eq!(unzigzag(zigzag(v)), v);
        }
    }

    #[test]
    fn integers_past_64_bits_are_refused() {
        assert!(Cursor::at(&[0xff; 10], 0).varint().is_err());
        assert!(Cursor::at(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02], 0).varint().is_err());
        assert!(Cursor::at(&[0x80], 0).varint().is_err());
    }
}
