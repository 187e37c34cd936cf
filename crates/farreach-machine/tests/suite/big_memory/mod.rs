//! The operating-system half of big memory: ranges, eager paging, large pages, segments (RMM15, DS13), against scans of
//! the page table.

mod compaction;
mod eager;
mod feedback;
mod machines;
mod mapping;
mod ranges;
mod segments;
mod superpages;
mod world;
