//! The tests of farreach-papers.

mod papers;
mod rules;
