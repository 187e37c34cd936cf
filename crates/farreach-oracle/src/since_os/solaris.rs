//! Solaris with several page sizes (SOL-1, SOL-2).
//!
//! * ON-20 The preferred size of memory that was advised to have superpages, of heap, stack and text is the largest;
//!   that of other memory is a base page. A group must lie in the segment, so a small segment has a small size by
//!   itself. Text is a private mapping of a file that can be executed and not stored to. What ON-1 says of advice and
//!   prctl holds for shared memory and files, too.
//! * ON-21 A segment is a region: neighbouring pages of a mapping that are alike.
//! * ON-22 A split leaves base pages.
//! * ON-23 A superpage of shared memory or of a file belongs to the memory, as in OS-9: another segment that maps all
//!   of it at an aligned place gets it at one fault, however it was split elsewhere. A group of which some page has a
//!   frame already was touched. That of a file is read, so it is not zeroed.
//! * ON-24 Private mappings of files that can be stored to are not modelled (OP-4).

use crate::frames::Frames;
use crate::paging::{Entry, Full, Model, Paging};
use crate::program::{Name, Page};
use crate::superpages::{Mode, group};
use crate::system::System;
use farreach_types::event::{Kind, Op};
use std::collections::BTreeMap;

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
    /// log2 of the pages of superpages of shared memory and files, by mapping and first page (ON-23).
    superpages: BTreeMap<(u64, u64), u32>,
    /// How often one was mapped that was there.
    pub mapped_again: u64,
    /// Superpages of files.
    pub of_files: u64,
}

impl PlainSolaris {
    pub fn new(config: Config) -> PlainSolaris {
        let (paging, superpages) = (Paging::new(config.frames, true), BTreeMap::new());
        PlainSolaris { orders: config.orders, paging, superpages, mapped_again: 0, of_files: 0 }
    }

    /// SOL-1, ON-20: the sizes up to the preferred one.
    fn sizes(&self, process: u32, page: &Page) -> Vec<u32> {
        let text = page.name == Name::File && !page.shared && page.prot.exec && !page.prot.write;
        let by_itself = text || matches!(page.name, Name::Heap | Name::Stack);
        let mode = if by_itself { Mode::Always } else { Mode::Madvise };
        if self.paging.wanted(process, page, mode) { self.orders.clone() } else { Vec::new() }
    }

    /// ON-23. False: there can be none.
    fn superpage_of_memory(&mut self, process: u32, page: u64, known: &Page, order: u32) -> bool {
        let (group, pages) = (group(page, order), 1 << order);
        if !self.paging.mapped(process, group.clone()).is_empty() || !self.paging.covers(process, page, order) {
            return false;
        }
        let first = known.index - (page - group.start);
        let keys = (first..first + pages).map(|index| (known.mapping, index));
        if self.superpages.get(&(known.mapping, first)) == Some(&order) {
            self.mapped_again += 1;
        } else {
            if keys.clone().any(|key| self.paging.programs.shared.contains_key(&key)) {
                return false;
            }
            let Some(base) = self.paging.frames.block(order) else {
                self.paging.counts.superpage_fallbacks += 1;
                return false;
            };
            self.superpages.insert((known.mapping, first), order);
            self.paging.programs.shared.extend(keys.clone().zip(base..));
            self.of_files += u64::from(known.name == Name::File);
            self.paging.counts.zeroed_pages += if known.name == Name::File { 0 } else { pages };
        }
        for (page, key) in group.zip(keys) {
            let frame = self.paging.programs.shared[&key];
            self.paging.enter(process, page, Entry { order, ..Entry::base(frame) });
        }
        self.paging.counts.superpage_faults += 1;
        self.paging.counts.populated_pages += pages - 1;
        true
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
        let served = if known.private() {
            self.paging.largest(process, page, sizes).is_some()
        } else {
            sizes.into_iter().any(|order| self.superpage_of_memory(process, page, &known, order))
        };
        if served { Ok(()) } else { self.paging.base_page(process, page) }
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
