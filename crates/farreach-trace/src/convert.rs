//! From any readable trace to a farreach trace, and what a trace contains.

use serde::Serialize;
use std::io;
use std::path::Path;

use super::check::{Report, check};
use super::{FORMATS, Header, Opened, Totals, TraceWriter};
use crate::samples::{Counted, Sampled};
use farreach_types::error::{Error, Result};

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

fn copy(mut opened: Opened, path: &str, threads: usize, recover: bool) -> Result<(Totals, Option<Error>)> {
    let file = opened.info.file.clone();
    let origin = || Header {
        recorder: format!("farreach {} trace convert", env!("CARGO_PKG_VERSION")),
        more: [
            ("converted_from".to_owned(), file.clone().into()),
            ("original_format".to_owned(), opened.info.format.into()),
        ]
        .into_iter()
        .collect(),
        ..Header::default()
    };
    let mut header = opened.info.header.clone().unwrap_or_else(origin);
    if recover {
        header.more.insert("recovered_from".to_owned(), file.into());
    }
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
