//! Waiting for chunks, and polling for events that no chunk announces.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use farreach_types::{Error, Result};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::super::layout::{ORDER, RING_BYTES, control};
use super::super::process::Process;
use super::super::signals::{reserve, send};
use super::{POLL_INTERVAL, Recorder, UNBORN};

/// How long processes whose guard is dead may take to die, and how often they are looked for.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(5);

/// Kills all processes that have the folder of this run among their words, as all that are recorded do; its name can
/// not be guessed. Returns whether there were any.
fn kill_of_run(folder: &Path) -> bool {
    let folder = folder.as_os_str().as_bytes();
    let own = std::process::id();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut found = false;
    for number in processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()) {
        // What is looked at is what is killed, whatever has its number meanwhile.
        let Some(process) = Pid::from_raw(number).filter(|_| number as u32 != own) else { continue };
        let Ok(process) = pidfd_open(process, PidfdFlags::empty()) else { continue };
        let words = fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
        if words.windows(folder.len()).any(|part| part == folder) {
            found |= pidfd_send_signal(process, Signal::KILL).is_ok();
        }
    }
    found
}

impl Recorder {
    /// Ring of the next published chunk, if there is one.
    pub(super) fn next_ring(&mut self) -> Option<u32> {
        let place = self.control.u32(control::ORDER + 4 * (self.next_place % ORDER) as usize);
        let ring = place.load(Ordering::SeqCst).checked_sub(1)?;
        place.store(0, Ordering::SeqCst);
        self.next_place += 1;
        Some(ring)
    }

    pub(super) fn sleep(&self) {
        self.control.u32(control::READER_WAITS).store(1, Ordering::SeqCst);
        let seen = self.control.u32(control::WAKE).load(Ordering::SeqCst);
        let place = self.control.u32(control::ORDER + 4 * (self.next_place % ORDER) as usize);
        if place.load(Ordering::SeqCst) == 0 {
            self.control.wait(control::WAKE, seen, POLL_INTERVAL);
        }
        self.control.u32(control::READER_WAITS).store(0, Ordering::SeqCst);
    }

    /// Resizes the rings of writers whose limit of file size forbids it to them.
    pub(super) fn size_rings(&self) -> Result<()> {
        for ring in 0..self.control.u32(control::NEXT_RING).load(Ordering::SeqCst) {
            let Some(file) = Process::ring_file(self.dir.path(), ring) else { continue };
            reserve(&file, RING_BYTES as u64)
                .map_err(|e| self.wrong("recorder", format!("room for ring {ring}: {e}")))?;
        }
        self.control.wake(control::UNSIZED);
        Ok(())
    }

    /// The guard was killed, and with it the program alone: kills its other processes. Returns the error.
    pub(super) fn unguarded(&self, source: std::io::Error) -> Error {
        let since = Instant::now();
        while kill_of_run(self.dir.path()) && since.elapsed() < PATIENCE {
            std::thread::sleep(PAUSE);
        }
        Error::Io { file: self.command_name(), source }
    }

    /// Polls for failures, interrupts and vanished processes.
    pub(super) fn poll_processes(&mut self) -> Result<()> {
        self.last_poll = Instant::now();
        if self.control.u32(control::FAILED).load(Ordering::SeqCst) == 2 {
            let bytes = |i: usize| self.control.u32(control::FAILURE + 4 * i).load(Ordering::SeqCst).to_le_bytes();
            let text: Vec<u8> = (0..control::FAILURE_BYTES / 4).flat_map(bytes).take_while(|&b| b != 0).collect();
            return Err(self.wrong("recorder", String::from_utf8_lossy(&text)));
        }
        if self.control.u32(control::UNSIZED).load(Ordering::SeqCst) > 0 {
            self.size_rings()?;
        }
        if let Err(source) = self.program.check_guard() {
            return Err(self.unguarded(source));
        }
        let (received, forward) = self.signals.take();
        if received > 0 {
            if self.interrupted.is_some() || received > 1 {
                self.kill_all();
            }
            self.interrupted.get_or_insert_with(Instant::now);
        }
        if let Some(signal) = forward {
            send(self.program.pid(), signal);
        }
        if self.killed || self.interrupted.is_some_and(|since| since.elapsed() > self.grace) {
            self.kill_all();
        }
        let dead: Vec<u32> = self.live.iter().filter(|(_, p)| p.is_dead()).map(|(&r, _)| r).collect();
        for ring in dead {
            self.finish_vanished(ring)?;
        }
        // Children that have a ring number, but of which neither parent nor child has published anything: the child may
        // be about to open its ring.
        let unborn: Vec<u32> = self
            .live
            .iter_mut()
            .filter_map(|(&r, p)| (p.open(self.dir.path()).is_none() && p.pid == 0).then_some(r))
            .collect();
        if unborn.is_empty() || unborn.len() < self.live.len() {
            self.unborn_since = None;
        } else if self.unborn_since.get_or_insert_with(Instant::now).elapsed() > UNBORN {
            for ring in unborn {
                self.finish_vanished(ring)?;
            }
        }
        Ok(())
    }
}
