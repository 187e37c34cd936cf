//! Computes the version of the model: a hash of all sources that decide what a machine finds. Results in a cache depend
//! on it, whichever program was built from these sources.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders and files from the root of the workspace.
const SOURCES: [&str; 11] = [
    "Cargo.lock",
    "crates/farreach-cost/src",
    "crates/farreach-hw/src",
    "crates/farreach-kernels/src",
    "crates/farreach-machine/src",
    "crates/farreach-os/src",
    "crates/farreach-papers/src/micro",
    "crates/farreach-sweep/src",
    "crates/farreach-trace/src",
    "crates/farreach-types/src",
    "machines",
];

fn files(path: &Path, into: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if !path.is_dir() {
        into.push(path.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        files(&entry?.path(), into)?;
    }
    Ok(())
}

fn main() -> std::io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut all = Vec::new();
    for source in SOURCES {
        println!("cargo::rerun-if-changed={}", root.join(source).display());
        files(&root.join(source), &mut all)?;
    }
    all.sort();
    let mut hasher = blake3::Hasher::new();
    for file in all {
        let (name, content) = (file.strip_prefix(&root).unwrap_or(&file).display().to_string(), fs::read(&file)?);
        // Lengths keep names and contents apart.
        hasher.update(&(name.len() as u64).to_le_bytes()).update(name.as_bytes());
        hasher.update(&(content.len() as u64).to_le_bytes()).update(&content);
    }
    println!("cargo::rustc-env=FARREACH_MODEL={}", hasher.finalize().to_hex());
    Ok(())
}
