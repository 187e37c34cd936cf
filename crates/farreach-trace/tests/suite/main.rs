//! The tests of farreach-trace.

mod archive;
mod archives;
mod arrow;
mod champsim;
mod columns;
mod corpus;
mod cut;
mod cvp;
mod damaged;
mod dramsim;
mod drmemtrace;
mod execlog;
mod frt;
mod gem5;
mod lackey;
mod parquet;
mod perf;
mod pinatrace;
mod sift;
mod table;
mod texts;
mod threads;
mod writers;
