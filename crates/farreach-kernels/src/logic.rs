//! Event-driven simulation of logic, with a wheel of time slots, each with a list of changes. A change wakes the gates
//! it feeds, which lie anywhere in memory. They may change in turn after their delay.

use super::kernel::{Kernel, Settings};
use super::memory::{Memory, Native, Site, site};
use super::random::Rng;
use super::traced::{Layout, Traced};

pub(super) const KERNEL: Kernel = Kernel {
    name: "logic",
    class: "logic simulation",
    stands_for: "pthor",
    about: "events on a wheel of time wake gates all over the netlist",
    default_size: 16_179 << 10,
    small_size: 2 << 20,
    smallest: 64 << 10,
    largest: 4 << 30,
    layout: Layout::Heap,
    text_pages: 3,
    traced: run::<Traced>,
    native: run::<Native>,
};

/// Words of a gate: what it computes, its delay, two inputs (gates), its output, the output it will have when all its
/// events have passed, and where its fan-out begins and ends.
const GATE: usize = 8;
const FUNCTION: usize = 0;
const DELAY: usize = 1;
const INPUT: usize = 2;
const OUTPUT: usize = 4;
const PROJECTED: usize = 5;
const FANOUT: usize = 6;
/// Words of an event: gate, value, next event of the slot (1 + number), or next free one.
const EVENT: usize = 4;
/// Slots of the wheel: more than the longest delay.
const SLOTS: usize = 16;
/// Logic between inputs and outputs.
const LEVELS: usize = 24;

const EXTERNAL: u32 = 6;

/// The six functions of two inputs.
fn evaluate(function: u32, a: u32, b: u32) -> u32 {
    match function {
        0 => a & b,
        1 => a | b,
        2 => 1 ^ (a & b),
        3 => 1 ^ (a | b),
        4 => a ^ b,
        _ => 1 ^ a,
    }
}

struct Netlist<M: Memory> {
    /// Gates in all, and those of the first level, which are inputs from outside.
    gates: usize,
    inputs: usize,
    gate: M::Array<u32>,
    fanout: M::Array<u32>,
    event: M::Array<u32>,
    /// The first and the last event of each slot.
    wheel: M::Array<u32>,
    free: u32,
    waiting: usize,
    now: usize,
    /// Where the gates of the first level lie.
    outside: Vec<u32>,
}

impl<M: Memory> Netlist<M> {
    fn new(m: &mut M, s: &Settings) -> Netlist<M> {
        // A gate has 32 bytes and feeds two others on average. A quarter of all gates may have an event of 16 bytes in
        // flight, one each.
        let gates = s.size as usize / (32 + 8 + 16);
        let width = gates / LEVELS;
        let gates = width * LEVELS;
        let mut rng = Rng::new(s.seed);
        // Where gates lie has nothing to do with what they are connected to.
        let place = rng.order(gates);
        let mut record = vec![0u32; gates * GATE];
        let mut feeds: Vec<(u32, u32)> = Vec::with_capacity(2 * gates);
        for number in 0..gates {
            let gate = &mut record[place[number] as usize * GATE..][..GATE];
            let level = number / width;
            gate[DELAY] = 1 + rng.below(SLOTS - 2) as u32;
            gate[FUNCTION] = if level == 0 { EXTERNAL } else { rng.below(6) as u32 };
            for input in 0..if level == 0 { 0 } else { 2 } {
                // From the level before as a rule, from any before it now and then.
                let from = if rng.below(4) == 0 { rng.below(level) } else { level - 1 };
                let source = place[from * width + rng.below(width)];
                gate[INPUT + input] = source;
                feeds.push((source, place[number]));
            }
        }
        feeds.sort_unstable();
        let mut at = 0;
        for gate in 0..gates {
            record[gate * GATE + FANOUT] = at as u32;
            at += feeds[at..].iter().take_while(|f| f.0 == gate as u32).count();
            record[gate * GATE + FANOUT + 1] = at as u32;
        }
        let events = gates;
        Netlist {
            gates,
            inputs: width,
            gate: m.input(record.into_iter()),
            fanout: m.input(feeds.iter().map(|f| f.1)),
            event: m.input(
                (0..events * EVENT).map(|w| if w % EVENT == 2 { ((w / EVENT + 2) % (events + 1)) as u32 } else { 0 }),
            ),
            wheel: m.array(2 * SLOTS),
            free: 1,
            waiting: 0,
            now: 0,
            outside: place[..width].to_vec(),
        }
    }

    /// Puts a change of a gate's output on the wheel, after the others of the same time.
    fn schedule(&mut self, m: &mut M, gate: usize, value: u32, delay: usize) {
        assert!(self.free != 0, "as many events as gates");
        let (number, event) = (self.free, (self.free as usize - 1) * EVENT);
        self.free = m.load(site(0, 0), &self.event, event + 2);
        let slot = (self.now + delay) % SLOTS * 2;
        m.store(site(0, 1), &mut self.event, event, gate as u32);
        m.store(site(0, 2), &mut self.event, event + 1, value);
        m.store(site(0, 3), &mut self.event, event + 2, 0);
        if m.load(site(0, 4), &self.wheel, slot) == 0 {
            m.store(site(0, 5), &mut self.wheel, slot, number);
        } else {
            let last = m.load(site(0, 6), &self.wheel, slot + 1) as usize - 1;
            m.store(site(0, 7), &mut self.event, last * EVENT + 2, number);
        }
        m.store(site(0, 8), &mut self.wheel, slot + 1, number);
        m.store(site(0, 9), &mut self.gate, gate * GATE + PROJECTED, value);
        self.waiting += 1;
    }

    /// Evaluates a gate. If the result differs from the output that is already under way, it becomes an event.
    fn wake(&mut self, m: &mut M, gate: usize) {
        const FIELD: [Site; 5] = [site(1, 0), site(1, 1), site(1, 2), site(1, 3), site(1, 4)];
        const VALUE: [Site; 2] = [site(1, 5), site(1, 6)];
        const WORK: Site = site(1, 7);
        let function = m.load(FIELD[0], &self.gate, gate * GATE + FUNCTION);
        let [a, b] = [0, 1].map(|k| {
            let source = m.load(FIELD[1 + k], &self.gate, gate * GATE + INPUT + k);
            m.load(VALUE[k], &self.gate, source as usize * GATE + OUTPUT)
        });
        m.work(WORK);
        let value = evaluate(function, a, b);
        if value != m.load(FIELD[3], &self.gate, gate * GATE + PROJECTED) {
            let delay = m.load(FIELD[4], &self.gate, gate * GATE + DELAY);
            self.schedule(m, gate, value, delay as usize);
        }
    }

    /// Applies all changes of this time slot, then advances time.
    fn tick(&mut self, m: &mut M) {
        const HEAD: Site = site(2, 0);
        const TAKEN: Site = site(2, 1);
        const EVENTS: [Site; 3] = [site(2, 2), site(2, 3), site(2, 4)];
        const FREE: Site = site(2, 5);
        const SET: Site = site(2, 6);
        const RANGE: [Site; 2] = [site(2, 7), site(2, 8)];
        const FED: Site = site(2, 9);
        let mut next = m.load(HEAD, &self.wheel, self.now * 2);
        m.store(TAKEN, &mut self.wheel, self.now * 2, 0);
        while next != 0 {
            let event = (next as usize - 1) * EVENT;
            let [gate, value, after] = [0, 1, 2].map(|w| m.load(EVENTS[w], &self.event, event + w));
            m.store(FREE, &mut self.event, event + 2, self.free);
            self.free = next;
            next = after;
            self.waiting -= 1;
            let gate = gate as usize * GATE;
            m.store(SET, &mut self.gate, gate + OUTPUT, value);
            let [from, to] = [0, 1].map(|k| m.load(RANGE[k], &self.gate, gate + FANOUT + k));
            for k in from..to {
                let fed = m.load(FED, &self.fanout, k as usize);
                self.wake(m, fed as usize);
            }
        }
        self.now = (self.now + 1) % SLOTS;
    }

    /// Wakes every gate, as at power-on. Ends early when the reference budget is used up.
    fn power_on(&mut self, m: &mut M) {
        for gate in 0..self.gates {
            if m.load(site(0, 10), &self.gate, gate * GATE + FUNCTION) != EXTERNAL {
                self.wake(m, gate);
            }
            // Time goes on while gates are being woken, so that events do not pile up.
            if gate % 8 == 7 {
                self.tick(m);
                if !m.budget_left() {
                    return;
                }
            }
        }
    }

    /// Sets an eighth of the inputs to new values at random times, then runs until no event is left.
    fn vector(&mut self, m: &mut M, rng: &mut Rng) {
        const INPUT_NOW: Site = site(0, 11);
        for _ in 0..self.inputs / 8 {
            let gate = self.outside[rng.below(self.inputs)] as usize;
            let now = m.load(INPUT_NOW, &self.gate, gate * GATE + PROJECTED);
            self.schedule(m, gate, 1 ^ now, 1);
            self.tick(m);
        }
        while self.waiting > 0 && m.budget_left() {
            self.tick(m);
        }
    }
}

fn run<M: Memory>(m: &mut M, s: &Settings) -> u64 {
    let mut netlist = Netlist::new(m, s);
    let mut rng = Rng::new(s.seed ^ 1);
    // The gates reach a stable state before the first vector: that is simulation already.
    let _ = m.budget_left();
    netlist.power_on(m);
    while m.budget_left() {
        netlist.vector(m, &mut rng);
    }
    (0..netlist.gates.min(4096)).fold(1, |sum: u64, gate| {
        sum.rotate_left(1) ^ u64::from(m.load(site(2, 20), &netlist.gate, gate * GATE + OUTPUT))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quiet_gates_show_what_their_inputs_say() {
        let mut m = Native::new(u64::MAX);
        let mut n = Netlist::new(&mut m, &Settings { size: 256 << 10, references: 1, seed: 5 });
        let mut rng = Rng::new(1);
        n.power_on(&mut m);
        for _ in 0..10 {
            n.vector(&mut m, &mut rng);
            assert_eq!(n.waiting, 0);
            let output = |gate: u32| n.gate[gate as usize * GATE + OUTPUT];
            for gate in n.gate.chunks(GATE).filter(|g| g[FUNCTION] != EXTERNAL) {
                assert_eq!(gate[OUTPUT], evaluate(gate[FUNCTION], output(gate[INPUT]), output(gate[INPUT + 1])));
                assert_eq!(gate[OUTPUT], gate[PROJECTED]);
            }
        }
        let high = n.gate.chunks(GATE).filter(|g| g[OUTPUT] == 1).count();
        assert!((n.gates / 8..n.gates * 7 / 8).contains(&high), "{high} of {}", n.gates);
        // Every event is free again.
        let (mut free, mut count) = (n.free, 0);
        while free != 0 {
            (free, count) = (n.event[(free as usize - 1) * EVENT + 2], count + 1);
        }
        assert_eq!(count, n.gates);
    }
}
