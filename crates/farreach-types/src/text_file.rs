//! Text files that a machine description names.

use crate::addr::Bytes;
use std::fs::OpenOptions;
use std::io::{Error, ErrorKind, Read, Result};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

/// `O_NONBLOCK` of Linux: to open a FIFO does not wait for its writer.
const NONBLOCK: i32 = 0o4000;
/// How long a FIFO may be without a writer.
const TO_COME: Duration = Duration::from_millis(500);
/// How long the writer of a pipe may be silent.
const TO_WRITE: Duration = Duration::from_secs(10);

/// The whole text of a file of at most `most` bytes, so that a large or endless file does not take memory without
/// bound. A pipe is read, but not waited for without end.
///
/// # Errors
/// The system's; a file that is too large, is no text, or is a pipe into which nobody writes.
pub fn read(path: &Path, most: u64) -> Result<String> {
    let file = OpenOptions::new().read(true).custom_flags(NONBLOCK).open(path)?;
    let pipe = file.metadata()?.file_type().is_fifo();
    let mut bytes = Vec::new();
    let mut file = file.take(most + 1);
    let mut silent_since = Instant::now();
    loop {
        let before = bytes.len();
        let patience = match file.read_to_end(&mut bytes) {
            // A FIFO that nobody has opened for writing yet ends at once.
            Ok(0) if pipe && bytes.is_empty() => TO_COME,
            Ok(_) => break,
            Err(e) if e.kind() == ErrorKind::WouldBlock => TO_WRITE,
            Err(e) => return Err(e),
        };
        if bytes.len() > before {
            silent_since = Instant::now();
        } else if silent_since.elapsed() > patience {
            return Err(Error::new(ErrorKind::TimedOut, "is a pipe into which nobody writes"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
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

    #[test]
    fn a_pipe_is_read_but_not_waited_for_without_end() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let fifo = folder.path().join("fifo");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().expect("mkfifo runs").success());
        let nobody = read(&fifo, 4096).unwrap_err();
        assert_eq!(nobody.to_string(), "is a pipe into which nobody writes");
        let writer = std::thread::spawn({
            let fifo = fifo.clone();
            move || {
                let mut pipe = std::fs::File::create(fifo).expect("opened");
                for part in ["one", " two"] {
                    std::io::Write::write_all(&mut pipe, part.as_bytes()).expect("written");
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
        });
        assert_eq!(read(&fifo, 4096).expect("read"), "one two");
        writer.join().expect("it wrote");
    }
}
