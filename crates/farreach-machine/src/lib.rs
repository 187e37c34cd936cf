//! One operating-system policy with the designs that run on it, many times side by side over one stream of events.

mod compiled;
mod description;
mod driver;
mod engine;
mod filter;
#[doc(hidden)]
pub mod fuzz;
mod hand_made;
mod instance;
mod lab;
mod lifetimes;
mod lines;
mod memory_profile;
mod options;
mod pages;
mod presets;
mod profile;
mod spec;
mod tally;
mod threads;
mod worker_pool;

pub use filter::MAX_DESIGNS;
pub use hand_made::{entries_after_loads, two_processes_on_one_line};
pub use lab::Lab;
pub use options::Options;
pub use pages::{PAGE_SIZES, PageLab};
pub use presets::{PRESETS, Preset};
pub use spec::{Hardware, MachineSpec};
pub use tally::Progress;
