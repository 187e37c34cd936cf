//! Frames, reservations and their queue (FBR-2 to FBR-6).

use super::*;

impl FreeBsd {
    /// A frame for a page of an object (FBR-3 to FBR-6).
    pub(super) fn allocate(&mut self, object: usize, page: u64) -> Result<u64, Failed> {
        loop {
            if let Some(frame) = self.attempt(object, page) {
                self.world.objects[object].resident.insert(page, Resident { frame, dirty: false });
                return Ok(frame);
            }
            // FBR-6.
            let key = self.queue.pop_front().ok_or(Failed::Full)?;
            self.break_up(key);
            self.add("reclaimed");
        }
    }

    /// What is unused of a reservation that left the queue is free.
    pub(super) fn break_up(&mut self, key: (usize, u64)) {
        let broken = self.world.reservations.remove(&key).expect("what was in the queue");
        for page in broken.pages().filter(|page| !broken.used.contains(page)) {
            self.world.buddy.release(broken.frame_of(page), 0);
        }
        self.add("broken");
    }

    fn attempt(&mut self, object: usize, page: u64) -> Option<u64> {
        if let Some(key) = self.existing(object, page) {
            let r = &self.world.reservations[&key];
            // FBR-3: nothing uses the slot (OJ-21).
            assert!(!r.used.contains(&page));
            let frame = r.frame_of(page);
            self.populate(key, page);
            self.add("honoured");
            return Some(frame);
        }
        if let Some(first) = self.new_group(object, page)
            && let Some(frame) = self.world.buddy.alloc(self.n.ilog2())
        {
            let made = Reservation { object, first, size: self.n, frame, used: BTreeSet::new(), time: self.now };
            self.world.reservations.insert((object, first), made);
            self.queue.push_back((object, first));
            self.populate((object, first), page);
            self.add("reservations");
            return Some(frame + (page - first));
        }
        let frame = self.world.buddy.alloc(0)?;
        self.add("ordinary");
        Some(frame)
    }

    /// The nearest resident pages below and above a page, and their reservations.
    fn neighbours(&self, object: usize, page: u64) -> [Option<(u64, Option<&Reservation>)>; 2] {
        let resident = &self.world.objects[object].resident;
        let near = [resident.range(..page).next_back(), resident.range(page + 1..).next()];
        near.map(|near| {
            let (&page, resident) = near?;
            Some((page, self.world.reservation_of(&(resident.frame..resident.frame + 1))))
        })
    }

    /// FBR-3.
    fn existing(&self, object: usize, page: u64) -> Option<(usize, u64)> {
        let near = self.neighbours(object, page).into_iter().flatten().filter_map(|(_, r)| r);
        near.filter(|r| r.object == object && r.pages().contains(&page)).map(|r| (r.object, r.first)).next()
    }

    /// The first page of a new reservation (FBR-2, FBR-4).
    fn new_group(&self, at: usize, page: u64) -> Option<u64> {
        let object = &self.world.objects[at];
        let index = (object.colour.expect("it was mapped") + page) % self.n;
        let first = page.checked_sub(index).filter(|&first| first >= object.pages.start)?;
        let end = first + self.n;
        let [below, above] = self.neighbours(at, page);
        let clear_below = below.is_none_or(|(page, r)| page < first && r.is_none_or(|r| r.pages().end <= first));
        let clear_above = above.is_none_or(|(page, r)| page >= end && r.is_none_or(|r| r.first >= end));
        let fits = object.kind != Kind::File || end <= object.pages.end;
        (clear_below && clear_above && fits && self.n > 1).then_some(first)
    }

    /// A page of a reservation gets its frame (FBR-5).
    fn populate(&mut self, key: (usize, u64), page: u64) {
        let r = self.world.reservations.get_mut(&key).expect("a reservation");
        r.used.insert(page);
        if r.full() {
            self.queue.retain(|other| *other != key);
        } else {
            self.move_in_queue(key);
        }
    }

    /// FBR-5: if a tick has passed.
    pub(super) fn move_in_queue(&mut self, key: (usize, u64)) {
        let r = self.world.reservations.get_mut(&key).expect("a reservation");
        let queued = self.queue.contains(&key);
        if !queued || self.now > r.time {
            r.time = self.now;
            self.queue.retain(|other| *other != key);
            self.queue.push_back(key);
        }
    }
}
