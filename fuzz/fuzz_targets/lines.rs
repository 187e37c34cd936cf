//! Any bytes as text of several tools: an error, or a stream without violation with as many references as its own text.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| farreach_trace::fuzz::lines(data));
