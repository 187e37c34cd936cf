//! Additions behind the last level of TLBs, since 2000, as lists: each hears of the misses of the last level alone, so
//! it can stand behind any model of the TLBs (HW-2, HW-3).
//!
//! * [`prefetch`]: a prefetch buffer, its predictors, and free entries of the page table;
//! * [`pom`]: a TLB in memory;
//! * [`victima`]: lines of a cache that hold translations;
//! * [`speculation`]: guesses of the frame, and of the lines that a walk will read.
//!
//! The notes `OB-n` at the head of each state the choices where a rule is silent.

pub mod pom;
pub mod prefetch;
pub mod speculation;
pub mod victima;
