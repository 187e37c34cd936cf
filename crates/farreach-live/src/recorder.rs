//! The reading end of the stream: chunks in the order of their publication, processes that come and go.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::process::Child;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use farreach_types::addr::Asid;
use farreach_types::event::{Batch, End, Op, Source};
use farreach_types::{Error, Result};

use super::advice::keep_freed_memory;
use super::check::check_program;
use super::decode::{Counts, Decoder, Notice};
use super::launch::{Options, RunDir, error, spawn, tool_dir};
use super::layout::{ORDER, RING_BYTES, control};
use super::process::Process;
use super::shared::Shared;
use super::signals::{Watch, reserve, send};
use super::wait;

mod vanished;

/// How often processes are looked at, and how long a wait without news lasts.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How long an interrupted program may take to end on its own.
const GRACE: Duration = Duration::from_secs(3);

/// How the program ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// With this status.
    Code(i32),
    /// Killed by this signal.
    Signal(i32),
}

/// What a finished recording was.
#[derive(Clone, Debug)]
pub struct Report {
    /// How the command itself ended (its children are in the stream).
    pub exit: Exit,
    /// Process id of the command.
    pub pid: u32,
    /// References received, of all processes. Those of conditional instructions count whether or not they happened.
    pub counts: Counts,
    /// Process images that ended in a regular way and whose counts agreed with the recorder's own.
    pub verified: u32,
    /// Process images that vanished (killed); all they had recorded was recovered.
    pub lost: u32,
    /// User and system time of the recorder and the program in it, and of all their children.
    pub cpu: Duration,
    /// The signal (Ctrl-C, SIGTERM, [`Recorder::interrupt`]) that ended the recording, if one did.
    pub interrupted: Option<i32>,
}

/// A program being recorded. Dropping it ends the program.
pub struct Recorder {
    command: OsString,
    child: Child,
    exit: Option<Exit>,
    /// Known when `exit` is.
    cpu: Duration,
    control: Shared,
    /// Locked while the stream is read.
    _lock: File,
    decoder: Decoder,
    /// Images whose stream has not ended, by ring.
    live: BTreeMap<u32, Process>,
    ready: VecDeque<Batch>,
    next_place: u64,
    next_asid: u32,
    last_poll: Instant,
    /// Since when only unknown children are alive.
    unborn_since: Option<Instant>,
    counts: Counts,
    verified: u32,
    lost: u32,
    signals: Watch,
    /// Since when the program is asked to end.
    interrupted: Option<Instant>,
    killed: bool,
    failed: bool,
    // Last, so that it goes last.
    dir: RunDir,
}

impl Recorder {
    /// Starts `command` (program and arguments) under the recorder.
    pub fn start(command: &[OsString], options: &Options) -> Result<Recorder> {
        let program = command.first().ok_or_else(|| error("".as_ref(), "command", "no program given"))?;
        check_program(program)?;
        keep_freed_memory();
        let tool = tool_dir(options.tool_dir.as_deref())?;
        let dir = RunDir::create(options.shared_dir.as_deref())?;
        let (control, lock) = dir.control()?;
        let signals = Watch::begin();
        let child = spawn(&tool, &dir.0, command, options)?;
        let mut first = Process::announced(0, Asid(0));
        first.set_pid(child.id());
        let mut recorder = Recorder {
            command: program.clone(),
            child,
            exit: None,
            cpu: Duration::ZERO,
            control,
            _lock: lock,
            decoder: Decoder::default(),
            live: BTreeMap::from([(0, first)]),
            ready: VecDeque::new(),
            next_place: 0,
            next_asid: 1,
            last_poll: Instant::now(),
            unborn_since: None,
            counts: Counts::default(),
            verified: 0,
            lost: 0,
            signals,
            interrupted: None,
            killed: false,
            failed: false,
            dir,
        };
        // A signal that came before the program did not reach it.
        if recorder.signals.take().0 > 0 {
            recorder.interrupt();
        }
        Ok(recorder)
    }

    /// Asks the program to end (SIGINT); after 3 s, or at the second call, all its processes are killed. The stream goes on
    /// to its regular end.
    pub fn interrupt(&mut self) {
        if self.interrupted.is_some() {
            self.kill_all();
        } else {
            self.interrupted = Some(Instant::now());
            send(self.child.id(), libc::SIGINT);
        }
    }

    /// Process id of the command. It stays the command's until [`Recorder::finish`].
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the end of the command. If the stream was not read to its end, the program is killed first.
    pub fn finish(mut self) -> Result<Report> {
        if !self.live.is_empty() {
            self.close();
        }
        let exit = self.wait()?;
        // The program may have ended of an interrupt before anybody looked.
        if self.signals.take().0 > 0 {
            self.interrupted.get_or_insert_with(Instant::now);
        }
        Ok(Report {
            exit,
            pid: self.child.id(),
            counts: self.counts,
            verified: self.verified,
            lost: self.lost,
            cpu: self.cpu,
            interrupted: self.interrupted.map(|_| self.signals.first().unwrap_or(libc::SIGINT)),
        })
    }

    fn wait(&mut self) -> Result<Exit> {
        if let Some(exit) = self.exit {
            return Ok(exit);
        }
        let (status, cpu) = wait::wait(self.child.id()).map_err(|source| Error::Io { file: "recorder".into(), source })?;
        let exit = status.code().map_or_else(|| Exit::Signal(status.signal().unwrap_or(0)), Exit::Code);
        (self.exit, self.cpu) = (Some(exit), cpu);
        Ok(exit)
    }

    fn kill_all(&mut self) {
        self.killed = true;
        for p in self.live.values().filter(|p| p.pid != 0 && !p.is_dead()) {
            send(p.pid, libc::SIGKILL);
        }
    }

    /// Ends everything: the stream is not read any more.
    fn close(&mut self) {
        self.control.u32(control::CLOSED).store(1, Ordering::SeqCst);
        for p in self.live.values_mut() {
            p.open(&self.dir.0);
            p.wake();
        }
        self.kill_all();
        self.live.clear();
    }

    fn wrong(&self, place: &str, what: impl Into<String>) -> Error {
        error(&self.command, place, what)
    }

    /// Ring of the next published chunk, if there is one.
    fn next_ring(&mut self) -> Option<u32> {
        let place = self.control.u32(control::ORDER + 4 * (self.next_place % ORDER) as usize);
        let ring = place.load(Ordering::SeqCst).checked_sub(1)?;
        place.store(0, Ordering::SeqCst);
        self.next_place += 1;
        Some(ring)
    }

    fn sleep(&self) {
        self.control.u32(control::READER_WAITS).store(1, Ordering::SeqCst);
        let seen = self.control.u32(control::WAKE).load(Ordering::SeqCst);
        let place = self.control.u32(control::ORDER + 4 * (self.next_place % ORDER) as usize);
        if place.load(Ordering::SeqCst) == 0 {
            self.control.wait(control::WAKE, seen, POLL_INTERVAL);
        }
        self.control.u32(control::READER_WAITS).store(0, Ordering::SeqCst);
    }

    /// Decodes the next chunk of a ring into `ready`.
    fn take(&mut self, ring: u32) -> Result<()> {
        // An exec makes a ring that no fork announced.
        let mut process = self.live.remove(&ring).unwrap_or_else(|| Process::announced(ring, Asid(u32::MAX)));
        let place = format!("ring {ring}");
        let words = process.take_chunk(&self.dir.0).map_err(|e| self.wrong(&place, e))?;
        self.decode(process, words, false)
    }

    fn decode(&mut self, mut process: Process, words: Vec<u64>, torn: bool) -> Result<()> {
        let ring = process.ring;
        let place = format!("process {} (ring {ring})", process.pid);
        let mut decoded = self.decoder.decode(process.asid, words, torn).map_err(|e| self.wrong(&place, e))?;
        process.counts.add(&decoded.counts);
        process.cut.add(&decoded.cut);
        let mut ended = false;
        for notice in decoded.notices {
            match notice {
                Notice::Started { pid, op } => {
                    // The ring gave it; the program may have another number in its own namespace.
                    let pid = if process.pid == 0 { pid } else { process.pid };
                    process.set_pid(pid);
                    let before = self.live.iter().find(|(_, p)| p.execing && p.pid == pid).map(|(&r, _)| r);
                    let parent = before.and_then(|r| self.live.remove(&r)).map(|old| {
                        let mut last = Batch::new(old.asid);
                        last.push_op(Op::End(End::Exec));
                        self.ready.push_back(last);
                        self.remove_ring(old.ring);
                        self.count(&old);
                        old.asid
                    });
                    if process.asid == Asid(u32::MAX) {
                        process.asid = Asid(self.next_asid);
                        self.next_asid += 1;
                    }
                    decoded.batch.asid = process.asid;
                    if let Some(Op::Start { pid: shown, parent: slot, .. }) = decoded.batch.ops.get_mut(op) {
                        (*shown, *slot) = (pid, parent);
                    }
                }
                Notice::Fork { ring, op } => {
                    let asid = Asid(self.next_asid);
                    self.next_asid += 1;
                    self.live.insert(ring, Process::announced(ring, asid));
                    if let Some(Op::Fork { child }) = decoded.batch.ops.get_mut(op) {
                        *child = asid;
                    }
                }
                Notice::Forked { ring, pid } => {
                    if let Some(child) = self.live.get_mut(&ring).filter(|c| c.pid == 0) {
                        child.set_pid(pid);
                    }
                }
                Notice::ForkFailed { ring } => {
                    if let Some(child) = self.live.remove(&ring) {
                        let mut last = Batch::new(child.asid);
                        last.push_op(Op::End(End::Lost));
                        self.ready.push_back(last);
                    }
                }
                Notice::Exec => process.execing = true,
                Notice::ExecFailed => process.execing = false,
                Notice::Ended { tally } => {
                    ended = true;
                    let received = process.counts.tally();
                    if tally != received {
                        let why = format!("the recorder made {tally:#x}, {received:#x} arrived: references were lost");
                        return Err(self.wrong(&place, why));
                    }
                    self.verified += 1;
                }
            }
        }
        if process.asid == Asid(u32::MAX) && torn && decoded.batch.is_empty() {
            self.remove_ring(ring); // An image that did not live to begin.
            return Ok(());
        }
        if process.asid == Asid(u32::MAX) {
            return Err(self.wrong(&place, "a stream that begins with neither a start nor a fork"));
        }
        if !decoded.batch.is_empty() {
            self.ready.push_back(decoded.batch);
        }
        if ended {
            self.count(&process);
            self.remove_ring(ring);
        } else {
            self.live.insert(ring, process);
        }
        Ok(())
    }

    /// Adds up what really arrived: without what faults prevented.
    fn count(&mut self, p: &Process) {
        self.counts.instructions += p.counts.instructions - p.cut.instructions;
        self.counts.loads += p.counts.loads - p.cut.loads;
        self.counts.stores += p.counts.stores - p.cut.stores;
    }

    fn remove_ring(&self, ring: u32) {
        let _ = std::fs::remove_file(self.dir.0.join(format!("ring.{ring}")));
    }

    /// Resizes the rings of writers that may not do it themselves.
    fn size_rings(&self) -> Result<()> {
        for ring in 0..self.control.u32(control::NEXT_RING).load(Ordering::SeqCst) {
            let Some(file) = Process::ring_file(&self.dir.0, ring) else { continue };
            reserve(&file, RING_BYTES as u64).map_err(|e| self.wrong("recorder", format!("room for ring {ring}: {e}")))?;
        }
        self.control.wake(control::UNSIZED);
        Ok(())
    }

    /// Polls for what is not announced: failures, interrupts, vanished processes.
    fn poll_processes(&mut self) -> Result<()> {
        self.last_poll = Instant::now();
        if self.control.u32(control::FAILED).load(Ordering::SeqCst) == 2 {
            let bytes = |i: usize| self.control.u32(control::FAILURE + 4 * i).load(Ordering::SeqCst).to_le_bytes();
            let text: Vec<u8> = (0..control::FAILURE_BYTES / 4).flat_map(bytes).take_while(|&b| b != 0).collect();
            return Err(self.wrong("recorder", String::from_utf8_lossy(&text)));
        }
        if self.control.u32(control::UNSIZED).load(Ordering::SeqCst) > 0 {
            self.size_rings()?;
        }
        let (received, forward) = self.signals.take();
        if received > 0 {
            if self.interrupted.is_some() || received > 1 {
                self.kill_all();
            }
            self.interrupted.get_or_insert_with(Instant::now);
        }
        if let Some(signal) = forward {
            send(self.child.id(), signal);
        }
        if self.killed || self.interrupted.is_some_and(|since| since.elapsed() > GRACE) {
            self.kill_all();
        }
        let dead: Vec<u32> = self.live.iter().filter(|(_, p)| p.is_dead()).map(|(&r, _)| r).collect();
        for ring in dead {
            self.finish_vanished(ring)?;
        }
        // Children whose number was given out, but of which neither parent nor child could tell more: perhaps the child is
        // about to open its ring.
        let unborn: Vec<u32> =
            self.live.iter_mut().filter_map(|(&r, p)| (p.open(&self.dir.0).is_none() && p.pid == 0).then_some(r)).collect();
        if unborn.is_empty() || unborn.len() < self.live.len() {
            self.unborn_since = None;
        } else if self.unborn_since.get_or_insert_with(Instant::now).elapsed() > GRACE {
            for ring in unborn {
                self.finish_vanished(ring)?;
            }
        }
        Ok(())
    }

    fn next(&mut self) -> Result<Option<Batch>> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                return Ok(Some(batch));
            }
            if self.live.is_empty() {
                return Ok(None);
            }
            if self.last_poll.elapsed() >= POLL_INTERVAL {
                self.poll_processes()?;
            }
            match self.next_ring() {
                Some(ring) => self.take(ring)?,
                None if self.ready.is_empty() && !self.live.is_empty() => self.sleep(),
                None => {}
            }
        }
    }
}

impl Source for Recorder {
    fn next_batch(&mut self) -> Result<Option<Batch>> {
        if self.failed {
            return Ok(None);
        }
        let result = self.next();
        if result.is_err() {
            self.failed = true;
            self.close();
        }
        result
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if self.exit.is_none() {
            self.close();
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
