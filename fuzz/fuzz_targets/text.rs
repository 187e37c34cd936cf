//! Any text as a machine (TOML, then overrides behind a NUL), a pattern of pinned frames, a copy of /proc/buddyinfo, a
//! dump of a mapping.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| farreach_machine::fuzz::text(data));
