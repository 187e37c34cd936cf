//! Reads a farreach trace, one chunk in memory at a time.

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::decode::{ROOM, Targets};
use super::model::{Defined, Model, STEP_OP};
use super::ops::{OpState, Record};
use super::wire::Cursor;
use super::*;
use crate::input::Bytes;
use crate::tally::Processes;
use farreach_types::addr::Asid;
use farreach_types::error::Error;
use farreach_types::event::{Batch, Op, Source};
use farreach_types::plural::with_noun;

/// A batch is returned once it has this many words: small enough for a second-level cache.
const BATCH_WORDS: usize = 1 << 14;

/// The batches of a `.frt` file. The reader chooses where batches end; their contents are the stream that was written.
pub struct FrtReader {
    input: Bytes,
    version: u32,
    header: Header,
    /// Bytes of the file read so far.
    at: u64,
    model: Model,
    zstd: zstd::bulk::Decompressor<'static>,
    packed: Vec<u8>,
    chunk: Open,
    /// Where chunks begin, and what was counted before them.
    index: Vec<IndexEntry>,
    /// Sums of all chunks read so far.
    totals: Totals,
    processes: Processes,
    /// References before this instruction are left out.
    skip_to: u64,
    state: State,
    /// Room for the words of the next batch.
    words: Vec<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Between,
    Inside,
    /// Only the events of the chunk are wanted.
    OpsOnly,
    Ended,
    Failed,
}

/// The chunk being decoded.
#[derive(Default)]
struct Open {
    head: ChunkHead,
    offset: u64,
    asid: Asid,
    columns: [Vec<u8>; COLUMNS],
    /// How far each column was read, but for the targets.
    at: [usize; COLUMNS],
    targets: Targets,
    op_state: OpState,
    words: u64,
    records: u64,
    sums: Totals,
}

impl FrtReader {
    /// Reads the header.
    ///
    /// # Errors
    /// The input is no farreach trace, of another version, or its header is damaged.
    pub fn new(input: Input) -> Result<FrtReader> {
        let mut input = input.into_bytes();
        let (version, header, at) = read_prefix(&mut input)?;
        let zstd = zstd::bulk::Decompressor::new();
        let zstd = zstd.map_err(|source| Error::Io { file: input.file.clone(), source })?;
        Ok(FrtReader {
            input,
            version,
            header,
            at,
            model: Model::new(),
            zstd,
            packed: Vec::new(),
            chunk: Open::default(),
            index: Vec::new(),
            totals: Totals::default(),
            processes: Processes::default(),
            skip_to: 0,
            state: State::Between,
            words: Vec::new(),
        })
    }

    /// What the trace says about its origin.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Totals of the part read so far; of the whole trace once the source has ended.
    pub fn totals(&self) -> Totals {
        let (processes, address_spaces) = (self.processes.processes(), self.processes.address_spaces());
        Totals { processes, address_spaces, ..self.totals }
    }

    /// Leaves out the references of all chunks that end at or before this instruction; their events (definitions,
    /// mappings, forks) still come, so that what follows has its address spaces. Counts from the beginning of the
    /// trace; call it before the first batch is taken. [`FrtReader::totals`] counts the skipped references as well.
    pub fn skip_before(&mut self, instruction: u64) {
        self.skip_to = instruction;
    }
    /// An error of the chunk being read, which says how much of the trace before it is whole.
    fn damaged(&self, what: impl std::fmt::Display) -> Error {
        let open = matches!(self.state, State::Inside | State::OpsOnly);
        let (number, at) = if open { (self.index.len() - 1, self.chunk.offset) } else { (self.index.len(), self.at) };
        Error::Trace {
            file: self.input.file.clone(),
            place: format!("chunk {number} at byte {at}"),
            what: format!(
                "{what}; whole before it: {} with {} and {}",
                with_noun(number as u64, "chunk"),
                with_noun(self.totals.instructions, "instruction"),
                with_noun(self.totals.references(), "reference")
            ),
        }
    }

    fn cut(&self) -> Error {
        self.damaged("the file ends inside this chunk: it was cut, or its recording did not finish")
    }

    /// Fills `buf`, or fails because the file is cut.
    fn exactly(&mut self, buf: &mut [u8]) -> Result<()> {
        let at = self.at;
        let number = self.index.len();
        let got = self.input.fill(buf, |n| format!("chunk {number}, byte {}", at + n as u64))?;
        if got < buf.len() { Err(self.cut()) } else { Ok(()) }
    }

    /// Reads the next chunk into memory, or the end of the file.
    fn next_chunk(&mut self) -> Result<()> {
        let mut bytes = [0; CHUNK_HEAD_BYTES];
        let (at, number) = (self.at, self.index.len());
        let got = self.input.fill(&mut bytes[..4], |n| format!("chunk {number}, byte {}", at + n as u64))?;
        if got == 0 {
            return Err(self.damaged("the file ends without a trailer: it was cut, or its recording did not finish"));
        }
        match (got, [bytes[0], bytes[1], bytes[2], bytes[3]]) {
            (4, CHUNK_TAG) => {}
            (4, INDEX_TAG) => return self.read_end(),
            (4, tag) => return Err(self.damaged(format!("'{}' stands where a chunk begins", tag.escape_ascii()))),
            _ => return Err(self.cut()),
        }
        self.exactly(&mut bytes[4..])?;
        let head = ChunkHead::from_bytes(&bytes).map_err(|what| self.damaged(what))?;
        let mut packed = std::mem::take(&mut self.packed);
        packed.resize(head.payload(), 0);
        self.exactly(&mut packed)?;
        let mut hash = Xxh3::new();
        hash.update(&bytes[..CHUNK_HEAD_BYTES - 8]);
        hash.update(&packed);
        // A fuzzer cannot guess hashes; without the check it reaches the decoder.
        if hash.digest() != head.hash && !cfg!(fuzzing) {
            return Err(self.damaged("its checksum differs from its content"));
        }
        if head.number as usize != number {
            return Err(self.damaged(format!("it says that it is chunk {}", head.number)));
        }
        // Without a place to skip to, a chunk of loads and stores alone is no chunk to leave out.
        let skips = self.skip_to > 0;
        let ops_only = skips && self.totals.instructions.saturating_add(head.instructions) <= self.skip_to;
        let mut from = 0;
        for (i, (raw, len)) in head.columns.into_iter().enumerate() {
            let part = &packed[from..from + len as usize];
            from += len as usize;
            self.chunk.columns[i].clear();
            if raw > 0 && (i == OPS || !ops_only) {
                let column = &mut self.chunk.columns[i];
                // Eight more for the end of the address bytes, so that they need no second allocation.
                column.reserve(raw as usize + 8);
                if len == raw {
                    column.extend_from_slice(part);
                    continue;
                }
                column.resize(raw as usize, 0);
                let wrong = match self.zstd.decompress_to_buffer(part, &mut column[..]) {
                    Ok(n) if n == raw as usize => continue,
                    Ok(n) => format!("column {i} has {n} bytes, {raw} were promised"),
                    Err(e) => format!("column {i} does not decompress: {e}"),
                };
                return Err(self.damaged(wrong));
            }
        }
        // The decoder of addresses reads eight bytes at a time.
        self.chunk.columns[DATA].extend_from_slice(&[0; 8]);
        self.packed = packed;
        self.chunk.head = head;
        self.chunk.offset = self.at;
        self.chunk.asid = Asid(head.asid);
        self.chunk.at = [0; COLUMNS];
        let Open { targets, columns, .. } = &mut self.chunk;
        let read = targets.read(&columns[TARGETS], self.version);
        read.map_err(|what| self.damaged(what))?;
        self.chunk.op_state = OpState::default();
        (self.chunk.words, self.chunk.records, self.chunk.sums) = (0, 0, Totals::default());
        self.index.push(IndexEntry {
            offset: self.at,
            instructions: self.totals.instructions,
            references: self.totals.references(),
        });
        self.at += (CHUNK_HEAD_BYTES + head.payload()) as u64;
        self.model.begin_chunk();
        self.state = if ops_only { State::OpsOnly } else { State::Inside };
        Ok(())
    }

    /// The next record of the event column: an event, or a change of the address space.
    fn take_record(&mut self) -> std::result::Result<Option<Op>, String> {
        let mut cursor = Cursor::at(&self.chunk.columns[OPS], self.chunk.at[OPS]);
        let record = self.chunk.op_state.take(&mut cursor)?;
        self.chunk.at[OPS] = cursor.at;
        self.chunk.records += 1;
        let op = match record {
            Record::Asid(asid) => {
                self.chunk.asid = asid;
                return Ok(None);
            }
            Record::Define { block, .. } if self.version < SHARED_SINCE && block.words() < block.refs.len() => {
                return Err(format!("a block with shared address words; version {} has none", self.version));
            }
            Record::Define { id, block } => {
                if let Defined::Again(_) = self.model.define(id, &block)? {
                    return Err(format!("block {id} is defined twice"));
                }
                self.totals.blocks += 1;
                Op::Define { id, block }
            }
            Record::Redefine(number) => {
                let (id, block) =
                    self.model.block(number).ok_or(format!("block {number} is defined again, but never was"))?;
                self.totals.blocks += 1;
                Op::Define { id, block: block.clone() }
            }
            Record::Op(Op::Guest(_)) if self.version < GUESTS_SINCE => {
                return Err(format!("an event of a whole system; version {} has none", self.version));
            }
            Record::Op(Op::Pages) if self.version < SHARED_SINCE => {
                return Err(format!("the mark of a page trace; version {} has none", self.version));
            }
            Record::Op(Op::Samples) if self.version < SHARED_SINCE => {
                return Err(format!("the mark of samples; version {} has none", self.version));
            }
            Record::Op(Op::Code { .. }) if self.version < SHARED_SINCE => {
                return Err(format!("bytes of code; version {} has none", self.version));
            }
            Record::Op(Op::KernelStore { .. }) if self.version < KERNEL_STORES_SINCE => {
                return Err(format!("a store of the kernel; version {} has none", self.version));
            }
            Record::Op(op) => {
                if let Op::Code { id, bytes } = &op {
                    self.model.check_code(*id, bytes)?;
                }
                self.totals.ops += u64::from(!op.is_mark() && !op.is_definition());
                op
            }
        };
        self.processes.see(self.chunk.asid, Some(&op));
        Ok(Some(op))
    }

    /// Decodes until a batch is full, its address space changes or the chunk ends. May return an empty batch.
    fn take_batch(&mut self) -> std::result::Result<Batch, String> {
        let mut batch = Batch::new(self.chunk.asid);
        std::mem::swap(&mut batch.words, &mut self.words);
        // Decoding makes room for some words at a time.
        batch.words.reserve(BATCH_WORDS + 2 * ROOM);
        let mut executed = false;
        while batch.words.len() < BATCH_WORDS && self.chunk.at[STEPS] < self.chunk.columns[STEPS].len() {
            let Open { columns, at, targets, sums, .. } = &mut self.chunk;
            let steps = &columns[STEPS][at[STEPS]..];
            if steps[0] == STEP_OP {
                at[STEPS] += 1;
                match self.take_record()? {
                    Some(op) => batch.push_op(op),
                    None if batch.words.is_empty() => batch.asid = self.chunk.asid,
                    None => break,
                }
                continue;
            }
            let [_, steps_at, _, codes_at, data_at] = at;
            let (codes, data) = ((&columns[CODES][..], codes_at), (&columns[DATA][..], data_at));
            *steps_at += self.model.take_run(steps, targets, codes, data, &mut batch.words, sums)?;
            executed = true;
        }
        if batch.words.len() < BATCH_WORDS / 2 {
            // Where address spaces change often, batches are small, and consumers that keep them should not keep room
            // for large ones.
            let exact = batch.words[..].to_vec();
            self.words = std::mem::replace(&mut batch.words, exact);
            self.words.clear();
        }
        self.chunk.words += batch.words.len() as u64;
        if self.chunk.words > u64::from(self.chunk.head.words) {
            return Err(format!("it has more than the {} it claims", with_noun(self.chunk.head.words.into(), "word")));
        }
        if executed {
            self.processes.see(batch.asid, None);
        }
        if self.processes.address_spaces() > MAX_ADDRESS_SPACES {
            return Err(format!("more than {MAX_ADDRESS_SPACES} address spaces"));
        }
        Ok(batch)
    }

    /// The events of a chunk whose references are left out.
    fn take_ops(&mut self) -> std::result::Result<Batch, String> {
        let mut batch = Batch::new(self.chunk.asid);
        while self.chunk.at[OPS] < self.chunk.columns[OPS].len() && batch.words.len() < BATCH_WORDS {
            match self.take_record()? {
                Some(op) => batch.push_op(op),
                None if batch.words.is_empty() => batch.asid = self.chunk.asid,
                None => break,
            }
        }
        if self.chunk.at[OPS] == self.chunk.columns[OPS].len() {
            let head = &self.chunk.head;
            self.chunk.sums =
                Totals { instructions: head.instructions, loads: head.loads, stores: head.stores, ..Totals::default() };
        }
        Ok(batch)
    }

    /// Whether the chunk is read to its end; if so, checks the counts of its head.
    fn close_chunk(&mut self) -> Result<()> {
        let Open { head, columns, at, targets, sums, words, records, .. } = &self.chunk;
        let whole = self.state == State::Inside;
        let done = if whole { at[STEPS] == columns[STEPS].len() } else { at[OPS] == columns[OPS].len() };
        if !done {
            return Ok(());
        }
        let wrong = if *records != u64::from(head.records) {
            Some(format!("it has {} and claims {}", with_noun(*records, "event"), head.records))
        } else if whole {
            let left = (0..COLUMNS).find(|&i| match i {
                TARGETS => targets.left() > 0,
                DATA => at[i] + 8 != columns[i].len(),
                _ => at[i] != columns[i].len(),
            });
            let counts = (*words, sums.instructions, sums.loads, sums.stores);
            let claims = (u64::from(head.words), head.instructions, head.loads, head.stores);
            let too_many = |i: usize| match i {
                TARGETS => format!("column {i} has {} too many", with_noun(targets.left() as u64, "target")),
                _ => format!("column {i} has {} bytes too many", columns[i].len() - at[i]),
            };
            left.map(too_many).or_else(|| {
                (counts != claims).then(|| format!("its counts are {counts:?}, its head claims {claims:?}"))
            })
        } else {
            None
        };
        if let Some(what) = wrong {
            return Err(self.damaged(what));
        }
        let (instructions, loads, stores) = (sums.instructions, sums.loads, sums.stores);
        self.totals.instructions = self.totals.instructions.saturating_add(instructions);
        self.totals.loads = self.totals.loads.saturating_add(loads);
        self.totals.stores = self.totals.stores.saturating_add(stores);
        self.state = State::Between;
        Ok(())
    }

    /// Reads index and trailer; the tag of the index was read already.
    fn read_end(&mut self) -> Result<()> {
        let mut count = [0; 4];
        self.exactly(&mut count)?;
        if u32::from_le_bytes(count) as usize != self.index.len() {
            let count = u32::from_le_bytes(count);
            return Err(self.damaged(format!("the index lists {count} chunks, the file has {}", self.index.len())));
        }
        let mut index = Vec::from(INDEX_TAG);
        index.extend_from_slice(&count);
        let start = index.len();
        index.resize(start + self.index.len() * INDEX_ENTRY_BYTES + 8, 0);
        self.exactly(&mut index[start..])?;
        let mut expected: Vec<u8> = index[..start].to_vec();
        for e in &self.index {
            [e.offset, e.instructions, e.references].iter().for_each(|n| expected.extend_from_slice(&n.to_le_bytes()));
        }
        expected.extend_from_slice(&xxh3_64(&expected).to_le_bytes());
        if expected != index && !cfg!(fuzzing) {
            return Err(self.damaged("the index differs from the chunks of the file"));
        }
        let mut trailer = [0; TRAILER_BYTES + 1];
        let at = self.at + index.len() as u64;
        let got = self.input.fill(&mut trailer, |n| format!("trailer, byte {}", at + n as u64))?;
        if got < TRAILER_BYTES {
            return Err(self.cut());
        }
        if got > TRAILER_BYTES {
            return Err(self.damaged("bytes follow the trailer"));
        }
        let (index_at, chunks, totals) = parse_trailer(trailer[..TRAILER_BYTES].try_into().expect("its length"))
            .map_err(|what| self.damaged(what))?;
        let mut found = self.totals();
        if self.skip_to > 0 {
            // Address spaces that only executed blocks in skipped chunks were not seen.
            (found.processes, found.address_spaces) = (totals.processes, totals.address_spaces);
        }
        if index_at != self.at || chunks as usize != self.index.len() || totals != found {
            return Err(self.damaged(format!("the trailer says {chunks} chunks, {totals:?}; the file has {found:?}")));
        }
        self.at = at + TRAILER_BYTES as u64;
        self.state = State::Ended;
        Ok(())
    }

    fn next(&mut self) -> Result<Option<Batch>> {
        loop {
            let batch = match self.state {
                State::Ended | State::Failed => return Ok(None),
                State::Between => {
                    self.next_chunk()?;
                    continue;
                }
                State::Inside => self.take_batch(),
                State::OpsOnly => self.take_ops(),
            };
            let batch = batch.map_err(|what| self.damaged(what))?;
            self.close_chunk()?;
            if !batch.is_empty() {
                return Ok(Some(batch));
            }
        }
    }
}

impl Source for FrtReader {
    fn next_batch(&mut self) -> Result<Option<Batch>> {
        let result = self.next();
        if result.is_err() {
            self.state = State::Failed;
        }
        result
    }
}

/// Reads everything before the first chunk: version, header, length.
fn read_prefix(input: &mut Bytes) -> Result<(u32, Header, u64)> {
    let file = input.file.clone();
    let fail = |at: usize, what: String| Error::Trace { file: file.clone(), place: format!("header, byte {at}"), what };
    let mut bytes = vec![0; 16];
    let got = input.fill(&mut bytes, |n| format!("header, byte {n}"))?;
    if got >= 8 && bytes[..8] != MAGIC {
        return Err(fail(0, "this is no farreach trace, or a transfer as text damaged it".into()));
    }
    if got < 16 {
        return Err(fail(got, "the file ends inside its header".into()));
    }
    let u32_at = |i: usize| u32::from_le_bytes(bytes[i..i + 4].try_into().expect("four bytes"));
    let (version, len) = (u32_at(8), u32_at(12));
    if !(1..=VERSION).contains(&version) {
        return Err(fail(8, format!("version {version}; this farreach reads versions 1 to {VERSION}")));
    }
    if len > MAX_HEADER_BYTES {
        return Err(fail(12, format!("a header of {len} bytes; at most {MAX_HEADER_BYTES} are possible")));
    }
    bytes.resize(16 + len as usize + 8, 0);
    let got = input.fill(&mut bytes[16..], |n| format!("header, byte {}", 16 + n))?;
    if got < len as usize + 8 {
        return Err(fail(16 + got, "the file ends inside its header".into()));
    }
    let (head, hash) = bytes.split_at(16 + len as usize);
    if xxh3_64(head).to_le_bytes() != hash && !cfg!(fuzzing) {
        return Err(fail(16, "the checksum of the header differs from its content".into()));
    }
    let header =
        serde_json::from_slice(&head[16..]).map_err(|e| fail(16, format!("the header is not understood: {e}")))?;
    Ok((version, header, bytes.len() as u64))
}

/// Offset of the index, number of chunks, totals.
fn parse_trailer(bytes: &[u8; TRAILER_BYTES]) -> std::result::Result<(u64, u32, Totals), String> {
    let u64_at = |i: usize| u64::from_le_bytes(bytes[i..i + 8].try_into().expect("eight bytes"));
    if bytes[..4] != TRAILER_TAG || bytes[80..] != END_MAGIC {
        return Err("what should be the trailer is none".into());
    }
    if xxh3_64(&bytes[..72]) != u64_at(72) && !cfg!(fuzzing) {
        return Err("the checksum of the trailer differs from its content".into());
    }
    let chunks = u32::from_le_bytes(bytes[12..16].try_into().expect("four bytes"));
    Ok((u64_at(4), chunks, Totals::from_words(std::array::from_fn(|i| u64_at(16 + 8 * i)))))
}

/// Index and totals of a finished file, from its end, without reading the chunks.
///
/// # Errors
/// The file cannot be read, has no trailer, or its trailer or index is damaged.
pub fn read_index(path: impl AsRef<std::path::Path>) -> Result<(Vec<IndexEntry>, Totals)> {
    use std::io::{Read, Seek, SeekFrom};
    let name = path.as_ref().display().to_string();
    let io = |source| Error::Io { file: name.clone(), source };
    let bad = |what: String| Error::Trace { file: name.clone(), place: "end of file".into(), what };
    let mut file = std::fs::File::open(path.as_ref()).map_err(io)?;
    let len = file.metadata().map_err(io)?.len();
    let trailer_at = len.checked_sub(TRAILER_BYTES as u64).ok_or_else(|| bad("there is no trailer".into()))?;
    file.seek(SeekFrom::Start(trailer_at)).map_err(io)?;
    let mut trailer = [0; TRAILER_BYTES];
    file.read_exact(&mut trailer).map_err(io)?;
    let (index_at, chunks, totals) = parse_trailer(&trailer).map_err(bad)?;
    let size = u64::from(chunks) * INDEX_ENTRY_BYTES as u64 + 16;
    if index_at.checked_add(size) != Some(trailer_at) {
        return Err(bad(format!("an index of {chunks} chunks at byte {index_at} does not end at the trailer")));
    }
    file.seek(SeekFrom::Start(index_at)).map_err(io)?;
    // No larger than the file: checked just above.
    let mut index = vec![0; size as usize];
    file.read_exact(&mut index).map_err(io)?;
    let (body, hash) = index.split_at(index.len() - 8);
    if body[..4] != INDEX_TAG || body[4..8] != chunks.to_le_bytes() || xxh3_64(body).to_le_bytes() != hash {
        return Err(bad("the index is damaged".into()));
    }
    let u64_at = |e: &[u8], i: usize| u64::from_le_bytes(e[i..i + 8].try_into().expect("eight bytes"));
    let entry = |e: &[u8]| IndexEntry { offset: u64_at(e, 0), instructions: u64_at(e, 8), references: u64_at(e, 16) };
    Ok((body[8..].chunks_exact(INDEX_ENTRY_BYTES).map(entry).collect(), totals))
}
