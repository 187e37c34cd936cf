//! The tests of farreach-trace.

mod archive;
mod archives;
mod champsim;
mod columns;
mod corpus;
mod drmemtrace;
mod frt;
mod lackey;
mod table;
mod texts;
mod threads;
