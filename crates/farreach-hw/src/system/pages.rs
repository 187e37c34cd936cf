//! The pages of which lines may be cached, as software records them: enough to know what a change of a mapping
//! requires, and whether two pages are the same memory.

use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::translation::{Attr, Pte};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// A page as it was when its last line was brought in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Known {
    /// The address space of the page.
    pub asid: Asid,
    /// Page of the program.
    pub vpn: Vpn,
    /// Its frame.
    pub pfn: Pfn,
    /// Its protection.
    pub attr: Attr,
}

/// Pages by global page number, and frames by the page that had them last.
pub struct Pages {
    pages: HashMap<u64, Known, FixedState>,
    frames: HashMap<Pfn, u64, FixedState>,
    /// Pages that are unchanged since they were brought in, and whose frame no other page shares, by the low bits of
    /// their number.
    alone: [Option<(u64, Known)>; ALONE],
}

const ALONE: usize = 64;

impl Default for Pages {
    fn default() -> Pages {
        Pages { pages: HashMap::default(), frames: HashMap::default(), alone: [None; ALONE] }
    }
}

impl Pages {
    /// A line of `page` is brought in. Returns the other page that may have lines of the same frame cached, if there is
    /// one.
    pub fn bring(&mut self, page: u64, asid: Asid, vpn: Vpn, pte: Pte) -> Option<u64> {
        let known = Known { asid, vpn, pfn: pte.pfn, attr: pte.attr };
        let place = page as usize % ALONE;
        if self.alone[place] == Some((page, known)) {
            return None;
        }
        self.pages.insert(page, known);
        let before = self.frames.insert(pte.pfn, page).filter(|before| *before != page);
        // Another page that has or had the frame is not alone any more.
        if before.is_some() {
            self.alone = [None; ALONE];
        } else {
            self.alone[place] = Some((page, known));
        }
        before.filter(|before| self.pages.get(before).is_some_and(|k| k.pfn == pte.pfn))
    }

    /// The page, if lines of it may be cached.
    pub fn get(&self, page: u64) -> Option<&Known> {
        self.pages.get(&page)
    }

    /// Its protection changed.
    pub fn set_attr(&mut self, page: u64, attr: Attr) {
        self.alone[page as usize % ALONE] = None;
        if let Some(known) = self.pages.get_mut(&page) {
            known.attr = attr;
        }
    }

    /// No line of it is cached any more.
    pub fn forget(&mut self, page: u64) {
        self.alone[page as usize % ALONE] = None;
        if let Some(known) = self.pages.remove(&page)
            && self.frames.get(&known.pfn) == Some(&page)
        {
            self.frames.remove(&known.pfn);
        }
    }

    /// Those in a range of an address space, ascending. `page_of` gives the global page of a page of the program, if it
    /// has one.
    pub fn within(&self, asid: Asid, range: VpnRange, page_of: impl Fn(Vpn) -> Option<u64>) -> Vec<u64> {
        if range.pages <= self.pages.len() as u64 {
            return range.iter().filter_map(page_of).filter(|page| self.pages.contains_key(page)).collect();
        }
        let inside = |known: &Known| known.asid == asid && range.contains(known.vpn);
        let mut pages: Vec<u64> = self.pages.iter().filter(|(_, known)| inside(known)).map(|(page, _)| *page).collect();
        pages.sort_unstable();
        pages
    }

    /// The pages for which `which` holds, ascending.
    pub fn matching(&self, which: impl Fn(u64, &Known) -> bool) -> Vec<u64> {
        let mut pages: Vec<u64> =
            self.pages.iter().filter(|(page, known)| which(**page, known)).map(|(page, _)| *page).collect();
        pages.sort_unstable();
        pages
    }
}
