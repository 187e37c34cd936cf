//! What the recorder says.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use farreach_live::{Exit, Options, Recorder};
use farreach_types::event::{Access, Blocks, Item, Source};

use crate::build::{root, scratch};

/// Folder of the recorder: `FARREACH_VALGRIND_DIR`, else it is built.
fn tool() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        if let Some(folder) = std::env::var_os("FARREACH_VALGRIND_DIR") {
            return folder.into();
        }
        let folder = scratch().join(format!("valgrind-{}", std::process::id()));
        let out = format!("OUT={}", folder.display());
        for part in ["capture/valgrind", "capture/guard"] {
            let made = Command::new("make").arg("-s").arg("-C").arg(root().join(part)).arg(&out).output();
            let made = made.expect("make runs");
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        }
        folder
    })
}

/// A whole recording.
pub struct Recorded {
    /// All references, in order.
    pub accesses: Vec<Access>,
    /// How the program ended; the message, if the recording failed.
    pub exit: Result<Exit, String>,
}

/// Records a program, which is ended behind this many references: it may run for ever under the recorder.
pub fn record(program: &Path, limit: usize) -> Recorded {
    let options = Options { tool_dir: Some(tool().to_path_buf()), ..Options::default() };
    let mut accesses = Vec::new();
    let exit = drain(program, &options, limit, &mut accesses).map_err(|e| e.to_string());
    Recorded { accesses, exit }
}

fn drain(
    program: &Path,
    options: &Options,
    limit: usize,
    accesses: &mut Vec<Access>,
) -> Result<Exit, farreach_types::error::Error> {
    let mut recorder = Recorder::start(&[program.into()], options)?;
    let mut blocks = Blocks::default();
    while let Some(batch) = recorder.next_batch()? {
        let each = |item: Item<'_>| {
            if let Item::Access(access) = item {
                accesses.push(access);
            }
            true
        };
        blocks.expand(&batch, each).expect("a stream that keeps its contract");
        if accesses.len() > limit {
            break;
        }
    }
    Ok(recorder.finish()?.exit)
}
