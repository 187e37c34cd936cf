//! Seeded kernels: programs of the classes that the papers measured, for those that cannot be had (T94-74).
//!
//! A kernel is an algorithm written once over a [`Memory`]. With a memory that traces it is a [`Source`] of the laboratory; with
//! real memory ([`Kernel::run_native`]) it is a program that a recorder can record. It really computes; only its code is a model:
//! each place in the program is a [`Site`] of a text mapping, three to eight instructions long, so that there are about three to
//! five instructions for each data reference. The same settings give the same stream on every machine.
//!
//! A further kernel is one file and one line in [`KERNELS`].
//!
//! Owns the programs and the layout of their code and data. Must not know machines, designs or traces: a kernel is a source of
//! references and nothing else.

mod anneal;
mod astar;
mod bfs;
mod cells;
mod cluster;
mod compiler;
mod dense;
mod fft3d;
mod gups;
mod join;
mod kv;
mod logic;
mod lzw;
mod memory;
mod particles;
mod queue;
mod random;
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

use farreach_types::addr::Bytes;
use farreach_types::error::{Error, Result};
use farreach_types::event::Source;

pub use lzw::Text;
pub use memory::{Element, Memory, Native, Site, System, Watch, site};
pub use random::Rng;
pub use traced::Traced;

/// Every kernel: the ten of the subblock paper in the order of its tables, then those with big memory, then one with its operating system.
pub static KERNELS: &[Kernel] = &[
    join::KERNEL,
    dense::KERNEL,
    lzw::KERNEL,
    fft3d::KERNEL,
    particles::KERNEL,
    cells::KERNEL,
    sparse_lu::KERNEL,
    logic::KERNEL,
    semispace::KERNEL,
    compiler::KERNEL,
    gups::KERNEL,
    bfs::KERNEL,
    kv::KERNEL,
    spmv::KERNEL,
    simplex::KERNEL,
    queue::KERNEL,
    astar::KERNEL,
    anneal::KERNEL,
    suffix::KERNEL,
    stencil::KERNEL,
    cluster::KERNEL,
    server::KERNEL,
];

/// One kernel of the catalogue.
pub struct Kernel {
    /// What it is called on the command line.
    pub name: &'static str,
    /// What kind of program it is.
    pub class: &'static str,
    /// The benchmarks whose place it takes. It is not one of them, and a report must not call it so.
    pub stands_for: &'static str,
    /// One line for people.
    pub about: &'static str,
    /// Footprint in bytes that the paper's table gives, or a moderate one where any size is of interest.
    pub default_size: u64,
    /// A size that is worth a quick run.
    pub small_size: u64,
    /// Least size in bytes.
    pub smallest: u64,
    /// Greatest size in bytes.
    pub largest: u64,
    /// Where its arrays lie.
    pub layout: Layout,
    /// Length of its text in pages of 4 KB: one for each phase, as a rule.
    pub text_pages: u32,
    traced: fn(&mut Traced, &Settings) -> u64,
    native: fn(&mut Native, &Settings) -> u64,
}

/// What an allocator does with arrays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// All of them stand one after the other in the brk heap, as in the papers of the nineties.
    Heap,
    /// From 128 KB on each is a mapping of its own, as with glibc; smaller ones stand in the heap.
    Mapped,
}

/// How a kernel runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Bytes of data; what a kernel makes of it is within a factor of two.
    pub size: u64,
    /// Data references after which the kernel ends, at the end of the round it is in.
    pub references: u64,
    /// Seed of everything random.
    pub seed: u64,
}

/// The kernel of this name.
pub fn kernel(name: &str) -> Option<&'static Kernel> {
    KERNELS.iter().find(|k| k.name == name)
}

impl Kernel {
    /// The kernel as a stream: one address space from `Start` to `End`. It runs on a thread of its own, never far ahead of its
    /// reader, and stops when the source is dropped. Memory is that of the kernel's own data and a few batches.
    ///
    /// # Errors
    /// [`Error::Workload`]: the size is too small or too large for it, or there are no references to make.
    pub fn source(&self, settings: &Settings) -> Result<Box<dyn Source + Send>> {
        self.check(settings)?;
        Ok(Box::new(traced::Running::new(self, *settings)))
    }

    /// The kernel as a program on real memory; what it computed, as a checksum.
    ///
    /// # Errors
    /// As [`Kernel::source`].
    pub fn run_native(&self, settings: &Settings) -> Result<u64> {
        self.run_watched(settings, Box::new(()))
    }

    /// As [`Kernel::run_native`], with somebody who is told when input is made and when the algorithm begins and ends.
    ///
    /// # Errors
    /// As [`Kernel::source`].
    pub fn run_watched(&self, settings: &Settings, watch: Box<dyn Watch>) -> Result<u64> {
        self.check(settings)?;
        Ok((self.native)(&mut Native::watched(settings.references, watch), settings))
    }

    fn check(&self, settings: &Settings) -> Result<()> {
        let fail = |what| Err(Error::Workload { workload: self.name.to_owned(), what });
        if !(self.smallest..=self.largest).contains(&settings.size) {
            let [size, least, most] = [settings.size, self.smallest, self.largest].map(Bytes);
            return fail(format!("size = {size} is not allowed: size must be from {least} to {most}"));
        }
        if settings.references == 0 {
            return fail("references must be at least 1".into());
        }
        Ok(())
    }
}
