//! The prefetch buffer (PB-1, PB-2, PB-9), oldest entry first.

/// Where an entry came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    Prefetcher,
    /// From a line of the page table, at this distance from the page that was walked for.
    Free(i64),
}

/// An entry (PB-1).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Held {
    pub asid: u32,
    /// First base page.
    pub first: u64,
    /// Log2 of its pages.
    pub order: u8,
    /// Frame of the first page.
    pub frame: u64,
    pub source: Source,
    /// Position in the stream at which it was brought in (HW-8).
    pub position: u64,
}

impl Held {
    fn has(&self, asid: u32, vpn: u64) -> bool {
        self.asid == asid && self.first <= vpn && vpn < self.first + (1 << self.order)
    }

    pub(super) fn meets(&self, asid: u32, first: u64, pages: u64) -> bool {
        self.asid == asid && self.first < first.saturating_add(pages) && first < self.first + (1 << self.order)
    }
}

pub(super) struct Buffer {
    pub entries: usize,
    pub held: Vec<Held>,
}

impl Buffer {
    /// PB-6: no replacement state is touched.
    pub fn has(&self, asid: u32, vpn: u64) -> bool {
        self.held.iter().any(|h| h.has(asid, vpn))
    }

    /// PB-2. OB-18.
    pub fn take(&mut self, asid: u32, vpn: u64) -> Option<Held> {
        let with = self.held.iter().enumerate().filter(|(_, h)| h.has(asid, vpn));
        let (place, _) = with.min_by_key(|(_, h)| h.order)?;
        Some(self.held.remove(place))
    }

    /// True if an entry left for it.
    pub fn fill(&mut self, new: Held) -> bool {
        let full = self.held.len() == self.entries;
        if full {
            self.held.remove(0);
        }
        self.held.push(new);
        full
    }

    /// How many left (PB-9).
    pub fn drop(&mut self, which: impl Fn(&Held) -> bool) -> u64 {
        let before = self.held.len();
        self.held.retain(|h| !which(h));
        (before - self.held.len()) as u64
    }
}
