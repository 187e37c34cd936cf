//! Bytes of a trace from a file, a pipe or standard input, decompressed by content.

mod lz4;
mod zip;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};

use crate::TraceInfo;
use farreach_types::error::{Error, Result};

/// Number of first bytes by which formats are recognised.
pub(crate) const HEAD_BYTES: usize = 512;
/// Most memory a damaged or hostile xz file may make its decoder take; `xz -9` needs 65 MB.
const XZ_MEMORY: u64 = 256 << 20;
const BUFFER: usize = 1 << 18;

/// An opened file whose content is known only by its first bytes.
pub struct Input {
    /// Name for messages.
    pub file: String,
    /// `gz`, `bz2`, `xz`, `zst`, `zip`, `lz4` or `snappy`.
    pub compression: Option<&'static str>,
    /// Size of the file, if it is a regular one.
    pub bytes: Option<u64>,
    head: Vec<u8>,
    stream: Box<dyn Read + Send>,
}

type Wrap = fn(Box<dyn BufRead + Send>) -> io::Result<Box<dyn Read + Send>>;

/// Compressions: name, first bytes, decoder. All read files of several members, one behind the other.
const COMPRESSIONS: [(&str, &[u8], Wrap); 7] = [
    ("gz", &[0x1f, 0x8b], |r| Ok(Box::new(flate2::bufread::MultiGzDecoder::new(r)))),
    ("bz2", b"BZh", |r| Ok(Box::new(bzip2::bufread::MultiBzDecoder::new(r)))),
    ("xz", &[0xfd, b'7', b'z', b'X', b'Z', 0], |r| {
        let decoder = liblzma::stream::Stream::new_stream_decoder(XZ_MEMORY, liblzma::stream::CONCATENATED)?;
        Ok(Box::new(liblzma::bufread::XzDecoder::new_stream(r, decoder)))
    }),
    ("zst", &[0x28, 0xb5, 0x2f, 0xfd], |r| Ok(Box::new(zstd::stream::read::Decoder::with_buffer(r)?))),
    ("zip", b"PK\x03\x04", |r| Ok(Box::new(zip::Unzip::new(r)))),
    ("lz4", &[0x04, 0x22, 0x4d, 0x18], |r| Ok(Box::new(lz4::Lz4::new(r)))),
    ("snappy", b"\xff\x06\x00\x00sNaPpY", |r| Ok(Box::new(snap::read::FrameDecoder::new(r)))),
];

/// How these bytes are compressed, if they are.
pub(crate) fn compression_of(head: &[u8]) -> Option<&'static str> {
    COMPRESSIONS.iter().find(|(_, magic, _)| head.starts_with(magic)).map(|&(name, ..)| name)
}

impl Input {
    /// Opens `path`; `-` is standard input.
    ///
    /// # Errors
    /// The file cannot be opened or its first bytes cannot be read.
    pub fn open(path: &str) -> Result<Input> {
        if path == "-" {
            return Input::from_stream(Box::new(io::stdin()), "standard input");
        }
        let fail = |source| Error::Io { file: path.to_owned(), source };
        let file = File::open(path).map_err(fail)?;
        let meta = file.metadata().map_err(fail)?;
        if meta.is_dir() {
            return Err(fail(io::Error::other("is a folder, not a trace")));
        }
        let mut input = Input::from_stream(Box::new(file), path)?;
        input.bytes = meta.is_file().then_some(meta.len());
        Ok(input)
    }

    /// Takes any stream; `name` stands in messages.
    ///
    /// # Errors
    /// The first bytes cannot be read.
    pub fn from_stream(stream: Box<dyn Read + Send>, name: &str) -> Result<Input> {
        let mut input = Input { file: name.to_owned(), compression: None, bytes: None, head: Vec::new(), stream };
        input.fill_head()?;
        let skippable = input.head.len() >= 4 && input.head[0] & 0xf0 == 0x50 && input.head[1..4] == [0x2a, 0x4d, 0x18];
        let found = COMPRESSIONS.iter().find(|c| input.head.starts_with(c.1) || (skippable && c.0 == "zst"));
        if let Some(&(compression, _, wrap)) = found {
            let head = std::mem::take(&mut input.head);
            let raw = BufReader::with_capacity(BUFFER, Cursor::new(head).chain(input.stream));
            input.stream = wrap(Box::new(raw)).map_err(|source| Error::Io { file: name.to_owned(), source })?;
            input.compression = Some(compression);
            input.fill_head()?;
        }
        Ok(input)
    }

    fn fill_head(&mut self) -> Result<()> {
        match (&mut self.stream).take(HEAD_BYTES as u64).read_to_end(&mut self.head) {
            Err(e) if self.head.is_empty() => Err(self.error("byte 0", &e)),
            Err(e) => {
                // The bytes before it decide the format. The reader must meet the error at its place, and a decoder
                // that failed may claim its end when asked again.
                self.stream = Box::new(Fails(e));
                Ok(())
            }
            Ok(_) => Ok(()),
        }
    }

    /// The first bytes, decompressed: at most 512.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// What is known of the trace before reading.
    pub(crate) fn info(&self, format: &'static str) -> TraceInfo {
        TraceInfo { file: self.file.clone(), format, compression: self.compression, bytes: self.bytes, header: None }
    }

    /// All bytes from the first one on.
    pub fn into_bytes(self) -> Bytes {
        let Input { file, compression, head, stream, .. } = self;
        Bytes { file, compression, stream: Box::new(Cursor::new(head).chain(stream)), failure: None }
    }

    fn error(&self, place: &str, e: &io::Error) -> Error {
        read_error(&self.file, self.compression, place, e)
    }
}

/// A stream that fails, always in the same way.
struct Fails(io::Error);

impl Read for Fails {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::new(self.0.kind(), self.0.to_string()))
    }
}

/// The decompressed bytes of an [`Input`].
pub struct Bytes {
    /// Name for messages.
    pub file: String,
    compression: Option<&'static str>,
    stream: Box<dyn Read + Send>,
    /// What follows the bytes that [`Bytes::fill_some`] gave.
    failure: Option<Error>,
}

impl Bytes {
    /// The rest, which zlib has compressed.
    pub(crate) fn inflated(self) -> Bytes {
        let stream = Box::new(flate2::read::ZlibDecoder::new(self.stream));
        Bytes { compression: Some("zlib"), stream, ..self }
    }

    /// Reads into `buf` until it is full or the stream ends; the number of bytes read. `place` names the spot in
    /// messages.
    ///
    /// # Errors
    /// The stream fails before that. The bytes that were read are lost: [`Bytes::fill_some`] keeps them.
    pub fn fill(&mut self, buf: &mut [u8], place: impl Fn(usize) -> String) -> Result<usize> {
        let got = self.fill_some(buf, place)?;
        if got < buf.len() { self.intact().map(|()| got) } else { Ok(got) }
    }

    /// As [`Bytes::fill`], but an error comes at the next call, or from [`Bytes::intact`], if there were bytes before
    /// it.
    pub fn fill_some(&mut self, buf: &mut [u8], place: impl Fn(usize) -> String) -> Result<usize> {
        self.intact()?;
        let mut got = 0;
        while got < buf.len() {
            match self.stream.read(&mut buf[got..]) {
                Ok(0) => break,
                Ok(n) => got += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    let e = read_error(&self.file, self.compression, &place(got), &e);
                    if got == 0 {
                        return Err(e);
                    }
                    self.failure = Some(e);
                    break;
                }
            }
        }
        Ok(got)
    }

    /// To be asked where bytes are missing: whether the stream ended there, or failed.
    ///
    /// # Errors
    /// It failed.
    pub fn intact(&mut self) -> Result<()> {
        self.failure.take().map_or(Ok(()), Err)
    }
}

fn read_error(file: &str, compression: Option<&'static str>, place: &str, e: &io::Error) -> Error {
    let (file, place) = (file.to_owned(), place.to_owned());
    match compression {
        Some(c) if e.kind() == io::ErrorKind::UnexpectedEof => {
            Error::Trace { file, place, what: format!("the {c} stream ends too early: the file is cut ({e})") }
        }
        Some(c) if e.kind() == io::ErrorKind::Unsupported => {
            Error::Trace { file, place, what: format!("the {c} stream cannot be read: {e}") }
        }
        Some(c) => Error::Trace { file, place, what: format!("the {c} stream is damaged: {e}") },
        None => Error::Trace { file, place, what: format!("reading failed: {e}") },
    }
}
