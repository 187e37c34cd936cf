//! How claims about several programs are judged.

use crate::number_text::list;
use crate::results::{Results, Set};
use farreach_types::papers::Program;
use farreach_types::papers::{Finding, Verdict};
use farreach_types::plural::with_noun;

/// Programs for which something is true and those for which it is not, each with its numbers.
#[derive(Default)]
pub(super) struct Tally {
    pub yes: Vec<String>,
    pub no: Vec<String>,
}

/// Asks `what` about each program. The answer is whether it holds, and the numbers. `None`: the program was not run for
/// it.
pub(super) fn tally<'a>(
    programs: impl Iterator<Item = &'a Program>,
    what: impl Fn(&Program) -> Option<(bool, String)>,
) -> Tally {
    let mut tally = Tally::default();
    for program in programs {
        if let Some((holds, numbers)) = what(program) {
            let side = if holds { &mut tally.yes } else { &mut tally.no };
            side.push(format!("{} ({numbers})", program.name));
        }
    }
    tally
}

impl Tally {
    pub fn is_empty(&self) -> bool {
        self.yes.is_empty() && self.no.is_empty()
    }

    /// The claim speaks of all of them.
    pub fn all(self) -> Finding {
        match (self.is_empty(), self.no.is_empty()) {
            (true, _) => untestable("no program it speaks of was run."),
            (_, true) => holds(format!("on all of {}.", list(&self.yes))),
            (_, false) if self.yes.is_empty() => fails(format!("on all of {}.", list(&self.no))),
            _ => fails(format!("on {}; it holds on {}.", list(&self.no), list(&self.yes))),
        }
    }

    /// The claim speaks of most of them: more than half.
    pub fn most(self) -> Finding {
        if self.is_empty() {
            return untestable("no program it speaks of was run.");
        }
        let (yes, of) = (self.yes.len(), self.yes.len() + self.no.len());
        let exceptions = if self.no.is_empty() { String::new() } else { format!("; not on {}", list(&self.no)) };
        let text = format!("{yes} of {}{exceptions}.", with_noun(of as u64, "program"));
        if 2 * yes > of { holds(text) } else { fails(text) }
    }

    /// The claim says that there are such programs.
    pub fn some(self) -> Finding {
        match (self.is_empty(), self.yes.is_empty()) {
            (true, _) => untestable("no program it speaks of was run."),
            (_, false) => holds(format!("on {}; not on {}.", list(&self.yes), list(&self.no))),
            _ => fails(format!("on none: {}.", list(&self.no))),
        }
    }
}

/// Holds if all do; fails if one does.
pub(super) fn worst<const N: usize>(all: [Verdict; N]) -> Verdict {
    if all.contains(&Verdict::Fails) {
        Verdict::Fails
    } else if all.contains(&Verdict::NotTestable) {
        Verdict::NotTestable
    } else {
        Verdict::Holds
    }
}

/// Two machines on each program: whether the misses of the first are `right` beside those of the second.
pub(super) fn compare(results: &Results, set: &Set, one: &str, other: &str, right: fn(u64, u64) -> bool) -> Tally {
    tally(set.programs.iter(), |p| {
        let (a, b) = (results.misses(&p.name, one)?, results.misses(&p.name, other)?);
        let sign = match a.cmp(&b) {
            std::cmp::Ordering::Less => "<",
            std::cmp::Ordering::Equal => "=",
            std::cmp::Ordering::Greater => ">",
        };
        Some((right(a, b), format!("{a} {sign} {b}")))
    })
}

pub(super) fn holds(why: impl Into<String>) -> Finding {
    Finding { verdict: Verdict::Holds, why: why.into() }
}

pub(super) fn fails(why: impl Into<String>) -> Finding {
    Finding { verdict: Verdict::Fails, why: why.into() }
}

pub(super) fn untestable(why: impl Into<String>) -> Finding {
    Finding { verdict: Verdict::NotTestable, why: why.into() }
}
