//! Any bytes as a packet trace of gem5: an error, or a stream without violation, as many references as its own text.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| farreach_trace::fuzz::gem5(data));
