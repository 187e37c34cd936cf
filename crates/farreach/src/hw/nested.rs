//! Translation in two dimensions: a guest's page tables or segment, then the host's (DS13-40 to DS13-42, F-1, F-15).
//!
//! A page walk of the guest reads a node at each of its levels; each node has a guest physical address, which the host must
//! translate first, and so has the page itself at the end. A segment translates by an addition instead of references.

use super::translation::Segment;
use crate::addr::{Pfn, Vpn};

/// How one dimension translates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dimension {
    /// A radix page table of so many levels.
    Walk {
        /// References of a walk.
        levels: u64,
    },
    /// A direct segment that holds the address.
    Segment,
}

impl Dimension {
    fn references(self) -> u64 {
        match self {
            Dimension::Walk { levels } => levels,
            Dimension::Segment => 0,
        }
    }
}

/// References to memory of one TLB miss: `g(h'+1) + h'`, with `g` references of the guest and `h'` of the host for one address
/// (DS13-42).
///
/// ```
/// use farreach::hw::nested::{Dimension, references};
///
/// let (walk, segment) = (Dimension::Walk { levels: 4 }, Dimension::Segment);
/// // Two-dimensional; guest physical to system physical; guest virtual to guest physical; both.
/// let cases = [(walk, walk), (walk, segment), (segment, walk), (segment, segment)];
/// assert_eq!(cases.map(|(guest, host)| references(guest, host)), [24, 4, 4, 0]);
/// ```
pub fn references(guest: Dimension, host: Dimension) -> u64 {
    let (g, h) = (guest.references(), host.references());
    g * (h + 1) + h
}

/// The references themselves, in order: for checks and for people.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// The host's node at this level, from the top down, on the way to a guest node, or to the page itself (`None`).
    Host {
        /// Level of the host's table, the top first.
        level: u64,
        /// The guest node whose address is translated.
        on_the_way_to: Option<u64>,
    },
    /// The guest's node at this level.
    Guest {
        /// Level of the guest's table, the top first.
        level: u64,
    },
}

/// Walks in two dimensions. [`references`] is its length.
pub fn walk(guest: Dimension, host: Dimension) -> Vec<Step> {
    let translate = |to| (0..host.references()).map(move |level| Step::Host { level, on_the_way_to: to });
    let node = |level| translate(Some(level)).chain([Step::Guest { level }]);
    (0..guest.references()).flat_map(node).chain(translate(None)).collect()
}

/// A hypervisor that gives a guest direct segments from its own virtual to system physical memory in one step (DS13-42): the guest's
/// writes to its registers trap, are checked, and are composed with the host's segment. Not a part of any machine: it counts.
#[derive(Clone, Debug)]
pub struct Hypervisor {
    /// Guest physical pages to system frames.
    host: Segment,
    /// What the hardware registers hold, if the guest has a segment.
    loaded: Option<Segment>,
    traps: u64,
    refused: u64,
}

/// The guest wanted memory that is not its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused {
    /// The registers as the guest wrote them.
    pub guest: Segment,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Segment { base, limit, pfn } = self.guest;
        write!(f, "guest pages {:#x} to {:#x} at guest frame {:#x} lie outside the memory of the guest", base.0, limit.0, pfn.0)
    }
}

impl std::error::Error for Refused {}

impl Hypervisor {
    /// `host` maps the guest's physical pages, numbered as [`Vpn`], to system frames.
    pub fn new(host: Segment) -> Hypervisor {
        Hypervisor { host, loaded: None, traps: 0, refused: 0 }
    }

    /// The guest writes its registers, each in a trap of its own (BASE, LIMIT, OFFSET), or switches its segment off, which is one write
    /// (DS13-4). A segment outside the guest's memory is refused, and the registers stay as they were.
    pub fn guest_writes(&mut self, guest: Option<Segment>) -> Result<Option<Segment>, Refused> {
        let Some(guest) = guest.filter(|s| s.base < s.limit) else {
            self.traps += 1;
            self.loaded = None;
            return Ok(None);
        };
        self.traps += 3;
        let pages = guest.limit.0 - guest.base.0;
        let last = guest.pfn.0.checked_add(pages - 1);
        let inside = self.host.contains(Vpn(guest.pfn.0)) && last.is_some_and(|last| self.host.contains(Vpn(last)));
        let frame = self.host.translate(Vpn(guest.pfn.0)).filter(|_| inside);
        let Some(pfn) = frame else {
            self.refused += 1;
            return Err(Refused { guest });
        };
        self.loaded = Some(Segment { pfn, ..guest });
        Ok(self.loaded)
    }

    /// Guest virtual page to system frame, in one addition.
    pub fn translate(&self, page: Vpn) -> Option<Pfn> {
        self.loaded?.translate(page)
    }

    /// Traps for register writes so far, also refused ones.
    pub fn traps(&self) -> u64 {
        self.traps
    }

    /// Segments refused.
    pub fn refused(&self) -> u64 {
        self.refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CA-29: native, two-dimensional, a segment for the host, for the guest, for both, and composed.
    #[test]
    fn ds13_42_references() {
        let (walk4, segment) = (Dimension::Walk { levels: 4 }, Dimension::Segment);
        let native = 4;
        let composed = references(segment, segment);
        let counts = [native, references(walk4, walk4), references(walk4, segment), references(segment, walk4), composed, 0];
        assert_eq!(counts, [4, 24, 4, 4, 0, 0]);
        assert_eq!(references(Dimension::Walk { levels: 5 }, Dimension::Walk { levels: 5 }), 35);
    }

    #[test]
    fn ds13_42_the_formula_counts_the_steps() {
        for g in 0..6 {
            for h in 0..6 {
                let dimension = |levels| if levels == 0 { Dimension::Segment } else { Dimension::Walk { levels } };
                let steps = walk(dimension(g), dimension(h));
                assert_eq!(steps.len() as u64, references(dimension(g), dimension(h)));
                assert_eq!(steps.iter().filter(|s| matches!(s, Step::Guest { .. })).count() as u64, g);
            }
        }
        let steps = walk(Dimension::Walk { levels: 1 }, Dimension::Walk { levels: 1 });
        let host = |to| Step::Host { level: 0, on_the_way_to: to };
        assert_eq!(steps, [host(Some(0)), Step::Guest { level: 0 }, host(None)]);
    }

    #[test]
    fn f_15_segments_compose_and_are_checked() {
        let segment = |base, limit, pfn| Segment { base: Vpn(base), limit: Vpn(limit), pfn: Pfn(pfn) };
        // The guest has 0x1000 pages, which begin at system frame 0x80000.
        let host = segment(0, 0x1000, 0x80000);
        let mut hypervisor = Hypervisor::new(host);
        let guest = segment(0x7f000, 0x7f800, 0x200);
        assert_eq!(hypervisor.guest_writes(Some(guest)), Ok(Some(segment(0x7f000, 0x7f800, 0x80200))));
        for page in [0x7efff, 0x7f000, 0x7f7ff, 0x7f800] {
            let two_steps = guest.translate(Vpn(page)).and_then(|frame| host.translate(Vpn(frame.0)));
            assert_eq!(hypervisor.translate(Vpn(page)), two_steps, "{page:#x}");
        }
        for outside in [segment(0, 0x1001, 0), segment(0, 1, 0x1000), segment(0, 2, u64::MAX), segment(5, 0x20, 0xff0)] {
            assert_eq!(hypervisor.guest_writes(Some(outside)), Err(Refused { guest: outside }));
        }
        assert_eq!(hypervisor.translate(Vpn(0x7f000)), Some(Pfn(0x80200)), "what was refused changed nothing");
        assert_eq!((hypervisor.traps(), hypervisor.refused()), (15, 4));
        assert_eq!(hypervisor.guest_writes(Some(segment(3, 3, 9))), Ok(None), "DS13-4");
        assert_eq!((hypervisor.translate(Vpn(0x7f000)), hypervisor.traps()), (None, 16));
    }
}
