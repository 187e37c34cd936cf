//! The archive that a kernel unpacks as its first root: cpio in the format `newc`.

use crate::tree::{Content, Entry, Tree};
use farreach_types::{Context, Result, ensure};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;

/// What the last entry is called.
const TRAILER: &[u8] = b"TRAILER!!!";

/// Writes a tree. The same tree gives the same bytes.
///
/// # Errors
/// A file of it cannot be read, or has another length than when it was found; it cannot be written.
pub fn write(tree: &Tree, to: &mut impl Write) -> Result<()> {
    for (number, (path, entry)) in (1..).zip(tree.entries()) {
        let name = path.as_os_str().as_bytes();
        let place = || path.display().to_string();
        header(to, number, name, entry).with_context(place)?;
        match &entry.content {
            Content::Nothing => {}
            Content::Bytes(bytes) => to.write_all(bytes).with_context(place)?,
            Content::File { path, size } => {
                let file = File::open(path).with_context(|| path.display().to_string())?;
                let copied = io::copy(&mut file.take(*size), to).with_context(|| path.display().to_string())?;
                ensure!(copied == *size, "{}: it is shorter than it was a moment ago", path.display());
            }
        }
        pad(to, entry.content.size()).with_context(place)?;
    }
    header(to, 0, TRAILER, &Entry::folder()).context("archive")
}

/// A header and the name behind it, up to the contents.
fn header(to: &mut impl Write, number: u32, name: &[u8], entry: &Entry) -> io::Result<()> {
    let mode = if name == TRAILER { 0 } else { entry.mode };
    let size = u32::try_from(entry.content.size())
        .map_err(|_| io::Error::other("files of a guest's root are smaller than 4 GB"))?;
    let fields = [
        number,
        mode,
        entry.owner.0,
        entry.owner.1,
        1, // links: each is a file of its own
        entry.modified,
        size,
        0,
        0,
        entry.device.0,
        entry.device.1,
        name.len() as u32 + 1,
        0,
    ];
    to.write_all(b"070701")?;
    for field in fields {
        write!(to, "{field:08x}")?;
    }
    to.write_all(name)?;
    to.write_all(&[0])?;
    pad(to, 6 + 8 * fields.len() as u64 + name.len() as u64 + 1)
}

/// Zeros up to a multiple of four.
fn pad(to: &mut impl Write, written: u64) -> io::Result<()> {
    to.write_all(&[0; 3][..(written.wrapping_neg() % 4) as usize])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn an_archive_by_hand() {
        let mut tree = Tree::default();
        tree.put("a/b", Entry::file(0o644, "xyz"));
        let mut bytes = Vec::new();
        write(&tree, &mut bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        // Header 110, name and zero padded to a multiple of four.
        assert_eq!(&text[..6], "070701");
        assert_eq!(&text[110..112], "a\0");
        let second = &text[112..];
        assert_eq!(&second[14..22], "000081a4", "a file of mode 0644");
        assert_eq!(&second[54..62], "00000003", "its size");
        assert_eq!(&second[110..120], "a/b\0\0\0xyz\0".get(..10).unwrap());
        assert!(text.contains("TRAILER!!!"));
        assert_eq!(text.len() % 4, 0);
    }

    /// Where there is a cpio, it lists and unpacks what was written.
    #[test]
    fn cpio_reads_it() {
        let mut tree = Tree::default();
        tree.put("bin/tool", Entry::file(0o755, "#!/bin/sh\n"));
        tree.put("link", Entry::link("bin/tool"));
        let mut bytes = Vec::new();
        write(&tree, &mut bytes).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let archive = folder.path().join("archive");
        std::fs::write(&archive, bytes).unwrap();
        let mut cpio = Command::new("cpio");
        cpio.args(["-id", "--quiet"]).current_dir(folder.path()).stdin(Stdio::from(File::open(archive).unwrap()));
        match cpio.status() {
            Ok(status) => assert!(status.success()),
            Err(_) => return eprintln!("skipped: there is no cpio here"),
        }
        assert_eq!(std::fs::read_to_string(folder.path().join("link")).unwrap(), "#!/bin/sh\n");
    }
}
