//! The recorder beside other tools of Valgrind. A program of its own, because these tests empty the environment of the
//! process.

mod cachegrind;
#[allow(dead_code, reason = "the suite uses the rest")]
#[path = "../suite/common/mod.rs"]
mod common;
mod lackey;
