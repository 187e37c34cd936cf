//! Counters add up: the changes that one lookup, one event and a whole run may make (XC-5).

use crate::subject::Traits;
use farreach_hw::tlb::{Answer, EntryView, Lookup, Outcome};
use farreach_types::counts::{PartCounts, TlbCounts};
use farreach_types::event::Kind;
use farreach_types::translation::Pte;

/// Fails with a message.
pub fn need(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

fn equal(what: &str, found: u64, expected: u64) -> Result<(), String> {
    need(found == expected, || format!("counters do not add up: {what}: {found} was counted, {expected} is right"))
}

/// One lookup. Hits have several counters by their origin; misses must add up. `alone`: an addition answered it, which
/// fills the TLBs as a walk does.
pub fn lookup(
    t: &Traits,
    (before, now): (&TlbCounts, &TlbCounts),
    (at, pte): (Lookup, Pte),
    answer: Answer,
    alone: bool,
) -> Result<(), String> {
    let miss = u64::from(answer.outcome != Outcome::Hit);
    let of = |kind| u64::from(at.kind == kind) * miss;
    equal("misses", now.misses, before.misses + miss)?;
    equal("fetch_misses", now.fetch_misses, before.fetch_misses + of(Kind::Fetch))?;
    equal("load_misses", now.load_misses, before.load_misses + of(Kind::Load))?;
    equal("store_misses", now.store_misses, before.store_misses + of(Kind::Store))?;
    let tag = u64::from(answer.outcome == Outcome::TagMiss);
    equal("tag_misses", now.tag_misses, before.tag_misses + tag)?;
    equal("superpage_misses", now.superpage_misses, before.superpage_misses + miss * u64::from(pte.order > 0))?;
    equal("walks", now.walk.walks, before.walk.walks + miss * u64::from(t.walks))?;
    equal("invalidations", now.invalidations, before.invalidations)?;
    let second = |c: &TlbCounts| [c.second_level_fetch_hits, c.second_level_data_hits];
    let [fetch, data] = std::array::from_fn(|i| second(now)[i].wrapping_sub(second(before)[i]));
    need(fetch + data <= 1 - miss, || format!("a lookup that ended as {:?} hit the second level", answer.outcome))?;
    need(if at.kind == Kind::Fetch { data == 0 } else { fetch == 0 }, || {
        "a second level hit on the wrong side".into()
    })?;
    if fetch + data > 0 {
        equal("evictions of the second level, which hit", now.evictions, before.evictions)?;
    }
    if miss == 1 {
        return need(now.fills > before.fills, || "a miss filled nothing".into());
    }
    let rest = |c: &TlbCounts| (c.fills, c.extra_pte_reads, c.walk.clone(), c.host_walk.clone());
    need(rest(before) == rest(now), || {
        format!("a hit counted a fill or a walk: {:?}, before {:?}", rest(now), rest(before))
    })?;
    // Entries that pages share may grow when an addition answers.
    let joined = |c: &TlbCounts| (c.merges, c.preloaded);
    need(alone || joined(before) == joined(now), || {
        format!("a hit joined entries: {:?}, before {:?}", joined(now), joined(before))
    })?;
    let splits = |c: &TlbCounts| c.split_unaligned + c.split_frames + c.split_attributes;
    equal("splits", splits(now), splits(before))
}

/// Reads of walkers, as they record them: one for each node of a page table, and two lines for each node of a range
/// table (RMM15-7).
pub fn reads(before: &TlbCounts, now: &TlbCounts, listed: u64) -> Result<(), String> {
    let of_part = |part: &PartCounts| part.memory.made.references + part.memory.made.background_references;
    let parts = |c: &TlbCounts| c.parts.iter().map(|(_, part)| of_part(part)).sum::<u64>();
    let nodes = |c: &TlbCounts| c.walk_references() + 2 * c.range.nodes + parts(c);
    equal("references of walkers", nodes(now) - nodes(before), listed)
}

/// After any history.
pub fn sums(t: &Traits, c: &TlbCounts) -> Result<(), String> {
    equal("lookups, which the machine counts", c.lookups, 0)?;
    equal("misses by side", c.fetch_misses + c.data_misses, c.misses)?;
    equal("data misses", c.load_misses + c.store_misses, c.data_misses)?;
    equal("misses by outcome", c.tag_misses + c.subblock_misses, c.misses)?;
    let at_most = |what: &str, n, most| need(n <= most, || format!("counters do not add up: {what}: {n} of {most}"));
    at_most("superpage_misses", c.superpage_misses, c.misses)?;
    at_most("merges", c.merges, c.fills)?;
    at_most("misses, each a fill", c.misses, c.fills)?;
    let begun = c.fills - c.merges;
    at_most("splits", c.split_unaligned + c.split_frames + c.split_attributes, begun)?;
    if t.one_array {
        at_most("evictions", c.evictions, begun)?;
    }
    let r = &c.range;
    equal("range lookups", r.mru_hits + r.full_searches, r.hits + r.misses)?;
    at_most("sole_hits", r.sole_hits, r.hits)?;
    at_most("wasted_walks", r.wasted_walks, r.walks)?;
    at_most("walks of ranges, each some nodes", r.walks, r.nodes)?;
    at_most("shootdowns, each an interrupt", c.shootdown.sent, c.shootdown.ipis)?;
    at_most("remote_invalidations", c.shootdown.remote_invalidations, c.invalidations + r.invalidations)?;
    let hits = c.walk.pd_cache_hits + c.walk.pdpt_cache_hits + c.walk.pml4_cache_hits + c.walk.pml5_cache_hits;
    at_most("walks from a cached entry", hits, c.walk.walks)
}

/// After lookups only: the number of entries agrees with the counters, where a page has one entry.
pub fn entries(before: (usize, &TlbCounts), now: (usize, &TlbCounts)) -> Result<(), String> {
    let ((had, old), (has, new)) = (before, now);
    let begun = (new.fills - new.merges) - (old.fills - old.merges);
    let gone = (new.evictions - old.evictions) + (new.covered_drops - old.covered_drops);
    let expected = had as u64 + begun;
    need(has as u64 + gone == expected, || {
        format!("counters do not add up: {had} entries, {begun} begun and {gone} evicted or covered, and now {has}")
    })
}

/// An event that only removes translations. Most entries list all their translations; one that lists two pages may be a
/// run from the first to the second, or a range, which counts as one.
pub fn event(before: &TlbCounts, now: &TlbCounts, was: &[EntryView], is: &[EntryView]) -> Result<(), String> {
    let mut rest = now.clone();
    rest.invalidations = before.invalidations;
    rest.range.invalidations = before.range.invalidations;
    rest.shootdown = before.shootdown.clone();
    rest.segment = before.segment.clone();
    rest.parts = before.parts.clone();
    need(rest == *before, || format!("an event counted more than invalidations: {now:?}, before {before:?}"))?;
    let counted = now.invalidations + now.range.invalidations - before.invalidations - before.range.invalidations;
    let (mut least, mut most) = (0, 0);
    for old in was {
        let left = is
            .iter()
            .find(|new| (new.slot, new.asid, new.base, new.order) == (old.slot, old.asid, old.base, old.order));
        let mut gone = (old.pages.len() - left.map_or(0, |new| new.pages.len())) as u64;
        if old.order > 6 && old.pages.len() > 2 {
            gone = u64::from(left.is_none()); // a superpage with holes (PRF-1), dropped as a whole
        }
        let may_be_span = old.pages.len() == 2 && left.is_none();
        least += if may_be_span { 1 } else { gone };
        most += if may_be_span { 1 << old.order } else { gone };
    }
    need((least..=most).contains(&counted), || {
        format!("counters do not add up: {counted} invalidations, and from {least} to {most} translations went")
    })
}
