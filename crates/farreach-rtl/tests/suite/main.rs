//! Modules against the simulator. Without the tools these tests say so and do nothing else.

mod cases;
mod faults;
mod formal;
mod golden;
mod random;
mod synth;
