//! A trap, from the message of the kernel to the page that is mapped.

use crate::agent::Trouble;
use crate::call::{go, prot_of};
use crate::contents;
use crate::monitor::{Failure, Monitor};
use crate::regions::{Memory, Region};
use crate::space::PAGE;
use crate::sys::Go;
use crate::uffd::{Fault, Message};
use farreach_types::addr::{Asid, Vpn};
use farreach_types::event::{Backing, Kind, Mapping, Op};
use rustix::io::Errno;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::time::Instant;

/// A note of the report.
pub const BY_AGENT: &str = "the agent unmaps all pages, which is slower";
/// Open files of threads that are kept.
pub const THREADS: usize = 256;

impl Monitor<'_> {
    /// Serves the faults of an address space that wait.
    pub fn serve_faults(&mut self, asid: Asid) -> Result<(), Failure> {
        let begun = Instant::now();
        let mut messages = [Message::default(); 16];
        loop {
            let Some(space) = self.spaces.get(&asid) else { return Ok(()) };
            let got = match space.uffd.read(&mut messages) {
                Ok(got) => got,
                Err(Errno::AGAIN | Errno::INTR) => break,
                Err(error) => return Err(Failure::System("reading page faults", error.into())),
            };
            self.lab.pass(self.begun.elapsed().as_micros() as u64);
            for fault in messages[..got].iter().filter_map(|message| message.fault()) {
                if self.turns.waits(fault.thread) {
                    self.turns.waiting.push((asid, fault));
                } else {
                    self.fault(asid, fault)?;
                }
            }
            if got < messages.len() {
                break;
            }
        }
        self.trap_time += begun.elapsed();
        Ok(())
    }

    /// Serves the faults that waited, once the thread has had its turn.
    pub fn serve_waiting(&mut self) -> Result<(), Failure> {
        if !self.turns.is_over() {
            return Ok(());
        }
        let begun = Instant::now();
        for (asid, fault) in std::mem::take(&mut self.turns.waiting) {
            self.fault(asid, fault)?;
        }
        self.trap_time += begun.elapsed();
        Ok(())
    }

    fn fault(&mut self, asid: Asid, fault: Fault) -> Result<(), Failure> {
        let Some(space) = self.spaces.get(&asid) else { return Ok(()) };
        let page = fault.address..fault.address + PAGE;
        let Some((start, region)) = space.regions.find(fault.address).map(|(start, region)| (start, *region)) else {
            self.report.stray += 1;
            return self.served(space.uffd.wake(page));
        };
        if space.stack_room.contains(&fault.address) {
            self.grow_stack(asid, fault.address, region.prot);
        }
        let vpn = Vpn(fault.address / PAGE);
        let kind = self.kind_of(&region, fault);
        self.report.again += u64::from(!fault.protected && self.lab.is_mapped(asid, vpn));
        let before: u64 = self.lab.misses().sum();
        let writable = self.lab.trap(asid, vpn, kind).map_err(Failure::Laboratory)?;
        self.report.soft += u64::from(self.lab.misses().sum::<u64>() == before);
        self.report.most_mapped = self.report.most_mapped.max(self.lab.mapped());
        let progress = self.progress.of(fault.thread);
        progress.check(fault, || instruction(&mut self.threads, fault.thread))?;
        if progress.is_slow() {
            self.turns.begin(fault.thread);
        }
        self.unmap_left()?;
        let Some(space) = self.spaces.get(&asid) else { return Ok(()) };
        let together = self.mapped_together(page.start, region.end);
        let mapped = match (fault.protected, fault.present, region.memory) {
            (true, ..) => space.uffd.allow_stores(page.clone()),
            (_, false, Memory::File { file, offset }) => {
                let (offset, file) = (offset + (fault.address - start), &self.files[file as usize]);
                match contents::read_file(&space.memory, page.start..region.end, file, offset) {
                    Ok(0) => space.uffd.poison(page.clone()),
                    Ok(pages) => {
                        self.report.file_pages += pages;
                        space.uffd.map(page.clone(), writable)
                    }
                    Err(error) => Err(error),
                }
            }
            (_, false, _) => space.uffd.map_zeros(page.clone(), writable),
            // The kernel maps several at once only in one mapping of its own, and those may be smaller than a region:
            // `madvise` cuts them where it changes how they are dumped or inherited.
            (_, true, _) if together != page => {
                space.uffd.map(together, writable).or_else(|_| space.uffd.map(page.clone(), writable))
            }
            (_, true, _) => space.uffd.map(page.clone(), writable),
        };
        // Another thread was there first, or the contents came or went: the fault is repeated.
        let again = matches!(mapped, Err(Errno::AGAIN | Errno::EXIST | Errno::NOENT | Errno::FAULT));
        self.served(if again { space.uffd.wake(page) } else { mapped })
    }

    /// The stack reaches down to this page now.
    fn grow_stack(&mut self, asid: Asid, start: u64, prot: i32) {
        let room = &mut self.spaces.get_mut(&asid).expect("it has a fault").stack_room;
        let len = room.end - start;
        room.end = start;
        let (prot, backing) = (prot_of(prot), Backing::Stack);
        self.event(asid, Op::Map(Mapping { start, len, prot, shared: false, backing }));
    }

    /// Whether the outcome is one of those that happen while a program runs.
    fn served(&self, outcome: rustix::io::Result<()>) -> Result<(), Failure> {
        match outcome {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(Failure::System("mapping a page of the program", error.into())),
        }
    }

    /// Unmaps the pages that left the machines.
    pub fn unmap_left(&mut self) -> Result<(), Failure> {
        let mut left = std::mem::take(&mut self.left);
        self.lab.take_unmapped(|asid, pages| {
            left.push((asid, pages.start.0 * PAGE..(pages.start.0 + pages.pages) * PAGE));
        });
        if !self.pins.is_empty() {
            left = self.without_pins(left);
        }
        left.sort_by_key(|(asid, _)| *asid);
        let mut runs = Vec::new();
        for of_one in left.chunk_by(|one, next| one.0 == next.0) {
            let Some(space) = self.spaces.get_mut(&of_one[0].0) else { continue };
            runs.clear();
            runs.extend(of_one.iter().map(|(_, run)| run.clone()));
            let done = match space.unmap(&runs, self.reclaim) {
                Ok(done) => done,
                // Its end is reported soon.
                Err(Trouble::Gone) if !self.has_living_task(of_one[0].0) => continue,
                Err(trouble) => return Err(Failure::trouble("unmapping pages of the program", trouble)),
            };
            self.report.unmapped += done.pages;
            self.report.unmapped_by_agent += done.by_agent;
            if done.refused {
                self.reclaim = false;
                self.report.notes.push(format!("{BY_AGENT}: only root may ask the kernel for it"));
            }
        }
        left.clear();
        self.left = left;
        Ok(())
    }

    /// These pages without those that stay mapped.
    pub fn without_pins(&self, pages: Vec<(Asid, Range<u64>)>) -> Vec<(Asid, Range<u64>)> {
        let mut pages = pages;
        for (asid, pin) in self.pins.values() {
            let parts = pages.drain(..).flat_map(|(of, run)| {
                let hit = of == *asid && run.contains(pin);
                let parts = if hit { [run.start..*pin, pin + PAGE..run.end] } else { [run, 0..0] };
                parts.into_iter().filter(|part| !part.is_empty()).map(move |part| (of, part))
            });
            pages = parts.collect();
        }
        pages
    }

    /// A task is about to end. Then the kernel clears its number in its memory, for others that wait; but there it has
    /// no traps. So the page is mapped before, and stays until the task has ended.
    pub fn ending(&mut self, task: i32) -> Result<(), Failure> {
        let of = self.tasks.get(&task).and_then(|of| Some((of.space?, of.clear_at_end?)));
        if let Some((asid, address)) = of
            && let Some(space) = self.spaces.get(&asid).filter(|space| space.tasks > 1)
            && let Some((_, region)) = space.regions.find(address)
            && region.memory != Memory::Unseen
        {
            let address = address & !(PAGE - 1);
            let protected = space.is_mapped(address).unwrap_or(false);
            // A page without contents is one that was never written.
            let fault = Fault { address, write: true, protected, present: true, thread: task as u32 };
            self.pins.insert(task, (asid, address));
            self.fault(asid, fault)?;
        }
        go(task, Go::On)
    }

    /// A task has ended: its page may go.
    pub fn unpin(&mut self, task: i32) -> Result<(), Failure> {
        let Some((asid, page)) = self.pins.remove(&task) else { return Ok(()) };
        if !self.lab.is_mapped(asid, Vpn(page / PAGE)) {
            self.left.push((asid, page..page + PAGE));
            self.unmap_left()?;
        }
        Ok(())
    }

    /// What trapped.
    fn kind_of(&mut self, region: &Region, fault: Fault) -> Kind {
        let executable = region.prot & libc::PROT_EXEC != 0;
        let kind = match executable {
            _ if fault.write => Kind::Store,
            false => Kind::Load,
            true => match instruction(&mut self.threads, fault.thread) {
                // An instruction may begin on the page before.
                Some(at) if at & !(PAGE - 1) == fault.address || fault.address.wrapping_sub(at) < 15 => Kind::Fetch,
                Some(_) => Kind::Load,
                None => {
                    self.report.unknown_kind += 1;
                    Kind::Fetch
                }
            },
        };
        let report = &mut self.report;
        report.data_in_code += u64::from(executable && kind != Kind::Fetch);
        *match (kind, fault.protected) {
            (Kind::Fetch, _) => &mut report.fetches,
            (Kind::Load, _) => &mut report.loads,
            (Kind::Store, false) => &mut report.stores,
            (Kind::Store, true) => &mut report.first_stores,
        } += 1;
        kind
    }
}

/// The instruction that a thread has come to. While the kernel reads for it, an address that no program has.
fn instruction(threads: &mut hashbrown::HashMap<u32, File, foldhash::fast::FixedState>, thread: u32) -> Option<u64> {
    let mut text = [0; 256];
    let known = threads.get(&thread).and_then(|file| file.read_at(&mut text, 0).ok());
    let used = match known {
        Some(used) => used,
        // Its number may be another thread's now.
        None => {
            if threads.len() >= THREADS {
                threads.clear();
            }
            let file = File::open(format!("/proc/{thread}/syscall")).ok()?;
            let used = file.read_at(&mut text, 0).ok()?;
            threads.insert(thread, file);
            used
        }
    };
    let text = std::str::from_utf8(&text[..used]).ok()?.trim_end();
    let (state, _) = text.split_once(' ')?;
    let pointer = u64::from_str_radix(text.rsplit(' ').next()?.strip_prefix("0x")?, 16).ok()?;
    Some(if state == "-1" { pointer } else { u64::MAX })
}
