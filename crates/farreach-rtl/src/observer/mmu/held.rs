//! An array of a hierarchy, with what the simulator holds in it.

use crate::observer::changes::groups;
use crate::part::{Part, Stop};
use crate::request::{Expected, Op, Request};
use farreach_hw::tlb::{EntryView, Lookup};
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::translation::{PageTableView, Pte};
use hashbrown::HashMap;

/// Process and group of pages under a tag.
type Tag = (Asid, u64);

/// See the module.
pub struct Held {
    pub part: Part,
    /// log2 of the base pages of an entry.
    pub order: u8,
    /// Its first slot among those of the design.
    pub first: usize,
    slots: Vec<Option<Tag>>,
    by_tag: HashMap<Tag, usize>,
}

impl Held {
    pub fn new(part: Part, order: u8, first: usize) -> Held {
        let entries = part.shape().0;
        Held { part, order, first, slots: vec![None; entries], by_tag: HashMap::new() }
    }

    /// A lookup; whether the array has the page.
    pub fn lookup(&mut self, at: Lookup, pte: Pte) -> Result<bool, Stop> {
        let tag = (at.asid, at.vpn.0 >> self.order);
        let has = self.by_tag.contains_key(&tag);
        // No entry of a hierarchy has a modified bit.
        let request = Request::new(Op::Lookup, tag.0.0, tag.1);
        let hit = Expected::Hit { frame: pte.pfn.0 >> self.order, attr: pte.attr.0 };
        self.part.ask(&request, if has { hit } else { Expected::Miss { part: false } }, None)?;
        Ok(has)
    }

    /// What the array holds now.
    fn now<'a>(&self, views: &'a [EntryView]) -> impl Iterator<Item = (usize, Tag)> + use<'a> {
        let (slots, order) = (self.first..self.first + self.slots.len(), self.order);
        let mine = views.iter().filter(move |view| slots.contains(&view.slot));
        let first = self.first;
        mine.map(move |view| (view.slot - first, (view.asid, view.base.0 >> order)))
    }

    /// Fills that bring what the array holds.
    pub fn contents(&self, table: &dyn PageTableView) -> Vec<Request> {
        let fill = |&(asid, group): &Tag| {
            let pte = table.pte(asid, Vpn(group << self.order))?;
            let mut request = Request::new(Op::Fill, asid.0, group);
            (request.frame, request.attr) = (pte.pfn.0 >> self.order, pte.attr.0);
            Some(request)
        };
        self.slots.iter().flatten().filter_map(fill).collect()
    }

    /// After a lookup that the first level did not answer: what a fill covered went, and perhaps an entry came, for
    /// this page. Whether it did.
    pub fn fill(&mut self, at: Lookup, pte: Pte, views: &[EntryView]) -> Result<bool, Stop> {
        let tag = (at.asid, at.vpn.0 >> self.order);
        let mut slots = vec![None; self.slots.len()];
        self.now(views).for_each(|(slot, tag)| slots[slot] = Some(tag));
        let came = slots.iter().position(|&held| held == Some(tag)).filter(|_| !self.by_tag.contains_key(&tag));
        for (slot, now) in slots.iter().enumerate() {
            let Some(gone) = self.slots[slot].filter(|_| now.is_none()) else { continue };
            self.part.ask(&Request::new(Op::DropPage, gone.0.0, gone.1), Expected::Done, None)?;
            self.by_tag.remove(&gone);
            self.slots[slot] = None;
        }
        if let Some(slot) = came {
            let mut request = Request::new(Op::Fill, tag.0.0, tag.1);
            (request.frame, request.attr) = (pte.pfn.0 >> self.order, pte.attr.0);
            let evicted = self.slots[slot].replace(tag);
            evicted.into_iter().for_each(|old| _ = self.by_tag.remove(&old));
            self.by_tag.insert(tag, slot);
            self.part.ask(&request, Expected::Filled { slot: slot as u32, evicts: evicted.is_some() }, None)?;
        }
        if slots != self.slots {
            let what = format!("{}: entries changed that nothing was said of", self.part.label());
            return Err(Stop::Failure(what));
        }
        Ok(came.is_some())
    }

    /// Mappings changed; `views` are what the design holds now.
    pub fn drop_pages(&mut self, asid: Asid, pages: VpnRange, views: &[EntryView]) -> Result<(), Stop> {
        let order = self.order;
        let held = self.by_tag.keys().filter(|tag| tag.0 == asid).map(|tag| Vpn(tag.1 << order));
        for group in groups(pages, order, held) {
            self.part.ask(&Request::new(Op::DropPage, asid.0, group), Expected::Done, None)?;
        }
        self.refresh(views);
        Ok(())
    }

    /// An address space is gone, or (`None`) everything.
    pub fn drop_space(&mut self, asid: Option<Asid>, views: &[EntryView]) -> Result<(), Stop> {
        let request = match asid {
            Some(asid) => Request::new(Op::DropSpace, asid.0, 0),
            None => Request::new(Op::DropAll, 0, 0),
        };
        self.part.ask(&request, Expected::Done, None)?;
        self.refresh(views);
        Ok(())
    }

    /// What the design holds now is what the array holds.
    pub fn refresh(&mut self, views: &[EntryView]) {
        self.slots.fill(None);
        self.by_tag.clear();
        for (slot, tag) in self.now(views) {
            self.slots[slot] = Some(tag);
            self.by_tag.insert(tag, slot);
        }
    }
}
