//! How claims about several programs are judged.

use crate::number_text::list;
use crate::results::{Results, Set};
use farreach_types::papers::{Finding, Program, Verdict};
use farreach_types::plural::with_noun;

/// Programs for which something is true and those for which it is not, each with its numbers.
#[derive(Default)]
pub(super) struct Tally {
    pub yes: Vec<String>,
    pub no: Vec<String>,
}

/// Asks `what` about each program. The answer is whether it holds, and the numbers. `None`: the program was not run for
/// it, or the claim is not about it.
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

/// As [`tally`], the programs that stand for one of `names` apart from the others. The former show which one they stand
/// for.
pub(super) fn tally_named<'a>(
    programs: impl Iterator<Item = &'a Program> + Clone,
    names: &[&str],
    what: impl Fn(&Program) -> Option<(bool, String)>,
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
    pub fn is_empty(&self) -> bool {
        self.yes.is_empty() && self.no.is_empty()
    }

    /// The text: on how many of how many programs the claim holds, and on which it does not. `all`: also on which it
    /// does.
    pub fn said(&self, all: bool) -> String {
        let mut text =
            format!("on {} of {}", self.yes.len(), with_noun((self.yes.len() + self.no.len()) as u64, "program"));
        if !self.no.is_empty() {
            text += &format!("; not on {}", list(&self.no));
        }
        if all && !self.yes.is_empty() {
            text += if self.no.is_empty() { ": " } else { "; it holds on " };
            text += &list(&self.yes);
        }
        text + "."
    }

    fn judged(&self, right: bool, all: bool) -> Finding {
        match (self.is_empty(), right) {
            (true, _) => untestable("no program it speaks of was run."),
            (_, true) => holds(self.said(all)),
            (_, false) => fails(self.said(all)),
        }
    }

    /// The claim is about all of them.
    pub fn all(self) -> Finding {
        self.judged(self.no.is_empty(), true)
    }

    /// The claim is about most of them: more than half.
    pub fn most(self) -> Finding {
        self.judged(self.yes.len() > self.no.len(), false)
    }

    /// The claim says that there are such programs.
    pub fn some(self) -> Finding {
        self.judged(!self.yes.is_empty(), true)
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

/// Two machines on a program: whether the misses of the first are `right` beside those of the second.
pub(super) fn compared(
    results: &Results,
    p: &Program,
    one: &str,
    other: &str,
    right: fn(u64, u64) -> bool,
) -> Option<(bool, String)> {
    let (a, b) = (results.misses(&p.name, one)?, results.misses(&p.name, other)?);
    let sign = match a.cmp(&b) {
        std::cmp::Ordering::Less => "<",
        std::cmp::Ordering::Equal => "=",
        std::cmp::Ordering::Greater => ">",
    };
    Some((right(a, b), format!("{a} {sign} {b}")))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn program(name: &str, like: &str) -> Program {
        Program { name: name.into(), stands_for: like.into(), ..Program::default() }
    }

    /// Programs with an `x` in their names.
    fn with_x(p: &Program) -> Option<(bool, String)> {
        (p.name != "absent").then(|| (p.name.contains('x'), p.name.len().to_string()))
    }

    #[test]
    fn every_verdict_says_on_how_many_programs_and_on_which_not() {
        let programs = [program("ax", ""), program("bb", ""), program("cx", ""), program("absent", "")];
        let of = |from: usize, to: usize| tally(programs[from..to].iter(), with_x);
        let text = |finding: Finding| format!("{}: {}", finding.verdict, finding.why);
        assert_eq!(text(of(0, 4).all()), "fails: on 2 of 3 programs; not on bb (2); it holds on ax (2) and cx (2).");
        assert_eq!(text(of(0, 4).most()), "holds: on 2 of 3 programs; not on bb (2).");
        assert_eq!(text(of(0, 2).most()), "fails: on 1 of 2 programs; not on bb (2).");
        assert_eq!(text(of(1, 2).some()), "fails: on 0 of 1 program; not on bb (2).");
        assert_eq!(text(of(2, 4).all()), "holds: on 1 of 1 program: cx (2).");
        assert_eq!(of(3, 4).most().verdict, Verdict::NotTestable);
    }

    #[test]
    fn a_claim_that_names_programs_is_judged_on_their_stand_ins() {
        let judged = |programs: &[Program]| {
            let finding = can(tally_named(programs.iter(), &["spice", "gcc"], with_x));
            format!("{}: {}", finding.verdict, finding.why)
        };
        let (mine, other) = (program("lu", "spice, ML"), program("ax", "coral"));
        assert_eq!(
            judged(&[mine.clone(), other.clone()]),
            "fails: on 0 of 1 program; not on lu (spice: 2). Of the other programs: on 1 of 1 program: ax (2)."
        );
        assert_eq!(
            judged(&[mine, program("xcc", "gcc")]),
            "holds: on 1 of 2 programs; not on lu (spice: 2); it holds on xcc (gcc: 3)."
        );
        assert_eq!(judged(&[other]), "holds: no stand-in for a program it names was run; on 1 of 1 program: ax (2).");
        assert!(judged(&[]).starts_with("not testable here"));
    }
}
