//! Any bytes as Lackey text: an error, or a stream without violation that becomes the same text again and again.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| farreach_trace::fuzz::lackey(data));
