//! Seeded kernels: programs of the classes that the papers measured, in place of benchmarks that are not available
//! (T94-74).
//!
//! A kernel is an algorithm written once over a [`Memory`]. With a memory that traces, it is a
//! [`Source`](farreach_types::event::Source) of the laboratory. With real memory ([`Kernel::run_native`]), it is a
//! program that a recorder can record. The computation is real; only the code is a model. Each place in the program is
//! a [`Site`] of a text mapping, three to eight instructions long, which makes about three to five instructions per
//! data reference. The same settings give the same stream on every machine.
//!
//! This crate owns the kernels, their text and data layout, and their random numbers. It must not know any machine: no
//! operating system, no TLB, no result. It produces a stream and does not depend on its consumer.
//!
//! A further kernel is one file and one line in [`KERNELS`]. Kernels share [`Rng`], [`Memory`] and one binary heap
//! (`heap`).

mod anneal;
mod astar;
mod bfs;
mod cells;
mod cluster;
mod compiler;
mod dense;
mod event_queue;
mod fft3d;
mod gups;
mod heap;
mod join;
mod kernel;
mod kv;
mod logic;
mod lzw;
mod memory;
mod notation;
mod particles;
mod random;
mod registry;
mod running;
mod semispace;
mod server;
mod simplex;
mod sparse_lu;
mod spmv;
mod stencil;
mod suffix;
#[cfg(test)]
mod tests;
mod traced;

pub use kernel::{Kernel, Settings};
pub use lzw::Text;
pub use memory::{Element, Memory, Native, Site, System, Watch, site};
pub use notation::{KernelSpec, REFERENCES, open_source};
pub use random::Rng;
pub use registry::{KERNELS, kernel};
pub use traced::{Layout, Traced};
