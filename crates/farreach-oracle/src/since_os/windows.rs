//! Windows: large pages by request, all of them at once (WIN-1).
//!
//! * ON-30 A request is MADV_HUGEPAGE of whole large pages of one region of private memory without a file, none of
//!   which was touched. With [`Request::Mapped`] it is mmap of such memory as well.
//! * ON-31 One that finds too few blocks is refused: it changes nothing, the blocks that it found are free again, and
//!   the memory is served by base pages, as is all that was no request.
//! * ON-32 Windows never splits a large page. What a program of another system does to a part of one (munmap, mprotect,
//!   MADV_DONTNEED, mremap, a store after fork) splits it nevertheless, as OS-2 says.

use crate::frames::Frames;
use crate::paging::{Full, Model, Paging};
use crate::program::pages;
use crate::superpages::{Mode, group};
use crate::system::System;
use farreach_types::event::{Kind, Op};
use std::ops::Range;

/// What asks for large pages (ON-30).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    Advised,
    Mapped,
}

/// A system.
#[derive(Clone, Debug)]
pub struct Config {
    pub frames: Frames,
    /// log2 of the pages of a large page.
    pub order: u32,
    pub request: Request,
}

/// The model.
pub struct PlainWindows {
    config: Config,
    paging: Paging,
    /// Requests that were served, and those that found too few blocks.
    pub served: u64,
    pub refused: u64,
}

impl PlainWindows {
    pub fn new(config: Config) -> PlainWindows {
        let paging = Paging::new(config.frames.clone(), false);
        PlainWindows { config, paging, served: 0, refused: 0 }
    }

    /// WIN-1.
    fn request(&mut self, process: u32, range: Range<u64>, mode: Mode) {
        let size = 1 << self.config.order;
        let whole = range.start.is_multiple_of(size) && range.end.is_multiple_of(size) && !range.is_empty();
        let Some(page) = self.paging.page(process, range.start).filter(|_| whole) else { return };
        let region = self.paging.programs.spaces[&process].region(range.start);
        if !self.paging.allowed(process, &page, mode)
            || range.end > region.end
            || !self.paging.mapped(process, range.clone()).is_empty()
        {
            return;
        }
        let wanted: Vec<u64> = range.step_by(size as usize).collect();
        let blocks: Vec<u64> = wanted.iter().map_while(|_| self.paging.frames.block(self.config.order)).collect();
        if blocks.len() < wanted.len() {
            self.refused += 1;
            blocks.into_iter().for_each(|base| self.paging.frames.give_back(base..base + size));
            return;
        }
        self.served += 1;
        self.paging.counts.populated_pages += wanted.len() as u64 * size;
        for (first, base) in wanted.into_iter().zip(blocks) {
            self.paging.map_zeroed(process, &group(first, self.config.order), base, self.config.order);
        }
    }
}

impl System for PlainWindows {
    fn memory(&mut self) -> &mut Paging {
        &mut self.paging
    }

    fn serve(&mut self, process: u32, page: u64) -> Result<(), Full> {
        self.paging.counts.page_faults += 1;
        self.paging.known(process, page);
        self.paging.base_page(process, page)
    }

    fn advised(&mut self, process: u32, range: Range<u64>) {
        self.request(process, range, Mode::Madvise);
    }
}

impl Model for PlainWindows {
    fn paging(&self) -> &Paging {
        &self.paging
    }

    fn apply(&mut self, process: u32, op: &Op) {
        self.follow(process, op);
        if let (Op::Map(mapping), Request::Mapped) = (op, self.config.request) {
            self.request(process, pages(mapping.start, mapping.len), Mode::Always);
        }
    }

    fn touch(&mut self, process: u32, page: u64, kind: Kind) -> Result<(), Full> {
        self.refer(process, page, kind)
    }

    fn own(&self) -> Vec<(&'static str, u64)> {
        vec![("large_page_requests", self.served), ("large_page_requests_refused", self.refused)]
    }
}
