//! How plain models with superpages follow references and events of programs; each replaces what it does in its own
//! way.

use crate::paging::{Entry, Full, Paging};
use crate::program::{moved, pages};
use farreach_types::event::{Advice, Kind, Op, Prot};
use std::ops::Range;

/// A system whose faults may map superpages.
pub(crate) trait System {
    fn memory(&mut self) -> &mut Paging;
    /// Serves a fault.
    fn serve(&mut self, process: u32, page: u64) -> Result<(), Full>;

    /// A frame for the copy of a page.
    fn frame_to_copy(&mut self) -> Option<u64> {
        self.memory().frames.one()
    }

    /// What is without a page now is free.
    fn give_back(&mut self) {
        let freed = self.memory().collect();
        self.memory().frames.give_back(freed);
    }

    /// Splits the superpages of which only a part lies in a range.
    fn split_around(&mut self, process: u32, range: Range<u64>) {
        self.memory().split_at_ends(process, range);
    }

    /// Serves a fault of a load or fetch.
    fn serve_load(&mut self, process: u32, page: u64) -> Result<(), Full> {
        self.serve(process, page)
    }

    /// Memory was advised to have superpages.
    fn advised(&mut self, process: u32, range: Range<u64>) {
        let _ = (process, range);
    }

    /// LNX-14: memory was advised to have superpages at once.
    fn collapse(&mut self, process: u32, range: Range<u64>) {
        let _ = (process, range);
    }

    /// A process ended.
    fn ended(&mut self, process: u32) {
        let _ = process;
    }

    /// Pages move with their frames, none as a superpage.
    fn moves(&mut self, process: u32, from: Range<u64>, to: u64) {
        let _ = to;
        from.for_each(|page| self.memory().split(process, page));
    }

    /// OS-10.
    fn populate(&mut self, process: u32, range: Range<u64>) {
        for page in range {
            let known = self.memory().page(process, page).filter(|page| page.prot != Prot::NONE);
            let Some(known) = known.filter(|_| self.memory().entry(process, page).is_none()) else { continue };
            let stores = known.prot.write;
            let served = if stores { self.serve(process, page) } else { self.serve_load(process, page) };
            self.memory().counts.page_faults -= 1;
            if served.is_err() {
                return;
            }
            let of_memory = self.memory().entry(process, page).is_some_and(|entry| !entry.is_zeros());
            self.memory().counts.populated_pages += u64::from(of_memory);
        }
    }

    /// OP-3, LNX-23: a store to a page that may be shared.
    fn store(&mut self, process: u32, page: u64, entry: Entry) -> Result<(), Full> {
        self.memory().counts.protection_faults += 1;
        if self.memory().keeps_superpage(process, page, entry) {
            return Ok(());
        }
        self.copy_page(process, page, entry)
    }

    /// OP-3: a page becomes one of this process alone.
    fn copy_page(&mut self, process: u32, page: u64, entry: Entry) -> Result<(), Full> {
        let mut frame = entry.frame;
        if self.memory().names(frame) > 1 {
            frame = self.frame_to_copy().ok_or(Full)?;
            self.memory().counts.cow_copies += 1;
        }
        self.split_around(process, page..page + 1);
        self.memory().enter(process, page, Entry::base(frame));
        self.give_back();
        Ok(())
    }

    /// A reference of a process.
    fn refer(&mut self, process: u32, page: u64, kind: Kind) -> Result<(), Full> {
        if self.memory().entry(process, page).is_none() {
            match kind {
                Kind::Store => self.serve(process, page)?,
                _ => self.serve_load(process, page)?,
            }
        }
        let entry = self.memory().entry(process, page).expect("it is mapped now");
        let writable = self.memory().page(process, page).expect("it is mapped").prot.write;
        if kind == Kind::Store && entry.cow && writable {
            self.store(process, page, entry)?;
        }
        if kind == Kind::Store && writable {
            let entry = self.memory().entry(process, page).expect("it is mapped now");
            self.memory().stored.insert(entry.frame);
        }
        Ok(())
    }

    fn remap(&mut self, process: u32, op: &Op) {
        let (old, new) = moved(op).expect("it is an mremap");
        let moves = (old.end - old.start).min(new.end - new.start);
        self.split_around(process, old.start + moves..old.end);
        if old.start == new.start {
            self.split_around(process, new.start + moves..new.end);
        } else {
            self.split_around(process, new.clone());
            self.moves(process, old.start..old.start + moves, new.start);
        }
        self.memory().programs.remap(process, old, new);
    }

    /// An event of a process.
    fn follow(&mut self, process: u32, op: &Op) {
        match op {
            Op::Map(mapping) => {
                self.split_around(process, pages(mapping.start, mapping.len));
                self.memory().programs.map(process, mapping);
            }
            Op::Unmap { start, len } => {
                let range = pages(*start, *len);
                self.split_around(process, range.clone());
                self.memory().programs.unmap(process, range);
            }
            Op::Remap { .. } => self.remap(process, op),
            Op::Protect { start, len, prot } => self.protect(process, pages(*start, *len), *prot),
            Op::Advise { start, len, advice } => self.advise(process, pages(*start, *len), *advice),
            Op::Thp(rule) => self.memory().space(process).thp = *rule,
            Op::Fork { child } => self.memory().fork(process, child.0),
            Op::End(_) => {
                self.memory().programs.end(process);
                self.ended(process);
            }
            _ => {}
        }
        self.give_back();
    }

    fn protect(&mut self, process: u32, range: Range<u64>, prot: Prot) {
        self.memory().protect(process, range, prot);
    }

    fn advise(&mut self, process: u32, range: Range<u64>, advice: Advice) {
        match advice {
            Advice::DontNeed => {
                self.split_around(process, range.clone());
                self.memory().programs.discard(process, range);
            }
            Advice::HugePage => {
                self.memory().programs.advise(process, range.clone(), true);
                self.advised(process, range);
            }
            Advice::NoHugePage => self.memory().programs.advise(process, range, false),
            Advice::WillNeed => {}
            Advice::Populate => self.populate(process, range),
            Advice::Collapse => self.collapse(process, range),
        }
    }
}
