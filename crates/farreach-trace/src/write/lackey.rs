//! Text of Valgrind's Lackey: a line for each reference.

use std::io::Write;

use super::{Holds, Sink, Step, Target};
use farreach_types::event::{Access, Kind};

/// For the registry.
pub(super) const TARGET: Target = Target {
    name: "lackey",
    about: "Text of Valgrind's Lackey: references only",
    text: true,
    endings: &["gz", "xz", "zst"],
    sink: |_| Box::new(Lackey),
};

struct Lackey;

impl Sink for Lackey {
    fn holds(&self) -> Holds {
        Holds { spaces: false, threads: false, sizes: true, code: false, systems: true }
    }

    fn step(&mut self, step: &Step, out: &mut Vec<u8>) -> Result<(), String> {
        let fetch = step.instr.map(|instr| Access { kind: Kind::Fetch, addr: instr.pc, size: instr.len });
        for Access { kind, addr, size } in fetch.iter().chain(step.data) {
            let kind = match kind {
                Kind::Fetch => "I ",
                Kind::Load => " L",
                Kind::Store => " S",
            };
            writeln!(out, "{kind} {addr:08x},{size}").expect("memory");
        }
        Ok(())
    }
}
