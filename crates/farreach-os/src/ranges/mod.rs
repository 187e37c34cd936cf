//! Range translations (RMM15-20 to RMM15-35): which runs of pages each process keeps in its range table, beside its
//! page table.
//!
//! A range is a maximal run ([`runs`]) of at least the threshold. Every mapping, unmapping, move and change of
//! attributes updates the runs. At the end of each fault and each event the range table follows, and ranges that are no
//! longer valid as a whole are reported as `Demoted`: a range TLB drops the whole entry (RMM15-12).

pub mod btree;
pub(crate) mod census;
pub(crate) mod feedback;
mod list;
mod maintenance;
pub mod node;
pub(crate) mod policy;
pub(crate) mod process;
pub mod runs;
mod table;

pub use feedback::RangeUse;
pub use list::List;
pub use policy::{FEEDBACK, RANGES};
pub use table::RangeTable;
