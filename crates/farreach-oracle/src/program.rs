//! What programs have mapped, page by page, and which entry of its page table each page has.
//!
//! * OG-1 A mapping numbers its pages; those of anonymous memory have the numbers of the addresses where it was made.
//!   The heap is one mapping, and a stack grows downwards, unless these pages of it are mapped elsewhere. A file is
//!   one mapping as long as something maps it.
//! * OG-2 What `mremap` adds continues the pages of the mapping that grows; private memory whose next pages are
//!   mapped elsewhere gets a mapping of its own.
//! * OG-3 With `merges`, private anonymous memory that is mapped beside such memory joins its mapping, the lower one if
//!   there are two, unless that has these pages elsewhere. Only a mapping whose pages lie where they were made is
//!   joined.
//! * OG-4 A reference to an address that is not mapped makes a mapping of one page with all rights there.
//! * OG-5 Shared memory and files keep their frames until nothing maps them any more. Private memory loses them when it
//!   is unmapped or dropped.
//! * OG-6 At fork the child gets the same pages and entries.

use farreach_types::event::{Backing, Mapping, Op, Prot, ThpRule};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Name {
    Heap,
    Anonymous,
    File,
    Stack,
    Kernel,
    /// Memory that was referenced and never mapped (OG-4).
    Stray,
}

/// A page that a program mapped.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Page {
    pub mapping: u64,
    /// Which page of it.
    pub index: u64,
    pub name: Name,
    pub shared: bool,
    pub prot: Prot,
    /// MADV_HUGEPAGE or MADV_NOHUGEPAGE.
    pub huge: Option<bool>,
    /// The program did not request it: it is the rest of a huge page.
    pub rest: bool,
}

impl Page {
    /// A page of private anonymous memory.
    pub fn new(prot: Prot) -> Page {
        Page { mapping: 0, index: 0, name: Name::Anonymous, shared: false, prot, huge: None, rest: false }
    }
    /// The page of the same region that may lie behind this one.
    pub fn next(&self) -> Page {
        Page { index: self.index + 1, ..*self }
    }
    /// Memory of one process, and of no file.
    pub fn private(&self) -> bool {
        !self.shared && self.name != Name::File
    }
}

/// An address space; `E` is an entry of a page table.
#[derive(Clone)]
pub struct Space<E> {
    pub pages: BTreeMap<u64, Page>,
    pub table: BTreeMap<u64, E>,
    pub thp: ThpRule,
}

impl<E> Default for Space<E> {
    fn default() -> Space<E> {
        Space { pages: BTreeMap::new(), table: BTreeMap::new(), thp: ThpRule::System }
    }
}

impl<E> Space<E> {
    /// The region around a mapped page: neighbouring pages of one mapping, in its order, alike in everything.
    pub fn region(&self, page: u64) -> Range<u64> {
        let follows = |low: u64| {
            let both = self.pages.get(&low).zip(self.pages.get(&(low + 1)));
            both.is_some_and(|(low, high)| low.next() == *high)
        };
        let start = (0..page).rev().take_while(|low| follows(*low)).last().unwrap_or(page);
        let end = (page..).find(|low| !follows(*low)).expect("address spaces end");
        start..end + 1
    }

    /// Whether one of these pages of a mapping is mapped anywhere in it.
    fn has(&self, mapping: u64, indices: Range<u64>) -> bool {
        self.pages.values().any(|page| page.mapping == mapping && indices.contains(&page.index))
    }

    fn unmap(&mut self, range: Range<u64>) {
        for page in range {
            self.pages.remove(&page);
            self.table.remove(&page);
        }
    }
}

/// All address spaces.
pub struct Programs<E> {
    pub spaces: BTreeMap<u32, Space<E>>,
    /// Frames of shared memory and files.
    pub shared: BTreeMap<(u64, u64), u64>,
    files: BTreeMap<String, u64>,
    mappings: u64,
    merges: bool,
}

/// The pages of a range of bytes.
pub fn pages(start: u64, len: u64) -> Range<u64> {
    start >> 12..(start + len) >> 12
}

/// The old and the new pages of an `mremap`.
pub fn moved(op: &Op) -> Option<(Range<u64>, Range<u64>)> {
    let Op::Remap { old_start, old_len, new_start, new_len } = op else { return None };
    Some((pages(*old_start, *old_len), pages(*new_start, *new_len)))
}

impl<E: Copy> Programs<E> {
    pub fn new(merges: bool) -> Programs<E> {
        let (spaces, shared, files) = Default::default();
        Programs { spaces, shared, files, mappings: 0, merges }
    }

    pub fn space(&mut self, process: u32) -> &mut Space<E> {
        self.spaces.entry(process).or_default()
    }

    pub fn fresh_mapping(&mut self) -> u64 {
        self.mappings += 1;
        self.mappings
    }

    /// OG-4.
    pub fn stray(&mut self, process: u32, page: u64) -> Page {
        let mapping = self.fresh_mapping();
        let stray = Page { mapping, index: page, name: Name::Stray, ..Page::new(Prot::RWX) };
        self.space(process).pages.insert(page, stray);
        stray
    }

    /// A new mapping in place of what was there.
    pub fn map(&mut self, process: u32, mapping: &Mapping) {
        let range = pages(mapping.start, mapping.len);
        let (shared, prot) = (mapping.shared, mapping.prot);
        let name = match &mapping.backing {
            Backing::Heap => Name::Heap,
            Backing::File { .. } => Name::File,
            Backing::Stack => Name::Stack,
            Backing::Kernel => Name::Kernel,
            Backing::Anonymous => Name::Anonymous,
        };
        self.space(process).unmap(range.clone());
        let space = &self.spaces[&process];
        let known = match name {
            Name::Heap => space.pages.values().find(|page| page.name == Name::Heap).map(|page| page.mapping),
            Name::Stack => space.pages.get(&range.end).filter(|page| page.name == name).map(|page| page.mapping),
            Name::Anonymous if self.merges && !shared => {
                let beside = [range.start.wrapping_sub(1), range.end].into_iter();
                let like = |vpn: &u64| {
                    let page = space.pages.get(vpn).filter(|p| p.name == name && p.private() && p.index == *vpn)?;
                    Some(page.mapping).filter(|id| !space.has(*id, range.clone()))
                };
                beside.filter_map(|vpn| like(&vpn)).next()
            }
            _ => None,
        };
        let known = known.filter(|id| !space.has(*id, range.clone()));
        let fresh = self.fresh_mapping();
        let (id, first) = match &mapping.backing {
            Backing::File { path, offset } => (*self.files.entry(path.to_string()).or_insert(fresh), offset >> 12),
            _ => (known.unwrap_or(fresh), range.start),
        };
        for (index, page) in (first..).zip(range) {
            let new = Page { mapping: id, index, name, shared, ..Page::new(prot) };
            self.space(process).pages.insert(page, new);
        }
    }

    pub fn unmap(&mut self, process: u32, range: Range<u64>) {
        self.space(process).unmap(range);
    }

    /// Pages move with their entries.
    pub fn remap(&mut self, process: u32, old: Range<u64>, new: Range<u64>) {
        let (asked, given) = (old.end - old.start, new.end - new.start);
        let fresh = self.fresh_mapping();
        let space = self.space(process);
        let source = space.pages.get(&(old.start + asked.saturating_sub(1))).copied();
        let moves = asked.min(given);
        space.unmap(old.start + moves..old.end);
        if old.start == new.start {
            space.unmap(new.start + moves..new.end);
        } else {
            space.unmap(new.clone());
            for i in 0..moves {
                if let Some(page) = space.pages.remove(&(old.start + i)) {
                    space.pages.insert(new.start + i, page);
                }
                if let Some(entry) = space.table.remove(&(old.start + i)) {
                    space.table.insert(new.start + i, entry);
                }
            }
        }
        let Some(source) = source else { return };
        let (mut id, mut first) = (source.mapping, source.index + asked.min(1));
        let grows = given - moves;
        // OG-2.
        if source.private() && space.has(id, first..first + grows) {
            (id, first) = (fresh, new.start + moves);
        }
        for i in 0..grows {
            space.pages.insert(new.start + moves + i, Page { mapping: id, index: first + i, ..source });
        }
    }

    pub fn protect(&mut self, process: u32, range: Range<u64>, prot: Prot) {
        self.space(process).pages.range_mut(range).for_each(|(_, page)| page.prot = prot);
    }

    pub fn advise(&mut self, process: u32, range: Range<u64>, huge: bool) {
        let pages = self.space(process).pages.range_mut(range);
        pages.filter(|(_, page)| !page.rest).for_each(|(_, page)| page.huge = Some(huge));
    }

    /// MADV_DONTNEED.
    pub fn discard(&mut self, process: u32, range: Range<u64>) {
        range.for_each(|page| _ = self.space(process).table.remove(&page));
    }

    pub fn fork(&mut self, process: u32, child: u32) {
        let born = self.space(process).clone();
        self.spaces.insert(child, born);
    }

    pub fn end(&mut self, process: u32) {
        self.spaces.insert(process, Space::default());
    }

    /// OG-5: ends shared memory and files that nothing maps.
    pub fn forget_shared(&mut self) {
        let pages = self.spaces.values().flat_map(|space| space.pages.values());
        let mapped: BTreeSet<u64> = pages.map(|page| page.mapping).collect();
        self.files.retain(|_, id| mapped.contains(id));
        self.shared.retain(|(id, _), _| mapped.contains(id));
    }

    /// Each page table entry of every process.
    pub fn entries(&self) -> impl Iterator<Item = &E> {
        self.spaces.values().flat_map(|space| space.table.values())
    }
}
