//! Solaris with several page sizes (SOL-1, SOL-2).
//!
//! * ON-20 The preferred size of memory that was advised to have superpages, of heap and of stack is the largest; that
//!   of other memory is a base page. A group must lie in the segment, so a small segment has a small size by itself.
//! * ON-21 A segment is a region: neighbouring pages of a mapping that are alike. Text and shared memory have base
//!   pages.
//! * ON-22 A split leaves base pages.

use crate::frames::Frames;
use crate::paging::{Full, Model, Paging};
use crate::program::{Name, Page};
use crate::superpages::Mode;
use crate::system::System;
use farreach_types::event::{Kind, Op};

/// A system.
#[derive(Clone, Debug)]
pub struct Config {
    pub frames: Frames,
    /// log2 of the pages of each size but the base page, largest first.
    pub orders: Vec<u32>,
}

/// The model.
pub struct PlainSolaris {
    orders: Vec<u32>,
    paging: Paging,
}

impl PlainSolaris {
    pub fn new(config: Config) -> PlainSolaris {
        PlainSolaris { paging: Paging::new(config.frames, true), orders: config.orders }
    }

    /// SOL-1, ON-20: the sizes up to the preferred one.
    fn sizes(&self, process: u32, page: &Page) -> Vec<u32> {
        let by_itself = matches!(page.name, Name::Heap | Name::Stack);
        let mode = if by_itself { Mode::Always } else { Mode::Madvise };
        if self.paging.allowed(process, page, mode) { self.orders.clone() } else { Vec::new() }
    }
}

impl System for PlainSolaris {
    fn memory(&mut self) -> &mut Paging {
        &mut self.paging
    }

    /// SOL-1.
    fn serve(&mut self, process: u32, page: u64) -> Result<(), Full> {
        self.paging.counts.page_faults += 1;
        let known = self.paging.known(process, page);
        let sizes = self.sizes(process, &known);
        match self.paging.largest(process, page, sizes) {
            Some(_) => Ok(()),
            None => self.paging.base_page(process, page),
        }
    }
}

impl Model for PlainSolaris {
    fn paging(&self) -> &Paging {
        &self.paging
    }

    /// SOL-2 is OS-2.
    fn apply(&mut self, process: u32, op: &Op) {
        self.follow(process, op);
    }

    fn touch(&mut self, process: u32, page: u64, kind: Kind) -> Result<(), Full> {
        self.refer(process, page, kind)
    }
}
