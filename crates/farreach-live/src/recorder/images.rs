//! Events of processes in a chunk: images that begin, fork, call exec and end.

use std::sync::Arc;

use farreach_types::Result;
use farreach_types::addr::Asid;
use farreach_types::event::{Batch, End, Op};

use super::super::decode::Notice;
use super::super::process::Process;
use super::Recorder;

impl Recorder {
    /// Decodes the next chunk of a ring into `ready`.
    pub(super) fn take(&mut self, ring: u32) -> Result<()> {
        // An exec makes a ring that no fork announced.
        let mut process = self.live.remove(&ring).unwrap_or_else(|| Process::announced(ring, Asid(u32::MAX)));
        let place = format!("ring {ring}");
        let words = process.take_chunk(self.dir.path()).map_err(|e| self.wrong(&place, e))?;
        self.decode(process, words, false)
    }

    pub(super) fn decode(&mut self, mut process: Process, words: Vec<u64>, torn: bool) -> Result<()> {
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
                    let before = self.live.iter().find(|(_, p)| p.execing && p.own == process.own).map(|(&r, _)| r);
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
                    if let Some(Op::Start { pid: shown, parent: slot, program }) = decoded.batch.ops.get_mut(op) {
                        (*shown, *slot) = (pid, parent);
                        process.program = Arc::clone(program);
                    }
                }
                Notice::Fork { ring, op } => {
                    let asid = Asid(self.next_asid);
                    self.next_asid += 1;
                    let mut child = Process::announced(ring, asid);
                    child.program = Arc::clone(&process.program);
                    self.live.insert(ring, child);
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
                Notice::Limit { told, count } => self.met.add(&told, count, &process.program, process.pid),
                Notice::Summary(counts) => {
                    if counts.different > 0 {
                        let (n, all) = (counts.different, counts.compared);
                        let why =
                            format!("{n} of {all} translations differ from the emulator's own: no result is right");
                        return Err(self.wrong(&place, why));
                    }
                    if let Some(system) = &mut self.system {
                        system.checks = Some(counts);
                    }
                }
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
        self.ready.extend(decoded.before);
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

    /// Adds up the references that were received, without those that faults prevented.
    pub(super) fn count(&mut self, p: &Process) {
        self.counts.instructions += p.counts.instructions - p.cut.instructions;
        self.counts.loads += p.counts.loads - p.cut.loads;
        self.counts.stores += p.counts.stores - p.cut.stores;
    }

    pub(super) fn remove_ring(&self, ring: u32) {
        let _ = std::fs::remove_file(self.dir.path().join(format!("ring.{ring}")));
    }
}
