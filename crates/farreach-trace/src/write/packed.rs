//! A file that is compressed as its name says, and gets its name once it is whole.

use std::io::{self, Write};
use std::path::Path;

use crate::partial::Partial;
use farreach_types::error::{Error, Result};

/// Levels: traces repeat themselves, so that higher ones cost much time for little.
const GZ: u32 = 3;
const XZ: u32 = 2;
const ZSTD: i32 = 3;

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
    /// It cannot be written.
    pub fn create(path: &str) -> Result<Packed> {
        let file = Partial::create(Path::new(path))?;
        let extension = Path::new(path).extension().and_then(|extension| extension.to_str());
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
