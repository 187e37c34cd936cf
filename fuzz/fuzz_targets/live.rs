//! Any words as chunks of the recorder's ring: refused, or references that were counted right.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| farreach_live::fuzz::chunks(data));
