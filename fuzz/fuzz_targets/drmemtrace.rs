//! Any bytes as a trace of drmemtrace, and as two files of one: an error, or a stream without violation and with every
//! reference.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| farreach_trace::fuzz::drmemtrace(data));
