//! The file end of the writer: what is in front of the chunks, chunks as they are stored, index and trailer.

use std::io::{self, BufWriter, Write};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::coder::Chunk;
use super::*;
use crate::partial::Partial;

/// zstd level of each column. On real streams higher levels make the file a twentieth smaller and cost the recorder a
/// third more.
const LEVELS: [i32; COLUMNS] = [3, 1, 1, 1, 2];

pub(super) enum Out {
    File(Partial),
    Stream(Box<dyn Write + Send>),
}

impl Write for Out {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self {
            Out::File(f) => f.write(buf),
            Out::Stream(s) => s.write(buf),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Out::File(f) => f.flush(),
            Out::Stream(s) => s.flush(),
        }
    }
}

/// Compresses chunks.
pub(super) struct Packer(zstd::bulk::Compressor<'static>);

/// A chunk as it is stored, but for its number and its hash.
pub(super) struct Packed {
    head: ChunkHead,
    payload: Vec<u8>,
}

impl Packer {
    pub fn new() -> io::Result<Packer> {
        zstd::bulk::Compressor::new(LEVELS[OPS]).map(Packer)
    }

    pub fn pack(&mut self, chunk: &Chunk) -> io::Result<Packed> {
        let mut head = ChunkHead {
            asid: chunk.asid,
            records: chunk.records,
            words: chunk.words as u32,
            instructions: chunk.sums.instructions,
            loads: chunk.sums.loads,
            stores: chunk.sums.stores,
            ..ChunkHead::default()
        };
        let mut payload = Vec::new();
        for (i, column) in chunk.columns.bytes().into_iter().enumerate() {
            if !column.is_empty() {
                self.0.set_compression_level(LEVELS[i])?;
                let packed = self.0.compress(column)?;
                // A column that does not become smaller is stored uncompressed.
                let stored = if packed.len() < column.len() { &packed[..] } else { column };
                head.columns[i] = (column.len() as u32, stored.len() as u32);
                payload.extend_from_slice(stored);
            }
        }
        Ok(Packed { head, payload })
    }
}

/// A file that is written.
pub(super) struct Sink {
    out: BufWriter<Out>,
    json: Vec<u8>,
    at: u64,
    before: Totals,
    index: Vec<IndexEntry>,
}

impl Sink {
    /// `json`: the header.
    pub fn new(out: Out, json: Vec<u8>) -> Sink {
        let out = BufWriter::with_capacity(1 << 18, out);
        Sink { out, json, at: 0, before: Totals::default(), index: Vec::new() }
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.at += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    /// Everything before the first chunk, unless it is there.
    pub fn begin(&mut self) -> io::Result<()> {
        if self.at > 0 {
            return Ok(());
        }
        let mut prefix = Vec::from(MAGIC);
        prefix.extend_from_slice(&VERSION.to_le_bytes());
        prefix.extend_from_slice(&(self.json.len() as u32).to_le_bytes());
        prefix.extend_from_slice(&self.json);
        prefix.extend_from_slice(&xxh3_64(&prefix).to_le_bytes());
        self.put(&prefix)
    }

    /// The next chunk.
    pub fn chunk(&mut self, chunk: Packed) -> io::Result<()> {
        let Packed { head, payload } = chunk;
        self.begin()?;
        let head = ChunkHead { number: self.index.len() as u32, ..head };
        let bytes = head.to_bytes();
        let mut hash = Xxh3::new();
        hash.update(&bytes);
        hash.update(&payload);
        let (instructions, references) = (self.before.instructions, self.before.references());
        self.index.push(IndexEntry { offset: self.at, instructions, references });
        self.before.instructions += head.instructions;
        self.before.loads += head.loads;
        self.before.stores += head.stores;
        self.put(&bytes)?;
        self.put(&hash.digest().to_le_bytes())?;
        self.put(&payload)
    }

    /// Instructions, loads and stores of all chunks so far.
    pub fn sums(&self) -> Totals {
        self.before
    }

    fn end(&mut self, totals: &Totals) -> io::Result<()> {
        self.begin()?;
        let index_at = self.at;
        let mut index = Vec::from(INDEX_TAG);
        index.extend_from_slice(&(self.index.len() as u32).to_le_bytes());
        for e in &self.index {
            [e.offset, e.instructions, e.references].iter().for_each(|n| index.extend_from_slice(&n.to_le_bytes()));
        }
        index.extend_from_slice(&xxh3_64(&index).to_le_bytes());
        self.put(&index)?;
        let mut trailer = Vec::from(TRAILER_TAG);
        trailer.extend_from_slice(&index_at.to_le_bytes());
        trailer.extend_from_slice(&(self.index.len() as u32).to_le_bytes());
        totals.to_words().iter().for_each(|n| trailer.extend_from_slice(&n.to_le_bytes()));
        trailer.extend_from_slice(&xxh3_64(&trailer).to_le_bytes());
        trailer.extend_from_slice(&END_MAGIC);
        self.put(&trailer)?;
        self.out.flush()
    }

    /// Writes index and trailer, and gives the file its name.
    ///
    /// # Errors
    /// The system's; `file` stands in messages.
    pub fn finish(mut self, file: &str, totals: &Totals) -> Result<()> {
        self.end(totals).map_err(|source| Error::Io { file: file.to_owned(), source })?;
        match self.out.get_mut() {
            Out::File(partial) => partial.commit(),
            Out::Stream(_) => Ok(()),
        }
    }
}
