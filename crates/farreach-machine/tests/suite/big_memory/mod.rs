//! The operating-system half of big memory: ranges, eager paging, large pages, segments (RMM15, DS13), against scans of
//! the page table.

mod carrefour_oracle;
mod compaction;
mod eager;
mod feedback;
mod huge_oracle;
mod linux_oracle;
mod machines;
mod mapping;
mod plain;
mod programs;
mod range_oracle;
mod ranger_oracle;
mod ranges;
mod segment_choice;
mod segment_oracle;
mod segments;
mod since_oracle;
mod since_os_oracle;
mod superpages;
mod world;
