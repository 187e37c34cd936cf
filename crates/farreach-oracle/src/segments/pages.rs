//! What happens to pages: entering and leaving a segment, touches (SEG-11 to SEG-13).

use super::{Entry, Full, PlainSegments, Registers, Truth};
use farreach_types::event::Kind;

impl PlainSegments {
    /// The registers of a process change (SEG-11, SEG-12).
    pub(super) fn write(&mut self, process: u32, new: Option<Registers>) {
        self.process(process).registers = new;
        let frame_of = |page: u64| new.and_then(|r| r.frame_of(page));
        let pages: Vec<u64> = self.mapped(process).collect();
        // No two pages of a process have one frame, so that what happens to one changes nothing for the next.
        let named = self.named();
        for page in pages {
            let entry = self.entry(process, page).expect("just listed");
            match frame_of(page) {
                None if entry.inside => {
                    self.used.reverted_pages += 1;
                    self.space(process).table.insert(page, Entry { inside: false, ..entry });
                }
                Some(frame) if !entry.inside => {
                    let sharers = named[&entry.frame];
                    if frame != entry.frame {
                        assert!(!named.contains_key(&frame), "frame {frame} serves another page");
                        self.used.converted_pages += 1;
                        self.counts.cow_copies += u64::from(sharers > 1);
                        self.counts.moved += u64::from(sharers == 1);
                    }
                    self.space(process).table.insert(page, Entry { frame, cow: false, inside: true });
                }
                _ => {}
            }
        }
    }

    /// Until a frame is free.
    fn make_room(&mut self) -> Result<(), Full> {
        while self.free() == 0 {
            if !self.lend() {
                return Err(Full);
            }
        }
        Ok(())
    }

    /// A reference that the system has served, or refused.
    pub fn touch(&mut self, process: u32, page: u64, kind: Kind, truth: Truth) -> Result<(), Full> {
        if self.entry(process, page).is_none() {
            self.bring_in(process, page, truth)?;
        }
        let entry = self.entry(process, page).expect("it is mapped now");
        if kind == Kind::Store && entry.cow && self.prot(process, page).is_some_and(|prot| prot.write) {
            self.counts.protection_faults += 1;
            let mut frame = entry.frame;
            if self.named()[&frame] > 1 {
                self.make_room()?;
                self.counts.cow_copies += 1;
                frame = self.ordinary(process, page, truth);
            }
            self.space(process).table.insert(page, Entry { frame, cow: false, inside: false });
        }
        Ok(())
    }

    fn bring_in(&mut self, process: u32, page: u64, truth: Truth) -> Result<(), Full> {
        let inside = self.registers(process).and_then(|r| r.frame_of(page));
        let known = self.space(process).pages.get(&page).copied();
        if let (Some(frame), Some(_)) = (inside, known) {
            // SEG-13, SEG-20.
            self.counts.page_faults += u64::from(self.config.emulation);
            assert!(!self.named().contains_key(&frame), "frame {frame} serves another page");
            self.space(process).table.insert(page, Entry { frame, cow: false, inside: true });
            self.note();
            return Ok(());
        }
        self.counts.page_faults += 1;
        let known = known.unwrap_or_else(|| self.programs.stray(process, page));
        let in_memory = self.programs.shared.get(&(known.mapping, known.index)).copied().filter(|_| known.shared);
        let room = if in_memory.is_some() { Ok(()) } else { self.make_room() };
        if room.is_ok() {
            let frame = in_memory.unwrap_or_else(|| self.ordinary(process, page, truth));
            if known.shared {
                self.programs.shared.insert((known.mapping, known.index), frame);
            }
            self.space(process).table.insert(page, Entry { frame, cow: false, inside: false });
        }
        // SEG-6: it may be a hole in the segment, or have been one until a moment ago.
        if self.registers(process).is_some_and(|r| r.frame_of(page).is_some()) {
            self.shape(process);
        }
        room
    }
}
