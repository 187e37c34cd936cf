//! The papers' tables and figures, measured again: the runs that each needs, and how their results are shown.
//!
//! A [`Study`] is one table or figure. Its `plan` names [`Request`]s, one machine on one program each. It is called
//! again with each new set of results until it requests nothing more, since a search such as equal-performance sizing
//! depends on earlier results. Its `section` shows the results beside the printed numbers. A [`Hypothesis`] is a claim
//! of a paper with a judge.
//!
//! This crate owns the studies, the claims and how they are judged, the papers' printed numbers, and the small programs
//! made by hand ([`micro`]). All of it is pure: the same results give the same section.
//!
//! It must not know how requests are run or results stored: no threads, no files of results, no terminal. The command
//! line runs the requests and stores the results. It must not know mechanisms either: a machine is a name, as
//! `--machine` takes it.

mod atlas;
mod codes;
mod commands;
mod ds13;
mod expected_rows;
mod heads;
pub mod hypotheses;
mod large;
pub mod machines;
pub mod micro;
mod number_text;
mod policies;
pub mod printed;
mod ps;
mod registry;
mod results;
mod rmm15;
mod servers;
mod since;
mod stress;
mod study;
mod sv97;
mod t94;

pub use atlas::csv as atlas_csv;
pub use farreach_types::papers::{
    Bars, Cell, Chart, Code, Column, Finding, Head, Judged, Kind, Origin, PAPERS_SCHEMA, Papers, Program, Row, Section,
    Series, Table, Verdict,
};
pub use hypotheses::{HYPOTHESES, Hypothesis};
pub use registry::{STUDIES, show, study, with_claims};
pub use results::{ALIGNED, Answer, Measured, PAGE_SIZES, Request, Results, Set, THEN, What};
pub use servers::{BY_TRAPS, by_traps};
pub use study::Study;
