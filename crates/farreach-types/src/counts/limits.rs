//! Limits of the recorder that a program met, and signals that ended processes.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a program met that goes another way natively.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LimitKind {
    /// An instruction that the recorder cannot run: the program got SIGILL.
    Instruction,
    /// A system call failed that the system would have served.
    SystemCall,
    /// Addresses were refused.
    Addresses,
    /// A program was not executed, or its failure to start was not reported.
    Exec,
    /// The record is not exactly what the program did.
    Record,
}

impl LimitKind {
    /// All of them.
    pub const ALL: [LimitKind; 5] =
        [LimitKind::Instruction, LimitKind::SystemCall, LimitKind::Addresses, LimitKind::Exec, LimitKind::Record];
}

/// A limit of the recorder that processes of a run met.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RecorderLimit {
    /// Its kind.
    pub kind: LimitKind,
    /// What was met, and what became of it, in a sentence without its stop.
    pub what: String,
    /// What to do about it, if anything can be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
    /// How often it was met.
    pub count: u64,
    /// File of the program that met it.
    pub program: String,
    /// Process id of the first one that did.
    pub process: u32,
}

/// Processes that a signal ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SignalEnd {
    /// Its name, such as `SIGILL`.
    pub signal: String,
    /// Its number.
    pub number: i32,
    /// How many processes.
    pub processes: u64,
}

impl SignalEnd {
    /// Processes by the number of the signal, with names.
    pub fn named(ends: &BTreeMap<i32, u64>) -> Vec<SignalEnd> {
        let named = |(&number, &processes): (&i32, &u64)| SignalEnd { signal: signal_name(number), number, processes };
        ends.iter().map(named).collect()
    }
}

/// The name of a signal of Linux.
pub fn signal_name(number: i32) -> String {
    const NAMES: [&str; 31] = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM",
        "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF",
        "WINCH", "IO", "PWR", "SYS",
    ];
    let name = usize::try_from(number).ok().and_then(|n| NAMES.get(n.wrapping_sub(1)));
    name.map_or_else(|| format!("signal {number}"), |name| format!("SIG{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_names() {
        let names = [1, 4, 9, 11, 15, 31, 32, 0, -1].map(signal_name);
        let expected =
            ["SIGHUP", "SIGILL", "SIGKILL", "SIGSEGV", "SIGTERM", "SIGSYS", "signal 32", "signal 0", "signal -1"];
        assert_eq!(names, expected);
    }
}
