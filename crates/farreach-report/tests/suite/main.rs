//! The tests of farreach-report.

mod fixture;
mod page;
mod report;
mod report_contiguity;
mod report_guest;
mod report_papers;
mod report_watch;
