//! The tests of farreach-machine.

mod base_page;
mod big_memory;
mod block_sizes;
mod ca_14_trap;
mod common;
mod cores;
mod fetches;
mod kernel_segment;
mod midgard;
mod mmu;
mod nested;
mod pages;
mod relocate;
mod run_oracle;
mod sampling;
mod shared_words;
mod sv97;
mod t94_allocation;
mod t94_os;
mod today;
mod traps;
mod two_level;
mod two_size;
mod walk_caches;
mod walk_distances;
