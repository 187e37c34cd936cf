//! Buffers on nets that drive many cells.
//!
//! abc buffers what gates drive within a module. What flip-flops and ports drive, and what modules give to each other,
//! is an input to it and keeps all its loads; here such nets become trees, in which nothing drives more than
//! [`MOST`] inputs.

use super::liberty::Library;
use super::netlist::{Gate, Net, Netlist};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Inputs that a cell may drive. Ports of the module are none.
pub const MOST: usize = 16;
/// What the trees are made of.
const BUFFER: &str = "BUFX4";

/// An input of a cell.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Load {
    /// Of a gate: its number, and which of its inputs.
    Gate(u32, u32),
    /// Of a flip-flop.
    FlipFlop(u32),
}

/// Buffers a netlist. The clock is none of its nets: it is taken to come to all flip-flops at once.
///
/// Each tree has the fewest buffers there can be, and the longest chain of cells through it is as short as it can be:
/// those loads go behind a buffer first from which a flip-flop or a port is nearest, and the buffer then counts as a
/// load itself (M. C. Golumbic, Combinatorial merging, IEEE Transactions on Computers, 1976).
///
/// # Errors
/// The library has no such buffer.
pub fn buffer(netlist: &mut Netlist, library: &Library) -> Result<(), String> {
    let of = library.cells.get(BUFFER).ok_or_else(|| format!("the library has no {BUFFER}"))?;
    let function = of.outputs().next().and_then(|pin| pin.function).ok_or_else(|| format!("{BUFFER}: no function"))?;
    let cell = netlist.cell(BUFFER);
    let mut loads: Vec<Vec<Load>> = vec![Vec::new(); netlist.nets];
    for (gate, i) in netlist.gates.iter().zip(0..) {
        gate.inputs.iter().zip(0..).for_each(|(&net, pin)| loads[net as usize].push(Load::Gate(i, pin)));
    }
    netlist.flip_flops.iter().zip(0..).for_each(|(of, i)| loads[of.d as usize].push(Load::FlipFlop(i)));
    // Gates from the last to the first, then what no gate drives: what a net drives is complete before it is looked at.
    let mut nets: Vec<Net> = netlist.gates.iter().rev().map(|gate| gate.output).collect();
    nets.extend(netlist.flip_flops.iter().map(|of| of.q));
    let mut ports: Vec<Net> = netlist.inputs.values().flatten().copied().collect();
    ports.sort_unstable();
    nets.extend(ports);
    // Of each net: cells on the longest way to a flip-flop or a port.
    let mut cells_behind = vec![0u32; netlist.nets];
    for net in nets {
        let behind = |load| match load {
            Load::Gate(gate, _) => 1 + cells_behind[netlist.gates[gate as usize].output as usize],
            Load::FlipFlop(_) => 0,
        };
        let all = std::mem::take(&mut loads[net as usize]).into_iter();
        let mut all: BinaryHeap<_> = all.map(|load| Reverse((behind(load), load))).collect();
        while all.len() > MOST {
            // So many that all later buffers, and the net itself, have as many loads as they may.
            let together = 2 + (all.len() - 2) % (MOST - 1);
            let output = netlist.nets as Net;
            netlist.nets += 1;
            let mut longest = 0;
            for _ in 0..together {
                let Some(Reverse((cells, load))) = all.pop() else { break };
                longest = cells;
                match load {
                    Load::Gate(gate, pin) => netlist.gates[gate as usize].inputs[pin as usize] = output,
                    Load::FlipFlop(i) => netlist.flip_flops[i as usize].d = output,
                }
            }
            all.push(Reverse((1 + longest, Load::Gate(netlist.gates.len() as u32, 0))));
            netlist.gates.push(Gate { cell, inputs: vec![net], function, output });
            netlist.count[cell as usize] += 1;
            cells_behind.push(longest);
        }
        cells_behind[net as usize] = all.iter().map(|Reverse((cells, _))| *cells).max().unwrap_or(0);
    }
    netlist.in_order()
}

#[cfg(test)]
mod tests {
    use super::super::netlist::FlipFlop;
    use super::*;
    use std::collections::HashMap;

    const LIBRARY: &str = r#"library(tiny) {
      time_unit : "1ns"; leakage_power_unit : "1nW"; capacitive_load_unit (1,pf); nom_voltage : 2;
      cell (BUFX4) { area : 2; pin(A) { direction : input; } pin(Y) { direction : output; function : "A"; } }
      cell (INV) { area : 1; pin(A) { direction : input; } pin(Y) { direction : output; function : "A'"; } }
      cell (DFF) { ff (S, N) { next_state : "D"; clocked_on : "CLK"; } pin(CLK) { direction : input; }
        pin(D) { direction : input; } pin(Q) { direction : output; } } }"#;

    /// A port, net 2, drives `n` flip-flops, and one more behind each of these chains of inverters.
    fn netlist(n: usize, chains: &[usize]) -> Netlist {
        let mut netlist = Netlist { cells: vec!["INV".into(), "DFF".into()], ..Netlist::default() };
        netlist.inputs = HashMap::from([("a".to_owned(), vec![2])]);
        netlist.count = vec![chains.iter().sum::<usize>() as u32, (n + chains.len()) as u32];
        let mut ends = vec![2; n];
        let mut nets = 3;
        for &chain in chains {
            let mut from = 2;
            for _ in 0..chain {
                netlist.gates.push(Gate { cell: 0, inputs: vec![from], function: 0b01, output: nets });
                from = nets;
                nets += 1;
            }
            ends.push(from);
        }
        for d in ends {
            netlist.flip_flops.push(FlipFlop { cell: 1, d, q: nets });
            nets += 1;
        }
        netlist.nets = nets as usize;
        netlist.in_order().unwrap();
        netlist
    }

    #[test]
    fn trees_are_small_and_as_short_as_they_can_be() {
        let library = Library::read(LIBRARY).unwrap();
        for (n, chains) in [
            (3, &[1][..]),
            (16, &[]),
            (17, &[]),
            (16, &[9, 1]),
            (255, &[1, 2, 3]),
            (257, &[]),
            (1404, &[7]),
            (5000, &[1; 40]),
        ] {
            let mut buffered = netlist(n, chains);
            let inverters = buffered.gates.len();
            buffer(&mut buffered, &library).unwrap();
            let loads = n + chains.len();
            let buffers = buffered.gates.len() - inverters;
            assert_eq!(buffers, loads.saturating_sub(MOST).div_ceil(MOST - 1), "{n} {chains:?}");
            let mut driven = vec![0; buffered.nets];
            // Cells, and inverters, from the port to each net.
            let mut way = vec![(0u32, 0usize); buffered.nets];
            for gate in &buffered.gates {
                let (cells, inverters) = way[gate.inputs[0] as usize];
                driven[gate.inputs[0] as usize] += 1;
                way[gate.output as usize] = (cells + 1, inverters + usize::from(gate.function == 0b01));
            }
            buffered.flip_flops.iter().for_each(|of| driven[of.d as usize] += 1);
            assert!(driven.iter().all(|&n| n <= MOST), "{n} {chains:?}");
            let ways: Vec<(u32, usize)> = buffered.flip_flops.iter().map(|of| way[of.d as usize]).collect();
            let inverters = ways.iter().map(|(_, inverters)| *inverters);
            assert!(inverters.eq(vec![0; n].iter().chain(chains).copied()));
            // Kraft's inequality says which trees there are. The longest way is the least that leaves room for all; a
            // load is one step further from the port than there are buffers before it.
            let room = |longest: u32| {
                let all = vec![0; n].into_iter().chain(chains.iter().copied());
                all.map(|chain| (MOST as f64).powi(chain as i32 - longest as i32 - 1)).sum::<f64>() <= 1.0
            };
            let least = (0..).find(|&longest| room(longest)).unwrap();
            let (longest, _) = ways.iter().max().unwrap();
            assert_eq!(*longest, least, "{n} {chains:?}");
        }
    }

    #[test]
    fn a_library_without_the_buffer_is_refused() {
        let library = Library::read(&LIBRARY.replace("BUFX4", "OTHER")).unwrap();
        assert!(buffer(&mut netlist(20, &[]), &library).unwrap_err().contains("BUFX4"));
    }
}
