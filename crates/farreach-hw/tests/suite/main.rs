//! The tests of farreach-hw.

mod coalesce_oracle;
mod midgard_oracle;
mod mmu_oracle;
mod nested_oracle;
mod nodes_oracle;
mod opt;
mod oracle_golden;
mod parts_oracle;
mod perforated_oracle;
mod policies;
mod shared_caches;
mod shootdowns_oracle;
mod sll_oracle;
mod t94_golden;
mod t94_hardware;
mod tlb_oracle;
mod walkers;
