//! Text files that a machine description names.

use crate::addr::Bytes;
use std::fs::File;
use std::io::{Error, Read, Result};
use std::path::Path;

/// The whole text of a file of at most `most` bytes, so that a large or endless file does not take memory without
/// bound.
pub fn read(path: &Path, most: u64) -> Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(Error::other(format!("is larger than {}, which no such file needs", Bytes(most))));
    }
    String::from_utf8(bytes)
        .map_err(|e| Error::other(format!("byte {} is no UTF-8; it must be text", e.utf8_error().valid_up_to())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_end_or_is_no_text_is_refused() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("text");
        let said = |bytes: &[u8]| {
            std::fs::write(&file, bytes).expect("written");
            read(&file, 4096).map_err(|e| e.to_string())
        };
        assert_eq!(said(&[b'a'; 4096]).map(|text| text.len()), Ok(4096));
        assert_eq!(said(&[b'a'; 4097]), Err("is larger than 4K, which no such file needs".into()));
        assert_eq!(said(b"ab\xff"), Err("byte 2 is no UTF-8; it must be text".into()));
        let endless = read(Path::new("/dev/zero"), 1 << 20).unwrap_err();
        assert!(endless.to_string().contains("larger than 1M"), "{endless}");
    }
}
