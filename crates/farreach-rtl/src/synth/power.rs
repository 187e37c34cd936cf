//! Energy of a netlist: what the library says of each transition, times how often it happened.
//!
//! A transition of a net takes `C V^2 / 2` for the inputs it drives; the libraries have no model of wires. Inside a
//! cell it takes the mean of what the library has for a rise and a fall, and for the inputs that may have caused it,
//! at the load of the net and the transition times of these inputs. A flip-flop takes what its clock pin takes at each
//! cycle, always: there is no clock gating, and no clock tree beyond the pins.

use super::liberty::{Energy, Library, Pin, Table};
use super::netlist::Netlist;

/// Transition time of the clock and of inputs, in ns: the least that the libraries have.
const SHARP: f64 = 0.06;

/// Energies of the transitions of a netlist, in pJ.
pub struct Power {
    /// Of each net: load and driver.
    per_toggle: Vec<f64>,
    /// Of each cycle.
    pub clock: f64,
}

/// Of rise and fall.
fn mean(energy: &Energy, load: f64, transition: f64) -> f64 {
    (energy.rise.at(load, transition) + energy.fall.at(load, transition)) / 2.0
}

/// Of all that may have caused it, each with its transition time.
fn caused(pin: &Pin, load: f64, transition: impl Fn(&str) -> f64) -> f64 {
    let all = pin.energy.iter().map(|energy| mean(energy, load, transition(&energy.related)));
    all.sum::<f64>() / pin.energy.len().max(1) as f64
}

impl Power {
    /// For the cells of a library.
    pub fn new(netlist: &Netlist, library: &Library) -> Power {
        let half = library.voltage * library.voltage / 2.0;
        let cell = |number: u32| &library.cells[&netlist.cells[number as usize]];
        let mut load = vec![0.0; netlist.nets];
        for gate in &netlist.gates {
            let pins = cell(gate.cell).inputs();
            gate.inputs.iter().zip(pins).for_each(|(&net, pin)| load[net as usize] += pin.capacitance);
        }
        for flip_flop in &netlist.flip_flops {
            load[flip_flop.d as usize] += cell(flip_flop.cell).pin("D").map_or(0.0, |pin| pin.capacitance);
        }
        let mut per_toggle: Vec<f64> = load.iter().map(|load| load * half).collect();
        // Transition times, in the order of the gates: the slower of rise and fall, by the slowest cause.
        let mut transition = vec![SHARP; netlist.nets];
        let slower =
            |(_, rise, fall): &(String, Table, Table), load: f64, by: f64| rise.at(load, by).max(fall.at(load, by));
        let mut clock = 0.0;
        for flip_flop in &netlist.flip_flops {
            let of = cell(flip_flop.cell);
            let q = flip_flop.q as usize;
            if let Some(pin) = of.pin("Q") {
                per_toggle[q] += caused(pin, load[q], |_| SHARP);
                transition[q] = pin.transitions.iter().map(|t| slower(t, load[q], SHARP)).fold(SHARP, f64::max);
            }
            if let Some(pin) = of.pin("CLK") {
                let inside: f64 = pin.energy.iter().map(|energy| 2.0 * mean(energy, 0.0, SHARP)).sum();
                clock += inside + 2.0 * half * pin.capacitance;
            }
        }
        for gate in &netlist.gates {
            let of = cell(gate.cell);
            let output = gate.output as usize;
            let names: Vec<&str> = of.inputs().map(|pin| pin.name.as_str()).collect();
            let before = |name: &str| {
                let input = names.iter().position(|n| *n == name).map(|i| gate.inputs[i] as usize);
                input.map_or(SHARP, |net| transition[net])
            };
            let pin = of.outputs().next().expect("the netlist was read with this library");
            per_toggle[output] += caused(pin, load[output], before);
            let slowest = pin.transitions.iter().map(|t| slower(t, load[output], before(&t.0)));
            let slowest = slowest.fold(0.0, f64::max);
            transition[output] = slowest;
        }
        // What a flip-flop takes for changes before it.
        for flip_flop in &netlist.flip_flops {
            if let Some(pin) = cell(flip_flop.cell).pin("D") {
                let d = flip_flop.d as usize;
                per_toggle[d] += pin.energy.iter().map(|energy| mean(energy, 0.0, transition[d])).sum::<f64>();
            }
        }
        Power { per_toggle, clock }
    }

    /// What these transitions took, in pJ, without the clock.
    pub fn energy(&self, toggles: &[u64]) -> f64 {
        self.per_toggle.iter().zip(toggles).map(|(energy, &n)| energy * n as f64).sum()
    }
}
