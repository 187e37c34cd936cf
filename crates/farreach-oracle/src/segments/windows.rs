//! Eligible memory and windows (SEG-1 to SEG-5).

use super::{PlainSegments, Primary};
use crate::program::{Name, Page};
use farreach_types::event::Prot;
use std::ops::Range;

/// What is at an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum At {
    Nothing,
    Eligible,
    Other,
}

/// A window: pages, and how many of them are eligible.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Window {
    pub pages: Range<u64>,
    pub covers: u64,
}

impl Window {
    /// Whether this one is better (SEG-3).
    fn beats(&self, other: &Window) -> bool {
        let length = |w: &Window| w.pages.end - w.pages.start;
        if self.covers != other.covers {
            return self.covers > other.covers;
        }
        if length(self) != length(other) {
            return length(self) < length(other);
        }
        self.pages.start < other.pages.start
    }
}

/// The best of several.
pub(super) fn better(windows: impl IntoIterator<Item = Window>) -> Option<Window> {
    windows.into_iter().fold(None, |best, next| match best {
        Some(best) if !next.beats(&best) => Some(best),
        _ => Some(next),
    })
}

/// What is at each address of a process.
pub(super) struct Layout {
    at: Vec<At>,
    eager: bool,
}

impl Layout {
    pub fn at(&self, page: u64) -> At {
        self.at.get(page as usize).copied().unwrap_or(At::Other)
    }

    /// Whether a stretch can go through this page (SEG-2).
    pub fn passable(&self, page: u64) -> bool {
        match self.at(page) {
            At::Eligible => true,
            At::Nothing => self.eager,
            At::Other => false,
        }
    }

    pub fn covered(&self, pages: Range<u64>) -> u64 {
        pages.filter(|page| self.at(*page) == At::Eligible).count() as u64
    }

    pub fn everywhere(&self) -> Range<u64> {
        0..self.at.len() as u64
    }

    /// The best window in `within` of at most `most` pages: from each first page, to the last page that it can have.
    pub fn best(&self, within: Range<u64>, most: u64) -> Option<Window> {
        let mut windows = Vec::new();
        // For the pages behind the one under way: where the next wall is, how many eligible pages there are before
        // page x, and which is the last of them.
        let (mut before, mut last) = (vec![0; self.at.len() + 1], vec![0; self.at.len() + 1]);
        for page in self.everywhere() {
            let eligible = self.at(page) == At::Eligible;
            before[page as usize + 1] = before[page as usize] + u64::from(eligible);
            last[page as usize + 1] = if eligible { page } else { last[page as usize] };
        }
        let mut wall = within.end;
        for first in within.rev() {
            if !self.passable(first) {
                wall = first;
            }
            if self.at(first) != At::Eligible || most == 0 {
                continue;
            }
            let end = wall.min(first.saturating_add(most));
            let end = last[end as usize] + 1;
            windows.push(Window { pages: first..end, covers: before[end as usize] - before[first as usize] });
        }
        better(windows)
    }

    /// Eligible pages of the stretch around an eligible page.
    pub fn stretch(&self, page: u64) -> u64 {
        let below = (0..page).rev().take_while(|p| self.passable(*p)).last().unwrap_or(page);
        let above = (page..self.at.len() as u64).take_while(|p| self.passable(*p)).last().unwrap_or(page);
        self.covered(below..above + 1)
    }
}

impl PlainSegments {
    /// SEG-1, for memory of any size.
    pub(super) fn private_memory(page: &Page) -> bool {
        page.private() && page.prot == Prot::RW && !matches!(page.name, Name::Stack | Name::Kernel)
    }

    /// SEG-1 and SEG-2.
    pub(super) fn layout(&self, process: u32) -> Layout {
        let mut at = vec![At::Nothing; self.config.pages as usize];
        let Some(space) = self.programs.spaces.get(&process) else { return Layout { at, eager: self.config.eager } };
        let mut region = 0..0;
        for (vpn, page) in &space.pages {
            if !region.contains(vpn) {
                region = space.region(*vpn);
            }
            let wanted = match self.config.primary {
                Primary::All => true,
                Primary::Heap => page.name == Name::Heap,
                Primary::Large(least) => region.end - region.start >= least,
            };
            let eligible = wanted && PlainSegments::private_memory(page);
            at[*vpn as usize] = if eligible { At::Eligible } else { At::Other };
        }
        Layout { at, eager: self.config.eager }
    }

    /// SEG-5.
    pub(super) fn admitted(&self, process: u32, layout: &Layout) -> bool {
        let of = &self.processes[&process];
        let pool = self.pool.len() as u64;
        let primary = layout.best(layout.everywhere(), pool).map_or(0, |window| window.covers);
        let file = of.program.rsplit('/').next().unwrap_or("");
        let wanted = if self.config.programs.is_empty() {
            primary >= self.config.admit.min(pool)
        } else {
            self.config.programs.iter().any(|name| *name == of.program || name == file)
        };
        primary > 0 && wanted && of.barred_by.is_empty()
    }
}
