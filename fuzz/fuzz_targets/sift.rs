//! Any bytes as a trace of Sniper: an error, or a stream without violation, the same as its own Lackey text.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| farreach_trace::fuzz::sift(data));
