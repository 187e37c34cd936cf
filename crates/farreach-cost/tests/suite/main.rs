//! The tests of farreach-cost.

mod cost;
