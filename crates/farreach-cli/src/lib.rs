//! The `farreach` command: everything around the library that touches the operating system.
//!
//! Owns arguments, files, terminal, progress and interrupts. Must not know how a simulation works: it turns arguments
//! into machines and streams, has the library run them, and writes the results.

mod cmd;
mod command;
#[cfg(test)]
mod examples;

pub use command::main;
