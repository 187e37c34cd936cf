//! Guests are booted in QEMU. Only `make system-test` does that: it sets [`VARIABLE`], and has fetched what is needed.

mod boot;
mod truth;

use farreach_guest::{Guest, Input};
use farreach_types::event::Arch;
use std::path::{Path, PathBuf};

const VARIABLE: &str = "FARREACH_SYSTEM_TEST";

/// Where kernels are kept, unless this is not to be done.
fn cache() -> Option<PathBuf> {
    if std::env::var_os(VARIABLE).is_none() {
        eprintln!("skipped: make system-test boots guests");
        return None;
    }
    Some(Path::new(env!("CARGO_TARGET_TMPDIR")).join("guests"))
}

/// A guest with nothing but a command.
fn guest(arch: Arch, command: &[&str]) -> Guest {
    Guest {
        arch,
        kernel: None,
        roots: Vec::new(),
        packages: Vec::new(),
        copies: Vec::new(),
        memory: None,
        processors: 1,
        append: String::new(),
        real_time: false,
        command: command.iter().map(Into::into).collect(),
        directory: "/a folder".into(),
        input: Input::Nothing,
    }
}
