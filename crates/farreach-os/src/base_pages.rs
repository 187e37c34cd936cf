//! Systems whose base page is larger than the 4 KB pages of the stream.
//!
//! A program was recorded on 4 KB pages, so its mappings need not be whole pages of such a system. A program built for
//! larger pages would ask for other addresses. The recorded one cannot, so its mappings share pages where they must:
//!
//! * A page is mapped as long as some 4 KB part of it is. It allows what one of its parts allows.
//! * It belongs to the mapping that came first, object and label, until its last part is unmapped. The next mapping is
//!   first again.
//! * Unmapping and `DONTNEED` affect a page when they cover all parts it has.
//! * A page without parts (referenced, but never mapped) is affected when any part of it is covered.
//! * A file that is mapped at two different offsets within a page is two objects: one frame cannot serve both.
//! * mremap moves a page with its frame if the distance is a whole number of pages, old and new place have no page in
//!   common, all parts of the page move, and the new place has no other part. Other parts are mapped anew, as new
//!   memory unless they belong to a file: data that a system would copy is faulted in again. Pages in both places stay
//!   as they are.
//! * What mremap adds continues the object of the page before it if all parts of that page are alike in backing and
//!   sharing; otherwise, and where the old length is 0, it is mapped anew.
//!
//! [`Parts`] remembers the mappings as the program made them, and turns each event into [`Step`]s in the system's own
//! pages.

use super::region::HugeAdvice;
use farreach_types::addr::{BASE_SHIFT, Vpn, VpnRange};
use farreach_types::event::{Advice, Backing, Mapping, Op, Prot};
use std::collections::{BTreeMap, BTreeSet};

/// A mapping or a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// Its pages: 4 KB pages inside [`Parts`], the system's own pages in a [`Step`].
    pub range: VpnRange,
    /// Protection.
    pub prot: Prot,
    /// Whether it is shared (MAP_SHARED).
    pub shared: bool,
    /// What backs it. The offset in a file is that of the range's first byte. It wraps below 0 where the file begins
    /// inside the first page.
    pub backing: Backing,
}

/// An event in the system's own pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A new mapping, which replaces others.
    Map(Piece),
    /// An unmapping.
    Unmap(VpnRange),
    /// mremap from the first range to the second.
    Remap(VpnRange, VpnRange),
    /// New protection.
    Protect(VpnRange, Prot),
    /// madvise(DONTNEED).
    Discard(VpnRange),
    /// The pages are mapped at once.
    Populate(VpnRange),
    /// madvise(HUGEPAGE) or madvise(NOHUGEPAGE).
    Huge(VpnRange, HugeAdvice),
    /// madvise(COLLAPSE).
    Collapse(VpnRange),
}

impl Piece {
    /// Of a mapping, in 4 KB pages.
    fn of(m: &Mapping) -> Piece {
        let range = VpnRange::of_bytes(m.start, m.len, BASE_SHIFT);
        Piece { range, prot: m.prot, shared: m.shared, backing: m.backing.clone() }
    }

    /// The mapping as it would be if it began this many 4 KB pages later (earlier, if the number wraps).
    fn backing_from(&self, later: u64) -> Backing {
        let mut backing = self.backing.clone();
        if let Backing::File { offset, .. } = &mut backing {
            *offset = offset.wrapping_add(later << BASE_SHIFT);
        }
        backing
    }

    /// The part inside `range`, if any.
    fn cut(&self, range: VpnRange) -> Option<Piece> {
        let range = both(self.range, range);
        let backing = self.backing_from(range.start.0.wrapping_sub(self.range.start.0));
        (range.pages > 0).then(|| Piece { range, backing, ..self.clone() })
    }

    /// `next` begins where this ends, and the two differ in nothing else.
    fn continues_in(&self, next: &Piece) -> bool {
        self.range.end() == next.range.start
            && (self.prot, self.shared) == (next.prot, next.shared)
            && self.backing_from(self.range.pages) == next.backing
    }

    fn is_file(&self) -> bool {
        matches!(self.backing, Backing::File { .. })
    }
}

/// The steps of an event in a system with 4 KB pages: the same.
pub(super) fn in_4k_pages(op: &Op) -> Option<Step> {
    let range = |start: u64, len: u64| VpnRange::of_bytes(start, len, BASE_SHIFT);
    Some(match op {
        Op::Map(mapping) => Step::Map(Piece::of(mapping)),
        Op::Unmap { start, len } => Step::Unmap(range(*start, *len)),
        Op::Remap { old_start, old_len, new_start, new_len } => {
            Step::Remap(range(*old_start, *old_len), range(*new_start, *new_len))
        }
        Op::Protect { start, len, prot } => Step::Protect(range(*start, *len), *prot),
        Op::Advise { start, len, advice: Advice::DontNeed } => Step::Discard(range(*start, *len)),
        Op::Advise { start, len, advice: Advice::Populate } => Step::Populate(range(*start, *len)),
        Op::Advise { start, len, advice: Advice::HugePage } => Step::Huge(range(*start, *len), HugeAdvice::Huge),
        Op::Advise { start, len, advice: Advice::NoHugePage } => Step::Huge(range(*start, *len), HugeAdvice::NoHuge),
        Op::Advise { start, len, advice: Advice::Collapse } => Step::Collapse(range(*start, *len)),
        _ => return None,
    })
}

/// What the events of one address space mapped, in 4 KB pages.
#[derive(Clone, Debug, Default)]
pub(super) struct Parts {
    pieces: BTreeMap<Vpn, Piece>,
}

impl Parts {
    /// The steps of an event in a system with pages of `2^k` 4 KB pages.
    pub fn steps_of(&mut self, op: &Op, k: u32) -> Vec<Step> {
        let mut steps = Vec::new();
        let touched = match in_4k_pages(op) {
            Some(Step::Map(piece)) => {
                let range = piece.range;
                steps.push(Step::Map(stretched(&piece, self.whole(range, k), k)));
                self.take(range);
                self.insert(piece);
                vec![range]
            }
            Some(Step::Unmap(range)) => {
                steps.push(Step::Unmap(self.whole(range, k)));
                self.take(range);
                vec![range]
            }
            Some(Step::Remap(old, new)) => self.remap(old, new, k, &mut steps),
            Some(Step::Protect(range, prot)) => {
                steps.push(Step::Protect(self.whole(range, k), prot));
                self.take(range).into_iter().for_each(|piece| self.insert(Piece { prot, ..piece }));
                vec![range]
            }
            Some(Step::Discard(range)) => {
                steps.push(Step::Discard(self.whole(range, k)));
                Vec::new()
            }
            Some(Step::Populate(range)) => {
                steps.push(Step::Populate(cover(range, k)));
                Vec::new()
            }
            Some(Step::Huge(range, huge)) => {
                steps.push(Step::Huge(self.whole(range, k), huge));
                Vec::new()
            }
            Some(Step::Collapse(range)) => {
                steps.push(Step::Collapse(cover(range, k)));
                Vec::new()
            }
            None => Vec::new(),
        };
        let pages: BTreeSet<Vpn> = touched.into_iter().flat_map(|range| self.shared(range, k)).collect();
        steps.extend(pages.into_iter().map(|page| Step::Protect(VpnRange::one(page), self.union(page, k))));
        steps.retain(|step| match step {
            Step::Map(Piece { range, .. })
            | Step::Unmap(range)
            | Step::Protect(range, _)
            | Step::Discard(range)
            | Step::Populate(range)
            | Step::Collapse(range)
            | Step::Huge(range, _) => range.pages > 0,
            Step::Remap(..) => true,
        });
        steps
    }

    fn remap(&mut self, old: VpnRange, new: VpnRange, k: u32, steps: &mut Vec<Step>) -> Vec<VpnRange> {
        let last = Vpn(old.start.0 + old.pages.saturating_sub(1));
        let source = self.overlapping(VpnRange::one(last)).next().and_then(|p| p.cut(VpnRange::one(last)));
        let keep = VpnRange { start: old.start, pages: old.pages.min(new.pages) };
        let kept = VpnRange { start: new.start, ..keep };
        let (beyond, more) = (VpnRange::between(keep.end(), old.end()), VpnRange::between(kept.end(), new.end()));
        let gone = without(self.whole(beyond, k), cover(new, k));
        steps.extend(gone.into_iter().map(Step::Unmap));
        self.take(beyond);
        self.take(if old.start == new.start { more } else { new });
        let fresh = self.whole(if old.start == new.start { more } else { new }, k);
        let left = if old.start == new.start { Vec::new() } else { self.shift(keep, new, fresh, k, steps) };
        if let Some(source) = source.filter(|_| more.pages > 0) {
            let first = cover(more, k).start.max(cover(kept, k).end());
            self.grow(source, more, both(fresh, VpnRange::between(first, cover(more, k).end())), old.pages, k, steps);
        }
        // Last, so that an object that gets another mapping in between is not destroyed.
        steps.extend(left.into_iter().map(Step::Unmap));
        vec![old, new]
    }

    /// Moves the parts of `keep` to the beginning of `new`, where `fresh` are the pages to map. Returns the pages to
    /// unmap.
    fn shift(
        &mut self,
        keep: VpnRange,
        new: VpnRange,
        fresh: VpnRange,
        k: u32,
        steps: &mut Vec<Step>,
    ) -> Vec<VpnRange> {
        let distance = new.start.0.wrapping_sub(keep.start.0);
        let moved = |range: VpnRange, by: u64| VpnRange { start: Vpn(range.start.0.wrapping_add(by)), ..range };
        let left = self.whole(keep, k);
        let mut with_frames = VpnRange { pages: 0, ..left };
        let by = ((distance as i64) >> k) as u64;
        if distance.trailing_zeros() >= k && !cover(keep, k).overlaps(&cover(new, k)) {
            let to = both(moved(left, by), fresh);
            with_frames = moved(to, by.wrapping_neg());
            if to.pages > 0 {
                steps.push(Step::Remap(with_frames, to));
            }
        }
        let mut next = fresh.start;
        for piece in self.take(keep) {
            let piece = Piece { range: moved(piece.range, distance), ..piece };
            let pages = cover(piece.range, k);
            let unmapped = both(fresh, VpnRange::between(pages.start.max(next), pages.end()));
            for run in without(unmapped, moved(with_frames, by)) {
                steps.push(Step::Map(stretched(&piece, run, k)));
            }
            next = next.max(pages.end());
            self.insert(piece);
        }
        without(left, with_frames).into_iter().flat_map(|run| without(run, cover(new, k))).collect()
    }

    /// The mapping whose last 4 KB page is `source` is extended by `more`, which adds `pages`. `old` is 0 for a
    /// duplicate.
    fn grow(&mut self, source: Piece, more: VpnRange, pages: VpnRange, old: u64, k: u32, steps: &mut Vec<Step>) {
        let piece = Piece { range: more, backing: source.backing_from(old.min(1)), ..source };
        let before = VpnRange { start: Vpn(pages.start.0.wrapping_sub(1)), pages: 1 };
        let alike = |p: &Piece| (p.shared, &p.backing) == (piece.shared, &piece.backing);
        // If the mapping is extended, it ends in the page before the new ones.
        if old > 0 && !piece.is_file() && pages.pages > 0 && self.overlapping(before.finer(k)).all(alike) {
            steps.push(Step::Remap(before, VpnRange { pages: 1 + pages.pages, ..before }));
            // The page before may allow more, or less, for the sake of its other parts.
            steps.push(Step::Protect(pages, piece.prot));
        } else {
            steps.push(Step::Map(stretched(&piece, pages, k)));
        }
        self.insert(piece);
    }

    /// The pieces that have a part in `range`, ascending.
    fn overlapping(&self, range: VpnRange) -> impl Iterator<Item = &Piece> {
        let first = self.pieces.range(..=range.start).next_back().map_or(range.start, |(start, _)| *start);
        self.pieces.range(first..range.end().max(first)).map(|(_, p)| p).filter(move |p| p.range.overlaps(&range))
    }

    /// Removes the parts in `range` and returns them, ascending.
    fn take(&mut self, range: VpnRange) -> Vec<Piece> {
        let hit: Vec<Vpn> = self.overlapping(range).map(|p| p.range.start).collect();
        let mut inside = Vec::new();
        for start in hit {
            let piece = self.pieces.remove(&start).expect("just listed");
            let before = piece.cut(VpnRange::between(piece.range.start, range.start));
            let after = piece.cut(VpnRange::between(range.end(), piece.range.end()));
            self.pieces.extend(before.into_iter().chain(after).map(|rest| (rest.range.start, rest)));
            inside.extend(piece.cut(range));
        }
        inside
    }

    /// Adds a piece where nothing is mapped and joins it with neighbours that it continues: a growing heap stays one
    /// piece.
    fn insert(&mut self, mut piece: Piece) {
        if let Some((&start, before)) = self.pieces.range(..piece.range.start).next_back()
            && before.continues_in(&piece)
        {
            let before = self.pieces.remove(&start).expect("just found");
            piece = Piece { range: VpnRange::between(start, piece.range.end()), ..before };
        }
        if let Some(after) = self.pieces.get(&piece.range.end())
            && piece.continues_in(after)
        {
            let after = self.pieces.remove(&piece.range.end()).expect("just found");
            piece.range = VpnRange::between(piece.range.start, after.range.end());
        }
        self.pieces.insert(piece.range.start, piece);
    }

    /// The large pages that have a part in `range` and none outside it.
    fn whole(&self, range: VpnRange, k: u32) -> VpnRange {
        let pages = cover(range, k);
        let all = pages.finer(k);
        let beside = |start, end| self.overlapping(VpnRange::between(start, end)).next().is_some();
        let first = pages.start.0 + u64::from(beside(all.start, range.start));
        let end = pages.end().0 - u64::from(pages.pages > 0 && beside(range.end(), all.end()));
        VpnRange::between(Vpn(first), Vpn(end))
    }

    /// The large pages whose parts an event in `range` may have changed without covering them: at its ends, and where
    /// pieces begin or end.
    fn shared(&self, range: VpnRange, k: u32) -> BTreeSet<Vpn> {
        let pages = cover(range, k);
        let ends = |p: VpnRange| [p.start, Vpn(p.end().0.wrapping_sub(1))];
        let mut shared: BTreeSet<Vpn> = ends(pages).into_iter().filter(|page| pages.contains(*page)).collect();
        shared.retain(|page| self.overlapping(VpnRange::one(*page).finer(k)).next().is_some());
        let pieces = self.overlapping(pages.finer(k)).flat_map(|p| ends(cover(p.range, k)));
        shared.extend(pieces.filter(|page| pages.contains(*page)));
        shared
    }

    /// The protection of a large page: the union of its parts.
    fn union(&self, page: Vpn, k: u32) -> Prot {
        let parts = self.overlapping(VpnRange::one(page).finer(k));
        parts.fold(Prot::NONE, |all, Piece { prot, .. }| Prot {
            read: all.read | prot.read,
            write: all.write | prot.write,
            exec: all.exec | prot.exec,
        })
    }
}

/// The large pages that have a part in `range`.
fn cover(range: VpnRange, k: u32) -> VpnRange {
    match range.pages {
        0 => VpnRange { start: Vpn(range.start.0 >> k), pages: 0 },
        _ => VpnRange::between(Vpn(range.start.0 >> k), Vpn(((range.end().0 - 1) >> k) + 1)),
    }
}

fn both(a: VpnRange, b: VpnRange) -> VpnRange {
    a.and(b)
}

/// The part of `range` outside `hole`.
fn without(range: VpnRange, hole: VpnRange) -> Vec<VpnRange> {
    if !range.overlaps(&hole) {
        return if range.pages > 0 { vec![range] } else { Vec::new() };
    }
    let (before, after) = (VpnRange::between(range.start, hole.start), VpnRange::between(hole.end(), range.end()));
    [before, after].into_iter().filter(|run| run.pages > 0).collect()
}

/// The mapping of large pages that begin or end inside the piece, or around it.
fn stretched(piece: &Piece, pages: VpnRange, k: u32) -> Piece {
    let backing = piece.backing_from((pages.start.0 << k).wrapping_sub(piece.range.start.0));
    Piece { range: pages, backing, ..piece.clone() }
}
