//! Where the guest's tables are in use. A word that changes is then known to be about certain pages of certain address
//! spaces. A table may be linked at several places: tables of the kernel, page tables that processes share.

use super::format::{Format, Rights, WORDS};
use farreach_types::addr::Asid;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::ops::Range;

/// Words of a frame of 4 KB that are a table, or a part of one, at a place in an address space.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Link {
    pub asid: Asid,
    /// The page that the first of the words is about.
    pub first: u64,
    /// Which words.
    pub words: Range<usize>,
    /// Height above the tables whose entries are single pages.
    pub height: u8,
    /// What the tables above permit.
    pub rights: Rights,
    pub format: Format,
}

impl Link {
    /// Pages that an entry is about.
    pub fn each(&self) -> u64 {
        1 << self.format.order(self.height)
    }

    /// The first page of an entry.
    pub fn page(&self, at: usize) -> u64 {
        self.first + (at - self.words.start) as u64 * self.each()
    }

    /// The table that an entry for the page `first` points to.
    pub fn below(&self, address: u64, first: u64, rights: Rights) -> Table {
        let (asid, format, words) = (self.asid, self.format, 1 << self.format.index_bits());
        Table { asid, address, words, first, height: self.height - 1, rights, format }
    }

    /// Whether both are the same part of the same table, at the same place.
    fn is_at(&self, other: &Link) -> bool {
        (self.asid, self.first, self.height) == (other.asid, other.first, other.height)
    }
}

/// A table at a place, which may have several frames or a part of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Table {
    pub asid: Asid,
    /// Physical address of its first word.
    pub address: u64,
    /// Words.
    pub words: u64,
    /// The page that the first is about.
    pub first: u64,
    pub height: u8,
    pub rights: Rights,
    pub format: Format,
}

impl Table {
    /// The table that an entry for the page `first` points to.
    pub fn below(&self, address: u64, first: u64, rights: Rights) -> Table {
        let words = 1 << self.format.index_bits();
        Table { address, words, first, height: self.height - 1, rights, ..*self }
    }

    /// Its parts: frame of 4 KB, and link there.
    pub fn parts(self) -> impl Iterator<Item = (u64, Link)> {
        let Table { asid, height, rights, format, first, .. } = self;
        let (start, size) = (self.address / 8, WORDS as u64);
        let end = start + self.words;
        (start / size..end.div_ceil(size)).map(move |frame| {
            let from = start.max(frame * size);
            let words = (from - frame * size) as usize..(end.min((frame + 1) * size) - frame * size) as usize;
            let first = first + ((from - start) << format.order(height));
            (frame, Link { asid, first, words, height, rights, format })
        })
    }
}

/// All links, by frame of 4 KB.
#[derive(Default)]
pub(super) struct Links {
    by_frame: HashMap<u64, Vec<Link>, FixedState>,
    most: u64,
}

impl Links {
    /// The links of a frame.
    pub fn of(&self, frame: u64) -> &[Link] {
        self.by_frame.get(&frame).map_or(&[], Vec::as_slice)
    }

    /// Adds a link. False if it was there.
    pub fn add(&mut self, frame: u64, link: &Link) -> bool {
        let links = self.by_frame.entry(frame).or_default();
        let new = !links.iter().any(|old| old.is_at(link));
        if new {
            links.push(link.clone());
            self.most = self.most.max(self.by_frame.len() as u64);
        }
        new
    }

    /// Whether a link is there.
    pub fn has(&self, frame: u64, link: &Link) -> bool {
        self.of(frame).iter().any(|old| old.is_at(link))
    }

    /// Removes a link. False if it was not there.
    pub fn remove(&mut self, frame: u64, link: &Link) -> bool {
        let Some(links) = self.by_frame.get_mut(&frame) else { return false };
        let Some(at) = links.iter().position(|old| old.is_at(link)) else { return false };
        links.swap_remove(at);
        if links.is_empty() {
            self.by_frame.remove(&frame);
        }
        true
    }

    /// Most frames with links at any time.
    pub fn most(&self) -> u64 {
        self.most
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = (u64, &Link)> {
        self.by_frame.iter().flat_map(|(&frame, links)| links.iter().map(move |link| (frame, link)))
    }
}
