//! The tests of farreach-hw.

mod coalesce_oracle;
mod midgard_oracle;
mod mmu_oracle;
mod oracle_golden;
mod parts_oracle;
mod policies;
mod t94_golden;
mod t94_hardware;
mod tlb_oracle;
mod walkers;
