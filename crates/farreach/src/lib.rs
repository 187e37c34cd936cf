//! farreach: a laboratory for virtual-memory address translation.
//!
//! The references of one program, recorded or generated, go through many translation designs side by side. Programs
//! that use farreach as a library depend on this crate: a small, stable selection of the crates behind it, which are
//! free to change.
//!
//! ```
//! use farreach::{Lab, MachineSpec, Options, Report, trace::generate};
//!
//! let machines = ["t94/single", "t94/partial:entries=32"].map(|name| MachineSpec::parse(name, 0));
//! let mut lab = Lab::new(machines.into_iter().collect::<farreach::Result<_>>()?, Options::default())?;
//! lab.run(&mut generate::program(1, 10_000))?;
//! let result = lab.result("a generated program", None);
//! assert!(result.machines[0].counts.tlb.misses > 0);
//! println!("{}", result.table(100));
//! # Ok::<(), farreach::Error>(())
//! ```
//!
//! * A [`Source`](event::Source) is a stream of references: a trace ([`trace::open_trace`]), a generator, or one of
//!   your own.
//! * A [`MachineSpec`] describes a machine: a preset, overrides, or a TOML text.
//! * A [`Lab`] runs machines over a stream; a [`PageLab`] runs the page-size study. Both give results.
//! * A [`Report`] turns a result into a table, JSON, CSV or HTML.
//! * A [`live::Recorder`] is the stream of a program that runs now.
//! * A design of your own implements [`tlb::Tlb`] and takes part through [`MachineSpec::with_designs`];
//!   `examples/new_design.rs` is one.
//!
//! It has no code of its own: it only re-exports.
#![forbid(unsafe_code)]

pub use farreach_machine::{
    Hardware, Lab, MachineSpec, Options, PAGE_SIZES, PRESETS, PageLab, Preset, Progress, Sample,
};
pub use farreach_report::Report;
pub use farreach_types::{Error, Result, addr, count, counts, event, params, translation};

/// Traces: open, write, check, generate; [`trace::kernels`] are programs with a seed.
pub mod trace {
    pub use farreach_kernels as kernels;
    pub use farreach_trace::{
        Arrival, Cut, Cutter, FORMATS, Format, FrtReader, Header, Hot, Input, Interleaved, Layout, Opened, Piece, Pipe,
        Place, Relocated, Relocator, Sampled, Summary, Totals, TraceInfo, TraceWriter, check, columns, frt, generate,
        is_pipe, open_input, open_trace, summarize, table,
    };
}

/// TLB designs: the contract, the registry, and the keys that designs share.
pub mod tlb {
    pub use farreach_hw::tlb::{
        Answer, Capabilities, DESIGNS, Design, EntryBits, EntryView, Lookup, OnDemotion, OnFetch, OnMap, OnSegment,
        OnSwitch, OnThread, OnTime, Outcome, Timed, Tlb, Unfiltered, design, filter, keys,
    };
}

/// A TLB design held to its contract, with nothing written for it.
pub mod conformance {
    pub use farreach_conformance::{Effort, Make, Subject, Traits, conform};
}

/// Programs as they run: the recorder.
pub mod live {
    pub use farreach_live::{Exit, Options, Recorder, Report, check_program, tool};
}

/// Points, passes and the cache of results.
pub mod sweep {
    pub use farreach_sweep::{
        Answer, Cache, Estimate, Extent, Kept, MODEL, Measured, Pass, Point, Program, Wanted, Work, hash_file, keep,
        kept, key, plan,
    };
}

/// Chip area of fully associative TLBs.
pub mod cost {
    pub use farreach_cost::area::{area_rbe, entries_for_area};
}
