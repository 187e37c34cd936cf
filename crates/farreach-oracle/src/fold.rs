//! Events for a system whose page is 2^k pages of 4 KB, page by page and part by part.
//!
//! The result is a stream of events for [`super::os`], scaled so that a large page is one of its pages.
//!
//! * OF-1 A part is a 4 KB page that an event mapped and no later event unmapped, with protection, sharing and backing.
//!   A large page is mapped while it has a part. An access is allowed if one of its parts allows it.
//! * OF-2 `Map`: the large pages it touches that have no part outside it are mapped by it. The others are unchanged.
//! * OF-3 `Unmap`, `DontNeed`: the large pages touched that have no part outside the range, also those without any
//!   part.
//! * OF-4 `Protect`: the same pages; then every large page touched gets the union.
//! * OF-5 A file's object is its path and the offset of its pages within large pages. If the file begins inside a large
//!   page, that page is page 0.
//! * OF-6 `Remap` in place: parts beyond the new length are unmapped (OF-3); growth as OF-9, after the parts in the way
//!   are unmapped.
//! * OF-7 `Remap` elsewhere: parts beyond the new length are unmapped, except large pages that the new range touches.
//!   Parts in the new range are gone. Large pages of the new range without other parts are fresh. If the distance is a
//!   multiple of the large page and no large page is touched by both ranges, the large pages of the old range without
//!   other parts move to fresh ones.
//! * OF-8 Other fresh pages: the parts are moved in ascending runs with equal protection and sharing and continuous
//!   backing. Each run is mapped again for the fresh pages that it touches first. Last, the large pages of the old
//!   range that have no other parts, are not moved and are not touched by the new range are unmapped.
//! * OF-9 Growth, if the last page of the old range was a part: it continues that part's backing; of length 0, it
//!   repeats it. Fresh pages behind those of the kept range: an mremap of the large page before them if it is not a
//!   file, the old length is not 0 and all parts of that large page have this sharing and backing; else mapped anew.

use farreach_types::addr::Asid;
use farreach_types::event::{Advice, Backing, Mapping, Op, Prot};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

#[derive(Clone, Debug, PartialEq)]
struct Part {
    prot: Prot,
    shared: bool,
    /// A file's offset is that of this part.
    backing: Backing,
}

impl Part {
    /// The part this many pages later.
    fn later(&self, by: i64) -> Part {
        let mut part = self.clone();
        if let Backing::File { offset, .. } = &mut part.backing {
            *offset = offset.wrapping_add_signed(by << 12);
        }
        part
    }
}

type Parts = BTreeMap<u64, Part>;

/// The parts of all address spaces.
#[derive(Clone, Debug, Default)]
pub struct Fold {
    spaces: BTreeMap<Asid, Parts>,
}

fn runs(pages: &BTreeSet<u64>) -> Vec<Range<u64>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for &page in pages {
        match runs.last_mut() {
            Some(run) if run.end == page => run.end += 1,
            _ => runs.push(page..page + 1),
        }
    }
    runs
}

fn touched(range: &Range<u64>, k: u32) -> BTreeSet<u64> {
    range.clone().map(|v| v >> k).collect()
}

/// Large pages touched by `range` without a part outside it.
fn whole(parts: &Parts, range: &Range<u64>, k: u32) -> BTreeSet<u64> {
    let alone = |page: &u64| (*page << k..(*page + 1) << k).all(|v| range.contains(&v) || !parts.contains_key(&v));
    touched(range, k).into_iter().filter(alone).collect()
}

/// `part` lies at 4 KB page `at`.
fn map(part: &Part, at: u64, run: Range<u64>, k: u32) -> Op {
    let mut backing = part.backing.clone();
    if let Backing::File { path, offset } = &part.backing {
        let large = 1i128 << (12 + k);
        let first = i128::from(*offset as i64) + (i128::from(run.start << k) - i128::from(at)) * 4096;
        let skew = first.rem_euclid(large);
        let page = first.div_euclid(large) + i128::from(skew > 0);
        backing = Backing::File { path: format!("{path}, {skew}").into(), offset: (page as u64) << 12 };
    }
    let (start, len) = (run.start << 12, (run.end - run.start) << 12);
    Op::Map(Mapping { start, len, prot: part.prot, shared: part.shared, backing })
}

fn unmap(run: Range<u64>) -> Op {
    Op::Unmap { start: run.start << 12, len: (run.end - run.start) << 12 }
}

fn remap(old: Range<u64>, new: Range<u64>) -> Op {
    let [old_start, new_start] = [&old, &new].map(|r| r.start << 12);
    let [old_len, new_len] = [&old, &new].map(|r| (r.end - r.start) << 12);
    Op::Remap { old_start, old_len, new_start, new_len }
}

impl Fold {
    /// The events of a system with pages of `2^k` parts.
    pub fn events(&mut self, asid: Asid, op: &Op, k: u32) -> Vec<Op> {
        let range = |start: u64, len: u64| start >> 12..(start >> 12) + (len >> 12);
        let parts = self.spaces.entry(asid).or_default();
        let mut ops = Vec::new();
        let mut ranges = Vec::new();
        match op {
            Op::Map(m) => {
                let range = range(m.start, m.len);
                let first = Part { prot: m.prot, shared: m.shared, backing: m.backing.clone() };
                ops.extend(runs(&whole(parts, &range, k)).into_iter().map(|run| map(&first, range.start, run, k)));
                parts.extend(range.clone().map(|v| (v, first.later((v - range.start) as i64))));
                ranges.push(range);
            }
            Op::Unmap { start, len } => {
                let range = range(*start, *len);
                ops.extend(runs(&whole(parts, &range, k)).into_iter().map(unmap));
                range.clone().for_each(|v| drop(parts.remove(&v)));
                ranges.push(range);
            }
            Op::Protect { start, len, prot } => {
                let range = range(*start, *len);
                for run in runs(&whole(parts, &range, k)) {
                    ops.push(Op::Protect { start: run.start << 12, len: (run.end - run.start) << 12, prot: *prot });
                }
                parts.range_mut(range.clone()).for_each(|(_, part)| part.prot = *prot);
                ranges.push(range);
            }
            Op::Advise { start, len, advice: Advice::DontNeed } => {
                for run in runs(&whole(parts, &range(*start, *len), k)) {
                    let (start, len) = (run.start << 12, (run.end - run.start) << 12);
                    ops.push(Op::Advise { start, len, advice: Advice::DontNeed });
                }
            }
            Op::Remap { old_start, old_len, new_start, new_len } => {
                let (old, new) = (range(*old_start, *old_len), range(*new_start, *new_len));
                move_parts(parts, old.clone(), new.clone(), k, &mut ops);
                ranges.extend([old, new]);
            }
            Op::Fork { child } => {
                let copy = parts.clone();
                self.spaces.insert(*child, copy);
                return vec![op.clone()];
            }
            Op::Start { .. } | Op::End(_) => {
                self.spaces.remove(&asid);
                return vec![op.clone()];
            }
            _ => {}
        }
        let parts = &self.spaces[&asid];
        for page in ranges.iter().flat_map(|r| touched(r, k)).collect::<BTreeSet<_>>() {
            let here: Vec<Prot> = parts.range(page << k..(page + 1) << k).map(|(_, part)| part.prot).collect();
            if !here.is_empty() {
                let [read, write, exec] =
                    [|p: &Prot| p.read, |p: &Prot| p.write, |p: &Prot| p.exec].map(|f| here.iter().any(f));
                ops.push(Op::Protect { start: page << 12, len: 1 << 12, prot: Prot { read, write, exec } });
            }
        }
        ops
    }
}

fn move_parts(parts: &mut Parts, old: Range<u64>, new: Range<u64>, k: u32, ops: &mut Vec<Op>) {
    let in_place = old.start == new.start;
    let source = parts.get(&old.end.saturating_sub(1).max(old.start)).cloned();
    let kept = (old.end - old.start).min(new.end - new.start);
    let (keep, beyond) = (old.start..old.start + kept, old.start + kept..old.end);
    let (landed, more) = (new.start..new.start + kept, new.start + kept..new.end);

    let gone = &whole(parts, &beyond, k) - &touched(&new, k);
    ops.extend(runs(&gone).into_iter().map(unmap));
    beyond.for_each(|v| drop(parts.remove(&v)));
    let cleared = if in_place { more.clone() } else { new.clone() };
    cleared.clone().for_each(|v| drop(parts.remove(&v)));
    let mut fresh = whole(parts, &cleared, k);

    let mut last_unmapped = BTreeSet::new();
    if !in_place {
        let left = whole(parts, &keep, k);
        let distance = new.start as i64 - old.start as i64;
        let mut moved = BTreeSet::new();
        if distance % (1 << k) == 0 && touched(&keep, k).is_disjoint(&touched(&new, k)) {
            moved = left.iter().copied().filter(|p| fresh.contains(&p.wrapping_add_signed(distance >> k))).collect();
        }
        let there = |page: u64| page.wrapping_add_signed(distance >> k);
        for run in runs(&moved) {
            ops.push(remap(run.clone(), there(run.start)..there(run.end)));
        }
        fresh = &fresh - &moved.iter().map(|p| there(*p)).collect();
        let travellers: Vec<(u64, Part)> =
            keep.filter_map(|v| Some((v.wrapping_add_signed(distance), parts.remove(&v)?))).collect();
        let alike = |a: &(u64, Part), b: &(u64, Part)| a.0 + 1 == b.0 && a.1.later(1) == b.1;
        for run in travellers.chunk_by(alike) {
            let (first, part) = &run[0];
            let pages = &touched(&(*first..first + run.len() as u64), k) & &fresh;
            ops.extend(runs(&pages).into_iter().map(|pages| map(part, *first, pages, k)));
            fresh = &fresh - &pages;
        }
        parts.extend(travellers);
        last_unmapped = &(&left - &moved) - &touched(&new, k);
    }

    if let Some(source) = source.filter(|_| !more.is_empty()) {
        let first = source.later(i64::from(!old.is_empty()));
        let behind = touched(&landed, k).last().copied();
        let pages: BTreeSet<u64> =
            (&touched(&more, k) & &fresh).into_iter().filter(|p| behind.is_none_or(|b| b < *p)).collect();
        for run in runs(&pages) {
            let before = run.start.wrapping_sub(1);
            let same = |part: &Part| part.shared == source.shared && part.backing == source.backing;
            let all_same = parts.range(before << k..(before + 1) << k).all(|(_, part)| same(part));
            let file = matches!(source.backing, Backing::File { .. });
            ops.push(match !file && !old.is_empty() && all_same {
                true => remap(before..run.start, before..run.end),
                false => map(&first, more.start, run, k),
            });
        }
        parts.extend(more.clone().map(|v| (v, first.later((v - more.start) as i64))));
    }
    ops.extend(runs(&last_unmapped).into_iter().map(unmap));
}
