//! From any readable trace to a farreach trace, and what a trace contains.

use serde::Serialize;
use serde_json::Value;
use std::io;
use std::path::Path;

use super::check::{Report, check};
use super::{Chain, Cut, FORMATS, Header, Interleaved, Opened, Piece, Totals, TraceWriter};
use crate::samples::{Counted, Sampled};
use farreach_types::error::{Error, Result};
use farreach_types::event::Source;

/// What `trace info` shows.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// File name, or `standard input`.
    pub file: String,
    /// Format it is in.
    pub format: &'static str,
    /// What the format does not have.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub lacks: &'static str,
    /// Compression of the whole file, if any.
    pub compression: Option<&'static str>,
    /// Size of the file, if it has one.
    pub bytes: Option<u64>,
    /// File size divided by fetches, loads and stores.
    pub bytes_per_reference: Option<f64>,
    /// Origin, for formats that record it.
    pub header: Option<Header>,
    /// The pages of samples, if it has samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampled: Option<Sampled>,
    /// Counts, address spaces, and the first violation if there is one.
    #[serde(flatten)]
    pub report: Report,
}

/// Reads a whole trace and says what it contains.
///
/// # Errors
/// The trace cannot be read to its end. A violation of the stream's contract is no error: it stands in the report.
pub fn summarize(opened: Opened) -> Result<Summary> {
    let mut counted = Counted::new(opened.source);
    let report = check(&mut counted)?;
    let info = opened.info;
    let references = report.totals.references();
    let whole = report.violation.is_none() && references > 0;
    let bytes_per_reference = info.bytes.filter(|_| whole).map(|b| b as f64 / references as f64);
    let (file, format, compression) = (info.file, info.format, info.compression);
    let origin = info.header.as_ref().and_then(|header| header.more.get("original_format")?.as_str());
    let origin = origin.unwrap_or(format);
    let lacks = FORMATS.iter().find(|known| known.name == origin).map_or("", |known| known.lacks);
    let sampled = counted.pages();
    let (bytes, header) = (info.bytes, info.header);
    Ok(Summary { file, format, lacks, compression, bytes, bytes_per_reference, header, sampled, report })
}

/// Writes any trace as a farreach trace; `-` is standard output. A header is kept; a trace without one gets a header
/// that names the input. `threads` are those of [`TraceWriter::create_on`].
///
/// # Errors
/// The trace cannot be read to its end, breaks the contract of the stream, or cannot be written; then there is no file.
pub fn to_frt(opened: Opened, path: &str, threads: usize) -> Result<Totals> {
    match copy(opened, path, threads, false)? {
        (totals, None) => Ok(totals),
        (_, Some(e)) => Err(e),
    }
}

/// As [`to_frt`], but a trace that is cut or damaged becomes a whole one of what can be read before that place; the
/// error that ended it comes back too. Its header keeps the origin and says that it was recovered.
///
/// # Errors
/// What can be read breaks the contract of the stream, or cannot be written; then there is no file.
pub fn recover(opened: Opened, path: &str, threads: usize) -> Result<(Totals, Option<Error>)> {
    copy(opened, path, threads, true)
}

/// Writes a piece of any trace as a farreach trace. The header says which piece it is, under `piece`.
///
/// # Errors
/// As of [`to_frt`]; or the piece never comes.
pub fn cut(mut opened: Opened, piece: Piece, path: &str, threads: usize) -> Result<Totals> {
    let mut header = header_of(&opened);
    header.more.insert("piece".to_owned(), said(&piece, &header));
    opened.source = Box::new(Cut::new(opened.source, piece));
    header_to(opened, header, path, threads, false).map(|(totals, _)| totals)
}

/// The piece, beside those that it was cut from.
fn said(piece: &Piece, header: &Header) -> Value {
    let one = serde_json::to_value(piece).expect("a piece is data");
    match header.more.get("piece") {
        Some(Value::Array(before)) => before.iter().cloned().chain([one]).collect::<Vec<_>>().into(),
        Some(before) => vec![before.clone(), one].into(),
        None => one,
    }
}

/// Writes several traces as one: in turn, in slices of instructions ([`Interleaved`]), or one after the other
/// ([`Chain`]). The header has those of all, under `merged`.
///
/// # Errors
/// As of [`to_frt`].
pub fn merge(all: Vec<Opened>, slice: Option<u64>, path: &str, threads: usize) -> Result<Totals> {
    let of = |opened: &Opened| {
        let mut header = serde_json::to_value(header_of(opened)).expect("a header is data");
        header["file"] = opened.info.file.clone().into();
        header
    };
    let merged: Vec<Value> = all.iter().map(of).collect();
    let mut header = Header { recorder: recorder("merge"), ..Header::default() };
    header.more.insert("merged".to_owned(), merged.into());
    header.more.extend(slice.map(|slice| ("interleave".to_owned(), slice.into())));
    let Some(info) = all.first().map(|first| first.info.clone()) else {
        return Err(Error::Trace { file: path.into(), place: "merge".into(), what: "no trace was named".into() });
    };
    let sources = all.into_iter().map(|opened| opened.source).collect();
    let source: Box<dyn Source + Send> = match slice {
        Some(slice) => Box::new(Interleaved::new(sources, slice)),
        None => Box::new(Chain::new(sources)),
    };
    header_to(Opened { source, info }, header, path, threads, false).map(|(totals, _)| totals)
}

fn recorder(action: &str) -> String {
    format!("farreach {} trace {action}", env!("CARGO_PKG_VERSION"))
}

/// The header of a trace; of one without, a header that names it.
fn header_of(opened: &Opened) -> Header {
    let origin = || Header {
        recorder: recorder("convert"),
        more: [
            ("converted_from".to_owned(), opened.info.file.clone().into()),
            ("original_format".to_owned(), opened.info.format.into()),
        ]
        .into_iter()
        .collect(),
        ..Header::default()
    };
    opened.info.header.clone().unwrap_or_else(origin)
}

fn copy(opened: Opened, path: &str, threads: usize, recover: bool) -> Result<(Totals, Option<Error>)> {
    let mut header = header_of(&opened);
    if recover {
        header.more.insert("recovered_from".to_owned(), opened.info.file.clone().into());
    }
    header_to(opened, header, path, threads, recover)
}

fn header_to(
    mut opened: Opened,
    header: Header,
    path: &str,
    threads: usize,
    recover: bool,
) -> Result<(Totals, Option<Error>)> {
    let mut writer = match path {
        "-" => TraceWriter::to_stream_on(io::stdout(), "standard output", header, threads)?,
        _ => TraceWriter::create_on(Path::new(path), header, threads)?,
    };
    loop {
        match opened.source.next_batch() {
            Ok(Some(batch)) => writer.append(batch)?,
            Ok(None) => return Ok((writer.finish()?, None)),
            Err(e) if recover => return Ok((writer.finish()?, Some(e))),
            Err(e) => return Err(e),
        }
    }
}
