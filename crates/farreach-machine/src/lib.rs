//! Machines, each a translation design on an operating-system policy, side by side over one stream of events.
//!
//! Owns descriptions of machines and presets ([`MachineSpec`], [`PRESETS`]), and the run itself ([`Lab`]): the loop
//! over the stream, the filter of repeat hits in front of the designs, worker threads, and the counts of the stream and
//! of the program; also the page-size study ([`PageLab`]).
//!
//! Must not know how a trace is stored or how a result is shown. The loop knows no design by name: it drives each
//! through [`farreach_hw::tlb::Tlb`]; only the check of a description looks at keys of hardware and operating system
//! together. Costs are computed by `farreach-cost` after the run. Without any shortcut (`plain`) the counts are the
//! same: the tests compare both ways.

mod compiled;
mod description;
mod differences;
mod driver;
mod engine;
mod filter;
#[doc(hidden)]
pub mod fuzz;
mod guest;
mod hand_made;
mod hardware;
mod instance;
mod lab;
mod lifetimes;
mod lines;
mod marks;
mod memory_profile;
mod options;
mod pages;
mod presets;
mod profile;
mod recorded;
mod reference;
mod spec;
mod tally;
pub mod this;
mod threads;
mod traps;
mod worker_pool;

/// Why machines refuse samples.
const SAMPLES: &str = "these are samples: a few of the references of a program, so what machines would miss of them \
                       says nothing of the program. `farreach trace info` counts their pages; record the program for \
                       the rest";

pub use filter::MAX_DESIGNS;
pub use hand_made::{entries_after_loads, two_processes_on_one_line};
pub use hardware::Hardware;
pub use lab::{Lab, Observe};
pub use options::{Options, Sample};
pub use pages::{PAGE_SIZES, PageLab};
pub use presets::{PRESETS, Preset};
pub use reference::{PartKeys, reference};
pub use spec::MachineSpec;
pub use tally::Progress;
pub use traps::{Estimate, Pace, SetSample, TrapLab};
