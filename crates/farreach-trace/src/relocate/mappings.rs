//! The effect of mappings on clusters and their places.

use super::places::{anonymous, offset_in_huge};
use super::*;

impl Space {
    /// A range as the pieces in it and the gaps between them, ascending.
    pub(super) fn parts(&self, start: u64, end: u64) -> Vec<Part> {
        let first = self.pieces.range(..=start).next_back().map_or(start, |(s, _)| *s);
        let (mut parts, mut at) = (Vec::new(), start);
        for (&s, &piece) in self.pieces.range(first..end.max(first)).filter(|(_, p)| p.end > start) {
            if s > at {
                parts.push(Part { start: at, end: s, piece: None });
            }
            at = piece.end.min(end);
            parts.push(Part { start: s.max(start), end: at, piece: Some(piece) });
        }
        if at < end {
            parts.push(Part { start: at, end, piece: None });
        }
        parts
    }

    /// Bytes are used, by the kernel: those outside mappings stay where they are.
    pub(super) fn uses(&mut self, start: u64, end: u64) {
        for gap in self.parts(start, end).into_iter().filter(|part| part.piece.is_none()) {
            self.wild.extend(gap.start >> BASE_SHIFT..=(gap.end - 1) >> BASE_SHIFT);
        }
    }

    /// Where a range lies now, as starts and lengths. Gaps count only if there were references to them.
    pub(super) fn images(&self, start: u64, end: u64) -> std::result::Result<Vec<(u64, u64)>, String> {
        let mut images: Vec<(u64, u64)> = Vec::new();
        for part in self.parts(start, end) {
            let new = match part.piece {
                Some(piece) => part.start.wrapping_add(self.delta(&piece)),
                None if self.was_referenced(&part) => self.unmoved(part.start)?,
                None => continue,
            };
            match images.last_mut() {
                Some((s, len)) if *s + *len == new => *len += part.end - part.start,
                _ => images.push((new, part.end - part.start)),
            }
        }
        Ok(images)
    }

    /// Whether there were references to a gap. Searches the smaller set: the pages of the gap, or all pages referenced
    /// outside mappings.
    pub(super) fn was_referenced(&self, gap: &Part) -> bool {
        let pages = gap.start >> BASE_SHIFT..gap.end.div_ceil(PAGE);
        if pages.end - pages.start < self.wild.len() as u64 {
            pages.into_iter().any(|p| self.wild.contains(&p))
        } else {
            self.wild.iter().any(|p| pages.contains(p))
        }
    }

    /// Unmaps a range. Empty clusters give up their places.
    pub(super) fn remove(&mut self, start: u64, end: u64) {
        self.generation += 1;
        for part in self.parts(start, end) {
            let Some(piece) = part.piece else { continue };
            let (&s, _) = self.pieces.range(..=part.start).next_back().expect("the piece was just listed");
            self.pieces.remove(&s);
            if s < part.start {
                self.pieces.insert(s, Piece { end: part.start, ..piece });
            }
            if part.end < piece.end {
                self.pieces.insert(part.end, piece);
            }
            let cluster = self.clusters[piece.cluster].as_mut().expect("mapped clusters live");
            cluster.live -= part.end - part.start;
            let (place, delta) = (cluster.place, cluster.delta);
            if cluster.live == 0 {
                self.clusters[piece.cluster] = None;
            }
            match place {
                Some(place) => self.places[place].taken = self.clusters[piece.cluster].is_some(),
                None => self.stacked.give(part.start.wrapping_add(delta), part.end.wrapping_add(delta)),
            }
        }
        if !self.wild.is_empty() {
            let pages = start >> BASE_SHIFT..end >> BASE_SHIFT;
            self.wild.retain(|p| !pages.contains(p));
        }
    }

    /// Maps an empty range as part of a cluster.
    pub(super) fn insert(
        &mut self,
        start: u64,
        end: u64,
        cluster: usize,
        class: Class,
    ) -> std::result::Result<(), String> {
        self.generation += 1;
        let c = self.clusters[cluster].as_mut().expect("the caller chose a cluster that lives");
        let new = start.wrapping_add(c.delta);
        let fits = match c.place.map(|place| self.places[place]) {
            Some(place) => new >= place.start && place.end - new >= end - start,
            None => self.stacked.take(new, new.wrapping_add(end - start)),
        };
        if !fits {
            return Err(format!("the mapping at {start:#x} grew by more than {}", Bytes(ROOM)));
        }
        c.live += end - start;
        self.pieces.insert(start, Piece { end, cluster, class });
        Ok(())
    }

    /// A new cluster for a range: at the lowest place that is free and large enough, or as Linux does, which aligns to
    /// `offset` bytes from a multiple of 2 MB if that is given.
    pub(super) fn cluster(
        &mut self,
        (start, end): (u64, u64),
        class: Class,
        offset: Option<u64>,
        layout: Layout,
    ) -> std::result::Result<usize, String> {
        let len = end - start;
        let (base, place) = if layout == Layout::Linux && class == Class::Other && self.running {
            (self.stacked.place(len, offset).ok_or("the mappings do not fit in 47 bits")?, None)
        } else {
            let place = self.roomy_place(start, len, layout)?;
            (self.places[place].base, Some(place))
        };
        let new = Some(Cluster { delta: base.wrapping_sub(start), live: 0, place });
        let free = self.clusters.iter().position(Option::is_none);
        let index = free.unwrap_or(self.clusters.len());
        match self.clusters.get_mut(index) {
            Some(cluster) => *cluster = new,
            None => self.clusters.push(new),
        }
        Ok(index)
    }

    /// A place for `len` bytes, with room around it.
    fn roomy_place(&mut self, start: u64, len: u64, layout: Layout) -> std::result::Result<usize, String> {
        let fits = |p: &Slot| !p.taken && p.end - p.base >= len + ROOM;
        let place = match self.places.iter().position(fits) {
            Some(place) => place,
            None => {
                let from = self.places.last().map_or(layout.first_place(), |p| p.end);
                let shift = match layout {
                    // Low bits as if the clusters were packed: sets of a set-associative TLB are used as by a compact
                    // placement.
                    Layout::Aligned(size) => {
                        let packed = self.packed;
                        self.packed = (packed + len).next_multiple_of(size);
                        packed % ROOM
                    }
                    Layout::Linux => start % ROOM,
                };
                self.places.push(Slot::after(from, shift, len)?);
                self.places.len() - 1
            }
        };
        self.places[place].taken = true;
        Ok(place)
    }

    /// Whether a cluster has room around it.
    fn is_roomy(&self, cluster: usize) -> bool {
        self.clusters[cluster].is_some_and(|c| c.place.is_some())
    }

    /// The cluster that a mapping of this class continues, if it does.
    pub(super) fn continued(&self, start: u64, end: u64, class: Class) -> Option<usize> {
        let below = || self.pieces.range(..start).next_back().map(|(_, p)| p).filter(|p| p.end == start);
        let above = || self.pieces.get(&end);
        let piece = match class {
            Class::Heap => self.pieces.values().find(|p| p.class == Class::Heap),
            Class::Stack => above().filter(|p| p.class == Class::Stack),
            Class::Other if !self.running => below().filter(|p| p.class == Class::Other),
            Class::Other => None,
        };
        piece.map(|p| p.cluster)
    }

    /// Makes room for a mapping: unmaps what it replaces in other clusters, and says which parts of it go to which
    /// cluster, ascending and without gaps.
    pub(super) fn claim(
        &mut self,
        (start, end): (u64, u64),
        class: Class,
        offset: Option<u64>,
        layout: Layout,
        out: &mut Batch,
    ) -> std::result::Result<Vec<(u64, u64, usize)>, String> {
        // Clusters that are not replaced as a whole keep the replaced part. In Linux all do, since what replaces a
        // mapping has its address.
        let parts = self.parts(start, end);
        let mut covered: HashMap<usize, u64> = HashMap::new();
        for part in &parts {
            part.piece.iter().for_each(|p| *covered.entry(p.cluster).or_default() += part.end - part.start);
        }
        let stays =
            |c: usize| layout == Layout::Linux || self.clusters[c].is_some_and(|cluster| cluster.live > covered[&c]);
        let mut runs: Vec<(u64, u64, Option<usize>)> = Vec::new();
        for part in &parts {
            let cluster = part.piece.map(|p| p.cluster).filter(|&c| stays(c));
            match runs.last_mut() {
                Some((_, end, last)) if *last == cluster => *end = part.end,
                _ => runs.push((part.start, part.end, cluster)),
            }
        }
        // What is between them goes to a neighbour with room.
        let clusters: Vec<Option<usize>> = runs.iter().map(|run| run.2).collect();
        for (i, run) in runs.iter_mut().enumerate().filter(|(_, run)| run.2.is_none()) {
            let beside = [i.checked_sub(1), Some(i + 1)].into_iter().flatten();
            let beside = beside.filter_map(|at| clusters.get(at).copied().flatten());
            run.2 = beside.into_iter().find(|&c| self.is_roomy(c));
        }
        let replaces = clusters.iter().any(Option::is_some);
        let continued = self.continued(start, end, class).filter(|_| !replaces);
        // The clusters are kept even while they are empty.
        let held: Vec<usize> = runs.iter().filter_map(|run| run.2).chain(continued).collect();
        held.iter().for_each(|&c| self.clusters[c].as_mut().expect("found by a piece").live += 1);
        let images = self.images(start, end)?;
        self.remove(start, end);
        held.iter().for_each(|&c| self.clusters[c].as_mut().expect("held").live -= 1);
        if let Some(cluster) = continued {
            runs = vec![(start, end, Some(cluster))];
        }
        // What stays is put back first, so that no new cluster gets its place.
        for &(from, to, cluster) in &runs {
            cluster.map_or(Ok(()), |cluster| self.insert(from, to, cluster, class))?;
        }
        let mut placed = Vec::new();
        for (from, to, cluster) in runs {
            let cluster = match cluster {
                Some(cluster) => cluster,
                None => {
                    let new = self.cluster((from, to), class, offset.filter(|_| !replaces), layout)?;
                    self.insert(from, to, new, class)?;
                    new
                }
            };
            match placed.last_mut() {
                Some((_, end, last)) if *last == cluster => *end = to,
                _ => placed.push((from, to, cluster)),
            }
        }
        let runs = placed;
        let delta = |c: usize| self.clusters[c].expect("chosen above").delta;
        let inside = |s: u64, len: u64| {
            runs.iter().any(|&(from, to, c)| {
                let new = from.wrapping_add(delta(c));
                s >= new && s + len <= new + (to - from)
            })
        };
        // The new place of the mapping is cleared separately.
        for (start, len) in images.into_iter().filter(|&(s, len)| !inside(s, len)) {
            out.push_op(Op::Unmap { start, len });
        }
        Ok(runs)
    }

    pub(super) fn map(&mut self, m: &Mapping, layout: Layout, out: &mut Batch) -> std::result::Result<(), String> {
        let class = match m.backing {
            Backing::Heap => Class::Heap,
            Backing::Stack => Class::Stack,
            _ => Class::Other,
        };
        if let (Some(program), Backing::File { path, .. }) = (&self.program, &m.backing)
            && path != program
        {
            self.interpreter = self.interpreter.saturating_add(m.len);
        }
        let range = (m.start, end(m.start, m.len)?);
        if m.len == 0 {
            return Err(format!("a mapping of no bytes at {:#x}", m.start));
        }
        for (from, to, cluster) in self.claim(range, class, offset_in_huge(m), layout, out)? {
            let backing = match &m.backing {
                Backing::File { path, offset } => {
                    Backing::File { path: path.clone(), offset: offset + (from - m.start) }
                }
                other => other.clone(),
            };
            let start = from.wrapping_add(self.clusters[cluster].expect("just claimed").delta);
            out.push_op(Op::Map(Mapping { start, len: to - from, backing, ..m.clone() }));
        }
        Ok(())
    }

    pub(super) fn unmap(&mut self, start: u64, end: u64, out: &mut Batch) -> std::result::Result<(), String> {
        for (start, len) in self.images(start, end)? {
            out.push_op(Op::Unmap { start, len });
        }
        self.remove(start, end);
        Ok(())
    }

    pub(super) fn remap(
        &mut self,
        old: (u64, u64),
        new: (u64, u64),
        layout: Layout,
        out: &mut Batch,
    ) -> std::result::Result<(), String> {
        let (old_len, new_len) = (old.1 - old.0, new.1 - new.0);
        let Some(&piece) = self.find(old.0) else {
            // The trace has no mapping there.
            let old_start = self.unmoved(old.0)?;
            for (from, to, cluster) in self.claim(new, Class::Other, None, layout, out)? {
                let new_start = from.wrapping_add(self.clusters[cluster].expect("just claimed").delta);
                out.push_op(Op::Remap { old_start, old_len, new_start, new_len: to - from });
            }
            return Ok(());
        };
        let old_start = old.0.wrapping_add(self.delta(&piece));
        if self.parts(old.0, old.1).iter().any(|p| p.piece.is_none_or(|p| p.cluster != piece.cluster)) {
            return Err(format!("the {old_len} bytes moved from {:#x} are not one mapping", old.0));
        }
        if old.0 == new.0 {
            if new.1 <= old.1 {
                self.remove(new.1, old.1);
            } else {
                // Growth over other mappings replaces them.
                self.unmap(old.1, new.1, out)?;
                let (from, to) = (old_start + old_len, old_start + new_len);
                if !self.is_roomy(piece.cluster) && !self.stacked.is_free(from, to) {
                    return self.move_to_new_place(old, new, piece.class, layout, out);
                }
                self.insert(old.1, new.1, piece.cluster, piece.class)?;
            }
            out.push_op(Op::Remap { old_start, old_len, new_start: old_start, new_len });
            return Ok(());
        }
        if old.0 < new.1 && new.0 < old.1 {
            return Err(format!("the {old_len} bytes at {:#x} are moved over themselves, to {:#x}", old.0, new.0));
        }
        self.unmap(new.0, new.1, out)?;
        let class = if piece.class == Class::Heap { Class::Other } else { piece.class };
        self.move_to_new_place(old, new, class, layout, out)
    }

    /// One mapping becomes a cluster of its own, whose place is chosen while the old one is still there.
    fn move_to_new_place(
        &mut self,
        old: (u64, u64),
        new: (u64, u64),
        class: Class,
        layout: Layout,
        out: &mut Batch,
    ) -> std::result::Result<(), String> {
        let (old_len, new_len, old_start) = (old.1 - old.0, new.1 - new.0, self.byte(old.0)?);
        let cluster = self.cluster(new, class, anonymous(new_len), layout)?;
        self.remove(old.0, old.1);
        self.insert(new.0, new.1, cluster, class)?;
        let new_start = new.0.wrapping_add(self.clusters[cluster].expect("just made").delta);
        out.push_op(Op::Remap { old_start, old_len, new_start, new_len });
        Ok(())
    }
}
