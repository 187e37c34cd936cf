//! Events of programs (SEG-13 to SEG-17).

use super::{Entry, PlainSegments, Process, Truth};
use crate::program::{moved, pages};
use farreach_types::event::{Advice, Op, Prot};

impl PlainSegments {
    /// An event that the system has followed.
    pub fn apply(&mut self, process: u32, op: &Op, truth: Truth) {
        match op {
            Op::Start { program, .. } => self.process(process).program = program.to_string(),
            Op::Map(mapping) => self.programs.map(process, mapping),
            Op::Unmap { start, len } => self.programs.unmap(process, pages(*start, *len)),
            Op::Remap { .. } => self.remap(process, op),
            Op::Protect { start, len, prot } => self.programs.protect(process, pages(*start, *len), *prot),
            Op::Advise { start, len, advice } => match advice {
                Advice::DontNeed => self.programs.discard(process, pages(*start, *len)),
                Advice::HugePage => self.programs.advise(process, pages(*start, *len), true),
                Advice::NoHugePage => self.programs.advise(process, pages(*start, *len), false),
                Advice::WillNeed | Advice::Populate | Advice::Collapse => {}
            },
            Op::Fork { child } => self.fork(process, child.0, truth),
            Op::End(_) => self.end(process),
            _ => {}
        }
        self.programs.forget_shared();
        let child = if let Op::Fork { child } = op { Some(child.0) } else { None };
        for process in std::iter::once(process).chain(child) {
            self.process(process);
            self.sample(process);
            self.shape(process);
        }
    }

    /// DS13-34: guards are no memory.
    fn sample(&mut self, process: u32) {
        let pages: Vec<_> = self.space(process).pages.values().copied().collect();
        let mapped = pages.iter().filter(|page| page.prot != Prot::NONE).count();
        let private = pages.iter().filter(|page| PlainSegments::private_memory(page)).count();
        self.used.mapped_page_samples += mapped as u64;
        self.used.read_write_page_samples += private as u64;
    }

    /// SEG-15.
    fn remap(&mut self, process: u32, op: &Op) {
        let (old, new) = moved(op).expect("it is an mremap");
        if old.start != new.start {
            self.leave(process, old.clone());
            self.leave(process, new.clone());
        }
        self.programs.remap(process, old, new);
    }

    /// SEG-14.
    fn fork(&mut self, process: u32, child: u32, truth: Truth) {
        let inside = self.space(process).table.values().filter(|entry| entry.inside).count() as u64;
        if !self.config.copy || self.free() < inside {
            self.shrink_to(process, None);
            self.process(process).barred_by.insert(child);
        }
        let parent = self.space(process);
        for (page, entry) in &mut parent.table {
            entry.cow |= parent.pages[page].private() && !entry.inside;
        }
        self.programs.fork(process, child);
        let program = self.process(process).program.clone();
        self.processes.insert(child, Process { registers: None, program, barred_by: [child].into() });
        let inside = self.space(child).table.iter().filter(|(_, entry)| entry.inside).map(|(page, _)| *page);
        let copied: Vec<u64> = inside.collect();
        self.counts.cow_copies += copied.len() as u64;
        copied.iter().for_each(|page| _ = self.space(child).table.remove(page));
        for page in copied {
            let frame = self.ordinary(child, page, truth);
            self.space(child).table.insert(page, Entry { frame, cow: false, inside: false });
        }
    }

    /// SEG-17.
    fn end(&mut self, process: u32) {
        self.shrink_to(process, None);
        self.programs.end(process);
        self.processes.insert(process, Process::default());
        self.processes.values_mut().for_each(|other| _ = other.barred_by.remove(&process));
    }
}
