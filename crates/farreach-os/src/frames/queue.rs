//! A queue of frames, or of other numbers. One can also be taken out of its middle.

use hashbrown::HashMap;

/// Marks the end of the chain; no frame has this number.
const NONE: u64 = u64::MAX;

/// A doubly linked list with its links in a table by frame. Every operation takes constant time and leaves no stale
/// element.
pub(crate) struct FrameQueue {
    links: HashMap<u64, (u64, u64)>,
    front: u64,
    back: u64,
}

impl FrameQueue {
    /// The empty queue.
    pub(crate) fn new() -> FrameQueue {
        FrameQueue { links: HashMap::new(), front: NONE, back: NONE }
    }

    /// Frames in the queue.
    pub(crate) fn len(&self) -> usize {
        self.links.len()
    }

    /// Whether `frame` is in the queue.
    pub(crate) fn contains(&self, frame: u64) -> bool {
        self.links.contains_key(&frame)
    }

    /// The first frame.
    pub(crate) fn front(&self) -> Option<u64> {
        (self.front != NONE).then_some(self.front)
    }

    /// All frames, the first one first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        std::iter::successors(self.front(), |f| Some(self.links[f].1).filter(|&next| next != NONE))
    }

    /// Puts `frame`, which is not in the queue, before all others.
    pub(crate) fn push_front(&mut self, frame: u64) {
        let was = self.links.insert(frame, (NONE, self.front));
        debug_assert!(was.is_none(), "frame {frame} is queued twice");
        match self.links.get_mut(&self.front) {
            Some(link) => link.0 = frame,
            None => self.back = frame,
        }
        self.front = frame;
    }

    /// Puts `frame`, which is not in the queue, after all others.
    pub(crate) fn push_back(&mut self, frame: u64) {
        let was = self.links.insert(frame, (self.back, NONE));
        debug_assert!(was.is_none(), "frame {frame} is queued twice");
        match self.links.get_mut(&self.back) {
            Some(link) => link.1 = frame,
            None => self.front = frame,
        }
        self.back = frame;
    }

    /// Removes `frame` from any place; `false` when it is not in the queue.
    pub(crate) fn remove(&mut self, frame: u64) -> bool {
        let Some((before, after)) = self.links.remove(&frame) else { return false };
        match self.links.get_mut(&before) {
            Some(link) => link.1 = after,
            None => self.front = after,
        }
        match self.links.get_mut(&after) {
            Some(link) => link.0 = before,
            None => self.back = before,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn behaves_as_a_list() {
        let (mut queue, mut list, mut x) = (FrameQueue::new(), VecDeque::new(), 1u64);
        for _ in 0..20_000 {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let frame = (x >> 33) % 40;
            match (x >> 60, list.iter().position(|&f| f == frame)) {
                (0..5, None) => (queue.push_back(frame), list.push_back(frame)).0,
                (5..8, None) => (queue.push_front(frame), list.push_front(frame)).0,
                (8..11, _) => assert_eq!(queue.front().is_some_and(|f| queue.remove(f)), list.pop_front().is_some()),
                (_, at) => {
                    assert_eq!(queue.remove(frame), at.is_some());
                    at.map(|i| list.remove(i));
                }
            }
            assert!(
                queue.iter().eq(list.iter().copied())
                    && queue.len() == list.len()
                    && queue.front() == list.front().copied()
            );
            assert_eq!(queue.contains(frame), list.contains(&frame));
        }
    }
}
