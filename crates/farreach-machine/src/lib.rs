//! One operating-system policy with the designs that run on it, many times side by side over one stream of events.

mod compiled;
mod description;
mod engine;
mod filter;
#[doc(hidden)]
pub mod fuzz;
mod hand_made;
mod hardware;
mod instance;
mod lab;
mod lifetimes;
mod lines;
mod memory_profile;
mod pages;
mod presets;
mod profile;
mod reference;
mod spec;
mod tally;
mod threads;
mod worker_pool;

pub use filter::MAX_DESIGNS;
pub use hand_made::{entries_after_loads, two_processes_on_one_line};
pub use hardware::Hardware;
pub use lab::{Lab, Options};
pub use pages::{PAGE_SIZES, PageLab};
pub use presets::{PRESETS, Preset};
pub use reference::{PartKeys, reference};
pub use spec::MachineSpec;
pub use tally::Progress;
