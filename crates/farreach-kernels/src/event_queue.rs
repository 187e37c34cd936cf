//! Discrete-event simulation of a network of queues: a binary heap of messages by time, modules that forward messages
//! to random neighbours, and messages from a free list that soon is in random order.

use super::heap::{Heap, KeyOf, PopSites, PushSites};
use super::kernel::{Kernel, Settings};
use super::memory::{Memory, Native, Site, site};
use super::random::Rng;
use super::traced::{Layout, Traced};

pub(super) const KERNEL: Kernel = Kernel {
    name: "event-queue",
    class: "discrete-event simulation",
    stands_for: "omnetpp",
    about: "a heap of events, messages from a free list, modules that pass them on",
    default_size: 64 << 20,
    small_size: 4 << 20,
    smallest: 64 << 10,
    largest: 4 << 30,
    layout: Layout::Mapped,
    text_pages: 2,
    traced: run::<Traced>,
    native: run::<Native>,
};

/// Words of a message: time, module it goes to, hops left, next free one.
const MESSAGE: usize = 4;
/// Words of a module: messages seen, time it is busy until, and its neighbours.
const MODULE: usize = 8;
const NEIGHBOURS: usize = 6;

struct Simulation<M: Memory> {
    modules: usize,
    messages: usize,
    message: M::Array<u64>,
    module: M::Array<u64>,
    /// Messages by time.
    waiting: Heap<M, u32>,
    /// 1 + number of the first free message.
    free: u64,
    now: u64,
}

#[inline(always)]
fn time_of<M: Memory>(m: &mut M, at: Site, messages: &M::Array<u64>, message: u32) -> u64 {
    m.load(at, messages, message as usize * MESSAGE)
}

impl<M: Memory> Simulation<M> {
    fn new(m: &mut M, s: &Settings) -> Simulation<M> {
        // Three messages of 32 bytes with 4 in the heap, for each module of 64.
        let modules = s.size as usize / (3 * (8 * MESSAGE + 4) + 8 * MODULE);
        let messages = 3 * modules;
        let mut rng = Rng::new(s.seed);
        let module = m.input((0..modules * MODULE).map(|w| if w % MODULE < 2 { 0 } else { rng.below(modules) as u64 }));
        let message = m.input((0..messages * MESSAGE).map(|w| match w % MESSAGE {
            3 => ((w / MESSAGE + 2) % (messages + 1)) as u64,
            _ => 0,
        }));
        Simulation { modules, messages, message, module, waiting: Heap::new(m, messages), free: 1, now: 0 }
    }

    /// Sends a message, unless all messages are in use.
    fn send(&mut self, m: &mut M, time: u64, to: u64, hops: u64) {
        const SITES: PushSites = PushSites { parent: site(0, 4), down: site(0, 6), placed: site(0, 7) };
        if self.free == 0 {
            return;
        }
        let message = self.free as u32 - 1;
        let words = message as usize * MESSAGE;
        self.free = m.load(site(0, 0), &self.message, words + 3);
        for (k, value) in [time, to, hops].into_iter().enumerate() {
            m.store(site(0, 1 + k as u32), &mut self.message, words + k, value);
        }
        let times = &self.message;
        self.waiting.push(m, &SITES, message, time, |m, _, other| time_of::<M>(m, site(0, 5), times, other));
    }

    /// The next message by time.
    fn take(&mut self, m: &mut M) -> Option<u32> {
        const SITES: PopSites = PopSites {
            first: site(0, 10),
            last: site(0, 11),
            left: site(0, 13),
            right: site(0, 15),
            up: site(0, 17),
            placed: site(0, 18),
        };
        let times = &self.message;
        self.waiting.pop(m, &SITES, |m, whose, message| {
            let at = match whose {
                KeyOf::Last => site(0, 12),
                KeyOf::Left => site(0, 14),
                KeyOf::Right => site(0, 16),
                KeyOf::Parent => unreachable!("pop() looks at no parent"),
            };
            time_of::<M>(m, at, times, message)
        })
    }

    /// Handles the next message. Its module is busy for a while, then passes it on, sometimes as two messages.
    fn step(&mut self, m: &mut M, rng: &mut Rng) -> u64 {
        const FIELD: [Site; 3] = [site(1, 0), site(1, 1), site(1, 2)];
        const BUSY: [Site; 2] = [site(1, 3), site(1, 4)];
        const SEEN: Site = site(1, 5);
        const NEIGHBOUR: Site = site(1, 6);
        const WORK: Site = site(1, 7);
        const FREE: Site = site(1, 8);
        let Some(message) = self.take(m) else { return 0 };
        let [time, to, hops] = [0, 1, 2].map(|k| m.load(FIELD[k], &self.message, message as usize * MESSAGE + k));
        m.store(FREE, &mut self.message, message as usize * MESSAGE + 3, self.free);
        self.free = u64::from(message) + 1;
        self.now = time;
        let module = to as usize * MODULE;
        m.update(SEEN, &mut self.module, module, |n| n + 1);
        let busy = m.load(BUSY[0], &self.module, module + 1).max(time) + 1 + rng.below(100) as u64;
        m.store(BUSY[1], &mut self.module, module + 1, busy);
        m.work(WORK);
        if hops > 0 {
            for _ in 0..if rng.below(16) == 0 { 2 } else { 1 } {
                let next = m.load(NEIGHBOUR, &self.module, module + 2 + rng.below(NEIGHBOURS));
                self.send(m, busy + rng.below(1000) as u64, next, hops - 1);
            }
        }
        time
    }
}

fn run<M: Memory>(m: &mut M, s: &Settings) -> u64 {
    let mut simulation = Simulation::new(m, s);
    let mut rng = Rng::new(s.seed ^ 1);
    let mut sum = 1u64;
    while m.budget_left() {
        // New traffic arrives while fewer than half of all messages are under way.
        if simulation.waiting.len() < simulation.messages / 2 {
            let to = rng.below(simulation.modules) as u64;
            simulation.send(m, simulation.now + rng.below(100_000) as u64, to, 16);
        }
        sum = sum.rotate_left(3) ^ simulation.step(m, &mut rng);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_in_the_order_of_time_and_none_is_lost() {
        let mut m = Native::new(u64::MAX);
        let mut s = Simulation::new(&mut m, &Settings { size: 64 << 10, references: 1, seed: 2 });
        let mut rng = Rng::new(5);
        let mut model = std::collections::BinaryHeap::new();
        for turn in 0..20_000 {
            if turn % 3 < 2 && s.free != 0 {
                let time = rng.bits() >> 20;
                s.send(&mut m, time, 0, 0);
                model.push(std::cmp::Reverse(time));
            } else if let Some(message) = s.take(&mut m) {
                assert_eq!(Some(std::cmp::Reverse(s.message[message as usize * MESSAGE])), model.pop());
                s.message[message as usize * MESSAGE + 3] = s.free;
                s.free = u64::from(message) + 1;
            }
            assert_eq!(s.waiting.len(), model.len());
        }
        // A simulation goes forward in time and counts every message once.
        let mut s = Simulation::new(&mut m, &Settings { size: 64 << 10, references: 1, seed: 2 });
        (0..100).for_each(|k| s.send(&mut m, k, k, 5));
        let (mut last, mut steps) = (0, 0);
        while s.waiting.len() > 0 {
            let time = s.step(&mut m, &mut rng);
            assert!(time >= last);
            (last, steps) = (time, steps + 1);
        }
        assert_eq!(s.module.chunks(MODULE).map(|module| module[0]).sum::<u64>(), steps);
        assert!(steps >= 600, "each goes through six modules at least: {steps}");
    }
}
