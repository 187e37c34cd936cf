//! A netlist at work, cycle by cycle and without delays, and how often each net changes.

use super::netlist::{Net, Netlist};

/// See the module.
pub struct Gates<'a> {
    netlist: &'a Netlist,
    values: Vec<bool>,
    /// Changes of each net since they were last set to 0.
    pub toggles: Vec<u64>,
    /// Gates by level, those that wait to be looked at; and each gate's level.
    waiting: Vec<Vec<u32>>,
    level: Vec<u32>,
    is_waiting: Vec<bool>,
    /// Gates that a net drives: `first[net]..first[net + 1]` of `readers`.
    first: Vec<u32>,
    readers: Vec<u32>,
    changes: Vec<(Net, bool)>,
}

impl<'a> Gates<'a> {
    /// Flip-flops hold anything at first: bits of a generator with this seed.
    pub fn new(netlist: &'a Netlist, seed: u64) -> Gates<'a> {
        let mut first = vec![0u32; netlist.nets + 2];
        for gate in &netlist.gates {
            gate.inputs.iter().for_each(|&net| first[net as usize + 1] += 1);
        }
        for i in 1..first.len() {
            first[i] += first[i - 1];
        }
        let mut readers = vec![0; first[netlist.nets] as usize];
        let mut next = first.clone();
        let mut of_net = vec![0u32; netlist.nets];
        let mut level = vec![0; netlist.gates.len()];
        for (gate, i) in netlist.gates.iter().zip(0..) {
            for &net in &gate.inputs {
                readers[next[net as usize] as usize] = i;
                next[net as usize] += 1;
            }
            level[i as usize] = gate.inputs.iter().map(|&net| of_net[net as usize]).max().unwrap_or(0);
            of_net[gate.output as usize] = level[i as usize] + 1;
        }
        let levels = level.iter().max().map_or(0, |&most| most as usize + 1);
        let mut gates = Gates {
            netlist,
            values: vec![false; netlist.nets],
            toggles: vec![0; netlist.nets],
            waiting: vec![Vec::new(); levels],
            level,
            is_waiting: vec![true; netlist.gates.len()],
            first,
            readers,
            changes: Vec::new(),
        };
        gates.values[1] = true;
        let mut state = seed | 1;
        for flip_flop in &netlist.flip_flops {
            // A generator of Marsaglia's: any bits will do.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            gates.values[flip_flop.q as usize] = state >> 32 & 1 != 0;
        }
        for i in 0..netlist.gates.len() as u32 {
            gates.waiting[gates.level[i as usize] as usize].push(i);
        }
        gates.settle();
        gates.toggles.fill(0);
        gates
    }

    /// The value of a port, its lowest 64 bits.
    pub fn output(&self, name: &str) -> u64 {
        let bits = self.netlist.outputs.get(name).map_or(&[][..], |bits| bits);
        bits.iter().take(64).zip(0..).fold(0, |word, (&net, i)| word | u64::from(self.values[net as usize]) << i)
    }

    /// Sets a port: bit `i` of it is bit `i % 64` of word `i / 64`. A port that synthesis took away is no error.
    pub fn set(&mut self, name: &str, words: &[u64]) {
        let Some(bits) = self.netlist.inputs.get(name) else { return };
        for (&net, i) in bits.iter().zip(0..) {
            let value = words.get(i / 64).is_some_and(|word| word >> (i % 64) & 1 != 0);
            self.change(net, value);
        }
    }

    fn change(&mut self, net: Net, value: bool) {
        let n = net as usize;
        if self.values[n] == value {
            return;
        }
        self.values[n] = value;
        self.toggles[n] += 1;
        for &reader in &self.readers[self.first[n] as usize..self.first[n + 1] as usize] {
            if !std::mem::replace(&mut self.is_waiting[reader as usize], true) {
                self.waiting[self.level[reader as usize] as usize].push(reader);
            }
        }
    }

    /// Lets all gates see what has changed. Each is looked at once, so that nothing changes twice.
    pub fn settle(&mut self) {
        for level in 0..self.waiting.len() {
            let mut gates = std::mem::take(&mut self.waiting[level]);
            for i in gates.drain(..) {
                self.is_waiting[i as usize] = false;
                let gate = &self.netlist.gates[i as usize];
                let values = &self.values;
                let at =
                    gate.inputs.iter().zip(0..).fold(0, |at, (&net, i)| at | usize::from(values[net as usize]) << i);
                self.change(gate.output, gate.function >> at & 1 != 0);
            }
            self.waiting[level] = gates;
        }
    }

    /// The clock rises: flip-flops take what is before them. Ports are to be set before [`Gates::settle`].
    pub fn clock(&mut self) {
        let mut changes = std::mem::take(&mut self.changes);
        let values = &self.values;
        let differs = self.netlist.flip_flops.iter().filter(|ff| values[ff.q as usize] != values[ff.d as usize]);
        changes.extend(differs.map(|ff| (ff.q, values[ff.d as usize])));
        changes.drain(..).for_each(|(net, value)| self.change(net, value));
        self.changes = changes;
    }
}
