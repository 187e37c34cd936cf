//! Builds the recorder and the programs of `fixtures/programs`, and records them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use farreach_live::{Options, Recorder, Report};
use farreach_trace::Checker;
use farreach_types::event::{Access, Batch, Blocks, Item, Kind, Op, Source};

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace exists")
}

/// A directory for the files of the tests.
pub fn scratch() -> PathBuf {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    std::fs::create_dir_all(&dir).expect("test directory");
    dir
}

fn run(command: &mut Command) {
    let out = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(out.status.success(), "{command:?}: {}", String::from_utf8_lossy(&out.stderr));
}

/// The machine has one DAMON: tests that may use it take turns.
pub fn damon() -> MutexGuard<'static, ()> {
    static DAMON: Mutex<()> = Mutex::new(());
    DAMON.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A time limit in seconds for a test binary: if a recording hangs, it ends with SIGALRM, and the recorders with it.
const HANGS: u32 = 60 * 60;

/// Directory of the recorder and the library for text, built once.
pub fn tool() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| {
        // SAFETY: it only sets the timer of this process.
        unsafe { libc::alarm(HANGS) };
        let dir = scratch().join(format!("valgrind-{}", std::process::id()));
        for part in ["capture/valgrind", "capture/text", "capture/guard"] {
            let out = format!("OUT={}", dir.display());
            run(Command::new("make").arg("-s").arg("-C").arg(root().join(part)).arg(out));
        }
        dir
    })
}

/// Compiles a program of `fixtures/programs`.
pub fn program(name: &str, flags: &[&str]) -> PathBuf {
    let out = scratch().join(format!("{name}-{}{}", std::process::id(), flags.concat()));
    if !out.exists() {
        let source = root().join("fixtures/programs").join(format!("{name}.c"));
        let new = out.with_extension(format!("{:?}", std::thread::current().id()));
        run(Command::new("cc").args(["-O1", "-pthread"]).args(flags).arg("-o").arg(&new).arg(source));
        std::fs::rename(new, &out).expect("program in place");
    }
    out
}

/// A program that would change its user.
pub fn set_user_id(name: &str) -> PathBuf {
    use std::os::unix::fs::{PermissionsExt, chown};
    let file = scratch().join(format!("{name}-{}", std::process::id()));
    std::fs::copy("/bin/true", &file).expect("a copy");
    // SAFETY: it has no arguments.
    if unsafe { libc::geteuid() } == 0 {
        chown(&file, Some(65534), None).expect("another owner");
    }
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o4755)).expect("its mode");
    file
}

/// A whole recording, expanded.
pub struct Recording {
    /// Events but definitions, with their address space.
    pub ops: Vec<(u32, Op)>,
    /// All references, with their address space.
    pub accesses: Vec<(u32, Access)>,
    /// The place in `accesses` of each event.
    pub places: Vec<usize>,
    pub report: Report,
}

impl Recording {
    pub fn count(&self, kind: Kind) -> u64 {
        self.accesses.iter().filter(|(_, a)| a.kind == kind).count() as u64
    }
    /// Events of one address space.
    pub fn of(&self, asid: u32) -> Vec<&Op> {
        self.ops.iter().filter(|(a, _)| *a == asid).map(|(_, op)| op).collect()
    }
}

pub fn options() -> Options {
    Options { tool_dir: Some(tool().to_path_buf()), ..Options::default() }
}

pub fn command(program: &Path, args: &[&str]) -> Vec<OsString> {
    std::iter::once(program.into()).chain(args.iter().map(OsString::from)).collect()
}

pub fn drain(mut recorder: Recorder) -> Recording {
    let mut blocks = Blocks::default();
    let (mut ops, mut accesses, mut places) = (Vec::new(), Vec::new(), Vec::new());
    let mut checker = Checker::default();
    while let Some(batch) = recorder.next_batch().expect("a readable stream") {
        checker.check(&batch).expect("a sound stream");
        expand(&mut blocks, &batch, &mut ops, &mut accesses, &mut places);
    }
    Recording { ops, accesses, places, report: recorder.finish().expect("an end") }
}

fn expand(
    blocks: &mut Blocks,
    batch: &Batch,
    ops: &mut Vec<(u32, Op)>,
    accesses: &mut Vec<(u32, Access)>,
    places: &mut Vec<usize>,
) {
    let each = |item: Item<'_>| {
        match item {
            Item::Access(a) => accesses.push((batch.asid.0, a)),
            Item::Op(op) if op.is_definition() => {}
            Item::Op(op) => {
                ops.push((batch.asid.0, op.clone()));
                places.push(accesses.len());
            }
        }
        true
    };
    blocks.expand(batch, each).expect("a stream that keeps its contract");
}

pub fn record(program: &Path, args: &[&str]) -> Recording {
    drain(Recorder::start(&command(program, args), &options()).expect("the program starts"))
}
