//! The reserved list (T94-44, T94-46): object pages for which a frame is held back, oldest first.

use crate::object::{ObjectId, Objects};
use crate::page_index::PageLocation;
use farreach_types::addr::Pfn;
use std::collections::VecDeque;

/// An element: an object page, and the stamp of its reservation. An element outlives its reservation, even its object.
/// Stamps are unique, so a later reservation is never taken for it.
struct Element {
    stamp: u64,
    object: ObjectId,
    page: u64,
}

impl Element {
    /// The reserved frame, if the reservation still stands.
    fn frame(&self, objects: &Objects) -> Option<Pfn> {
        match objects.try_get(self.object)?.page_index.get(self.page)? {
            PageLocation::Reserved(pfn, stamp) if stamp == self.stamp => Some(pfn),
            _ => None,
        }
    }
}

/// Reservations in the order in which they were made.
#[derive(Default)]
pub struct ReservedList {
    elements: VecDeque<Element>,
    live: u64,
    next_stamp: u64,
}

impl ReservedList {
    /// Reservations that stand.
    pub fn live(&self) -> u64 {
        self.live
    }

    /// Holds a frame back for an object page, at the tail of the list.
    pub fn push(&mut self, objects: &mut Objects, object: ObjectId, page: u64, pfn: Pfn) {
        let stamp = self.next_stamp;
        self.next_stamp += 1;
        let old = objects.get_mut(object).page_index.insert(page, PageLocation::Reserved(pfn, stamp));
        debug_assert!(old.is_none(), "page {page} of {object:?} had a frame");
        self.elements.push_back(Element { stamp, object, page });
        self.live += 1;
        if self.elements.len() as u64 > 2 * self.live + 1024 {
            self.elements.retain(|element| element.frame(objects).is_some());
        }
    }

    /// Ends the oldest reservation and returns its frame.
    pub fn pop(&mut self, objects: &mut Objects) -> Option<Pfn> {
        while let Some(element) = self.elements.pop_front() {
            if let Some(pfn) = element.frame(objects) {
                objects.get_mut(element.object).page_index.remove(element.page);
                self.live -= 1;
                return Some(pfn);
            }
        }
        None
    }

    /// A reservation ended because its page was filled or forgotten.
    pub fn end_one(&mut self) {
        self.live -= 1;
    }

    /// Panics unless every reservation is on the list once; for tests and debug builds.
    pub fn check(&self, objects: &Objects) {
        let live = self.elements.iter().filter(|element| element.frame(objects).is_some()).count() as u64;
        assert_eq!(live, self.live, "every reservation is on the list once");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::ObjectKind;

    /// Memory is bounded by the reservations that stand, however many ended at once.
    #[test]
    fn the_list_forgets_reservations_that_ended() {
        let (mut objects, mut list) = (Objects::default(), ReservedList::default());
        let object = objects.create(ObjectKind::Anonymous, None, true, 0);
        for page in 0..5000 {
            list.push(&mut objects, object, page, Pfn(page));
        }
        for page in 0..4000 {
            objects.get_mut(object).page_index.remove(page);
            list.end_one();
        }
        assert_eq!((list.live(), list.elements.len()), (1000, 5000));
        list.push(&mut objects, object, 5000, Pfn(5000));
        assert_eq!((list.live(), list.elements.len()), (1001, 1001));
        list.check(&objects);
        assert_eq!(list.pop(&mut objects), Some(Pfn(4000)));
    }
}
