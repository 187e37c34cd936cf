//! An operating system under test: hardware that remembers every translation it was given, and checks of all frames.

use super::need;
use super::program::{FIRST, PAGES, Program};
use farreach_os::frames::numbers;
use farreach_os::{Change, Os, What};
use farreach_types::addr::{Asid, Vpn};
use farreach_types::event::{Kind, Op};
use farreach_types::translation::{Attr, PageTableView, Pte};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Pages around those of the programs, where a huge page may reach.
const MARGIN: u64 = 512;

pub struct System {
    pub os: Os,
    /// Whether memory is rounded up to huge pages, so that unrequested pages are mapped.
    pub rounds: bool,
    /// The translations of the hardware; an order above 0 is an entry of the whole superpage.
    known: HashMap<(Asid, u64), Pte>,
    changes: Vec<Change>,
    /// Events and touches so far, the time of what the system does by itself.
    now: u64,
    most_resident: u64,
    most_mapped: u64,
}

impl System {
    pub fn new(os: Os, rounds: bool) -> System {
        System { os, rounds, known: HashMap::new(), changes: Vec::new(), now: 0, most_resident: 0, most_mapped: 0 }
    }

    /// The system does the work of its own that is due.
    fn pass_time(&mut self) -> Result<(), String> {
        self.now += 1;
        if self.os.due() <= self.now {
            self.os.advance(self.now);
            self.follow();
            consistent(&self.os)?;
        }
        let (due, now) = (self.os.due(), self.now);
        need(due > now, || format!("it is {now}, and work that was due at {due} is not done"))
    }

    pub fn apply(&mut self, asid: Asid, op: &Op) {
        self.os.apply(asid, op);
        self.follow();
    }

    /// A touch; hardware has its translation from now on. `None`: memory is full, and the page is unchanged.
    pub fn touch(&mut self, program: &Program, asid: Asid, vpn: u64, kind: Kind) -> Result<Option<Pte>, String> {
        self.pass_time()?;
        let page = program.spaces[&asid][&vpn];
        let before = self.os.pte(asid, Vpn(vpn));
        let result = self.os.touch(asid, Vpn(vpn), kind);
        self.follow();
        let now = self.os.pte(asid, Vpn(vpn));
        let Ok(touched) = result else {
            let of = |pte: Option<Pte>| pte.map(|pte| (pte.pfn, pte.attr));
            need(of(before) == of(now), || {
                format!("memory was full at {vpn:#x}, and it changed from {before:?} to {now:?}")
            })?;
            return Ok(None);
        };
        let pte = touched.pte;
        need(now == Some(pte), || format!("a touch of {vpn:#x} gives {pte:?}, and the page table has {now:?}"))?;
        let allows = |bit| pte.attr.0 & bit != 0;
        let right = allows(Attr::READ) == page.prot.read && allows(Attr::EXEC) == page.prot.exec;
        let writable = if kind == Kind::Store {
            allows(Attr::WRITE) == page.prot.write
        } else {
            page.prot.write || !allows(Attr::WRITE)
        };
        need(right && writable, || {
            format!("{vpn:#x} has {:?}, and after a {kind:?} the page table says {pte:?}", page.prot)
        })?;
        let walked = self.known.insert((asid, vpn), pte).is_none();
        if walked && self.os.counts_walks() {
            self.os.walked(asid, Vpn(vpn));
            self.follow();
        }
        Ok(Some(pte))
    }

    /// Reports the changes to the hardware.
    fn follow(&mut self) {
        let mut changes = std::mem::take(&mut self.changes);
        self.os.take_changes(&mut changes);
        for change in &changes {
            let whole = matches!(change.what, What::Stale | What::Demoted);
            match change.what {
                What::Gone => self.known.retain(|(asid, _), _| *asid != change.asid),
                What::Stale | What::Demoted | What::Segment => {
                    self.known.retain(|&(asid, vpn), pte| {
                        let first = Vpn(vpn).align_down(pte.order.into());
                        let group = farreach_types::addr::VpnRange { start: first, pages: 1 << pte.order };
                        if whole && asid == change.asid && group.overlaps(&change.pages) {
                            pte.order = 0;
                        }
                        change.what != What::Stale || asid != change.asid || !change.pages.contains(Vpn(vpn))
                    });
                }
                What::FlushedEverywhere => {
                    self.known.retain(|&(asid, vpn), _| asid != change.asid || !change.pages.contains(Vpn(vpn)))
                }
                What::Writable | What::Unaccessed | What::Promoted | What::Mapped | What::Flushed => {}
            }
        }
        self.changes = changes;
        self.most_resident = self.most_resident.max(self.os.in_use().resident);
    }

    /// Page tables and frames, all of them.
    pub fn check(&mut self, program: &Program) -> Result<(), String> {
        consistent(&self.os)?;
        self.known_is_true()?;
        let mut owners: HashMap<u64, Vec<(Asid, u64, Pte)>> = HashMap::new();
        let mut mapped = 0;
        let total = self.os.frames().total.unwrap_or(u64::MAX);
        for &asid in program.spaces.keys() {
            for vpn in FIRST - MARGIN..FIRST + PAGES + MARGIN {
                let there = self.os.pte(asid, Vpn(vpn));
                self.perforated(asid, vpn, there)?;
                let Some(pte) = there else { continue };
                mapped += 1;
                self.superpage(asid, vpn, pte)?;
                if numbers::is_zeros(pte.pfn) {
                    let private = program.spaces[&asid].get(&vpn).is_some_and(|page| !page.file && !page.shared);
                    need(private && pte.attr.0 & Attr::WRITE == 0, || {
                        format!("{asid:?} {vpn:#x} is {pte:?}, a page of zeros that a process may change")
                    })?;
                    continue;
                }
                need(pte.pfn.0 < total, || format!("{asid:?} {vpn:#x} lies in frame {:#x} of {total:#x}", pte.pfn.0))?;
                let page = program.spaces[&asid].get(&vpn);
                need(page.is_some() || self.rounds, || {
                    format!("{asid:?} {vpn:#x} is not mapped by the program, and has {pte:?}")
                })?;
                owners.entry(pte.pfn.0).or_default().push((asid, vpn, pte));
            }
        }
        for (pfn, owners) in owners.iter().filter(|(_, owners)| owners.len() > 1) {
            let page = |&(asid, vpn, _): &(Asid, u64, Pte)| program.spaces[&asid].get(&vpn);
            // The rest of a huge page is identified by its place only. After a fork, what one process has unmapped
            // and rounding keeps may still be a page of another.
            let same = |a: &(Asid, u64, Pte), b: &(Asid, u64, Pte)| match (page(a), page(b)) {
                (Some(a), Some(b)) => (a.object, a.page) == (b.object, b.page),
                _ => self.rounds && a.1 == b.1,
            };
            let same = owners.iter().enumerate().all(|(at, a)| owners[at + 1..].iter().all(|b| same(a, b)));
            need(same, || format!("frame {pfn:#x} belongs to several pages that are not one: {owners:?}"))?;
            let safe =
                |owner: &(Asid, u64, Pte)| owner.2.attr.0 & Attr::WRITE == 0 || page(owner).is_some_and(|p| p.shared);
            need(owners.iter().all(safe), || {
                format!("frame {pfn:#x} is shared, and one process may write it alone: {owners:?}")
            })?;
        }
        // More pages of files than the mapped ones stay in memory: those read ahead, and the originals of private
        // copies.
        let private = program.spaces.values().flat_map(|space| space.values()).filter(|page| !page.file);
        let most = if program.shares || self.rounds { u64::MAX } else { private.count() as u64 };
        self.frames(owners.len() as u64, most)?;
        self.most_mapped = self.most_mapped.max(mapped);
        let peak = self.os.memory_use();
        let shift = self.os.page_shift();
        let at_least = |what: &str, peak: u64, seen: u64| {
            need(peak >> shift >= seen, || format!("the most {what} is {} pages, and {seen} were seen", peak >> shift))
        };
        at_least("resident", peak.resident_bytes, self.most_resident)?;
        at_least("mapped", peak.mapped_bytes, self.most_mapped)?;
        let guard = |page: &super::program::Page| page.prot == farreach_types::event::Prot::NONE;
        let pages: usize =
            program.spaces.values().map(|space| space.values().filter(|page| !guard(page)).count()).sum();
        let counted = self.os.in_use().virtual_pages;
        need(self.rounds || counted == pages as u64, || {
            format!("{pages} pages are mapped by the programs, and {counted} are counted")
        })
    }

    /// Checks the account of frames: the sum is the number of frames, and frames with contents are those that page
    /// tables or objects hold.
    fn frames(&self, owned: u64, most: u64) -> Result<(), String> {
        let f = self.os.frames();
        if let (Some(total), Some(free)) = (f.total, f.free) {
            let sum = free + f.pinned + f.resident + f.reserved + f.set_aside + f.others - f.foreign;
            need(sum == total, || format!("frames are lost: {f:?}"))?;
        }
        need(f.resident == self.os.in_use().resident, || format!("{f:?}, in use {:?}", self.os.in_use()))?;
        need(owned <= f.resident && f.resident <= most, || {
            format!("page tables hold {owned} frames, programs map {most} pages, and {} frames are in use", f.resident)
        })
    }

    /// The page is aligned in its superpage, and so is its first page.
    fn superpage(&self, asid: Asid, vpn: u64, pte: Pte) -> Result<(), String> {
        let offset = Vpn(vpn).offset_in(pte.order.into());
        let first = self.os.pte(asid, Vpn(vpn - offset));
        let right = Pte { pfn: farreach_types::addr::Pfn(pte.pfn.0.wrapping_sub(offset)), ..pte };
        let aligned = pte.pfn.offset_in(pte.order.into()) == offset;
        need(aligned && first == Some(right), || {
            format!("{asid:?} {vpn:#x} is {pte:?}, and the first page of its superpage {first:?}")
        })
    }

    /// A page of a superpage with holes that is no hole lies in its place there (PRF-1).
    fn perforated(&self, asid: Asid, vpn: u64, there: Option<Pte>) -> Result<(), String> {
        let Some(superpage) = self.os.perforated(asid, Vpn(vpn)) else { return Ok(()) };
        let place = (superpage.pfn.0 + vpn % 512, superpage.attr);
        let right = superpage.pfn.0.is_multiple_of(512) && there.map(|pte| (pte.pfn.0, pte.attr)) == Some(place);
        need(superpage.is_hole(Vpn(vpn)) || right, || {
            format!("{asid:?} {vpn:#x} is {there:x?}, and no hole of {superpage:x?}")
        })
    }

    /// Checks that every change was reported: the translations of the hardware agree with the page table, those of
    /// superpages as a whole.
    fn known_is_true(&self) -> Result<(), String> {
        for (&(asid, vpn), known) in &self.known {
            let offset = Vpn(vpn).offset_in(known.order.into());
            for i in [0, (1 << known.order) - 1, offset] {
                let at = vpn - offset + i;
                let now = self.os.pte(asid, Vpn(at)).map(|pte| (pte.pfn.0, pte.attr));
                let right = (known.pfn.0 - offset + i, known.attr);
                need(now == Some(right), || {
                    format!(
                        "{asid:?} {at:#x} was not reported: an entry of {known:?} for {vpn:#x} stands, and the page \
                         table has {now:x?}"
                    )
                })?;
            }
        }
        Ok(())
    }

    /// All processes have ended.
    pub fn check_end(&self) -> Result<(), String> {
        consistent(&self.os)?;
        let f = self.os.frames();
        need(f.resident == 0 && f.reserved == 0, || format!("all processes ended, and frames are in use: {f:?}"))?;
        self.frames(0, 0)?;
        let end = self.os.memory_use().resident_at_end_bytes;
        need(end == 0, || format!("all processes ended, and {end} bytes are resident"))
    }
}

/// The counters of the system.
fn consistent(os: &Os) -> Result<(), String> {
    let said = catch_unwind(AssertUnwindSafe(|| os.check()));
    said.map_err(|why| {
        format!("the system finds itself inconsistent: {}", why.downcast_ref::<String>().map_or("", String::as_str))
    })
}
