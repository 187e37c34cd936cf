//! A file that is compressed as its name says, and gets its name once it is whole.

use std::io::{self, Write};
use std::path::Path;

use super::Target;
use crate::partial::Partial;
use farreach_types::error::{Error, Result};

/// Levels: traces repeat themselves, so that higher ones cost much time for little.
const GZ: u32 = 3;
const XZ: u32 = 2;
const ZSTD: i32 = 3;

/// Endings that say a compression to some reader.
const PACKED: [&str; 9] = ["gz", "xz", "zst", "bz2", "zip", "lz4", "sz", "lzma", "Z"];

enum Coder<W: Write> {
    Plain(W),
    Gz(flate2::write::GzEncoder<W>),
    Xz(liblzma::write::XzEncoder<W>),
    Zstd(zstd::stream::write::Encoder<'static, W>),
}

/// See the module.
pub(super) struct Packed {
    coder: Coder<Partial>,
    name: String,
}

impl Packed {
    /// Opens `path` for writing; `.gz`, `.xz` and `.zst` at its end say the compression.
    ///
    /// # Errors
    /// It cannot be written, or the tool of the format unpacks what has this ending in another way, or not at all.
    pub fn create(path: &str, target: &Target) -> Result<Packed> {
        let extension = Path::new(path).extension().and_then(|extension| extension.to_str());
        if let Some(ending) = extension.filter(|&of| PACKED.contains(&of) && !target.endings.contains(&of)) {
            let allowed = match target.endings {
                [] => "no compression is".to_owned(),
                some => format!(".{} is", some.join(", .")),
            };
            let what = format!(
                "the name of a file of {} must not end in .{ending}, which its readers take for something else; \
                 {allowed} allowed, and any other ending for a plain file",
                target.name
            );
            return Err(Error::Trace { file: path.to_owned(), place: "its name".into(), what });
        }
        let file = Partial::create(Path::new(path))?;
        let coder = match extension {
            Some("gz") => Coder::Gz(flate2::write::GzEncoder::new(file, flate2::Compression::new(GZ))),
            Some("xz") => Coder::Xz(liblzma::write::XzEncoder::new(file, XZ)),
            Some("zst") => {
                let coder = zstd::stream::write::Encoder::new(file, ZSTD);
                Coder::Zstd(coder.map_err(|source| Error::Io { file: path.to_owned(), source })?)
            }
            _ => Coder::Plain(file),
        };
        Ok(Packed { coder, name: path.to_owned() })
    }

    /// Writes the end of it, and gives it its name.
    ///
    /// # Errors
    /// The disk is full or fails; then there is no file.
    pub fn commit(self) -> Result<()> {
        let file = match self.coder {
            Coder::Plain(file) => Ok(file),
            Coder::Gz(coder) => coder.finish(),
            Coder::Xz(coder) => coder.finish(),
            Coder::Zstd(coder) => coder.finish(),
        };
        file.map_err(|source| Error::Io { file: self.name, source })?.commit()
    }
}

impl Write for Packed {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match &mut self.coder {
            Coder::Plain(file) => file.write(buf),
            Coder::Gz(coder) => coder.write(buf),
            Coder::Xz(coder) => coder.write(buf),
            Coder::Zstd(coder) => coder.write(buf),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        // The coders end in `commit`; to flush them before would cost bytes.
        Ok(())
    }
}
