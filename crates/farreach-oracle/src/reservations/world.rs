//! Objects, mappings, page tables and free frames of both policies, and the invariants.

use super::*;

/// All that a policy acts on. Everyone may look; only the policies change it.
#[derive(Clone, Debug)]
pub struct World {
    /// Frames of the memory.
    pub frames: u64,
    pub(super) buddy: Lists,
    pub(super) objects: Vec<Object>,
    pub(super) mappings: Vec<Mapping>,
    /// By process and first virtual page.
    pub(super) leaves: BTreeMap<(u32, u64), Leaf>,
    /// By object and first page.
    pub(super) reservations: BTreeMap<(usize, u64), Reservation>,
}

/// What a frame is (OSC-5).
#[derive(Clone, Copy, Debug)]
enum Place {
    Free,
    #[allow(dead_code, reason = "for messages")]
    Page {
        object: usize,
        page: u64,
    },
    Reserved,
}

impl World {
    pub(super) fn new(frames: u64) -> World {
        let free = joined(&vec![true; frames as usize], frames.max(1).ilog2() + 1);
        World {
            frames,
            buddy: Lists { free, by_address: true },
            objects: Vec::new(),
            mappings: Vec::new(),
            leaves: BTreeMap::new(),
            reservations: BTreeMap::new(),
        }
    }

    /// The leaf that maps a page, and its first page.
    pub fn leaf(&self, process: u32, vpn: u64) -> Option<(u64, Leaf)> {
        let (&(_, first), &leaf) = self.leaves.range((process, 0)..=(process, vpn)).next_back()?;
        (vpn < first + (1 << leaf.order)).then_some((first, leaf))
    }

    /// The frame that a page is mapped to.
    pub fn frame(&self, process: u32, vpn: u64) -> Option<u64> {
        self.leaf(process, vpn).map(|(first, leaf)| leaf.frame + (vpn - first))
    }

    /// log2 of the pages of the leaf that maps a page.
    pub fn order(&self, process: u32, vpn: u64) -> Option<u32> {
        self.leaf(process, vpn).map(|(_, leaf)| leaf.order)
    }

    /// All leaves: process, first virtual page, leaf.
    pub fn leaves(&self) -> Vec<(u32, u64, Leaf)> {
        self.leaves.iter().map(|(&(process, vpn), &leaf)| (process, vpn, leaf)).collect()
    }

    /// All objects, by number.
    pub fn objects(&self) -> &[Object] {
        &self.objects
    }

    /// All mappings, by process and address.
    pub fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    /// All reservations, by object and page.
    pub fn reservations(&self) -> Vec<&Reservation> {
        self.reservations.values().collect()
    }

    /// First frames of the free blocks, by order.
    pub fn free_blocks(&self) -> &[Vec<u64>] {
        &self.buddy.free
    }

    /// Free, busy, and reserved frames without a page: the three of OSC-5 a.
    pub fn shares(&self) -> [u64; 3] {
        let free = self.buddy.free.iter().enumerate().map(|(order, blocks)| (blocks.len() as u64) << order).sum();
        let busy = self.objects.iter().map(|object| object.resident.len() as u64).sum();
        let reserved = self.reservations.values().map(|r| r.size - r.used.len() as u64).sum();
        [free, busy, reserved]
    }

    /// The mapping behind a virtual page.
    pub fn mapping(&self, process: u32, vpn: u64) -> Option<&Mapping> {
        self.mapping_at(process, vpn).map(|at| &self.mappings[at])
    }

    /// Its place in the list.
    pub(super) fn mapping_at(&self, process: u32, vpn: u64) -> Option<usize> {
        self.mappings.iter().position(|mapping| mapping.process == process && mapping.vpns().contains(&vpn))
    }

    /// An object, and those that it hides.
    pub(super) fn chain(&self, object: usize) -> Vec<usize> {
        std::iter::successors(Some(object), |&at| self.objects[at].backing).collect()
    }

    /// The first object of the chain in which a page has a frame.
    pub(super) fn holder(&self, object: usize, page: u64) -> Option<(usize, Resident)> {
        let holds = |at: usize| self.objects[at].resident.get(&page).map(|&resident| (at, resident));
        self.chain(object).into_iter().find_map(holds)
    }

    /// The reservation that a page lies in.
    pub(super) fn reservation(&self, object: usize, page: u64) -> Option<&Reservation> {
        self.reservations.values().find(|r| r.object == object && r.pages().contains(&page))
    }

    /// The reservation that frames lie in.
    pub(super) fn reservation_of(&self, frames: &Range<u64>) -> Option<&Reservation> {
        self.reservations.values().find(|r| inside(frames, &r.frames()))
    }

    pub(super) fn object(&mut self, kind: Kind, grows: Grows, pages: Range<u64>) -> usize {
        let resident = BTreeMap::new();
        self.objects.push(Object { kind, grows, pages, resident, backing: None, colour: None });
        self.objects.len() - 1
    }

    pub(super) fn map(&mut self, mapping: Mapping) {
        let Mapping { process, object, ref pages, .. } = mapping;
        assert!(inside(pages, &self.objects[object].pages), "{pages:?} of object {object}");
        self.assert_room(process, &mapping.vpns());
        self.mappings.push(mapping);
        self.merge();
    }

    fn assert_room(&self, process: u32, vpns: &Range<u64>) {
        let taken = |m: &&Mapping| m.process == process && overlap(&m.vpns(), vpns);
        assert_eq!(self.mappings.iter().find(taken), None, "{vpns:?} is mapped");
    }

    /// The mapping around a page, and its growing object, get pages at the growing end.
    pub(super) fn grow(&mut self, process: u32, vpn: u64, pages: u64) {
        let at = self.mapping_at(process, vpn).expect("a mapping");
        let mut mapping = self.mappings.remove(at);
        let vpns = mapping.vpns();
        let Object { grows, pages: ref mut all, .. } = self.objects[mapping.object];
        match grows {
            Grows::No => panic!("object {} has a fixed size", mapping.object),
            Grows::Up => {
                mapping.pages.end += pages;
                all.end = all.end.max(mapping.pages.end);
                self.assert_room(process, &(vpns.end..vpns.end + pages));
            }
            Grows::Down => {
                mapping.pages.start -= pages;
                mapping.vpn -= pages;
                all.start = all.start.min(mapping.pages.start);
                self.assert_room(process, &(mapping.vpn..vpns.start));
            }
        }
        self.mappings.push(mapping);
        self.merge();
    }

    /// Sorts mappings, and makes one of neighbours that differ in nothing.
    pub(super) fn merge(&mut self) {
        self.mappings.sort_by_key(|mapping| (mapping.process, mapping.vpn));
        let mut merged: Vec<Mapping> = Vec::new();
        for next in std::mem::take(&mut self.mappings) {
            if let Some(last) = merged.last_mut()
                && (last.vpns().end, last.pages.end) == (next.vpn, next.pages.start)
                && *last == (Mapping { vpn: last.vpn, pages: last.pages.clone(), ..next.clone() })
            {
                last.pages.end = next.pages.end;
            } else {
                merged.push(next);
            }
        }
        self.mappings = merged;
    }

    /// Cuts mappings so that each lies inside the range or outside.
    pub(super) fn cut(&mut self, process: u32, range: &Range<u64>) {
        for mapping in std::mem::take(&mut self.mappings) {
            let vpns = mapping.vpns();
            let concerned = mapping.process == process && overlap(&vpns, range);
            let edges = [range.start, range.end].map(|edge| edge.clamp(vpns.start, vpns.end));
            let [from, to] = if concerned { edges } else { [vpns.end; 2] };
            let parts = [vpns.start..from, from..to, to..vpns.end];
            self.mappings.extend(parts.iter().filter(|part| !part.is_empty()).map(|part| mapping.part(part)));
        }
    }

    /// Mappings of a process in a range to which they were cut.
    pub(super) fn mappings_in(&mut self, process: u32, range: &Range<u64>) -> impl Iterator<Item = &mut Mapping> {
        self.mappings.iter_mut().filter(move |m| m.process == process && inside(&m.vpns(), range))
    }

    /// First pages of the leaves that a range covers, at least in part.
    pub(super) fn leaves_in(&self, process: u32, range: &Range<u64>) -> Vec<u64> {
        let before = self.leaf(process, range.start).map_or(range.start, |(first, _)| first);
        self.leaves.range((process, before)..(process, range.end)).map(|(&(_, first), _)| first).collect()
    }

    /// A leaf of which a range covers a part only, and that does not have these rights already (OJ-3).
    pub(super) fn straddler(&self, process: u32, range: &Range<u64>, rights: Option<u8>) -> Option<u64> {
        self.leaves_in(process, range).into_iter().find(|&first| {
            let leaf = self.leaves[&(process, first)];
            rights != Some(leaf.rights) && !inside(&(first..first + (1 << leaf.order)), range)
        })
    }

    /// Replaces a leaf by smaller ones that are like it.
    pub(super) fn split(&mut self, process: u32, first: u64, order: u32) {
        let leaf = self.leaves.remove(&(process, first)).expect("a leaf");
        for at in (0..1 << leaf.order).step_by(1 << order) {
            self.leaves.insert((process, first + at), Leaf { frame: leaf.frame + at, order, ..leaf });
        }
    }

    /// Replaces leaves by one around a page, like the first of them.
    pub(super) fn join(&mut self, process: u32, vpns: &Range<u64>) {
        let inner = self.leaves_in(process, vpns).into_iter().map(|first| self.leaves.remove(&(process, first)));
        let inner: Vec<Leaf> = inner.map(|leaf| leaf.expect("a leaf")).collect();
        let order = (vpns.end - vpns.start).ilog2();
        let dirty = inner.iter().any(|leaf| leaf.dirty);
        self.leaves.insert((process, vpns.start), Leaf { order, dirty, ..inner[0] });
    }

    /// Removes the leaves and mappings of a range that no leaf straddles; pages that must lose their frames (OJ-2).
    pub(super) fn detach(&mut self, process: u32, range: &Range<u64>) -> Vec<(usize, u64)> {
        for first in self.leaves_in(process, range) {
            self.leaves.remove(&(process, first));
        }
        self.cut(process, range);
        self.mappings.retain(|mapping| mapping.process != process || !inside(&mapping.vpns(), range));
        self.merge();
        for (at, object) in self.objects.iter_mut().enumerate() {
            let mapped = self.mappings.iter().filter(|mapping| mapping.object == at).map(|mapping| &mapping.pages);
            match object.grows {
                Grows::No => {}
                Grows::Up => object.pages.end = mapped.map(|pages| pages.end).max().unwrap_or(object.pages.end),
                Grows::Down => object.pages.start = mapped.map(|pages| pages.start).min().unwrap_or(object.pages.start),
            }
        }
        self.orphans()
    }

    fn orphans(&self) -> Vec<(usize, u64)> {
        let mut orphans = Vec::new();
        for (at, object) in self.objects.iter().enumerate() {
            let seen: Vec<_> = self.mappings.iter().filter(|m| self.chain(m.object).contains(&at)).collect();
            let whole = object.kind != Kind::Anonymous && !seen.is_empty();
            let kept = |page: &u64| whole || seen.iter().any(|m| m.pages.contains(page));
            orphans.extend(object.resident.keys().filter(|page| !kept(page)).map(|&page| (at, page)));
        }
        orphans
    }

    /// OSC-5 a, b and c.
    ///
    /// # Errors
    ///
    /// What is broken, and by which letter.
    pub fn check(&self) -> Result<(), String> {
        let [free, busy, reserved] = self.shares();
        if free + busy + reserved != self.frames {
            return Err(format!("OSC-5 a: {free} free + {busy} busy + {reserved} reserved, of {}", self.frames));
        }
        self.check_frames()?;
        self.leaves.iter().try_for_each(|(&(process, vpn), leaf)| self.check_leaf(process, vpn, leaf))
    }

    /// OSC-5 b: a frame is free, a page's, or reserved; pages of reservations are in their places.
    fn check_frames(&self) -> Result<(), String> {
        let mut places = vec![None; self.frames as usize];
        let mut claim = |frame: u64, place: Place| match places.get_mut(frame as usize).map(|at| at.replace(place)) {
            Some(None) => Ok(()),
            Some(Some(other)) => Err(format!("OSC-5 b: frame {frame} is {other:?} and {place:?}")),
            None => Err(format!("OSC-5 b: frame {frame} is {place:?}, beyond memory")),
        };
        for (order, blocks) in self.buddy.free.iter().enumerate() {
            for &block in blocks {
                (block..block + (1 << order)).try_for_each(|frame| claim(frame, Place::Free))?;
            }
        }
        for (at, object) in self.objects.iter().enumerate() {
            for (&page, resident) in &object.resident {
                claim(resident.frame, Place::Page { object: at, page })?;
            }
        }
        for r in self.reservations.values() {
            let has = |page: &u64| self.objects[r.object].resident.get(page).map(|resident| resident.frame);
            if let Some(page) = r.used.iter().find(|page| has(page) != Some(r.frame_of(**page))) {
                return Err(format!("OSC-5 b: page {page} of object {} is not in its place", r.object));
            }
            let unused = r.pages().filter(|page| !r.used.contains(page));
            unused.map(|page| r.frame_of(page)).try_for_each(|frame| claim(frame, Place::Reserved))?;
        }
        Ok(())
    }

    /// OSC-5 b: a leaf maps the frames of its pages; c: it is aligned, alone in its place, and the same all over.
    fn check_leaf(&self, process: u32, vpn: u64, leaf: &Leaf) -> Result<(), String> {
        let (size, name) = (1 << leaf.order, format!("the leaf of {process} at page {vpn}"));
        if !vpn.is_multiple_of(size) || !leaf.frame.is_multiple_of(size) {
            return Err(format!("OSC-5 c: {name}, of order {}, is not aligned", leaf.order));
        }
        if self.leaves_in(process, &(vpn..vpn + size)) != [vpn] {
            return Err(format!("OSC-5 c: {name} is not alone"));
        }
        for at in 0..size {
            let mapping = self.mapping(process, vpn + at);
            if mapping.is_none_or(|mapping| mapping.rights != leaf.rights) {
                return Err(format!("OSC-5 c: {name} has other rights than its page {at}"));
            }
            let held = mapping.and_then(|mapping| self.holder(mapping.object, mapping.page(vpn + at)));
            if held.is_none_or(|(_, resident)| resident.frame != leaf.frame + at) {
                return Err(format!("OSC-5 b: {name} maps a frame that its page {at} does not have"));
            }
        }
        Ok(())
    }
}
