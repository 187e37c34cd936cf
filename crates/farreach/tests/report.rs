//! Reports say what the result says, whatever the result is.
mod fixture;
use farreach::report::{csv, html, json, table};

#[test]
fn show() {
    for r in [fixture::five(), fixture::one_without_misses(), fixture::twelve()] {
        println!("{}", table::render(&r));
    }
    println!("{}", csv::render(&fixture::five()));
}
