//! Reports: pure functions of a [`RunResult`](crate::counts::RunResult). Same result, same bytes.

pub mod csv;
pub mod format;
pub mod html;
pub mod json;
pub mod table;
mod view;
