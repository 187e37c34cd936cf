//! Modules as cells of a library: area, clock, energy.
//!
//! `flow` has Yosys and abc map a module, `fanout` buffers nets that drive many cells, and OpenSTA finds the clock.
//! What it takes to work is counted here: `netlist` and `gates` run the cells themselves through requests of real
//! programs (`activity`), net by net, and `liberty` and `power` say what each transition takes.

pub mod activity;
pub mod configurations;
pub mod fanout;
pub mod flow;
mod function;
pub mod gates;
pub mod liberty;
pub mod netlist;
pub mod power;
pub mod results;
pub mod run;
