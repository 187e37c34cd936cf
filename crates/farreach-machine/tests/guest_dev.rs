#![allow(dead_code)]
#[path = "suite/common/mod.rs"]
mod common;
#[path = "suite/guest/mod.rs"]
mod guest;
