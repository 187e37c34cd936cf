//! Where clusters go: each to a place of its own, with room around it, or where Linux would put it.

use super::{AREA, AREA_END, PAGE, ROOM};
use farreach_types::addr::Bytes;
use farreach_types::event::{Backing, Mapping};
use std::collections::BTreeMap;

/// A page of the page directory, to which Linux aligns.
const HUGE: u64 = 2 << 20;
/// Below it Linux puts mappings. Its distance to the end of 47 bits is that of a program whose addresses are not
/// random.
const TOP: u64 = AREA + 0x7fff_f7ff_f000;

/// What the kernel maps above all else but the interpreter of a program: vvar, its clocks and vdso, eight pages in
/// Linux 6.18. Recordings do not have them.
const KERNEL: u64 = 8 * PAGE;

/// How new mappings are placed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// Each at a multiple of this size in bytes, far from all others (T94-53).
    Aligned(u64),
    /// As Linux on x86-64 from 6.13 on: as high as there is room, below what is there already. Private anonymous
    /// memory of whole 2 MB begins at a multiple of 2 MB, and files so that superpages could map them.
    Linux,
}

impl Layout {
    /// Where places with room around them begin.
    pub(super) fn first_place(self) -> u64 {
        match self {
            Layout::Aligned(_) => AREA,
            Layout::Linux => AREA + (1 << 47),
        }
    }
}

impl std::fmt::Display for Layout {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Layout::Aligned(size) => write!(f, "aligned to {}", Bytes(*size)),
            Layout::Linux => f.write_str("where Linux puts them"),
        }
    }
}

impl std::str::FromStr for Layout {
    type Err = String;

    /// `linux`, or a size.
    fn from_str(text: &str) -> Result<Layout, String> {
        if text == "linux" {
            return Ok(Layout::Linux);
        }
        let size: Bytes = text.parse().map_err(|why| format!("{why}; or linux"))?;
        Ok(Layout::Aligned(size.0))
    }
}

/// Bytes from a multiple of 2 MB at which Linux begins a mapping, if it aligns it.
pub(super) fn offset_in_huge(m: &Mapping) -> Option<u64> {
    match &m.backing {
        Backing::Anonymous if !m.shared => anonymous(m.len),
        Backing::File { offset, .. } => {
            let first = offset.checked_next_multiple_of(HUGE)?;
            (first.checked_add(HUGE)? <= offset.checked_add(m.len)?).then_some(offset % HUGE)
        }
        _ => None,
    }
}

/// As [`offset_in_huge`], of private anonymous memory of `len` bytes.
pub(super) fn anonymous(len: u64) -> Option<u64> {
    len.is_multiple_of(HUGE).then_some(0)
}

/// A part of the area for one cluster at a time.
#[derive(Clone, Copy)]
pub(super) struct Slot {
    pub start: u64,
    /// Where the cluster begins.
    pub base: u64,
    pub end: u64,
    pub taken: bool,
}

impl Slot {
    /// A place behind `from` for a cluster of `len` bytes that begins `shift` bytes behind the room before it.
    pub fn after(from: u64, shift: u64, len: u64) -> Result<Slot, String> {
        let base = from + ROOM + shift;
        let end = (base + len).checked_next_multiple_of(ROOM).and_then(|e| e.checked_add(ROOM));
        let end = end.filter(|&e| e <= AREA_END && len < AREA_END).ok_or("the mappings do not fit in 64 bits")?;
        Ok(Slot { start: from, base, end, taken: false })
    }
}

/// Mappings that lie where Linux puts them, by first byte, with their ends.
#[derive(Clone, Default)]
pub(super) struct TopDown(BTreeMap<u64, u64>);

impl TopDown {
    /// The highest place for `len` bytes; if `offset` is given, at this distance from a multiple of 2 MB, where that
    /// is possible.
    pub fn place(&self, len: u64, offset: Option<u64>) -> Option<u64> {
        let aligned = offset.and_then(|offset| {
            let highest = self.highest(len.checked_add(HUGE)?)? + HUGE;
            Some(highest - (highest - offset) % HUGE)
        });
        aligned.or_else(|| self.highest(len))
    }

    /// The highest place without regard to alignment.
    fn highest(&self, len: u64) -> Option<u64> {
        let mut top = TOP;
        for (&start, &end) in self.0.iter().rev() {
            if top - end >= len {
                break;
            }
            top = start;
        }
        top.checked_sub(len).filter(|&start| start >= AREA + PAGE)
    }

    /// Whether no mapping has a byte of a range, all of which is below the top.
    pub fn is_free(&self, start: u64, end: u64) -> bool {
        end <= TOP && self.0.range(..end).next_back().is_none_or(|(_, e)| *e <= start)
    }

    /// Whether a mapping has this byte.
    pub fn has(&self, addr: u64) -> bool {
        addr < TOP && !self.is_free(addr, addr + 1)
    }

    /// Takes a range, if it is free and below the top.
    #[must_use]
    pub fn take(&mut self, start: u64, end: u64) -> bool {
        let fits = self.is_free(start, end);
        if fits {
            self.0.insert(start, end);
        }
        fits
    }

    /// The first mappings of a program lie at the top: its interpreter of this length, and those of the kernel.
    pub fn take_top(&mut self, interpreter: u64) {
        let len = interpreter.saturating_add(KERNEL);
        if len <= TOP - AREA - PAGE {
            self.0.insert(TOP - len, TOP);
        }
    }

    /// Gives up a part of one range.
    pub fn give(&mut self, start: u64, end: u64) {
        let (&s, &e) = self.0.range(..=start).next_back().expect("only what was taken is given up");
        self.0.remove(&s);
        if s < start {
            self.0.insert(s, start);
        }
        if end < e {
            self.0.insert(end, e);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_gap_is_taken() {
        let mut area = TopDown::default();
        let mut put = |pages: u64, offset| {
            let start = area.place(pages * PAGE, offset).unwrap();
            assert!(area.take(start, start + pages * PAGE));
            (TOP - start) / PAGE
        };
        assert_eq!([put(3, None), put(1, None), put(4, None)], [3, 4, 8]);
        // 511 pages lie between the top and a multiple of 2 MB.
        assert_eq!(put(512, Some(0)), 511 + 512);
        assert_eq!(put(512, Some(0)), 511 + 1024);
        assert_eq!(put(600, Some(PAGE)), 511 + 1024 + 1024 - 1);
        // Between the small ones and the first of 2 MB there is room for 503 pages.
        assert_eq!([put(500, None), put(4, None), put(3, None)], [508, 511 + 1024 + 4, 511]);
    }
}
