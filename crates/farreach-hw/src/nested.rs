//! Translation in two dimensions: a guest's page tables or segment, then the host's (DS13-40 to DS13-42, F-1, F-15).
//!
//! A page walk of the guest reads a node at each of its levels. Each node has a guest physical address, which the host
//! must translate first, and so has the page itself at the end. A segment translates by an addition, without
//! references.

use farreach_types::addr::{Pfn, Vpn};
use farreach_types::translation::Segment;

/// How one dimension translates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dimension {
    /// A radix page table of this many levels.
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

/// References to memory of one TLB miss: `g(h'+1) + h'`, with `g` references of the guest and `h'` of the host for one
/// address (DS13-42).
///
/// ```
/// use farreach_hw::nested::{Dimension, references};
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

/// The references themselves, in order, for checks and display.
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

/// A hypervisor that gives a guest direct segments from its own virtual to system physical memory in one step
/// (DS13-42): the guest's writes to its registers trap, are checked, and are composed with the host's segment (F-15).
/// Of several sets of registers (F-20) each is one by itself.
#[derive(Clone, Debug)]
pub struct Hypervisor {
    /// Guest physical pages to system frames.
    host: Segment,
    sets: Vec<Set>,
    traps: u64,
    refused: u64,
}

/// Registers, if they are on: as the guest wrote them, and what is in them.
type Set = Option<(Segment, Segment)>;

/// The guest asked for memory outside its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused {
    /// The registers as the guest wrote them.
    pub guest: Segment,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Segment { base, limit, pfn } = self.guest;
        write!(
            f,
            "guest pages {:#x} to {:#x} at guest frame {:#x} lie outside the memory of the guest",
            base.0, limit.0, pfn.0
        )
    }
}

impl std::error::Error for Refused {}

impl Hypervisor {
    /// `host` maps the guest's physical pages, numbered as [`Vpn`], to system frames. The guest has `sets` sets of
    /// registers, all off.
    pub fn new(host: Segment, sets: usize) -> Hypervisor {
        Hypervisor { host, sets: vec![None; sets], traps: 0, refused: 0 }
    }

    /// The guest writes a set of registers, each in a trap of its own (BASE, LIMIT, OFFSET), or switches it off, which
    /// is one write (DS13-4). A segment outside the guest's memory is refused, and the registers stay as they were.
    pub fn guest_writes(&mut self, set: usize, guest: Option<Segment>) -> Result<Option<Segment>, Refused> {
        let Some(guest) = guest.filter(|s| s.base < s.limit) else {
            self.traps += 1;
            self.sets[set] = None;
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
        let composed = Segment { pfn, ..guest };
        self.sets[set] = Some((guest, composed));
        Ok(Some(composed))
    }

    /// The guest's system loads these segments into its registers, at most one per set, none empty. Segments that are
    /// loaded already are not written again; the others go into other sets, and sets without a segment, or with a
    /// refused one, are off. Returns the contents of the registers, in the order of `segments`.
    pub fn guest_loads(&mut self, wanted: &[Segment]) -> Vec<Segment> {
        let holds = |set: &Set, s: &Segment| set.is_some_and(|(guest, _)| guest == *s);
        let mut idle: Vec<usize> =
            (0..self.sets.len()).filter(|&i| !wanted.iter().any(|s| holds(&self.sets[i], s))).collect();
        let new: Vec<Segment> = wanted.iter().filter(|s| !self.sets.iter().any(|set| holds(set, s))).copied().collect();
        // Sets that are on first: those that are overwritten need not be switched off.
        idle.sort_by_key(|&set| self.sets[set].is_none());
        for (i, &set) in idle.iter().enumerate() {
            let written = new.get(i).map(|&segment| self.guest_writes(set, Some(segment)));
            if !matches!(written, Some(Ok(_))) && self.sets[set].is_some() {
                let _ = self.guest_writes(set, None); // never refused
            }
        }
        wanted
            .iter()
            .filter_map(|s| self.sets.iter().find(|set| holds(set, s))?.map(|(_, composed)| composed))
            .collect()
    }

    /// Guest virtual page to system frame, in one addition.
    pub fn translate(&self, page: Vpn) -> Option<Pfn> {
        self.sets.iter().flatten().find_map(|(_, composed)| composed.translate(page))
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
        let counts =
            [native, references(walk4, walk4), references(walk4, segment), references(segment, walk4), composed, 0];
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
        let mut hypervisor = Hypervisor::new(host, 1);
        let guest = segment(0x7f000, 0x7f800, 0x200);
        assert_eq!(hypervisor.guest_writes(0, Some(guest)), Ok(Some(segment(0x7f000, 0x7f800, 0x80200))));
        for page in [0x7efff, 0x7f000, 0x7f7ff, 0x7f800] {
            let two_steps = guest.translate(Vpn(page)).and_then(|frame| host.translate(Vpn(frame.0)));
            assert_eq!(hypervisor.translate(Vpn(page)), two_steps, "{page:#x}");
        }
        for outside in [segment(0, 0x1001, 0), segment(0, 1, 0x1000), segment(0, 2, u64::MAX), segment(5, 0x20, 0xff0)]
        {
            assert_eq!(hypervisor.guest_writes(0, Some(outside)), Err(Refused { guest: outside }));
        }
        assert_eq!(hypervisor.translate(Vpn(0x7f000)), Some(Pfn(0x80200)), "what was refused changed nothing");
        assert_eq!((hypervisor.traps(), hypervisor.refused()), (15, 4));
        assert_eq!(hypervisor.guest_writes(0, Some(segment(3, 3, 9))), Ok(None), "DS13-4");
        assert_eq!((hypervisor.translate(Vpn(0x7f000)), hypervisor.traps()), (None, 16));
    }

    #[test]
    fn f_15_a_guest_writes_what_its_registers_do_not_hold() {
        let segment = |base, pages, pfn| Segment { base: Vpn(base), limit: Vpn(base + pages), pfn: Pfn(pfn) };
        let mut hypervisor = Hypervisor::new(segment(0, 0x1000, 0x80000), 2);
        let mut load = |wanted: &[Segment]| {
            let before = hypervisor.traps();
            let frames: Vec<u64> = hypervisor.guest_loads(wanted).iter().map(|s| s.pfn.0).collect();
            (hypervisor.traps() - before, frames)
        };
        let (a, b, c, outside) =
            (segment(10, 4, 0x100), segment(20, 4, 0x200), segment(30, 4, 0x300), segment(40, 2, 0xfff));
        assert_eq!(load(&[]), (0, vec![]), "off already");
        assert_eq!(load(&[a]), (3, vec![0x80100]));
        assert_eq!(load(&[b, a]), (3, vec![0x80200, 0x80100]), "one was there");
        assert_eq!(load(&[a, b]), (0, vec![0x80100, 0x80200]), "in any order");
        assert_eq!(load(&[c, b]), (3, vec![0x80300, 0x80200]), "one set is written over");
        assert_eq!(load(&[b]), (1, vec![0x80200]), "the other is switched off");
        let longer = Segment { limit: Vpn(28), ..b };
        assert_eq!(load(&[longer]), (3, vec![0x80200]), "it grew");
        assert_eq!(load(&[outside]), (3 + 1, vec![]), "refused, and what was there is switched off");
        assert_eq!(load(&[]), (0, vec![]));
        assert_eq!(hypervisor.refused(), 1);
    }
}
