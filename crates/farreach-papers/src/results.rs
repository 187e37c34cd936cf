//! Requests of studies, and their results.

use farreach_types::counts::{MachineResult, PageSizeResult, Workload};
use farreach_types::papers::Program;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One thing to be run on one program.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Request {
    /// Name of the program: one of a [`Set`], or of [`super::micro`].
    pub program: String,
    /// What to run.
    pub what: What,
}

/// Between the names of programs that run one after the other on the same memory (CW-13).
pub const THEN: &str = " then ";
/// Between the name of a program and a size: every mapping begins at a multiple of it, as for a program that asks for
/// huge pages.
pub const ALIGNED: &str = " aligned to ";

/// What can be run on a program.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum What {
    /// A machine, as `--machine` takes it.
    Machine(String),
    /// True-LRU TLBs of every number of entries at the page sizes of [`PAGE_SIZES`], from one pass (PS-2, PS-3).
    PageSizes,
}

/// The page sizes of the page-size study, in bytes (PS-2).
pub const PAGE_SIZES: [u64; 7] = [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10];

/// The answer to a request.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// Of [`What::Machine`].
    Machine(Box<Measured>),
    /// Of [`What::PageSizes`].
    PageSizes(Box<PageSizeResult>),
}

/// One machine on one program.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// The program and its references.
    pub workload: Workload,
    /// The counters. The ledger is empty, because it depends on the machine to compare with.
    pub machine: MachineResult,
}

/// The programs that studies run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Set {
    /// `small`, `full`, or `chosen`.
    pub name: String,
    /// Options of `farreach papers` for these programs, such as `--small`.
    pub which: String,
    /// Options of every command that decide what is measured: limit and seed.
    pub how: String,
    /// Options of `farreach papers` for servers in their steady state, such as `--trap`; empty if there are none.
    pub servers: String,
    /// The programs of T94 and PS, in the order of the tables.
    pub programs: Vec<Program>,
    /// The programs of DS13 and RMM15, which have much memory.
    pub large: Vec<Program>,
}

impl Set {
    /// Every program once.
    pub fn all(&self) -> impl Iterator<Item = &Program> + Clone {
        let further = self.large.iter().filter(|l| self.programs.iter().all(|p| p.name != l.name));
        self.programs.iter().chain(further)
    }

    /// The programs that stand for one of these.
    pub fn standing_for<'a>(&'a self, names: &'a [&str]) -> impl Iterator<Item = &'a Program> {
        self.programs.iter().filter(move |p| p.is_like(names))
    }
}

/// All results so far.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Results {
    answers: BTreeMap<Request, Answer>,
}

impl Request {
    /// A machine on a program.
    pub fn machine(program: &str, machine: impl Into<String>) -> Request {
        Request { program: program.to_owned(), what: What::Machine(machine.into()) }
    }
}

/// Every machine on every program.
pub fn grid<'a, M: AsRef<str>>(programs: impl Iterator<Item = &'a Program>, machines: &[M]) -> Vec<Request> {
    programs.flat_map(|p| machines.iter().map(|m| Request::machine(&p.name, m.as_ref()))).collect()
}

/// Arithmetic mean (AMB-93), if there is a value for each.
pub fn mean(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let all = values.collect::<Option<Vec<_>>>()?;
    (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
}

impl Results {
    /// Adds an answer.
    pub fn insert(&mut self, request: Request, answer: Answer) {
        self.answers.insert(request, answer);
    }

    /// Whether a request is answered.
    pub fn has(&self, request: &Request) -> bool {
        self.answers.contains_key(request)
    }

    /// A machine on a program, if it was run.
    pub fn measured(&self, program: &str, machine: &str) -> Option<&Measured> {
        match self.answers.get(&Request::machine(program, machine))? {
            Answer::Machine(measured) => Some(measured),
            Answer::PageSizes(_) => None,
        }
    }

    /// The page sizes of a program, if they were run.
    pub fn page_sizes(&self, program: &str) -> Option<&PageSizeResult> {
        match self.answers.get(&Request { program: program.to_owned(), what: What::PageSizes })? {
            Answer::PageSizes(result) => Some(result),
            Answer::Machine(_) => None,
        }
    }

    /// The machine's part of it.
    pub fn machine(&self, program: &str, machine: &str) -> Option<&MachineResult> {
        self.measured(program, machine).map(|m| &m.machine)
    }

    /// Misses of a machine on a program.
    pub fn misses(&self, program: &str, machine: &str) -> Option<u64> {
        self.machine(program, machine).map(|m| m.counts.tlb.misses)
    }

    /// Misses in percent of those of another machine (T94-72).
    pub fn percent(&self, program: &str, machine: &str, of: &str) -> Option<f64> {
        let base = self.misses(program, of).filter(|&n| n > 0)?;
        Some(100.0 * self.misses(program, machine)? as f64 / base as f64)
    }

    /// Answers, in order.
    pub fn len(&self) -> usize {
        self.answers.len()
    }

    /// Nothing was run.
    pub fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }
}
