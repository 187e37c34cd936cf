//! What the `farreach` command is made of beyond the library: everything that touches the operating system.
//!
//! Owns arguments, files, terminal, progress and interrupts, and how the catalogue of workloads is kept. Must not know
//! how a simulation works: it turns arguments into machines and streams, has the library run them, and writes what
//! comes out.

pub mod workloads;
