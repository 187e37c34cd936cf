//! A flat netlist of cells, as Yosys writes it in JSON, and as OpenSTA reads it in Verilog.

use super::liberty::Library;
use serde_json::Value as Json;
use std::collections::HashMap;
use std::fmt::Write as _;

/// A net. Nets 0 and 1 are constants.
pub type Net = u32;

/// A gate.
#[derive(Clone, Debug)]
pub struct Gate {
    /// Its cell.
    pub cell: u32,
    /// Inputs, in the order of the cell.
    pub inputs: Vec<Net>,
    /// See [`super::liberty::Pin::function`].
    pub function: u64,
    /// What it drives.
    pub output: Net,
}

/// A flip-flop.
#[derive(Clone, Copy, Debug)]
pub struct FlipFlop {
    /// Its cell.
    pub cell: u32,
    /// What it takes.
    pub d: Net,
    /// What it drives.
    pub q: Net,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Netlist {
    /// Number of nets.
    pub nets: usize,
    /// Gates, each after those that drive it.
    pub gates: Vec<Gate>,
    /// Flip-flops. All have the port `clk` for a clock.
    pub flip_flops: Vec<FlipFlop>,
    /// Ports but for the clock: bits, the lowest first.
    pub inputs: HashMap<String, Vec<Net>>,
    /// As before.
    pub outputs: HashMap<String, Vec<Net>>,
    /// Names of cells.
    pub cells: Vec<String>,
    /// How many of each cell there are.
    pub count: Vec<u32>,
}

impl Netlist {
    /// Reads it.
    ///
    /// # Errors
    /// It is no such netlist, or has a cell that the library has not, or a loop of gates.
    pub fn read(text: &str, library: &Library) -> Result<Netlist, String> {
        let json: Json = serde_json::from_str(text).map_err(|e| e.to_string())?;
        let modules = json["modules"].as_object().ok_or("no modules")?;
        let top = modules.values().find(|m| m["attributes"]["top"] != Json::Null).ok_or("no top module")?;
        let mut netlist = Netlist::default();
        let mut most = 1;
        let mut net = |bit: &Json| -> Result<Net, String> {
            match bit {
                Json::Number(n) => {
                    let net = n.as_u64().unwrap_or(0) as Net;
                    most = most.max(net);
                    Ok(net)
                }
                Json::String(constant) => Ok(Net::from(constant == "1")),
                other => Err(format!("a net {other}")),
            }
        };
        for (name, port) in top["ports"].as_object().ok_or("no ports")? {
            let bits = port["bits"].as_array().ok_or("a port without bits")?.iter().map(&mut net);
            let bits = bits.collect::<Result<Vec<_>, _>>()?;
            let into = if port["direction"] == "input" { &mut netlist.inputs } else { &mut netlist.outputs };
            into.insert(name.clone(), bits);
        }
        for cell in top["cells"].as_object().ok_or("no cells")?.values() {
            let name = cell["type"].as_str().unwrap_or("");
            let of = library.cells.get(name).ok_or_else(|| format!("a cell {name} that the library has not"))?;
            let number = netlist.cell(name);
            netlist.count[number as usize] += 1;
            let mut at = |pin: &str| net(&cell["connections"][pin][0]);
            if of.flip_flop {
                netlist.flip_flops.push(FlipFlop { cell: number, d: at("D")?, q: at("Q")? });
                continue;
            }
            let inputs = of.inputs().map(|pin| at(&pin.name)).collect::<Result<Vec<_>, _>>()?;
            let mut outputs = of.outputs();
            let (Some(pin), None) = (outputs.next(), outputs.next()) else {
                return Err(format!("a cell {name} with more or less than one output"));
            };
            let function = pin.function.ok_or_else(|| format!("a cell {name} without a function"))?;
            netlist.gates.push(Gate { cell: number, inputs, function, output: at(&pin.name)? });
        }
        netlist.nets = most as usize + 1;
        netlist.inputs.remove("clk").ok_or("no clk")?;
        netlist.in_order()?;
        Ok(netlist)
    }

    /// The number of a cell by its name.
    pub(super) fn cell(&mut self, name: &str) -> u32 {
        let known = self.cells.iter().position(|n| n == name).unwrap_or_else(|| {
            self.cells.push(name.to_owned());
            self.count.push(0);
            self.cells.len() - 1
        });
        known as u32
    }

    /// Puts gates behind those that drive them.
    ///
    /// # Errors
    /// There is a loop of gates.
    pub(super) fn in_order(&mut self) -> Result<(), String> {
        let mut driver = vec![u32::MAX; self.nets];
        self.gates.iter().zip(0..).for_each(|(gate, i)| driver[gate.output as usize] = i);
        let driven = |&net: &Net| driver[net as usize];
        let waits = |gate: &Gate| gate.inputs.iter().map(driven).filter(|&d| d != u32::MAX).count() as u32;
        let mut waiting: Vec<u32> = self.gates.iter().map(waits).collect();
        let mut readers: Vec<Vec<u32>> = vec![Vec::new(); self.gates.len()];
        for (gate, i) in self.gates.iter().zip(0..) {
            gate.inputs.iter().map(driven).filter(|&d| d != u32::MAX).for_each(|d| readers[d as usize].push(i));
        }
        let mut order: Vec<u32> = (0..self.gates.len() as u32).filter(|&i| waiting[i as usize] == 0).collect();
        let mut next = 0;
        while next < order.len() {
            for &reader in &readers[order[next] as usize] {
                waiting[reader as usize] -= 1;
                if waiting[reader as usize] == 0 {
                    order.push(reader);
                }
            }
            next += 1;
        }
        if order.len() < self.gates.len() {
            return Err("gates that drive each other in a loop".into());
        }
        self.gates = order.iter().map(|&i| self.gates[i as usize].clone()).collect();
        Ok(())
    }

    /// As Verilog: each bit of a port is a port, named `n` and its net; of an output, `o` and a number.
    pub fn verilog(&self, library: &Library) -> String {
        let net = |&net: &Net| match net {
            0 | 1 => format!("1'b{net}"),
            net => format!("n{net}"),
        };
        let mut inputs: Vec<String> = self.inputs.values().flatten().map(net).collect();
        let mut outputs: Vec<Net> = self.outputs.values().flatten().copied().collect();
        // The order of ports of a netlist is that of a hash.
        inputs.sort_unstable();
        outputs.sort_unstable();
        let names: Vec<String> = (0..outputs.len()).map(|i| format!("o{i}")).collect();
        let mut out = format!("module top (clk, {});\n", [&inputs[..], &names].concat().join(", "));
        let _ = writeln!(out, "input clk, {};\noutput {};", inputs.join(", "), names.join(", "));
        for (name, output) in names.iter().zip(&outputs) {
            let _ = writeln!(out, "assign {name} = {};", net(output));
        }
        for (gate, i) in self.gates.iter().zip(0..) {
            let name = &self.cells[gate.cell as usize];
            let of = &library.cells[name];
            let pins = of.inputs().zip(&gate.inputs).chain(of.outputs().zip([&gate.output]));
            let pins: Vec<String> = pins.map(|(pin, of)| format!(".{}({})", pin.name, net(of))).collect();
            let _ = writeln!(out, "{name} g{i} ({});", pins.join(", "));
        }
        for (FlipFlop { cell, d, q }, i) in self.flip_flops.iter().zip(0..) {
            let name = &self.cells[*cell as usize];
            let _ = writeln!(out, "{name} f{i} (.CLK(clk), .D({}), .Q({}));", net(d), net(q));
        }
        out + "endmodule\n"
    }

    /// Cell area in square micrometres.
    pub fn area(&self, library: &Library) -> f64 {
        self.cells.iter().zip(&self.count).map(|(name, &n)| library.cells[name].area * f64::from(n)).sum()
    }

    /// Leakage in nW.
    pub fn leakage(&self, library: &Library) -> f64 {
        self.cells.iter().zip(&self.count).map(|(name, &n)| library.cells[name].leakage * f64::from(n)).sum()
    }
}
