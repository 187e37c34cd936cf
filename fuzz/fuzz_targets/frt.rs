//! Any bytes as a farreach trace (checksums do not count under the fuzzer): an error, or a stream that can be written
//! and read again with the same totals.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| farreach_trace::fuzz::frt(data));
