//! Turns: of all tasks of the program one has the turn, as one thread at a time runs on a core.
//!
//! At each trap the kernel has a chance to let another task run. Were its traps served at once, the tasks would take
//! each other's pages away after each reference, where natively a task runs for a slice of time. So the task that
//! trapped goes on, and the traps of others wait for their turns. A turn ends when the task has used up a slice of its
//! own time, when it blocks, or when it gives the processor up (`sched_yield`).
//!
//! Where the pages of a task stay mapped after its turn, it would go on with hits, outside the order. So it is stopped
//! if its slice was over. A task that was blocked and goes on by itself is found after a while, and stopped as well.

use crate::uffd::Fault;
use farreach_types::addr::Asid;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How often one looks whether the task that has the turn is blocked, where others keep the processor busy; otherwise
/// that is noticed at once.
const LOOK: Duration = Duration::from_millis(1);
/// A turn ends at this much of all CPU time of the task, with what its traps take of that; later for long slices.
const MOST: Duration = Duration::from_millis(30);

/// What a task that waits for its turn has come to.
#[derive(Clone, Copy, Debug)]
pub enum Wait {
    /// A trap that is not served yet.
    Fault(Asid, Fault),
    /// It is stopped, or about to stop.
    Stopped,
}

/// Whose turn it is.
#[derive(Clone, Copy)]
pub struct Turn {
    pub task: i32,
    /// Its CPU time when the turn began, or when others began to wait; none if nobody has looked.
    begun: Option<Duration>,
    /// Traps of the turn so far.
    traps: u32,
    /// Not before then is the slice over.
    earliest: Instant,
}

/// See the module.
pub struct Turns {
    /// How long a turn is, in the task's own time.
    slice: Duration,
    turn: Option<Turn>,
    queue: VecDeque<(i32, Wait)>,
    /// When one looks at the task that has the turn.
    look: Instant,
    /// When one looks for tasks that run outside their turns.
    sweep: Instant,
    /// The task that had the last turn.
    last: Option<i32>,
}

impl Turns {
    pub fn new(slice: Duration) -> Turns {
        let now = Instant::now();
        Turns { slice, turn: None, queue: VecDeque::new(), look: now, sweep: now, last: None }
    }

    /// The task that has the turn.
    pub fn whose(&self) -> Option<i32> {
        self.turn.map(|turn| turn.task)
    }

    /// Whether a task waits for its turn.
    pub fn waits(&self, task: i32) -> bool {
        self.queue.iter().any(|(waiting, _)| *waiting == task)
    }

    /// Whether any task does.
    pub fn is_wanted(&self) -> bool {
        !self.queue.is_empty()
    }

    /// A task is to wait at the end of the queue. If it is in it, it keeps its place.
    pub fn wait(&mut self, task: i32, wait: Wait) {
        if self.queue.is_empty() {
            self.look = Instant::now();
        }
        match self.queue.iter_mut().find(|(waiting, _)| *waiting == task) {
            Some((_, old)) => *old = wait,
            None => self.queue.push_back((task, wait)),
        }
    }

    /// Takes a task out that waits at this very trap, which it repeats: a signal waits for it, and it cannot take that
    /// before the trap is served. Returns whether there was one.
    pub fn repeats(&mut self, task: i32, fault: &Fault) -> bool {
        let before = self.queue.len();
        let same = |wait: &Wait| matches!(wait, Wait::Fault(_, old) if old.address == fault.address);
        self.queue.retain(|(waiting, wait)| *waiting != task || !same(wait));
        self.queue.len() < before
    }

    /// A task has ended, or must not wait any more. Returns whether it had the turn.
    pub fn forget(&mut self, task: i32) -> bool {
        self.queue.retain(|(waiting, _)| *waiting != task);
        self.turn.take_if(|turn| turn.task == task).is_some()
    }

    /// A task has the turn from now on. Returns whether another one had it before.
    pub fn begin(&mut self, task: i32) -> bool {
        let now = Instant::now();
        self.turn = Some(Turn { task, begun: None, traps: 0, earliest: now });
        self.look = now + LOOK.min(self.slice);
        self.last.replace(task).is_some_and(|last| last != task)
    }

    /// Nobody has the turn.
    pub fn end(&mut self) {
        self.turn = None;
    }

    /// The next task that waits.
    pub fn next(&mut self) -> Option<(i32, Wait)> {
        self.queue.pop_front()
    }

    /// Counts a trap of the task that has the turn. Returns whether its slice may be over, and another task waits.
    pub fn count(&mut self) -> bool {
        let wanted = self.is_wanted();
        self.turn.as_mut().is_some_and(|turn| {
            turn.traps += 1;
            wanted && Instant::now() >= turn.earliest
        })
    }

    /// Whether the slice is over at this CPU time of the task. `of_trap`: what each trap takes of it.
    pub fn is_over(&mut self, now: Duration, of_trap: Duration) -> bool {
        let Some(turn) = &mut self.turn else { return true };
        let Some(begun) = turn.begun else {
            (turn.begun, turn.traps, turn.earliest) = (Some(now), 0, Instant::now() + self.slice);
            return false;
        };
        let all = now.saturating_sub(begun);
        let own = all.saturating_sub(of_trap * turn.traps);
        let most = MOST.max(self.slice * 2);
        if own >= self.slice || all >= most {
            return true;
        }
        turn.earliest = Instant::now() + (self.slice - own).min(most - all);
        false
    }

    /// Whether it is time to look at the task that has the turn.
    pub fn is_due(&mut self) -> bool {
        let now = Instant::now();
        let due = self.is_wanted() && now >= self.look;
        if due {
            self.look = now + LOOK.min(self.slice);
        }
        due
    }

    /// When that is.
    pub fn due(&self) -> Option<Instant> {
        self.is_wanted().then_some(self.look)
    }

    /// Whether it is time to look for tasks that run outside their turns.
    pub fn is_sweep_due(&mut self) -> bool {
        let now = Instant::now();
        let due = self.is_wanted() && now >= self.sweep;
        if due {
            self.sweep = now + self.slice;
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICE: Duration = Duration::from_millis(3);

    fn fault(page: u64) -> Fault {
        Fault { address: page << 12, write: false, protected: false, present: true, thread: 1 }
    }

    #[test]
    fn a_slice_is_of_the_tasks_own_time_and_ends() {
        let mut turns = Turns::new(SLICE);
        let at = Duration::from_secs(7);
        assert!(!turns.begin(1), "the first turn is no switch");
        assert!(!turns.is_over(at, Duration::ZERO), "it counts from here on");
        let trap = Duration::from_micros(3);
        assert!(!turns.count(), "nobody waits");
        assert!(!turns.is_over(at + SLICE, trap), "its trap took some of that");
        assert!(turns.is_over(at + SLICE + trap, trap));
        (0..99_999).for_each(|_| _ = turns.count());
        assert!(!turns.is_over(at + MOST - trap, trap), "traps took all of that");
        assert!(turns.is_over(at + MOST, trap), "but it ends");
        assert!(turns.begin(2) && !turns.begin(2));
    }

    #[test]
    fn tasks_wait_in_order_and_once() {
        let mut turns = Turns::new(SLICE);
        turns.begin(1);
        assert!(turns.due().is_none() && !turns.is_due());
        turns.wait(2, Wait::Fault(Asid(0), fault(1)));
        turns.wait(3, Wait::Stopped);
        turns.wait(2, Wait::Fault(Asid(0), fault(2)));
        assert!(turns.is_due() && turns.is_sweep_due() && !turns.is_sweep_due());
        assert!(!turns.repeats(2, &fault(1)) && !turns.repeats(3, &fault(2)));
        assert!(turns.waits(2) && turns.waits(3) && !turns.waits(1));
        assert!(matches!(turns.next(), Some((2, Wait::Fault(_, at))) if at.address == 2 << 12));
        turns.wait(2, Wait::Fault(Asid(0), fault(2)));
        assert!(turns.repeats(2, &fault(2)) && !turns.waits(2), "it is served at once");
        assert!(!turns.forget(3) && !turns.is_wanted() && turns.forget(1) && turns.whose().is_none());
    }
}
