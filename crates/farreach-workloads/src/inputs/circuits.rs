//! Circuits to simulate and to place.

use std::io::{self, Write};

use farreach_kernels::Rng;

use super::Counted;

/// A ring of an odd number of CMOS inverters, loads of random size at each, and a transient analysis.
pub fn ring(out: &mut dyn Write, size: u64, rng: &mut Rng) -> io::Result<()> {
    let stages = (size / 128).max(3) | 1;
    writeln!(out, "* ring oscillator of {stages} inverters")?;
    writeln!(
        out,
        ".model nch nmos level=1 vto=0.6 kp=110u lambda=0.04\n.model pch pmos level=1 vto=-0.7 kp=40u lambda=0.05"
    )?;
    writeln!(out, "vdd vdd 0 dc 3.3")?;
    for i in 0..stages {
        let next = (i + 1) % stages;
        writeln!(out, "mp{i} n{next} n{i} vdd vdd pch w={:.1}u l=0.5u", 4.0 + rng.below(40) as f64 / 10.0)?;
        writeln!(out, "mn{i} n{next} n{i} 0 0 nch w={:.1}u l=0.5u", 2.0 + rng.below(20) as f64 / 10.0)?;
        writeln!(out, "c{i} n{next} 0 {}f", 5 + rng.below(20))?;
    }
    writeln!(out, ".ic v(n0)=0 v(n1)=3.3\n.tran 20p 20n uic\n.print tran v(n0)\n.end")
}

/// Registers in a row, each fed by a sum or a mix of earlier ones.
pub fn verilog(out: &mut dyn Write, size: u64, rng: &mut Rng) -> io::Result<()> {
    let mut out = Counted::new(out);
    writeln!(
        out,
        "module top(input clk, input [7:0] in, output [7:0] out);\nreg [7:0] r0;\nalways @(posedge clk) r0 <= in;"
    )?;
    let mut last = 0;
    while out.written < size {
        let (a, b) = (last - rng.below(last.min(16) + 1), last - rng.below(last.min(64) + 1));
        let operator = ["+", "^", "&", "|", "-"][rng.below(5)];
        last += 1;
        writeln!(
            out,
            "reg [7:0] r{last};\nalways @(posedge clk) r{last} <= r{} ^ (r{a} {operator} {{r{b}[6:0], r{b}[7]}});",
            last - 1
        )?;
    }
    writeln!(out, "assign out = r{last};\nendmodule")
}
