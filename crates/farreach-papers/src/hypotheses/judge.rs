//! How claims about several programs are judged.

use crate::number_text::list;
use crate::results::{Results, Set};
use crate::stress::Stress;
use farreach_types::papers::{Finding, Program, Verdict};
use farreach_types::plural::with_noun;

/// What one program says about a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    /// What the claim says was measured.
    Yes,
    /// More than that.
    Stronger,
    /// The claimed direction, but less than claimed; or no difference where the claim has one.
    Short,
    /// The opposite.
    No,
    /// The program does not do what the claim is about.
    Silent,
}

impl From<bool> for Outcome {
    fn from(holds: bool) -> Outcome {
        if holds { Outcome::Yes } else { Outcome::No }
    }
}

/// For a claim with a size: reached, short of it though in its direction, or the opposite.
pub(super) fn reached(size: bool, direction: bool) -> Outcome {
    match (size, direction) {
        (true, _) => Outcome::Yes,
        (false, true) => Outcome::Short,
        (false, false) => Outcome::No,
    }
}

/// The programs by outcome, each with its numbers.
#[derive(Default)]
pub(super) struct Tally {
    pub yes: Vec<String>,
    pub stronger: Vec<String>,
    pub short: Vec<String>,
    pub no: Vec<String>,
    pub silent: Vec<String>,
}

/// Asks `what` about each program. The answer is the outcome and the numbers. `None`: the program was not run for it.
pub(super) fn tally<'a, O: Into<Outcome>>(
    programs: impl Iterator<Item = &'a Program>,
    what: impl Fn(&Program) -> Option<(O, String)>,
) -> Tally {
    let mut tally = Tally::default();
    for program in programs {
        if let Some((outcome, numbers)) = what(program) {
            let side = match outcome.into() {
                Outcome::Yes => &mut tally.yes,
                Outcome::Stronger => &mut tally.stronger,
                Outcome::Short => &mut tally.short,
                Outcome::No => &mut tally.no,
                Outcome::Silent => &mut tally.silent,
            };
            side.push(format!("{} ({numbers})", program.name));
        }
    }
    tally
}

/// Of a program with too little stress only what breaks a limit counts: little overhead cannot show how much of it a
/// design saves.
pub(super) fn if_stressed(stress: Option<Stress>, (outcome, numbers): (Outcome, String)) -> (Outcome, String) {
    match stress.filter(|s| s.too_little() && outcome != Outcome::No) {
        Some(stress) => (Outcome::Silent, format!("{}; {numbers}", stress.words())),
        None => (outcome, numbers),
    }
}

/// As [`tally`], the programs that stand for one of `names` apart from the others. The former show which one they stand
/// for.
pub(super) fn tally_named<'a, O: Into<Outcome>>(
    programs: impl Iterator<Item = &'a Program> + Clone,
    names: &[&str],
    what: impl Fn(&Program) -> Option<(O, String)>,
) -> (Tally, Tally) {
    let named = tally(programs.clone().filter(|p| p.is_like(names)), |p| {
        let own: Vec<&str> = names.iter().copied().filter(|name| p.is_like(&[name])).collect();
        what(p).map(|(holds, numbers)| (holds, format!("{}: {numbers}", own.join(", "))))
    });
    (named, tally(programs.filter(|p| !p.is_like(names)), what))
}

/// A claim about the programs that it names: their stand-ins decide by `rule`; the result on the others is added to the
/// text.
pub(super) fn about_named((named, others): (Tally, Tally), rule: fn(Tally) -> Finding) -> Finding {
    let mut finding = rule(named);
    if !others.is_empty() {
        finding.why += &format!(" Of the other programs: {}", others.said(true));
    }
    finding
}

/// A claim that something can happen, with the programs on which a paper saw it. One of their stand-ins must show it;
/// the others decide only where no stand-in was run.
pub(super) fn can((named, others): (Tally, Tally)) -> Finding {
    if named.is_empty() && !others.is_empty() {
        let finding = others.some();
        return Finding { why: format!("no stand-in for a program it names was run; {}", finding.why), ..finding };
    }
    about_named((named, others), Tally::some)
}

impl Tally {
    /// Nothing was run for it.
    pub fn is_empty(&self) -> bool {
        self.counted() == 0 && self.silent.is_empty()
    }

    fn right(&self) -> usize {
        self.yes.len() + self.stronger.len()
    }

    /// Programs that do what the claim is about.
    pub fn counted(&self) -> usize {
        self.right() + self.short.len() + self.no.len()
    }

    /// The text: on how many of how many programs the claim holds, and on which it does not. `all`: also on which it
    /// does.
    pub fn said(&self, all: bool) -> String {
        let mut parts = Vec::new();
        let alone = self.no.is_empty() && self.short.is_empty() && self.stronger.is_empty();
        if self.counted() > 0 {
            let which = if all && alone { format!(": {}", list(&self.yes)) } else { String::new() };
            parts.push(format!("on {} of {}{which}", self.right(), with_noun(self.counted() as u64, "program")));
        }
        let mut part = |words: &str, programs: &[String]| {
            if !programs.is_empty() {
                parts.push(format!("{words} {}", list(programs)));
            }
        };
        part("not on", &self.no);
        part("less than claimed on", &self.short);
        part("more than claimed on", &self.stronger);
        if all && !alone {
            part("it holds on", &self.yes);
        }
        part("not counted:", &self.silent);
        parts.join("; ") + "."
    }

    fn judged(&self, verdict: Verdict, all: bool) -> Finding {
        if self.is_empty() {
            return untestable("no program it speaks of was run.");
        }
        let verdict = if self.counted() == 0 { Verdict::NotShown } else { verdict };
        Finding { verdict, why: self.said(all) }
    }

    /// The claim is about all of them: one opposite refutes it.
    pub fn all(self) -> Finding {
        let verdict = match (self.no.is_empty(), self.short.is_empty(), self.yes.is_empty()) {
            (false, ..) => Verdict::Fails,
            (_, false, _) => Verdict::NotShown,
            (_, _, false) => Verdict::Holds,
            (_, _, true) => Verdict::Stronger,
        };
        self.judged(verdict, true)
    }

    /// The claim is about most of them, more than half: opposites on half of them refute it.
    pub fn most(self) -> Finding {
        let n = self.counted();
        let verdict = match () {
            () if 2 * self.stronger.len() > n => Verdict::Stronger,
            () if 2 * self.right() > n => Verdict::Holds,
            () if 2 * self.no.len() >= n => Verdict::Fails,
            () => Verdict::NotShown,
        };
        self.judged(verdict, false)
    }

    /// The claim says that there are such programs. Others do not refute it.
    pub fn some(self) -> Finding {
        self.judged(if self.right() > 0 { Verdict::Holds } else { Verdict::NotShown }, true)
    }
}

/// The verdict on a claim of several parts: the first of these that one of them has. Without any of them it is stronger
/// than claimed if all parts are.
pub(super) fn worst<const N: usize>(all: [Verdict; N]) -> Verdict {
    let first = [Verdict::Fails, Verdict::NotShown, Verdict::NotTestable, Verdict::Holds];
    first.into_iter().find(|v| all.contains(v)).unwrap_or(Verdict::Stronger)
}

/// Two machines on a program: whether the misses of the first are `right` beside those of the second.
pub(super) fn compared(
    results: &Results,
    p: &Program,
    one: &str,
    other: &str,
    right: fn(u64, u64) -> bool,
) -> Option<(Outcome, String)> {
    let (a, b) = (results.misses(&p.name, one)?, results.misses(&p.name, other)?);
    let sign = match a.cmp(&b) {
        std::cmp::Ordering::Less => "<",
        std::cmp::Ordering::Equal => "=",
        std::cmp::Ordering::Greater => ">",
    };
    Some((reached(right(a, b), a == b), format!("{a} {sign} {b}")))
}

/// The same on each program.
pub(super) fn compare(results: &Results, set: &Set, one: &str, other: &str, right: fn(u64, u64) -> bool) -> Tally {
    tally(set.programs.iter(), |p| compared(results, p, one, other, right))
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

pub(super) fn not_shown(why: impl Into<String>) -> Finding {
    Finding { verdict: Verdict::NotShown, why: why.into() }
}

#[cfg(test)]
mod tests;
