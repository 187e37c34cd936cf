//! Limits of the recorder that the programs of a run met, in words.

use std::collections::BTreeMap;
use std::sync::Arc;

use farreach_types::counts::{LimitKind, RecorderLimit};

use super::calls::call_name;
use super::instruction;

/// What a process tells when it meets a limit (`FR_LIMIT`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Told {
    pub kind: LimitKind,
    /// Address of the instruction, number of the system call, or 0.
    pub at: u64,
    /// The instruction, and what follows it.
    pub code: Vec<u8>,
    pub text: Arc<str>,
}

impl Told {
    /// What was met, as a sentence without its stop, and what to do about it. `None`: it is none of the recorder's
    /// limits.
    fn sentence(&self) -> Option<(String, Option<String>)> {
        let text = &self.text;
        Some(match self.kind {
            LimitKind::Instruction => {
                let named = instruction::name(&self.code)?;
                let what = format!(
                    "the recorder cannot run {} ({}) at {:#x}, {text}: SIGILL",
                    named.mnemonic, named.bytes, self.at
                );
                let advice = match named.missing {
                    Some(feature) => format!("this processor does not have it either ({feature})"),
                    None if named.emulated => "'farreach trap' runs it natively, 'farreach guest run' in QEMU".into(),
                    None => "'farreach trap' runs it natively".into(),
                };
                (what, Some(advice))
            }
            LimitKind::SystemCall => {
                let unknown = text.ends_with("ENOSYS");
                let advice =
                    "as on an older kernel: most programs have a fallback; 'farreach guest run' has a real kernel";
                let advice = unknown.then(|| advice.into());
                (format!("{} {text}", call_name(self.at)), advice)
            }
            LimitKind::Addresses => {
                (text.to_string(), Some("'farreach trap' and 'farreach guest run' have all addresses".into()))
            }
            LimitKind::Exec => (text.to_string(), Some("'farreach guest run' executes it".into())),
            LimitKind::Record => (text.to_string(), None),
        })
    }
}

/// The limits met in a run, in the order in which they were first met.
#[derive(Default)]
pub struct Met {
    all: Vec<RecorderLimit>,
    places: BTreeMap<(LimitKind, String, String), usize>,
}

impl Met {
    /// A process met a limit `count` times more.
    pub fn add(&mut self, told: &Told, count: u64, program: &str, process: u32) {
        let Some((what, advice)) = told.sentence() else { return };
        let key = (told.kind, what.clone(), program.to_owned());
        let place = *self.places.entry(key).or_insert(self.all.len());
        if let Some(known) = self.all.get_mut(place) {
            known.count += count;
        } else {
            let program = program.to_owned();
            self.all.push(RecorderLimit { kind: told.kind, what, advice, count, program, process });
        }
    }

    /// All of them.
    pub fn into_limits(self) -> Vec<RecorderLimit> {
        self.all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(kind: LimitKind, at: u64, code: &[u8], text: &str) -> Told {
        Told { kind, at, code: code.to_vec(), text: text.into() }
    }

    #[test]
    fn the_same_limit_is_counted_for_each_program() {
        let mut met = Met::default();
        let call = told(LimitKind::SystemCall, 434, &[], "failed with ENOSYS");
        met.add(&call, 1, "/bin/a", 10);
        met.add(&call, 2, "/bin/b", 11);
        met.add(&call, 3, "/bin/a", 12);
        let all: Vec<_> = met.all.iter().map(|l| (l.what.as_str(), l.count, l.program.as_str(), l.process)).collect();
        let what = "pidfd_open failed with ENOSYS";
        assert_eq!(all, [(what, 4, "/bin/a", 10), (what, 2, "/bin/b", 11)]);
    }

    #[test]
    fn a_program_that_is_not_executed_is_executed_in_a_guest() {
        let mut met = Met::default();
        met.add(&told(LimitKind::Exec, 0, &[], "/bin/su was not executed: it is set-user-ID"), 1, "/bin/sh", 1);
        assert_eq!(met.all[0].advice.as_deref(), Some("'farreach guest run' executes it"));
    }

    #[test]
    fn an_instruction_is_the_limit_of_the_recorder_only_if_it_is_one() {
        let mut met = Met::default();
        met.add(&told(LimitKind::Instruction, 0x1000, &[0x06, 0x90], "main of a"), 1, "a", 1);
        assert_eq!(met.all, []);
        met.add(&told(LimitKind::Instruction, 0x1000, &[0xf3, 0x48, 0x0f, 0xae, 0xc0], "main of a"), 1, "a", 1);
        assert_eq!(met.all[0].what, "the recorder cannot run rdfsbase (f3 48 0f ae c0) at 0x1000, main of a: SIGILL");
        let advice = "'farreach trap' runs it natively, 'farreach guest run' in QEMU";
        assert_eq!(met.all[0].advice.as_deref(), Some(advice));
    }
}
