//! From any readable trace to a farreach trace or to Lackey text, and what a trace contains.

use serde::Serialize;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use super::check::{Report, check};
use super::{FORMATS, Header, Opened, Totals, TraceWriter};
use crate::partial::Partial;
use crate::samples::{Counted, Sampled};
use farreach_types::error::{Error, Result};
use farreach_types::event::{Blocks, Item, Kind, Op};

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

/// What [`to_lackey`] wrote, and what the text cannot express.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct LackeyText {
    /// Lines written: fetches, loads and stores.
    pub references: u64,
    /// Events (mappings, forks, threads ...) that the text has no line for.
    pub events_left_out: u64,
    /// Changes from one address space to another that the text does not show.
    pub space_changes_left_out: u64,
}

/// Writes all references as Lackey text into a file, which gets its name once it is whole; `-` is standard output.
///
/// # Errors
/// As [`to_lackey`]; then there is no file.
pub fn to_lackey_file(opened: Opened, path: &str) -> Result<LackeyText> {
    if path == "-" {
        return to_lackey(opened, io::stdout().lock(), "standard output");
    }
    let mut out = Partial::create(Path::new(path))?;
    let text = to_lackey(opened, &mut out, path)?;
    out.commit()?;
    Ok(text)
}

/// Writes all references as Lackey text; `file` stands in messages. Every reference is kept, in order; events, address
/// spaces and what makes a load and a store one `M` are not part of the text.
///
/// # Errors
/// The trace cannot be read to its end, breaks the contract of the stream, or cannot be written.
pub fn to_lackey(mut opened: Opened, out: impl Write, file: &str) -> Result<LackeyText> {
    let mut out = BufWriter::with_capacity(1 << 18, out);
    let mut blocks = Blocks::default();
    let mut text = LackeyText::default();
    let mut asid = None;
    let (mut failed, mut refused) = (None, None);
    let io = |source| Error::Io { file: file.to_owned(), source };
    while let Some(batch) = opened.source.next_batch()? {
        text.space_changes_left_out += u64::from(asid.is_some_and(|a| a != batch.asid));
        asid = Some(batch.asid);
        let expanded = blocks.expand(&batch, |item| {
            let written = match item {
                Item::Access(a) => {
                    text.references += 1;
                    let kind = match a.kind {
                        Kind::Fetch => "I ",
                        Kind::Load => " L",
                        Kind::Store => " S",
                    };
                    writeln!(out, "{kind} {:08x},{}", a.addr, a.size)
                }
                Item::Op(Op::Pages) => {
                    refused =
                        Some("this is a page trace: it has no addresses within pages, and the text must have them");
                    Ok(())
                }
                Item::Op(Op::Samples) => {
                    refused = Some("these are samples: the text cannot say so, and would pass for a whole trace");
                    Ok(())
                }
                Item::Op(op) => {
                    text.events_left_out += u64::from(!matches!(op, Op::Define { .. }));
                    Ok(())
                }
            };
            failed = written.err();
            failed.is_none() && refused.is_none()
        });
        expanded.map_err(|e| Error::Trace {
            file: opened.info.file.clone(),
            place: format!("address space {}", batch.asid.0),
            what: e.to_string(),
        })?;
        if let Some(source) = failed.take() {
            return Err(io(source));
        }
        if let Some(why) = refused {
            return Err(Error::Trace {
                file: opened.info.file.clone(),
                place: "its first event".into(),
                what: why.into(),
            });
        }
    }
    out.flush().map_err(io)?;
    Ok(text)
}
