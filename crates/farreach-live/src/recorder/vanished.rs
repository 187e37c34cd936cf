//! Processes that vanished: their unpublished words, and whether they were killed, called exec, or the recorder failed.

use std::sync::atomic::Ordering;
use std::time::Instant;

use farreach_types::Result;
use farreach_types::addr::Asid;
use farreach_types::event::End;

use super::super::layout::{ORDER, control};
use super::super::limits::{self, Limit};
use super::super::log::Log;
use super::super::process::Process;
use super::{Exit, Recorder, UNBORN};

const FAILED: &str = "the recorder itself failed";
const CUT_SHORT: &str = "QEMU ended without an end of its stream";
/// Signals by which a program ends that goes wrong.
const CRASHES: [i32; 5] = [libc::SIGABRT, libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE];

impl Recorder {
    /// Whether published chunks are waiting.
    fn has_chunks(&self) -> bool {
        self.control.u64(control::HEAD).load(Ordering::SeqCst) > self.next_place
    }

    /// The image of a process that has a ring, but published nothing yet.
    fn image_of(&self, own: Option<(u32, u32)>) -> Option<Process> {
        let rings = 0..self.control.u32(control::NEXT_RING).load(Ordering::SeqCst);
        let unknown = rings.rev().filter(|ring| !self.live.contains_key(ring));
        let mut images = unknown.map(|ring| Process::announced(ring, Asid(u32::MAX)));
        images.find_map(|mut image| (image.open(self.dir.path()).is_some() && image.own == own).then_some(image))
    }

    /// Handles a process that vanished without an end record: takes its remaining words.
    pub(super) fn finish_vanished(&mut self, ring: u32) -> Result<()> {
        let Some(process) = self.live.get_mut(&ring) else { return Ok(()) };
        if process.pending(self.dir.path()) > 0 {
            // Its published chunks come in their order, unless it died between publishing and taking its place in the
            // order: then that place stays empty, or was never taken.
            let head = self.control.u64(control::HEAD).load(Ordering::SeqCst);
            let place = |n: u64| self.control.u32(control::ORDER + 4 * (n % ORDER) as usize).load(Ordering::SeqCst);
            let in_turn = (self.next_place..head).filter(|&n| place(n) == ring + 1).count() as u64;
            if process.pending(self.dir.path()) > in_turn && (head == self.next_place || place(self.next_place) == 0) {
                self.next_place = head.min(self.next_place + 1);
                return self.take(ring);
            }
            return Ok(());
        }
        if process.execing {
            // It may have become another program. Only a chunk of that program shows it: the chunk may be waiting, or
            // the program died before publishing one.
            let own = process.own;
            let since = *process.dead_since.get_or_insert_with(Instant::now);
            if self.has_chunks() && since.elapsed() < UNBORN {
                return Ok(());
            }
            if let Some(image) = self.image_of(own) {
                if !image.is_dead() {
                    return Ok(()); // It runs, and its first chunk will show it.
                }
                let ring = image.ring;
                self.live.insert(ring, image);
                return self.finish_vanished(ring);
            }
        }
        let Some(mut process) = self.live.remove(&ring) else { return Ok(()) };
        let pid = process.pid;
        let words = process.take_unpublished(self.dir.path());
        let started = process.open(self.dir.path()).is_some();
        self.decode(process, words, true)?;
        let Some(process) = self.live.remove(&ring) else { return Ok(()) };
        let asid = process.asid;
        self.count(&process);
        self.remove_ring(ring);
        let log = Log::read(self.dir.path(), pid);
        // A program records how it ended, unless a signal from outside ended it.
        let unexplained = pid == self.program.pid()
            && match self.wait() {
                Ok(Exit::Code(_)) => true,
                // No guest can do that to QEMU.
                Ok(Exit::Signal(signal)) => self.system.is_some() && CRASHES.contains(&signal),
                Err(_) => false,
            };
        let unborn = ring == 0 && !started;
        let failure =
            log.failure().or_else(|| (unexplained || unborn && self.interrupted.is_none()).then(|| log.tail()));
        if let Some(why) = failure {
            let mut why =
                if why.is_empty() { "; its message, if any, stands above".to_owned() } else { format!(":\n{why}") };
            if let Some(limit) = limits::soft(Limit::AddressSpace).filter(|_| why.contains("out of memory")) {
                why.push_str(&format!("\nthe limit of its addresses is {} KiB (ulimit -v)", limit >> 10));
            }
            let what = match self.wait() {
                _ if self.system.is_none() => FAILED.to_owned(),
                Ok(Exit::Signal(signal)) => format!("{CUT_SHORT}, by signal {signal}"),
                Ok(Exit::Code(status)) => format!("{CUT_SHORT}, with status {status}"),
                Err(_) => CUT_SHORT.to_owned(),
            };
            return Err(self.wrong(&format!("process {pid}"), format!("{what}{why}")));
        }
        self.lost += 1;
        if !unborn {
            self.ready.extend(self.decoder.ends(asid, End::Lost));
        }
        Ok(())
    }
}
