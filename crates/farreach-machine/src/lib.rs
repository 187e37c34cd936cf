//! One operating-system policy with the designs that run on it, many times side by side over one stream of events.

mod by_hand;
mod compiled;
mod crew;
mod description;
mod engine;
#[doc(hidden)]
pub mod fuzz;
mod growth;
mod lab;
mod lines;
mod lives;
mod pages;
mod presets;
mod profile;
mod quiet;
mod spec;
mod tally;
mod threads;
mod unit;

pub use by_hand::{entries_by_hand, two_processes_by_hand};
pub use lab::{Lab, Options};
pub use pages::{PAGE_SIZES, PageLab};
pub use presets::{PRESETS, Preset};
pub use quiet::MAX_DESIGNS;
pub use spec::{Hardware, MachineSpec};
pub use tally::Progress;
