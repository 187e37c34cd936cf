//! Slots of large sets by time, for [`Recency`](super::recency::Recency): the one with the earliest time is in front.
//!
//! Where entries are replaced quickly, the slot that leaves the front comes back with the latest time of all. So a set
//! has a line, in which times only grow, and which such a slot joins at its end. Only slots whose last use was learned
//! late belong before the end; they are in a binary heap instead. The front is the earlier of both.

/// A slot, and when it was used, perhaps not for the last time.
#[derive(Clone, Copy)]
pub struct Place {
    pub time: u64,
    pub slot: u32,
}

/// Where the line of a set begins, and how many slots the line and the heap have.
#[derive(Clone, Copy)]
struct Ends {
    first: u32,
    line: u32,
    heap: u32,
}

/// See the module.
pub struct TimeQueue {
    ways: usize,
    /// Set after set: the line, which goes on at the beginning of its set.
    line: Box<[Place]>,
    /// Set after set: no slot is in front of an earlier one.
    heap: Box<[Place]>,
    ends: Box<[Ends]>,
}

impl TimeQueue {
    /// All slots at time 0, in sets of `ways`; none with `sets` = 0.
    pub fn new(sets: usize, ways: usize) -> TimeQueue {
        let places = |n: usize| (0..n as u32).map(|slot| Place { time: 0, slot }).collect();
        TimeQueue {
            ways,
            line: places(sets * ways),
            heap: places(sets * ways),
            ends: vec![Ends { first: 0, line: ways as u32, heap: 0 }; sets].into(),
        }
    }

    /// Whether there are no sets.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The slot in front.
    #[inline(always)]
    pub fn front(&self, set: usize) -> Place {
        let Ends { first, line, heap } = self.ends[set];
        let of_line = self.line[set * self.ways + first as usize];
        if heap == 0 {
            return of_line;
        }
        let of_heap = self.heap[set * self.ways];
        if line > 0 && of_line.time < of_heap.time { of_line } else { of_heap }
    }

    /// The slot in front was used at this later time: it goes to its place.
    #[inline(always)]
    pub fn put_back(&mut self, set: usize, time: u64) {
        let (from, ways) = (set * self.ways, self.ways);
        let line = &mut self.line[from..from + ways];
        let Ends { first, line: many, heap } = &mut self.ends[set];
        let at = |i: u32| i as usize - if i as usize >= ways { ways } else { 0 };
        let front = line[*first as usize];
        if *heap == 0 && line[at(*first + *many - 1)].time <= time {
            // It leaves one slot of the line free, and all are taken or it has room.
            line[at(*first + *many)] = Place { time, ..front };
            *first = at(*first + 1) as u32;
            return;
        }
        self.put_back_late(set, time);
    }

    /// The slot in front goes to the end of the line without regard to its time: a fault.
    #[cfg(test)]
    pub fn put_last(&mut self, set: usize, time: u64) {
        assert_eq!(self.ends[set].heap, 0, "all are in the line");
        let line = &mut self.line[set * self.ways..(set + 1) * self.ways];
        let first = self.ends[set].first as usize;
        line[first].time = time;
        self.ends[set].first = ((first + 1) % self.ways) as u32;
    }

    #[inline(never)]
    fn put_back_late(&mut self, set: usize, time: u64) {
        let (from, ways) = (set * self.ways, self.ways);
        let line = &mut self.line[from..from + ways];
        let heap = &mut self.heap[from..from + ways];
        let Ends { first, line: many, heap: late } = &mut self.ends[set];
        let at = |i: u32| i as usize - if i as usize >= ways { ways } else { 0 };
        let of_line = line[*first as usize];
        let is_of_line = *many > 0 && (*late == 0 || of_line.time < heap[0].time);
        let joins = |line: &[Place], first: u32, many: u32| many == 0 || line[at(first + many - 1)].time <= time;
        if is_of_line {
            *first = at(*first + 1) as u32;
            *many -= 1;
            let place = Place { time, ..of_line };
            if joins(line, *first, *many) {
                line[at(*first + *many)] = place;
                *many += 1;
            } else {
                *late += 1;
                rise(&mut heap[..*late as usize], place);
            }
        } else if joins(line, *first, *many) {
            line[at(*first + *many)] = Place { time, ..heap[0] };
            *many += 1;
            *late -= 1;
            let last = heap[*late as usize];
            sink(&mut heap[..*late as usize], last);
        } else {
            let place = Place { time, ..heap[0] };
            sink(&mut heap[..*late as usize], place);
        }
    }
}

/// Puts this in the place of the first.
fn sink(heap: &mut [Place], place: Place) {
    let mut at = 0;
    loop {
        let mut next = 2 * at + 1;
        if next >= heap.len() {
            break;
        }
        next += usize::from(next + 1 < heap.len() && heap[next + 1].time < heap[next].time);
        if heap[next].time >= place.time {
            break;
        }
        heap[at] = heap[next];
        at = next;
    }
    if let Some(here) = heap.get_mut(at) {
        *here = place;
    }
}

/// Adds this; the last place is free.
fn rise(heap: &mut [Place], place: Place) {
    let mut at = heap.len() - 1;
    while at > 0 && heap[(at - 1) / 2].time > place.time {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = place;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Beside a plain list: the earliest is always in front, and no slot is lost.
    #[test]
    fn the_earliest_is_in_front() {
        for ways in [1, 2, 3, 17, 96] {
            let mut queue = TimeQueue::new(2, ways);
            let mut times = vec![0u64; 2 * ways];
            let (mut dice, mut clock, mut seen) = (11u64, 0, [0; 3]);
            for _ in 0..20_000 {
                dice = dice.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
                let set = (dice >> 60 & 1) as usize;
                let Place { time, slot } = queue.front(set);
                let of = set * ways..(set + 1) * ways;
                assert!(of.contains(&(slot as usize)) || times[slot as usize] == 0);
                assert_eq!(Some(time), times[of.clone()].iter().copied().min(), "{ways} ways");
                // The last of all, one that is not, or one before many.
                clock += 1000;
                let later = [clock, time + 1 + (clock - time) / 2, time + 1][(dice >> 40) as usize % 3];
                let later = if times.contains(&later) { clock } else { later };
                seen[usize::from(later == clock)] += 1;
                seen[2] += u64::from(queue.ends[set].heap > 0);
                times[of.start + slot as usize % ways] = later;
                queue.put_back(set, later);
            }
            assert!(seen[1] > 1000 && (ways == 1 || seen[0] > 1000 && seen[2] > 1000), "{seen:?}");
        }
    }
}
