//! Entries against the page table, against each other, and against earlier entries.

use crate::subject::Traits;
use crate::table::Table;
use crate::tally::need;
use farreach_hw::tlb::{EntryView, Tlb};
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::event::Kind;
use std::collections::{HashMap, HashSet};

/// The pages that the tag covers.
fn cover(e: &EntryView) -> VpnRange {
    VpnRange { start: e.base, pages: 1 << e.order }
}

pub fn meets(e: &EntryView, asid: Asid, pages: VpnRange) -> bool {
    e.asid == asid && cover(e).overlaps(&pages)
}

/// Whether the entry may translate a page: it lists it, or has one translation for all pages of its tag.
pub fn may_have(e: &EntryView, asid: Asid, vpn: Vpn) -> bool {
    e.asid == asid && page_of(e, vpn).is_some()
}

/// The listed page that stands for this one.
fn page_of(e: &EntryView, vpn: Vpn) -> Option<bool> {
    let listed = e.pages.iter().find(|page| e.base.0 + page.0 == vpn.0);
    let whole = || e.pages.first().filter(|first| e.pages.len() == 1 && first.0 == 0 && cover(e).contains(vpn));
    listed.or_else(whole).map(|page| page.2)
}

pub fn is_modified(e: &EntryView, vpn: Vpn) -> bool {
    page_of(e, vpn) == Some(true)
}

/// Entries do not exceed the capacity, each has a slot of its own, and a page has one entry where the design allows
/// only one (T94-17).
pub fn fits(t: &Traits, entries: &[EntryView]) -> Result<(), String> {
    need(entries.len() <= t.capacity, || format!("{} entries in a TLB of {}", entries.len(), t.capacity))?;
    let mut slots = HashSet::new();
    let mut pages = HashMap::new();
    let mut bytes = 0;
    for e in entries {
        need(slots.insert(e.slot), || format!("two entries in slot {}", e.slot))?;
        need(!e.pages.is_empty(), || format!("an entry without pages: {e:?}"))?;
        need(e.pages.is_sorted_by_key(|page| page.0), || format!("pages are not in order: {e:?}"))?;
        need(e.used.is_some() == entries[0].used.is_some() || !t.one_array, || format!("some have used bits: {e:?}"))?;
        for page in &e.pages {
            need(page.0 < 1 << e.order, || format!("a page outside the tag: {e:?}"))?;
            let twice = pages.insert((e.asid, e.base.0 + page.0), e).filter(|_| t.one_array);
            need(twice.is_none(), || {
                format!("T94-17: two entries have {:#x}: {e:?} and {twice:?}", e.base.0 + page.0)
            })?;
        }
        bytes += t.page * e.pages.len() as u64;
    }
    need(!t.one_array || bytes <= t.reach, || format!("entries for {bytes} bytes, and the reach is {}", t.reach))
}

/// Entries and probes agree with the page table.
pub fn holds(t: &Traits, tlb: &dyn Tlb, entries: &[EntryView], table: &Table) -> Result<(), String> {
    for e in entries {
        for page in &e.pages {
            let vpn = Vpn(e.base.0 + page.0);
            let right = table.translation(e.asid, vpn);
            need(right == Some(page.1), || {
                format!("an entry is wrong: {e:?}; the page table has {vpn:?} at {right:?}")
            })?;
        }
        let (first, n) = (e.base.0, 1u64 << e.order);
        let mix = first.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
        let listed = Vpn(first + e.pages[0].0);
        let mut found = false;
        for vpn in [listed, Vpn(first + n - 1), Vpn(first + mix % n)] {
            for kind in [Kind::Load, Kind::Fetch] {
                let Some(said) = tlb.probe(e.asid, vpn, kind) else { continue };
                found |= vpn == listed;
                let right = table.translation(e.asid, vpn);
                need(right == Some(said), || {
                    format!("a probe of {vpn:?} ({kind:?}) says {said:?}, the page table {right:?}")
                })?;
            }
        }
        need(found || t.several_cores, || format!("no probe finds the first page of an entry: {e:?}"))?;
    }
    Ok(())
}

/// A modified bit implies a store to one of its pages.
pub fn modified(entries: &[EntryView], stored: &HashSet<(Asid, u64)>) -> Result<(), String> {
    for e in entries {
        for page in e.pages.iter().filter(|page| page.2) {
            let first = e.base.0 + page.0;
            let whole = e.pages.len() == 1 && page.0 == 0;
            let written = stored.contains(&(e.asid, first))
                || whole && stored.iter().any(|&(asid, vpn)| asid == e.asid && cover(e).contains(Vpn(vpn)));
            need(written, || format!("modified, and nothing was stored to {first:#x}: {e:?}"))?;
        }
    }
    Ok(())
}

/// Entries that an event does not concern are unchanged.
pub fn others_stay(was: &[EntryView], is: &[EntryView], other: impl Fn(&EntryView) -> bool) -> Result<(), String> {
    let left: HashMap<usize, &EntryView> = is.iter().map(|e| (e.slot, e)).collect();
    for e in was.iter().filter(|e| other(e)) {
        let now = left.get(&e.slot);
        need(now == Some(&e), || format!("an entry that the event does not concern changed: {e:?}, and now {now:?}"))?;
    }
    Ok(())
}

/// An event begins no entry and adds nothing to one.
pub fn none_came(was: &[EntryView], is: &[EntryView]) -> Result<(), String> {
    let before: HashMap<usize, &EntryView> = was.iter().map(|e| (e.slot, e)).collect();
    for e in is {
        let same = before.get(&e.slot).filter(|old| (old.asid, old.base, old.order) == (e.asid, e.base, e.order));
        let known = same.is_some_and(|old| e.pages.iter().all(|page| old.pages.contains(page)));
        need(known, || format!("an event brought an entry: {e:?}"))?;
    }
    Ok(())
}

/// No entry has one translation for more than a page and covers one of these (T94-42). Such an entry lists its first
/// page alone, and a probe of its second finds it although no entry lists that.
pub fn no_whole(
    tlb: &dyn Tlb,
    entries: &[EntryView],
    asid: Asid,
    pages: VpnRange,
    several_cores: bool,
) -> Result<(), String> {
    let lone = |e: &&EntryView| e.order > 0 && e.pages.len() == 1 && e.pages[0].0 == 0 && meets(e, asid, pages);
    for e in entries.iter().filter(lone) {
        let second = Vpn(e.base.0 + 1);
        let listed = entries.iter().any(|x| x.asid == asid && spans(x, second));
        let answers = [Kind::Load, Kind::Fetch].into_iter().any(|kind| tlb.probe(asid, second, kind).is_some());
        need(listed || !answers || several_cores, || {
            format!("{pages:?} was demoted, and one entry has it all: {e:?}")
        })?;
    }
    Ok(())
}

/// Whether the entry lists the page, or two pages with it between them, as a run does.
fn spans(e: &EntryView, vpn: Vpn) -> bool {
    let page = |i: usize| e.base.0 + e.pages[i].0;
    let is_run = e.pages.len() == 2 && (page(0)..=page(1)).contains(&vpn.0);
    is_run || (0..e.pages.len()).any(|i| page(i) == vpn.0)
}

/// Pages of a range to check: its ends, some between, and those that earlier entries covered.
pub fn samples(asid: Asid, pages: VpnRange, was: &[EntryView]) -> Vec<Vpn> {
    if pages.pages == 0 {
        return Vec::new();
    }
    let (first, last) = (pages.start.0, pages.end().0 - 1);
    let mut all = vec![first, last];
    all.extend((0..pages.pages.min(24)).map(|i| first + i));
    for e in was.iter().filter(|e| meets(e, asid, pages)) {
        let both = cover(e).and(pages);
        all.extend([both.start.0, both.start.0 + both.pages / 2, both.end().0 - 1]);
        all.extend(e.pages.iter().map(|page| e.base.0 + page.0).filter(|vpn| pages.contains(Vpn(*vpn))));
    }
    all.sort_unstable();
    all.dedup();
    all.into_iter().map(Vpn).collect()
}
