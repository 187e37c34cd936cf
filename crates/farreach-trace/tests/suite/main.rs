//! The tests of farreach-trace.

mod archive;
mod archives;
mod champsim;
mod corpus;
mod drmemtrace;
mod frt;
mod lackey;
