//! Files that are kept, each with what it is kept under and a checksum of it all, so that a file that was changed, or
//! has the name of another, is found out.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use farreach_trace::Partial;
use farreach_types::{Error, Result};

/// Version of the form: `{"schema":S,"key":K,"checksum":C,"NAME":BODY}` and a line's end.
const SCHEMA: &str = "farreach.kept/1";
/// More than any file has that is kept.
const MOST: u64 = 1 << 30;
/// Opening a pipe without it waits for a writer. It does nothing to files.
const O_NONBLOCK: i32 = 0o4000;

/// What a look at a file finds.
#[derive(Debug, PartialEq, Eq)]
pub enum Kept<T> {
    /// What is kept.
    There(T),
    /// No file.
    Nothing,
    /// A file that cannot be used, and why.
    Unfit(String),
}

impl<T> Kept<T> {
    /// What another step makes of it, which may find it unfit.
    pub(crate) fn then<U>(self, next: impl FnOnce(T) -> std::result::Result<U, String>) -> Kept<U> {
        match self {
            Kept::There(found) => next(found).map_or_else(Kept::Unfit, Kept::There),
            Kept::Nothing => Kept::Nothing,
            Kept::Unfit(why) => Kept::Unfit(why),
        }
    }
}

/// A checksum of parts, which lengths keep apart.
fn checksum(parts: [&str; 3]) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
    }
    hasher.finalize().to_hex().to_string()
}

/// All of a file before its body.
fn head(name: &str, key: &str, body: &str) -> String {
    let (key, checksum) = (serde_json::Value::from(key), checksum([name, key, body]));
    format!("{{\"schema\":\"{SCHEMA}\",\"key\":{key},\"checksum\":\"{checksum}\",\"{name}\":")
}

/// Keeps JSON under a key. `name`: what it is.
///
/// # Errors
/// [`Error::Io`]: it cannot be written, the disk is full, say; then there is no file.
pub fn keep(path: &Path, name: &str, key: &str, body: &str) -> Result<()> {
    let mut file = Partial::create(path)?;
    let text = format!("{}{body}}}\n", head(name, key, body));
    file.write_all(text.as_bytes()).map_err(|source| Error::Io { file: path.display().to_string(), source })?;
    file.commit()
}

/// The JSON that is kept under a key.
pub fn kept(path: &Path, name: &str, key: &str) -> Kept<String> {
    let text = match read(path) {
        Ok(text) => text,
        Err(e) if e.kind() == ErrorKind::NotFound => return Kept::Nothing,
        Err(e) => return Kept::Unfit(format!("it {e}")),
    };
    let unfit = |why: &str| Kept::Unfit(why.into());
    let begins = head(name, key, "");
    // The same but for the checksum.
    let Some(at) = begins.find("\"checksum\"").filter(|at| text.get(..*at) == begins.get(..*at)) else {
        let is_ours = text.starts_with(&format!("{{\"schema\":\"{SCHEMA}\","));
        return unfit(if is_ours { "it was kept under another key" } else { "it is no file that farreach kept so" });
    };
    let body = text.get(begins.len()..).and_then(|rest| rest.strip_suffix("}\n")).unwrap_or_default();
    if text.get(..begins.len()) != Some(&head(name, key, body)) || !text[at..].starts_with("\"checksum\"") {
        return unfit("its checksum is another than when it was kept");
    }
    Kept::There(body.to_owned())
}

/// A file as text.
fn read(path: &Path) -> io::Result<String> {
    let file = open(path).map_err(|e| match e.kind() {
        ErrorKind::NotFound => e,
        kind => io::Error::new(kind, format!("cannot be read: {e}")),
    })?;
    let mut text = String::new();
    let read = file.take(MOST + 1).read_to_string(&mut text);
    read.map_err(|e| io::Error::other(format!("cannot be read: {e}")))?;
    if text.len() as u64 > MOST { Err(io::Error::other("is too large")) } else { Ok(text) }
}

/// Opens a regular file; anything else, a pipe say, is refused and not waited for.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let file = File::options().read(true).custom_flags(O_NONBLOCK).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("is not a regular file")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_does_not_fit_is_found_out() {
        let dir = std::env::temp_dir().join(format!("farreach-kept-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let (one, two) = (dir.join("one"), dir.join("two"));
        keep(&one, "answer", "1", "{\"misses\":1234}").unwrap();
        keep(&two, "answer", "\"2\n", "{\"misses\":5678}").unwrap();
        let look = |path: &Path, key| kept(path, "answer", key);
        assert_eq!(look(&one, "1"), Kept::There("{\"misses\":1234}".into()));
        assert_eq!(look(&two, "\"2\n"), Kept::There("{\"misses\":5678}".into()));
        assert_eq!(look(&dir.join("none"), "1"), Kept::Nothing);
        let unfit = |path: &Path, key| match look(path, key) {
            Kept::Unfit(why) => why,
            other => panic!("{other:?}"),
        };
        assert_eq!(unfit(&two, "1"), "it was kept under another key");
        assert!(matches!(kept(&one, "hash", "1"), Kept::Unfit(_)));
        let text = fs::read_to_string(&one).unwrap();
        assert!(serde_json::from_str::<serde_json::Value>(&text).unwrap()["answer"]["misses"] == 1234);
        // Each byte matters.
        for at in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[at] = if changed[at] == b'1' { b'7' } else { b'1' };
            fs::write(&one, &changed).unwrap();
            unfit(&one, "1");
            fs::write(&one, &text[..at]).unwrap();
            unfit(&one, "1");
        }
        for other in ["null\n", "[]", "\u{0}"] {
            fs::write(&one, other).unwrap();
            assert_eq!(unfit(&one, "1"), "it is no file that farreach kept so");
        }
        fs::write(&one, b"\xff\xfe").unwrap();
        assert!(unfit(&one, "1").starts_with("it cannot be read: "));
        fs::remove_file(&one).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&one).status().unwrap().success());
        assert_eq!(unfit(&one, "1"), "it cannot be read: is not a regular file");
        assert_eq!(unfit(&dir, "1"), "it cannot be read: is not a regular file");
        fs::remove_dir_all(&dir).unwrap();
    }
}
