//! The examples of the rules row by row, planted faults, and random programs.

mod nav;
mod planted;

use super::*;

const RW: u8 = READ | WRITE;
