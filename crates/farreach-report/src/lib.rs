//! Reports: pure functions of a result. Same result, same bytes.
//!
//! Owns every form in which a result is shown: text tables, JSON, CSV, HTML with its drawings, comparison of results.
//!
//! Must not know how a result is computed, and takes its data from the result only: no clock, no files, no running
//! machine. Costs that a report shows are in the result, too.
//!
//! Charts with two axes are in `html/axes`, with lines (`html/lines`) or dots (`html/scatter`; `html/labels` places the
//! names). `html/scale` maps values to places on an axis.

pub mod advise;
pub mod cite;
pub mod compaction;
mod contiguity;
pub mod csv;
pub mod format;
pub mod grid;
mod guest;
pub mod html;
pub mod json;
pub mod limits;
pub mod pagesize;
pub mod papers;
mod phases;
mod prices;
mod systems;
pub mod table;
pub mod tlbs;
mod view;
mod watch;

use farreach_types::counts::{AdviceResult, ContiguityResult, PageSizeResult, RunResult, TlbMeasurement, WatchResult};
use farreach_types::papers::Papers;

/// A result in every form. `&dyn Report` is allowed: the Python module holds a result of any kind.
pub trait Report: erased_serde::Serialize {
    /// A table for a terminal of this width in characters; [`usize::MAX`] if the output is no terminal.
    fn table(&self, width: usize) -> String;
    /// JSON.
    fn json(&self) -> String {
        json::render(self)
    }
    /// CSV, one row per machine.
    fn csv(&self) -> String;
    /// A self-contained HTML page.
    fn html(&self) -> String;
}

const _: fn(&dyn Report) = |_| ();

impl Report for RunResult {
    fn table(&self, width: usize) -> String {
        table::render(self, width)
    }
    fn csv(&self) -> String {
        csv::render(self)
    }
    fn html(&self) -> String {
        html::render(self)
    }
}

impl Report for PageSizeResult {
    fn table(&self, width: usize) -> String {
        pagesize::table(self, width)
    }
    fn csv(&self) -> String {
        pagesize::csv(self)
    }
    fn html(&self) -> String {
        html::pagesize::render(self)
    }
}

impl Report for ContiguityResult {
    fn table(&self, width: usize) -> String {
        contiguity::table(self, width)
    }
    fn csv(&self) -> String {
        contiguity::csv(self)
    }
    fn html(&self) -> String {
        html::contiguity::render(self)
    }
}

impl Report for TlbMeasurement {
    fn table(&self, width: usize) -> String {
        tlbs::table(self, width)
    }
    fn csv(&self) -> String {
        tlbs::csv(self)
    }
    fn html(&self) -> String {
        html::tlbs::render(self)
    }
}

impl Report for WatchResult {
    fn table(&self, width: usize) -> String {
        watch::table(self, width)
    }
    fn csv(&self) -> String {
        watch::csv(self)
    }
    fn html(&self) -> String {
        html::watch::render(self)
    }
}

impl Report for AdviceResult {
    fn table(&self, width: usize) -> String {
        advise::table(self, width)
    }
    fn csv(&self) -> String {
        advise::csv(self)
    }
    fn html(&self) -> String {
        html::advise::render(self)
    }
}

impl Report for Papers {
    fn table(&self, width: usize) -> String {
        papers::terminal::render(self, width)
    }
    fn csv(&self) -> String {
        papers::csv::render(self)
    }
    fn html(&self) -> String {
        papers::html::render(self)
    }
}
