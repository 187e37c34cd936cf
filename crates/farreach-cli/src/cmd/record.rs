//! `farreach record`: a real program into a trace file.

use super::allocator::Images;
use super::common::{needs_file, note, threads};
use super::program;
use super::progress::{Display, Goal};
use super::recorded::{Recorded, SystemArgs};
use anyhow::{Context, Result};
use clap::Args;
use farreach_live::room::room;
use farreach_live::{Report, Watch};
use farreach_machine::Progress;
use farreach_report::format::{bytes, counted, huge_page_words};
use farreach_trace::frt::{Header, TraceWriter};
use farreach_trace::{Cutter, Pages, Piece, Place};
use farreach_types::Error;
use farreach_types::count::parse_count;
use farreach_types::counts::HugePageWords;
use farreach_types::event::{Batch, Source};
use farreach_workloads::Recording;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};

/// Run a program and store its trace.
#[derive(Args)]
#[command(after_help = concat!(program::exit_statuses!(), "\n
Examples:
  farreach record -o gcc.frt -- gcc -O2 -c big.c
  farreach record --from main --skip 1G --limit 200M -o piece.frt -- ./solver
  farreach sim gcc.frt
  farreach trace check gcc.frt"))]
pub struct RecordArgs {
    #[command(flatten)]
    system: SystemArgs,
    #[command(flatten)]
    trace: TraceArgs,
    /// The program and its arguments, after `--`.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// The options of a trace that is recorded.
#[derive(Args)]
pub struct TraceArgs {
    /// The trace file.
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
    /// Leave out N instructions first, such as 2G. Their events are stored, and their references are not.
    #[arg(long, value_name = "N", value_parser = parse_count::<1>, allow_negative_numbers = true)]
    pub skip: Option<u64>,
    /// Stop after N instructions, such as 300M, behind those of --skip.
    #[arg(long, value_name = "N", value_parser = parse_count::<1>, allow_negative_numbers = true)]
    pub limit: Option<u64>,
    /// Store a page trace: only the pages of data references, for machines that look at nothing else. It is about half
    /// as large, takes longer to record, and is simulated faster; results are the same.
    #[arg(long)]
    pub pages_only: bool,
}

/// Runs the command; the exit status is the program's.
pub fn run(args: RecordArgs) -> Result<ExitCode> {
    let place = args.system.place()?;
    write(&args.trace, place, || Recorded::command(&args.command, &args.system))
}

/// Records what `recorded` makes. `from`: where in the program it begins.
pub fn write(args: &TraceArgs, from: Option<Place>, recorded: impl FnOnce() -> Result<Recorded>) -> Result<ExitCode> {
    let recorded = recorded()?;
    let stored = store(args, from, recorded.header()?, || Ok(recorded.start()?.into()))?;
    Ok(status(&stored, |report| recorded.exit_code(report)))
}

/// The exit status of what was recorded, unless its limit was reached.
pub fn status(stored: &Stored, of: impl FnOnce(&Report) -> ExitCode) -> ExitCode {
    if stored.limited { ExitCode::SUCCESS } else { of(&stored.report) }
}

/// How a recording ended.
pub struct Stored {
    report: Report,
    /// Its limit was reached.
    limited: bool,
}

/// Batches that may wait for the writer, each of up to 256 KiB.
const QUEUED_BATCHES: usize = 64;
/// Most threads that code batches: as many keep up with any program.
const CODERS: usize = 3;
/// Bytes that are to be free for each of them, which takes some 60 MB: the program needs memory, too.
const ROOM: u64 = 512 << 20;

/// How many threads code the batches of a trace.
pub fn coders() -> usize {
    let most = threads(0).min(CODERS);
    room().map_or(most, |room| most.min((room.left / ROOM) as usize)).max(1)
}

/// Batches that wait.
struct Queue(Receiver<Batch>);

impl Source for Queue {
    fn next_batch(&mut self) -> Result<Option<Batch>, Error> {
        Ok(self.0.recv().ok())
    }
}

/// Records what is started into a file, after a check that the file can be written.
/// `from`: where in the program it begins.
pub fn store(
    args: &TraceArgs,
    from: Option<Place>,
    mut header: Header,
    start: impl FnOnce() -> Result<Recording>,
) -> Result<Stored> {
    let _signals = Watch::begin(); // until the file is whole
    let (output, limit) = (&args.output, args.limit);
    needs_file(output, "--output")?;
    let piece = Piece { from, skip: args.skip.unwrap_or(0), limit, ..Piece::default() };
    if piece != Piece::default() {
        header.more.insert("piece".into(), serde_json::to_value(&piece)?);
    }
    // With several coders only what is in the file is known to be recorded, too little to tell the time to the limit.
    let coders = if limit.is_some() { 1 } else { coders() };
    let mut writer = TraceWriter::create_on(output, header, coders)?;
    let mut cutter = Cutter::new(piece);
    let mut recorder = start()?;
    let (mut images, mut said) = (Images::default(), HugePageWords::default());
    let mut display = Display::new(Goal { instructions: limit, references: None });
    // The writer has a thread of its own: here the recorder's small rings are emptied meanwhile.
    let (batches, work) = sync_channel::<Batch>(QUEUED_BATCHES);
    let written = (AtomicU64::new(0), AtomicU64::new(0));
    let (report, totals, limited) = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("encoder".into()).spawn_scoped(scope, || {
            let mut work: Box<dyn Source> =
                if args.pages_only { Box::new(Pages::new(Queue(work))) } else { Box::new(Queue(work)) };
            while let Some(batch) = work.next_batch()? {
                writer.append(batch)?;
                let totals = writer.totals();
                written.0.store(totals.instructions, Ordering::Relaxed);
                written.1.store(totals.references(), Ordering::Relaxed);
            }
            Ok::<_, Error>(writer)
        });
        let thread = thread.context("a thread for the writer")?;
        while let Some(batch) = recorder.next_batch()? {
            images.see(&batch);
            batch.ops.iter().for_each(|op| said.follow(op));
            let batch = cutter.apply(batch)?;
            // No receiver: writing failed.
            if batches.send(batch).is_err() || cutter.done() {
                break;
            }
            let (instructions, references) = (&written.0, &written.1);
            display.update(Progress {
                instructions: instructions.load(Ordering::Relaxed),
                references: references.load(Ordering::Relaxed),
            });
        }
        drop(batches);
        let writer = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        let report = recorder.finish()?;
        if report.interrupted.is_none() {
            cutter.end()?;
        }
        Ok::<_, anyhow::Error>((report, writer.finish()?, cutter.done()))
    })?;
    display.finish();
    let there = std::fs::metadata(output).with_context(|| output.display().to_string())?;
    // The size of a pipe's contents is not known.
    let size = there.is_file().then(|| {
        let each = there.len() as f64 / totals.references().max(1) as f64;
        format!(", {} ({each:.3} bytes per reference)", bytes(there.len()))
    });
    note(format_args!(
        "{}: {}, {}{}",
        output.display(),
        counted(totals.instructions, "instruction"),
        counted(totals.references(), "reference"),
        size.unwrap_or_default(),
    ));
    if let Some(words) = huge_page_words(&said, images.allocator().as_deref()) {
        note(format_args!("the program {words}"));
    }
    program::note_limits(&report);
    Ok(Stored { report, limited })
}
