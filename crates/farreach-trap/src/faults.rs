//! A trap, from the message of the kernel to the page that is mapped.

use crate::agent::Trouble;
use crate::call::prot_of;
use crate::contents;
use crate::monitor::{Failure, Monitor};
use crate::progress::{IN_KERNEL, instruction};
use crate::regions::{Memory, Region};
use crate::space::PAGE;
use crate::uffd::{Fault, Message};
use farreach_types::addr::{Asid, Vpn};
use farreach_types::event::{Backing, Kind, Mapping, Op};
use rustix::io::Errno;
use std::time::Instant;

/// A note of the report.
pub const BY_AGENT: &str = "the agent unmaps all pages, which is slower";

impl Monitor<'_> {
    /// Serves the faults of an address space that wait.
    pub fn serve_faults(&mut self, asid: Asid) -> Result<(), Failure> {
        let begun = Instant::now();
        self.gaps.begin(begun);
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
                self.arrive(asid, fault)?;
            }
            if got < messages.len() {
                break;
            }
        }
        let end = Instant::now();
        self.trap_time += end - begun;
        self.gaps.end(end);
        Ok(())
    }

    /// Serves the trap of an instruction.
    pub fn trap(&mut self, asid: Asid, fault: Fault) -> Result<(), Failure> {
        let progress = self.progress.of(fault.thread);
        progress.check(fault, || instruction(&mut self.threads, fault.thread))?;
        self.fault(asid, fault)
    }

    /// Serves a fault of a task.
    pub fn fault(&mut self, asid: Asid, fault: Fault) -> Result<(), Failure> {
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
        let misses = self.lab.misses().sum::<u64>() - before;
        self.report.soft += u64::from(misses == 0);
        if let Some((traps, of_kernel)) = &mut self.report.kernel
            && instruction(&mut self.threads, fault.thread) == Some(IN_KERNEL)
        {
            *traps += 1;
            *of_kernel += misses;
        }
        self.report.most_mapped = self.report.most_mapped.max(self.lab.mapped());
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
        if !self.held.is_empty() {
            left = self.without_held(left);
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
