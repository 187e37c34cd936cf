//! SV97: translation in software behind virtual caches, and the TLBs it is compared with.

pub(super) mod figure8;
pub(super) mod table1;
pub(super) mod table2;
pub(super) mod table3;
pub(super) mod table4;
pub(super) mod table5;

pub(super) use super::results::mean;

use super::machines::with;
use crate::results::{Request, Results, Set};
use farreach_types::addr::Bytes;
use farreach_types::counts::{MachineResult, OverheadRow};
use farreach_types::papers::{Cell, Program};

/// No TLB: 8 KB and 512 KB to a side, 16-byte lines, direct-mapped.
pub(super) const SOFTVM: &str = "sv97/softvm";
/// 64 TLB entries beside the same caches (SV97-30).
pub(super) const MIPS: &str = "sv97/mips";

const KB: u64 = 1 << 10;

/// A preset with other caches: bytes of either level to a side, and of a line.
pub(super) fn caches(preset: &str, l1: u64, l2: u64, line: u64) -> String {
    let keys = [("l1_size", l1, 8 * KB), ("l2_size", l2, 512 * KB), ("line", line, 16)];
    let other = |&(key, value, usual): &(&str, u64, u64)| (value != usual).then(|| format!("{key}={}", Bytes(value)));
    with(preset, &keys.iter().filter_map(other).collect::<Vec<_>>())
}

/// Kernels and programs of the catalogue, and the program of the paper that each stands in for. The paper's m88ksim, a
/// simulator of a processor, has no stand-in.
const LIKE: [(&str, &str); 12] = [
    ("compiler", "gcc"),
    ("gcc", "gcc"),
    ("gxx", "gcc"),
    ("lzw", "compress95"),
    ("ncompress", "compress95"),
    ("semispace", "li"),
    ("polyml", "li"),
    ("perl", "perl"),
    ("cjpeg", "ijpeg"),
    ("gnugo", "go"),
    ("sqlite3", "vortex"),
    ("tcbtest", "vortex"),
];

/// The program of the paper that this one stands in for; empty for others.
pub(super) fn like(program: &Program) -> &'static str {
    let name = program.name.trim_end_matches('*');
    LIKE.iter().find(|l| l.0 == name).map_or("", |l| l.1)
}

/// The integer programs of a set; all programs, if the user chose the set.
pub(super) fn programs(set: &Set) -> impl Iterator<Item = &Program> {
    set.programs.iter().filter(|p| set.name == "chosen" || !like(p).is_empty())
}

/// Every machine on each of these programs.
fn grid(set: &Set, machines: &[String]) -> Vec<Request> {
    super::results::grid(programs(set), machines)
}

/// A program's head: its name, and the program it stands in for.
fn head(program: &Program) -> String {
    match like(program) {
        "" => program.name.clone(),
        like => format!("{} ({like})", program.name),
    }
}

/// Cycles per instruction of some rows of the overhead.
fn sum(machine: &MachineResult, which: impl Fn(&OverheadRow) -> bool) -> Option<f64> {
    let rows = machine.overhead.iter().filter(|row| which(row));
    rows.map(|row| row.cpi).try_fold(0.0, |sum, cpi| Some(sum + cpi?))
}

/// Overhead as in the paper's Tables 3 and 4, in cycles per instruction: the cost of misses.
pub(super) fn overhead(machine: &MachineResult) -> Option<f64> {
    sum(machine, |row| row.of_misses)
}

/// Of a machine on a program.
pub(super) fn overhead_of(results: &Results, program: &Program, machine: &str) -> Option<f64> {
    overhead(results.machine(&program.name, machine)?)
}

/// The additional cost of writing modified lines back, in cycles per instruction (SV97-20).
pub(super) fn write_backs(machine: &MachineResult) -> Option<f64> {
    sum(machine, OverheadRow::is_write_back)
}

/// All cycles per instruction without any overhead of translation (SV97-45): instructions and the program's own cache
/// misses.
pub(super) fn rest(machine: &MachineResult) -> Option<f64> {
    Some(machine.cost.total_cycles_per_instruction? - machine.cost.cycles_per_instruction?)
}

/// The overhead in percent of run time (SV97-45).
pub(super) fn percent_of_time(machine: &MachineResult) -> Option<f64> {
    let cpi = overhead(machine)?;
    Some(100.0 * cpi / (cpi + rest(machine)?))
}

/// The note of every table about the paper's programs.
const SUBSTITUTES: &str = "The paper's programs are SPECint95 on a PowerPC; each here is one of today, or a kernel, \
                           with the behaviour of the one in parentheses. m88ksim has no stand-in. Shape, order and \
                           ratio can be compared, amounts cannot.";
