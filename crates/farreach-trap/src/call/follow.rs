//! What the kernel did for a system call, done again for the laboratory and the space's own memory.

use super::{MappedFile, What, prot_of, up};
use crate::agent::Trouble;
use crate::contents;
use crate::monitor::Monitor;
use crate::regions::{Memory, OnFork, Region};
use crate::space::PAGE;
use crate::sys;
use farreach_types::addr::Asid;
use farreach_types::event::{Advice, Backing, Mapping, Op, Prot};
use std::ops::Range;

const MADV_DONTNEED_LOCKED: i32 = 24;

impl Monitor<'_> {
    /// The kernel has done this, with this value. `part`: there was a hole. It advises on both sides, but protects only
    /// up to the hole.
    pub(super) fn follow(&mut self, asid: Asid, what: What, value: u64, part: bool) -> Result<(), Trouble> {
        let space = self.spaces.get_mut(&asid).expect("it has a task");
        match what {
            What::Map { file, bytes, prot, flags } => {
                return self.follow_map(asid, file, value..value + bytes, prot, flags);
            }
            What::Unmap(bytes) => {
                space.forget(bytes.clone())?;
                self.event(asid, Op::Unmap { start: bytes.start, len: bytes.end - bytes.start });
            }
            What::Move { old, bytes, fixed } => return self.follow_move(asid, old, value..value + bytes, fixed),
            What::Heap => {
                let (old, new) = (up(space.heap_end), up(value));
                space.heap_end = value;
                if old < new {
                    let prot = libc::PROT_READ | libc::PROT_WRITE;
                    space.overlay(old..new, Region { end: new, prot, memory: Memory::Own, on_fork: OnFork::Copy })?;
                    let (prot, backing) = (Prot::RW, Backing::Heap);
                    self.event(asid, Op::Map(Mapping { start: old, len: new - old, prot, shared: false, backing }));
                } else if new < old {
                    space.forget(new..old)?;
                    self.event(asid, Op::Unmap { start: new, len: old - new });
                }
            }
            What::Protect(mut bytes, prot) => {
                if part {
                    bytes.end = space.regions.covered(bytes.clone());
                }
                if bytes.is_empty() {
                    return Ok(());
                }
                space.regions.change(bytes.clone(), |region| region.prot = prot);
                if space.stack_room.contains(&bytes.start) {
                    bytes.start = space.stack_room.end.min(bytes.end); // what the laboratory was told of
                }
                let (start, len) = (bytes.start, bytes.end - bytes.start);
                self.event(asid, Op::Protect { start, len, prot: prot_of(prot) });
            }
            What::Advise(bytes, advice) => match advice {
                libc::MADV_DONTNEED | MADV_DONTNEED_LOCKED | libc::MADV_REMOVE => {
                    if advice != libc::MADV_REMOVE {
                        space.drop_contents(bytes.clone())?;
                    }
                    self.advise(asid, bytes, Advice::DontNeed);
                }
                libc::MADV_WILLNEED => self.advise(asid, bytes, Advice::WillNeed),
                libc::MADV_POPULATE_READ | libc::MADV_POPULATE_WRITE => {
                    self.advise(asid, bytes, Advice::Populate);
                }
                libc::MADV_DONTFORK => space.regions.change(bytes, |region| region.on_fork = OnFork::Leave),
                libc::MADV_DOFORK => space.regions.change(bytes, |region| region.on_fork = OnFork::Copy),
                _ => {}
            },
            What::Attach => {
                let number = space.agent.number();
                if let Some(segment) = crate::maps::of(number)?.into_iter().find(|m| m.bytes.start == value) {
                    let len = segment.bytes.end - value;
                    space.attached.insert(value, len);
                    if !space.observe_shared(segment.bytes, segment.prot) {
                        self.not_observed("System V shared memory".to_owned(), len);
                    }
                    let (prot, backing) = (prot_of(segment.prot), Backing::Anonymous);
                    self.event(asid, Op::Map(Mapping { start: value, len, prot, shared: true, backing }));
                }
            }
            What::Detach(start) => {
                if let Some(len) = space.attached.remove(&start) {
                    space.forget(start..start + len)?;
                    self.event(asid, Op::Unmap { start, len });
                }
            }
            What::Fork | What::Apart => {}
            What::Processors { of, bytes, place } => {
                // The program is bound to one processor, and sees those that it would have.
                let all = self.chosen.get(&of).map_or_else(|| sys::mask_of(&self.processors), Vec::as_slice);
                let mask = &all[..(value.min(bytes) as usize).min(all.len())];
                let seen = space.regions.find(place).filter(|(_, region)| region.memory.is_own());
                if seen.is_some_and(|(_, region)| place + mask.len() as u64 <= region.end) {
                    contents::write_all(&space.memory, mask, place)?;
                }
            }
        }
        Ok(())
    }

    fn follow_map(
        &mut self,
        asid: Asid,
        file: Option<MappedFile>,
        bytes: Range<u64>,
        prot: i32,
        flags: i32,
    ) -> Result<(), Trouble> {
        let space = self.spaces.get_mut(&asid).expect("it has a task");
        space.forget(bytes.clone())?;
        let shared = flags & libc::MAP_TYPE != libc::MAP_PRIVATE;
        let region = |memory| Region { end: bytes.end, prot, memory, on_fork: OnFork::Copy };
        let name = || file.as_ref().map_or_else(|| "shared memory".to_owned(), |file| file.path.to_string());
        match &file {
            None if !shared => space.overlay(bytes.clone(), region(Memory::Own))?,
            Some(MappedFile { number: Some(number), offset, .. }) => {
                space.overlay(bytes.clone(), region(Memory::File { file: *number, offset: *offset }))?;
            }
            // All of /dev/zero is anonymous.
            Some(file) if !shared && &*file.path == "/dev/zero" => space.overlay(bytes.clone(), region(Memory::Own))?,
            _ if shared && space.observe_shared(bytes.clone(), prot) => {}
            _ => {
                space.regions.insert(bytes.start, region(Memory::Unseen));
                self.not_observed(name(), bytes.end - bytes.start);
            }
        }
        let backing = match file {
            Some(file) => Backing::File { path: file.path, offset: file.offset },
            None => Backing::Anonymous,
        };
        let (start, len) = (bytes.start, bytes.end - bytes.start);
        self.event(asid, Op::Map(Mapping { start, len, prot: prot_of(prot), shared, backing }));
        Ok(())
    }

    /// `mremap`: memory of the space's own moves to where its contents belong.
    fn follow_move(&mut self, asid: Asid, old: Range<u64>, new: Range<u64>, fixed: bool) -> Result<(), Trouble> {
        let space = self.spaces.get_mut(&asid).expect("it has a task");
        let (old_len, new_len) = (old.end - old.start, new.end - new.start);
        let parts = space.regions.within(old.start..old.start + old_len.max(PAGE));
        if new.start == old.start {
            if new.end < old.end {
                space.forget(new.end..old.end)?;
            } else if let Some((part, region)) = parts.last().filter(|_| new.end > old.end) {
                let memory = region.memory.behind(old.end - part.start);
                space.overlay_or_observe(old.end..new.end, Region { end: new.end, memory, ..*region })?;
            }
        } else {
            space.forget(new.clone())?;
            let by = new.start.wrapping_sub(old.start);
            for (part, region) in &parts {
                let mut moved = part.start.wrapping_add(by)..part.end.wrapping_add(by).min(new.end);
                if moved.is_empty() {
                    continue;
                }
                // A length of 0 maps shared memory once more.
                if part.end == old.end || old_len == 0 {
                    moved.end = new.end;
                }
                if region.memory.is_own() {
                    let kept = part.start..part.start + (moved.end - moved.start).min(part.end - part.start);
                    contents::copy(&space.memory, kept, &space.memory, by)?;
                }
                space.overlay_or_observe(moved.clone(), Region { end: moved.end, ..*region })?;
            }
            space.forget(old.clone())?;
        }
        if fixed {
            self.event(asid, Op::Unmap { start: new.start, len: new_len });
        }
        self.event(asid, Op::Remap { old_start: old.start, old_len, new_start: new.start, new_len });
        Ok(())
    }

    pub(super) fn advise(&mut self, asid: Asid, bytes: Range<u64>, advice: Advice) {
        if !bytes.is_empty() {
            self.event(asid, Op::Advise { start: bytes.start, len: bytes.end - bytes.start, advice });
        }
    }
}
