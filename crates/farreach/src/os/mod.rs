//! os

pub mod frames;
