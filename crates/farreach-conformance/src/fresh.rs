//! What an opaque design may still have: without entries and probes, a stale hit shows only in what was filled since.
//!
//! A hit needs a miss since the page was last invalidated, of a page that one fill may bring it with: one of the same
//! 512 pages, or of the same superpage.

use crate::subject::Traits;
use crate::tally::need;
use crate::world::Event;
use farreach_hw::tlb::Lookup;
use farreach_types::addr::{Asid, VpnRange};
use farreach_types::translation::Pte;
use std::collections::HashMap;

/// log2 of the pages that one fill may bring, if no superpage is larger.
const GROUP: u8 = 9;

/// Misses and invalidations, by their time.
#[derive(Default)]
pub struct Fresh {
    now: u64,
    /// The last miss in a group: the order of the group, and its number.
    missed: HashMap<(Asid, u8, u64), u64>,
    /// The last invalidations.
    stale: Vec<(Asid, VpnRange, u64)>,
}

impl Fresh {
    pub fn lookup(&mut self, at: Lookup, pte: Pte, hit: bool) -> Result<(), String> {
        self.now += 1;
        let order = pte.order.max(GROUP);
        let groups = [GROUP, order].map(|order| (at.asid, order, at.vpn.0 >> order));
        if !hit {
            groups.into_iter().for_each(|group| _ = self.missed.insert(group, self.now));
            return Ok(());
        }
        let missed = groups.iter().filter_map(|group| self.missed.get(group)).max();
        let Some(missed) = missed else {
            let what = "a hit needs an entry: neither the page nor a neighbour of it missed since its space began";
            return Err(what.to_owned());
        };
        let of_page = |(asid, pages, _): &&(Asid, VpnRange, u64)| *asid == at.asid && pages.contains(at.vpn);
        let stale = self.stale.iter().filter(of_page).map(|(.., when)| *when).max();
        need(stale.is_none_or(|stale| stale < *missed), || {
            "what was invalidated is no hit (T94-18): it is one, and neither it nor a neighbour missed since".into()
        })
    }

    pub fn apply(&mut self, event: Event, t: &Traits) {
        self.now += 1;
        match event {
            Event::Stale(asid, pages) => self.stale.push((asid, pages, self.now)),
            Event::Gone(asid) => self.missed.retain(|(of, ..), _| *of != asid),
            Event::Switch(to) if !t.process_ids => self.missed.retain(|(of, ..), _| *of == to),
            _ => {}
        }
        if self.stale.len() > 256 {
            self.stale.remove(0);
        }
    }
}
