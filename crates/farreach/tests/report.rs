//! Reports say what the result says, whatever the result is.
mod fixture;
use farreach::report::html;

#[test]
fn show() {
    let dir = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    for (name, r) in [("five", fixture::five()), ("one", fixture::one_without_misses()), ("twelve", fixture::twelve())] {
        std::fs::write(dir.join(format!("{name}.html")), html::render(&r)).unwrap();
    }
}
