//! The messages of a shootdown (CA-27, XC-7): between the interrupt that asks a core to drop a translation and its
//! acknowledgement, that core may still use the old mapping, so that the frame behind it must not be used for anything
//! else.
//!
//! The loop simulates one reference after the other and completes a shootdown before the next reference, so it cannot
//! show these moments. This is the protocol by itself: cores with TLBs, messages with a delay, and frames that wait for
//! acknowledgements.

use farreach_types::addr::{Pfn, Vpn};
use std::collections::{BTreeMap, VecDeque};

/// A message under way: drop this page, on behalf of this shootdown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Request {
    page: Vpn,
    shootdown: u64,
}

#[derive(Default, Debug)]
struct Core {
    tlb: BTreeMap<Vpn, Pfn>,
    inbox: VecDeque<Request>,
}

/// A shootdown that not all cores have acknowledged.
#[derive(Debug)]
struct Pending {
    frame: Pfn,
    acknowledgements: usize,
}

/// A process on several cores, whose pages are mapped, used and unmapped while messages are under way.
///
/// ```
/// use farreach_types::addr::{Pfn, Vpn};
/// use farreach_hw::shootdown::Process;
///
/// let mut process = Process::new(2, [Pfn(7)]);
/// assert_eq!(process.map(Vpn(1)), Some(Pfn(7)));
/// assert_eq!(process.access(1, Vpn(1)), Some(Pfn(7)));
/// process.unmap(0, Vpn(1));
/// // Core 1 has not handled the interrupt, and the frame is not free yet.
/// assert_eq!(process.access(1, Vpn(1)), Some(Pfn(7)));
/// assert_eq!(process.map(Vpn(2)), None);
/// process.deliver(1);
/// assert_eq!((process.access(1, Vpn(1)), process.map(Vpn(2))), (None, Some(Pfn(7))));
/// ```
#[derive(Debug)]
pub struct Process {
    cores: Vec<Core>,
    table: BTreeMap<Vpn, Pfn>,
    free: VecDeque<Pfn>,
    pending: BTreeMap<u64, Pending>,
    shootdowns: u64,
}

impl Process {
    /// Its cores, and the frames of the memory.
    pub fn new(cores: usize, frames: impl IntoIterator<Item = Pfn>) -> Process {
        Process {
            cores: (0..cores).map(|_| Core::default()).collect(),
            table: BTreeMap::new(),
            free: frames.into_iter().collect(),
            pending: BTreeMap::new(),
            shootdowns: 0,
        }
    }

    /// Maps a page that is not mapped; `None` if no frame is free, perhaps because shootdowns are under way.
    pub fn map(&mut self, page: Vpn) -> Option<Pfn> {
        assert!(!self.table.contains_key(&page), "{page:?} is mapped");
        let frame = self.free.pop_front()?;
        self.table.insert(page, frame);
        Some(frame)
    }

    /// The translation that a core uses for a page: its own entry, which may be stale, or that of the page table.
    pub fn access(&mut self, core: usize, page: Vpn) -> Option<Pfn> {
        let frame = self.cores[core].tlb.get(&page).or(self.table.get(&page)).copied()?;
        self.cores[core].tlb.insert(page, frame);
        Some(frame)
    }

    /// A core removes a page from the page table, then from its own TLB, and asks the others to do the same. It goes on
    /// at once: the frame becomes free when all have acknowledged.
    pub fn unmap(&mut self, core: usize, page: Vpn) {
        let frame = self.table.remove(&page).unwrap_or_else(|| panic!("{page:?} is not mapped"));
        self.cores[core].tlb.remove(&page);
        let shootdown = self.shootdowns;
        self.shootdowns += 1;
        for (_, other) in self.cores.iter_mut().enumerate().filter(|(i, _)| *i != core) {
            other.inbox.push_back(Request { page, shootdown });
        }
        let acknowledgements = self.cores.len() - 1;
        self.pending.insert(shootdown, Pending { frame, acknowledgements });
        self.free_if_acknowledged(shootdown);
    }

    /// A core handles its oldest interrupt: drops the page, then acknowledges. False if there is none.
    pub fn deliver(&mut self, core: usize) -> bool {
        let Some(Request { page, shootdown }) = self.cores[core].inbox.pop_front() else { return false };
        self.cores[core].tlb.remove(&page);
        self.pending.get_mut(&shootdown).expect("it waits for this core").acknowledgements -= 1;
        self.free_if_acknowledged(shootdown);
        true
    }

    fn free_if_acknowledged(&mut self, shootdown: u64) {
        if self.pending[&shootdown].acknowledgements == 0 {
            let done = self.pending.remove(&shootdown).expect("just looked at");
            self.free.push_back(done.frame);
        }
    }

    /// Frames that wait for acknowledgements.
    pub fn waiting(&self) -> usize {
        self.pending.len()
    }

    /// Whether a core could use a frame that the page table gives to another page, which must never happen.
    pub fn misused(&self) -> Option<(usize, Vpn, Pfn)> {
        let owner: BTreeMap<Pfn, Vpn> = self.table.iter().map(|(page, frame)| (*frame, *page)).collect();
        let wrong = |frame: &Pfn, page: &Vpn| owner.get(frame).is_some_and(|of| of != page);
        let mut all = self
            .cores
            .iter()
            .enumerate()
            .flat_map(|(i, core)| core.tlb.iter().map(move |(page, frame)| (i, page, frame)));
        all.find(|(_, page, frame)| wrong(frame, page)).map(|(i, page, frame)| (i, *page, *frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Random steps; `early`: frames are allocated before the acknowledgements. Returns the first misuse, and the
    /// longest wait of a frame.
    fn random(seed: u64, early: bool) -> (Option<(usize, Vpn, Pfn)>, usize) {
        let mut state = seed;
        let mut below = move |n: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % n
        };
        let mut p = Process::new(4, (0..6).map(Pfn));
        let mut most = 0;
        for _ in 0..20_000 {
            let (core, page) = (below(4) as usize, Vpn(below(12)));
            match below(8) {
                0 if p.table.contains_key(&page) => {
                    p.unmap(core, page);
                    if early && let Some(&frame) = p.pending.values().last().map(|last| &last.frame) {
                        p.free.push_front(frame);
                    }
                }
                1 if !p.table.contains_key(&page) => _ = p.map(page),
                2..4 => _ = p.deliver(core),
                _ => {
                    let used = p.access(core, page);
                    // A stale translation may be used, but only to a frame without an owner.
                    let stale = used.filter(|_| p.table.get(&page).copied() != used);
                    if !early && let Some(frame) = stale {
                        assert!(
                            !p.table.values().any(|f| *f == frame) && !p.free.contains(&frame),
                            "{frame:?} is in use"
                        );
                    }
                }
            }
            most = most.max(p.waiting());
            if let Some(found) = p.misused() {
                return (Some(found), most);
            }
        }
        while (0..4).any(|core| p.deliver(core)) {}
        assert_eq!(p.waiting(), 0);
        assert_eq!(p.free.len() + p.table.len(), 6, "no frame is lost");
        (None, most)
    }

    /// CA-27.
    #[test]
    fn xc_7_no_frame_is_used_again_before_all_have_acknowledged() {
        for seed in 0..20 {
            let (misused, most) = random(seed, false);
            assert_eq!(misused, None);
            assert!(most > 2, "messages were under way");
        }
    }

    #[test]
    fn who_does_not_wait_misuses_frames() {
        assert!((0..20).all(|seed| random(seed, true).0.is_some()));
    }

    #[test]
    fn one_core_has_nobody_to_wait_for() {
        let mut p = Process::new(1, [Pfn(3)]);
        assert_eq!(p.map(Vpn(0)), Some(Pfn(3)));
        p.unmap(0, Vpn(0));
        assert_eq!((p.waiting(), p.access(0, Vpn(0)), p.map(Vpn(9))), (0, None, Some(Pfn(3))));
    }
}
