//! All kernels by name.

use super::kernel::Kernel;
use super::{
    anneal, astar, bfs, cells, cluster, compiler, dense, event_queue, fft3d, gups, join, kv, logic, lzw, particles,
    semispace, server, simplex, sparse_lu, spmv, stencil, suffix,
};

/// Every kernel: the ten of the subblock paper in the order of its tables, then those with big memory, then a server
/// with its kernel.
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
    event_queue::KERNEL,
    astar::KERNEL,
    anneal::KERNEL,
    suffix::KERNEL,
    stencil::KERNEL,
    cluster::KERNEL,
    server::KERNEL,
];

/// The kernel of this name.
pub fn kernel(name: &str) -> Option<&'static Kernel> {
    KERNELS.iter().find(|k| k.name == name)
}
