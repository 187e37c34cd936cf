//! The book: does every command in it print what the page shows, and does every link lead somewhere?

mod links;

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace exists")
}

/// Runs the `console` blocks of all pages; output that depends on the machine is elided there. `TRYCMD=overwrite` puts
/// the present output into the pages. With `FARREACH_RELEASE` the optimised program runs.
#[test]
fn commands_print_what_the_pages_show() {
    let release = std::env::var_os("FARREACH_RELEASE").map(PathBuf::from).filter(|path| path.is_file());
    let program = release.unwrap_or_else(|| env!("CARGO_BIN_EXE_farreach").into());
    let pages = root().join("docs/book/src/**/*.md");
    trycmd::TestCases::new().register_bin("farreach", program).case(pages).run();
}
