//! What a load says: a file, with a name or without.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use farreach_types::{Context, Result};

/// Where the output of a load goes.
#[derive(Clone, Debug)]
pub enum Output {
    /// This file, which stays.
    Named(PathBuf),
    /// A file without a name, which is gone when no process has it open.
    Unnamed(Arc<File>),
}

impl Output {
    /// A file without a name.
    ///
    /// # Errors
    /// The system's.
    pub fn unnamed() -> Result<Output> {
        let file = tempfile::tempfile().with_context(|| std::env::temp_dir().display().to_string())?;
        Ok(Output::Unnamed(Arc::new(file)))
    }

    /// The file, empty.
    pub(crate) fn begin(&self) -> std::io::Result<File> {
        match self {
            Output::Named(path) => File::create(path),
            Output::Unnamed(file) => {
                file.set_len(0)?;
                (&**file).seek(SeekFrom::Start(0))?;
                file.try_clone()
            }
        }
    }

    /// What was written; empty where it cannot be read.
    pub fn text(&self) -> String {
        let bytes = match self {
            Output::Named(path) => fs::read(path).unwrap_or_default(),
            Output::Unnamed(file) => {
                let mut bytes = vec![0; file.metadata().map_or(0, |about| about.len() as usize)];
                let read = file.read_exact_at(&mut bytes, 0);
                read.map_or(Vec::new(), |()| bytes)
            }
        };
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// For a message: where it is, or its end.
    pub(crate) fn shown(&self) -> String {
        const LINES: usize = 10;
        match self {
            Output::Named(path) => format!("its output is in {}", path.display()),
            Output::Unnamed(_) => {
                let text = self.text();
                let lines: Vec<&str> = text.lines().collect();
                match lines.len() {
                    0 => "it has no output".into(),
                    n => format!("its output ends with:\n{}", lines[n.saturating_sub(LINES)..].join("\n")),
                }
            }
        }
    }
}
