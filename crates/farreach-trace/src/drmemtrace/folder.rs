//! A folder with the files of one trace.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use super::{DrmemtraceReader, File, NAME, PROCESS, begins, foreign, header};
use crate::assemble::Assembled;
use crate::input::Input;
use crate::{Opened, TraceInfo};
use farreach_types::error::{Error, Result};

/// Files that lie beside the trace and are no part of it.
const BESIDE: [&str; 5] = ["modules.log", "funclist.log", "encodings.bin", "v2p.textproto", "cpu_schedule.bin.zip"];
/// Beginnings of the names of such files that may be compressed.
const BESIDE_BEGIN: &str = "serial_schedule.bin";
/// How far below a folder that is no trace one is looked for: levels, and folders and files in all.
const LEVELS: usize = 4;
const LOOKED_AT: usize = 2000;
/// The number of folders that a message names.
const NAMED: usize = 3;

/// Opens the trace whose files lie in `path`, or in the folder `trace` of a folder without files, in the order of their
/// names.
///
/// # Errors
/// The folder cannot be read or has no files, or one of them is no trace of this format.
pub(crate) fn open_folder(path: &str, forced_format: Option<&str>) -> Result<Opened> {
    let fail = |what: String| Error::Trace { file: path.into(), place: "folder".into(), what };
    if let Some(other) = forced_format.filter(|&name| name != NAME) {
        return Err(fail(format!(
            "a trace in the format '{other}' is a file; a folder can be a trace in the format {NAME} only"
        )));
    }
    let mut files = files(Path::new(path))?;
    if files.is_empty() {
        files = match Path::new(path).join("trace") {
            trace if trace.is_dir() => self::files(&trace)?,
            _ => files,
        };
    }
    if files.is_empty() {
        let inside = traces_below(Path::new(path));
        if !inside.is_empty() {
            return Err(fail(give(&inside)));
        }
        let raw = if Path::new(path).join("raw").is_dir() {
            format!("; of the folder raw in it, {PROCESS}")
        } else {
            String::new()
        };
        return Err(fail(format!(
            "the folder has no files of a trace; a trace of {NAME} has one for each thread{raw}"
        )));
    }
    let (mut begun, mut bytes, mut compressions) = (Vec::with_capacity(files.len()), Some(0), Vec::new());
    for file in files {
        let name = file.to_str().ok_or_else(|| fail(format!("the name of {} is no text", file.display())))?;
        let input = Input::open(name)?;
        if header(input.head()).is_none() && foreign(input.head()).is_none() {
            let inside = if begun.is_empty() { traces_below(Path::new(path)) } else { Vec::new() };
            if !inside.is_empty() {
                return Err(fail(give(&inside)));
            }
            let what = format!("this is no {NAME} trace, and a folder that is one has nothing else in it");
            return Err(Error::Trace { file: name.into(), place: "byte 0".into(), what });
        }
        compressions.push(input.compression);
        bytes = bytes.zip(input.bytes).map(|(all, one)| all + one);
        let time = begins(&input)?;
        // A pipe cannot be opened again.
        let closed = input.bytes.is_some();
        begun.push((time, if closed { File::Closed(input.file) } else { File::Ready(input) }));
    }
    let compression = compressions[0].filter(|_| compressions.iter().all(|c| *c == compressions[0]));
    let info = TraceInfo { file: path.into(), format: NAME, compression, bytes, header: None };
    Ok(Opened { source: Box::new(Assembled::new(DrmemtraceReader::of(begun, path))), info })
}

/// What is to be given instead of a folder with traces in it.
fn give(inside: &[PathBuf]) -> String {
    let named = |path: &PathBuf| path.display().to_string();
    let mut names = inside.iter().take(NAMED).map(named).collect::<Vec<_>>().join(", ");
    if inside.len() > NAMED {
        names += ", ...";
    }
    match inside.len() {
        1 => format!("the folder is no trace, but contains one of {NAME}: give {names}"),
        _ => format!("the folder is no trace, but contains several of {NAME}; give one of {names}"),
    }
}

/// Folders below this one that have the files of a trace, the nearest first. What cannot be read, or lies behind a
/// link, is passed over.
fn traces_below(path: &Path) -> Vec<PathBuf> {
    let (mut found, mut looked_at) = (Vec::new(), 0);
    let mut folders = VecDeque::from([(path.to_owned(), 0)]);
    while let Some((folder, level)) = folders.pop_front() {
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten().take(LOOKED_AT - looked_at);
        let mut entries: Vec<_> = entries.filter_map(|e| Some((e.path(), e.file_type().ok()?))).collect();
        looked_at += entries.len();
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        let begins_a_trace = |file: &Path| {
            file.to_str().and_then(|name| Input::open(name).ok()).is_some_and(|input| header(input.head()).is_some())
        };
        // Opening a pipe would wait for its writer.
        if level > 0 && entries.iter().any(|(path, kind)| kind.is_file() && begins_a_trace(path)) {
            found.push(folder);
        } else if level < LEVELS {
            let below = entries.into_iter().filter(|(_, kind)| kind.is_dir());
            folders.extend(below.map(|(path, _)| (path, level + 1)));
        }
    }
    found
}

/// The files of a folder that may be a trace's, by name.
fn files(path: &Path) -> Result<Vec<PathBuf>> {
    let fail = |source| Error::Io { file: path.display().to_string(), source };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        let name = entry.file_name();
        let beside = BESIDE.iter().any(|&n| name == n) || name.as_encoded_bytes().starts_with(BESIDE_BEGIN.as_bytes());
        if !beside && !entry.path().is_dir() {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}
