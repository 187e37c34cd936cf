//! Memory of the program that the kernel or the monitor uses where no trap can be waited for. Such pages are mapped
//! before, as by a reference of the task, and stay mapped until the task is through: they are *held*.
//!
//! * A task that ends takes no traps any more. But the kernel clears its number for others that wait, and marks the
//!   robust mutexes that it has locked.
//! * Some futex operations change their word in one step, and fail if it is not mapped.

use crate::call::go;
use crate::contents;
use crate::monitor::{Failure, Monitor};
use crate::regions::Memory;
use crate::space::PAGE;
use crate::sys::{self, Go};
use crate::uffd::Fault;
use farreach_types::addr::{Asid, Vpn};
use std::ops::Range;

/// Mutexes of a list that the kernel looks at.
const MUTEXES: usize = 2048;

impl Monitor<'_> {
    /// Maps the page of an address as a reference of this stopped task would, and holds it. Returns whether it is
    /// mapped: a reference to an address without memory, or without the right to it, fails.
    pub fn hold(&mut self, asid: Asid, task: i32, address: u64, write: bool) -> Result<bool, Failure> {
        let page = address & !(PAGE - 1);
        let Some(space) = self.spaces.get(&asid) else { return Ok(false) };
        let Some((_, region)) = space.regions.find(address) else { return Ok(false) };
        let needed = if write { libc::PROT_WRITE } else { libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC };
        if region.prot & needed == 0 {
            return Ok(false);
        }
        if region.memory == Memory::Unseen {
            return Ok(true); // the kernel maps it
        }
        let has_contents = !region.memory.is_own() || contents::is_there(&space.memory, page).unwrap_or(true);
        let looked_at = |error| Failure::System("looking at a page of the program", error);
        let held = self.held.entry(task).or_default();
        if !held.contains(&(asid, page)) {
            held.push((asid, page));
        }
        // Another kind of fault may be needed than seemed.
        for present in [has_contents, !has_contents] {
            let Some(space) = self.spaces.get(&asid) else { return Ok(false) };
            let protected = space.is_mapped(page).map_err(looked_at)?;
            if protected && !write {
                return Ok(true);
            }
            self.fault(asid, Fault { address: page, write, protected, present, thread: task as u32 })?;
            let Some(space) = self.spaces.get(&asid) else { return Ok(false) };
            if protected || space.is_mapped(page).map_err(looked_at)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_held(&self, asid: Asid, page: u64) -> bool {
        self.held.values().flatten().any(|held| *held == (asid, page))
    }

    /// A task is through: what it held may go.
    pub fn let_go(&mut self, task: i32) -> Result<(), Failure> {
        let Some(held) = self.held.remove(&task) else { return Ok(()) };
        for (asid, page) in held {
            if !self.lab.is_mapped(asid, Vpn(page / PAGE)) && !self.is_held(asid, page) {
                self.left.push((asid, page..page + PAGE));
            }
        }
        self.unmap_left()
    }

    /// These pages without those that are held.
    pub fn without_held(&self, pages: Vec<(Asid, Range<u64>)>) -> Vec<(Asid, Range<u64>)> {
        let mut pages = pages;
        for (asid, held) in self.held.values().flatten() {
            let parts = pages.drain(..).flat_map(|(of, run)| {
                let hit = of == *asid && run.contains(held);
                let parts = if hit { [run.start..*held, held + PAGE..run.end] } else { [run, 0..0] };
                parts.into_iter().filter(|part| !part.is_empty()).map(move |part| (of, part))
            });
            pages = parts.collect();
        }
        pages
    }

    /// Reads memory of a stopped task of the program, as the kernel would for it. Returns whether there is such memory.
    /// Pages that have to be mapped for that stay held.
    pub fn read(&mut self, asid: Asid, task: i32, address: u64, into: &mut [u8]) -> Result<bool, Failure> {
        let mut done = 0;
        while done < into.len() {
            let at = address.wrapping_add(done as u64);
            let many = (into.len() - done).min((PAGE - at % PAGE) as usize);
            let Some(space) = self.spaces.get(&asid) else { return Ok(false) };
            let own = space.regions.find(at).is_some_and(|(_, region)| region.memory.is_own());
            let piece = &mut into[done..done + many];
            if own && contents::is_there(&space.memory, at & !(PAGE - 1)).unwrap_or(false) {
                let got = rustix::io::pread(&space.memory, piece, at);
                got.map_err(|error| Failure::System("reading memory of the program", error.into()))?;
            } else if !self.hold(asid, task, at, false)? || !peek(task, at, piece) {
                return Ok(false);
            }
            done += many;
        }
        Ok(true)
    }

    fn read_word(&mut self, asid: Asid, task: i32, address: u64) -> Result<Option<u64>, Failure> {
        let mut word = [0; 8];
        Ok(self.read(asid, task, address, &mut word)?.then(|| u64::from_ne_bytes(word)))
    }

    /// A task is about to end.
    pub fn ending(&mut self, task: i32) -> Result<(), Failure> {
        let Some((asid, clears)) = self.tasks.get(&task).and_then(|of| Some((of.space?, of.clear_at_end))) else {
            return go(task, Go::On);
        };
        if let Some(address) = clears
            && self.spaces.get(&asid).is_some_and(|space| space.tasks > 1)
        {
            self.hold(asid, task, address, true)?;
        }
        self.hold_mutexes(asid, task)?;
        go(task, Go::On)
    }

    /// Holds the robust mutexes that a task has locked: the head of the list, the link in each, and their words.
    fn hold_mutexes(&mut self, asid: Asid, task: i32) -> Result<(), Failure> {
        let Some(head) = sys::robust_list(task).ok().filter(|head| *head != 0) else { return Ok(()) };
        let Some(mut next) = self.read_word(asid, task, head)? else { return Ok(()) };
        let (Some(offset), Some(pending)) =
            (self.read_word(asid, task, head + 8)?, self.read_word(asid, task, head + 16)?)
        else {
            return Ok(());
        };
        // The lowest bit says that the kernel hands the priority on.
        let link = |word: u64| word & !1;
        if link(next) == head && link(pending) == 0 {
            return Ok(());
        }
        self.hold(asid, task, head, false)?;
        self.hold(asid, task, head + 16, false)?;
        for _ in 0..MUTEXES {
            let at = link(next);
            if at == head || !self.hold(asid, task, at, false)? {
                break;
            }
            self.hold(asid, task, at.wrapping_add(offset), true)?;
            let Some(behind) = self.read_word(asid, task, at)? else { break };
            next = behind;
        }
        if link(pending) != 0 {
            self.hold(asid, task, link(pending).wrapping_add(offset), true)?;
        }
        Ok(())
    }
}

/// Reads mapped memory of a stopped task; the bytes are in one page.
fn peek(task: i32, address: u64, into: &mut [u8]) -> bool {
    let mut at = address;
    for piece in into.chunks_mut(8) {
        // Not beyond the page.
        let from = at.min((at | (PAGE - 1)) - 7);
        let Ok(word) = sys::peek(task, from) else { return false };
        piece.copy_from_slice(&word.to_ne_bytes()[(at - from) as usize..][..piece.len()]);
        at += piece.len() as u64;
    }
    true
}
