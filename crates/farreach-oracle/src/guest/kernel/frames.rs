//! Physical memory that is free. Frames are used again soon, as what comes next: tables, roots or data.

use super::format::Format;
use std::collections::BTreeMap;

pub struct Frames {
    format: Format,
    next: u64,
    free: Vec<u64>,
    /// Places for leaves of this many bytes.
    large_next: u64,
    large: BTreeMap<u64, Vec<u64>>,
    /// Places for roots that are smaller than a page.
    roots: Vec<u64>,
}

impl Frames {
    pub fn new(format: Format) -> Frames {
        // Bits 48, 50 and 51 are set where there are that many.
        let next = if format.wide { 0xd_0000_4000_0000 } else { 0x4000_0000 };
        Frames {
            format,
            next,
            free: Vec::new(),
            large_next: next + (1 << 40),
            large: BTreeMap::new(),
            roots: Vec::new(),
        }
    }

    /// A page.
    pub fn page(&mut self) -> u64 {
        self.free.pop().unwrap_or_else(|| {
            self.next += 1 << self.format.granule;
            self.next
        })
    }

    pub fn free_page(&mut self, at: u64) {
        self.free.push(at);
    }

    /// Physical memory for a leaf or a run of this many bytes, aligned.
    pub fn take(&mut self, bytes: u64) -> u64 {
        if bytes == 1 << self.format.granule {
            return self.page();
        }
        if let Some(at) = self.large.get_mut(&bytes).and_then(Vec::pop) {
            return at;
        }
        let at = self.large_next.next_multiple_of(bytes);
        self.large_next = at + bytes;
        at
    }

    pub fn give(&mut self, at: u64, bytes: u64) {
        if bytes == 1 << self.format.granule {
            self.free_page(at);
        } else {
            self.large.entry(bytes).or_default().push(at);
        }
    }

    fn root_bytes(&self) -> u64 {
        self.format.table_bytes(self.format.levels() - 1).max(64)
    }

    /// Roots of a few entries share pages.
    pub fn root(&mut self) -> u64 {
        let (bytes, page) = (self.root_bytes(), 1 << self.format.granule);
        if bytes >= 4096 {
            return self.page();
        }
        if self.roots.is_empty() {
            let at = self.page();
            self.roots.extend((at..at + page).step_by(bytes as usize).take(8).collect::<Vec<_>>().iter().rev());
        }
        self.roots.pop().expect("just filled")
    }

    pub fn free_root(&mut self, at: u64) {
        if self.root_bytes() >= 4096 { self.free_page(at) } else { self.roots.push(at) }
    }
}
