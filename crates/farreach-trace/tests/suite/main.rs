//! The tests of farreach-trace.

mod archive;
mod archives;
mod champsim;
mod columns;
mod corpus;
mod cvp;
mod dramsim;
mod drmemtrace;
mod execlog;
mod frt;
mod gem5;
mod lackey;
mod perf;
mod pinatrace;
mod table;
mod texts;
mod threads;
mod writers;
