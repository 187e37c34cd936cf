//! The structures of farreach as hardware one can synthesise (`rtl/`), and whether they do what the simulator's designs
//! do.
//!
//! A [`Checker`] puts an observer around each TLB of a run. The observer passes everything on to the simulator's
//! design, and has the RTL module of each structure in it do the same: lookup by lookup, fill by fill, invalidation by
//! invalidation. What the module answers is compared with what the simulator did.
//!
//! * [`modules`]: the modules there are, and which design each is. A module of your own is a line there.
//! * `request`, `model`, `part`: from a request to a comparison. Modules are compiled by Verilator when they are first
//!   needed (`compile`) and run as programs of their own, a batch of requests at a time.
//! * `observer`: what a design does, as requests to modules; of a design that is one array (`observer/array.rs`), and
//!   of a hierarchy with everything in it (`observer/mmu`).
//! * [`synth`]: modules as cells of a library; [`excerpt`]: the pieces of programs that run through them.
//!
//! It must not know machines or streams: it sees a TLB and its keys. Nothing else in farreach needs Verilator, and
//! without it only a check fails.
#![forbid(unsafe_code)]

mod compile;
pub mod excerpt;
mod model;
pub mod modules;
mod observer;
mod part;
pub mod request;
mod sources;
pub mod synth;

pub use compile::Compiler;
pub use modules::{MODULES, Module};
pub use observer::{Checker, Outcome};
pub use part::{Difference, Tally};
pub use sources::{SOURCES, Source};
