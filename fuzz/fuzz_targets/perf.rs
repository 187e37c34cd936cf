//! Any bytes as text of perf script: an error, or a stream of samples without violation.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| farreach_trace::fuzz::perf(data));
