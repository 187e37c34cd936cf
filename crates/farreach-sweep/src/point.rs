//! One machine on one program.

use crate::cache::hash_file;
use crate::pass::Extent;
use crate::program::Program;
use farreach_machine::MachineSpec;
use farreach_types::Result;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The name of a result that depends on these parts, and on the model.
pub fn key(parts: &[&str]) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(crate::MODEL.as_bytes());
    for part in parts {
        // Lengths keep "ab", "c" apart from "a", "bc".
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
    }
    hasher.finalize().to_hex().to_string()
}

/// A machine in a pass: its description is complete, so that the pass can run where the user's files are not.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Point {
    /// Where its result is kept.
    pub key: String,
    /// What the result calls it.
    pub name: String,
    /// Its description.
    pub toml: String,
    /// Seed of everything random, unless the description has one.
    pub seed: u64,
}

impl Point {
    /// A machine on this much of a program.
    ///
    /// # Errors
    /// A file that a key of the machine names cannot be read.
    pub fn new(spec: &MachineSpec, seed: u64, program: &Program, extent: &Extent) -> Result<Point> {
        let keys = serde_json::Value::Object(spec.params.as_json().clone()).to_string();
        let mut parts = vec!["machine".to_owned(), program.identity(), keys, format!("{:?}", extent.limit)];
        parts.extend(extent.sample.map(|one_in| format!("one window in {one_in}")));
        let piece = &extent.piece;
        parts.extend(piece.from.as_ref().map(|place| format!("from {place}")));
        parts.extend(
            [("skip", piece.skip), ("warmup", piece.warmup), ("phases of", piece.every.unwrap_or(0))]
                .iter()
                .filter(|(_, n)| *n > 0)
                .map(|(word, n)| format!("{word} {n}")),
        );
        // A file is known by its content, but the description itself, which has been read.
        let own = spec.name.split(".toml").next().map(|base| format!("{base}.toml"));
        for file in spec.inputs().into_iter().filter(|file| Some(*file) != own.as_deref()) {
            parts.push(hash_file(Path::new(file))?);
        }
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        Ok(Point { key: key(&parts), name: spec.name.clone(), toml: spec.to_toml(), seed })
    }

    /// The description.
    ///
    /// # Errors
    /// It is refused: the pass comes from another version.
    pub fn spec(&self) -> Result<MachineSpec> {
        MachineSpec::from_toml(&self.name, &self.toml, "", self.seed)
    }
}
