//! Functions of cells as Liberty writes them: `!` and `'` invert, `*`, `&` or nothing is AND, `+` and `|` OR, `^` XOR.

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    inputs: &'a [String],
}

/// The values of a function for all values of its inputs: bit `i` for inputs that make `i`, the first lowest.
///
/// # Errors
/// The function names something else than inputs, or is no function. There are more than six inputs.
pub fn truth_table(text: &str, inputs: &[String]) -> Result<u64, String> {
    if inputs.len() > 6 {
        return Err(format!("'{text}': a function of more than six inputs"));
    }
    let mut reader = Reader { text: text.as_bytes(), at: 0, inputs };
    let table = reader.or()?;
    match reader.peek() {
        None => Ok(table & all(inputs.len())),
        Some(c) => Err(format!("'{text}': '{}' is not expected", char::from(c))),
    }
}

/// A one for each value of this number of inputs.
fn all(inputs: usize) -> u64 {
    if inputs == 6 { !0 } else { (1 << (1 << inputs)) - 1 }
}

impl Reader<'_> {
    fn peek(&mut self) -> Option<u8> {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    fn or(&mut self) -> Result<u64, String> {
        let mut value = self.xor()?;
        while let Some(b'+' | b'|') = self.peek() {
            self.at += 1;
            value |= self.xor()?;
        }
        Ok(value)
    }

    fn xor(&mut self) -> Result<u64, String> {
        let mut value = self.and()?;
        while self.peek() == Some(b'^') {
            self.at += 1;
            value ^= self.and()?;
        }
        Ok(value)
    }

    fn and(&mut self) -> Result<u64, String> {
        let mut value = self.term()?;
        loop {
            match self.peek() {
                Some(b'*' | b'&') => self.at += 1,
                Some(c) if c == b'!' || c == b'(' || c.is_ascii_alphanumeric() || c == b'_' => {}
                _ => return Ok(value),
            }
            value &= self.term()?;
        }
    }

    fn term(&mut self) -> Result<u64, String> {
        let whole = || String::from_utf8_lossy(self.text).into_owned();
        let mut value = match self.peek() {
            Some(b'!') => {
                self.at += 1;
                !self.term()?
            }
            Some(b'(') => {
                self.at += 1;
                let inside = self.or()?;
                if self.peek() != Some(b')') {
                    return Err(format!("'{}': a parenthesis is not closed", whole()));
                }
                self.at += 1;
                inside
            }
            Some(c) if c.is_ascii_alphanumeric() || c == b'_' => {
                let rest = &self.text[self.at..];
                let length = rest.iter().take_while(|c| c.is_ascii_alphanumeric() || **c == b'_').count();
                let name = String::from_utf8_lossy(&rest[..length]).into_owned();
                self.at += length;
                match self.inputs.iter().position(|input| *input == name) {
                    Some(i) => (0..64).filter(|value| value >> i & 1 != 0).fold(0, |table, value| table | 1 << value),
                    None if name == "0" => 0,
                    None if name == "1" => !0,
                    None => return Err(format!("'{}': '{name}' is no input", whole())),
                }
            }
            other => return Err(format!("'{}': {:?} is not expected", whole(), other.map(char::from))),
        };
        while self.peek() == Some(b'\'') {
            self.at += 1;
            value = !value;
        }
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_what_they_say() {
        let inputs = ["A", "B", "C"].map(str::to_owned);
        let table = |text: &str| truth_table(text, &inputs).unwrap();
        let of = |f: fn(bool, bool, bool) -> bool| {
            (0..8u64).filter(|v| f(v & 1 != 0, v & 2 != 0, v & 4 != 0)).fold(0, |t, v| t | 1 << v)
        };
        assert_eq!(table("(!((A B)+C))"), of(|a, b, c| !(a && b || c)));
        assert_eq!(table("((A^B)^C)"), of(|a, b, c| a ^ b ^ c));
        assert_eq!(table("A*B' | !C&A"), of(|a, b, c| a & !b | !c & a));
        assert_eq!(table("(((A B)+(B C))+(C A))"), of(|a, b, c| a & b | b & c | c & a));
        assert_eq!((table("1"), table("0")), (0xff, 0));
        for bad in ["A B)", "(A", "D", "", "A +"] {
            assert!(truth_table(bad, &inputs).is_err(), "{bad}");
        }
    }
}
