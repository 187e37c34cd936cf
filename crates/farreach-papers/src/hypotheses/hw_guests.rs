//! Claims about virtual machines.

use super::hypothesis::Hypothesis;
use super::judge::{Outcome, reached, tally, worst};
use crate::number_text::percent;
use crate::since::guests::{AGILE, EPOCH, Paid, SHADOW, traps};
use crate::since::{BASE, NESTED, few, share, walks_enough};
use farreach_types::papers::Finding;
use farreach_types::papers::Kind::Main;

pub(super) const CLAIMS: &[Hypothesis] = &[Hypothesis {
    id: "H-HW-51",
    kind: Main,
    claim: "A walk that begins in a shadow table and ends nested is 12 % better than the better of both, and within \
            4 % of native; tested as cycles of walks and traps, and as time with an instruction a cycle, on programs \
            of more than an epoch of 10^8 instructions",
    studies: &["since-guests"],
    judge: |results, set| {
        // What rests can be seen after an epoch at the earliest.
        let outcome = |paid: Paid, p: &str, outcome| match walks_enough(results, p, BASE) {
            Some(true) if paid.instructions > EPOCH => outcome,
            _ => Outcome::Silent,
        };
        let better = tally(few(set), |p| {
            let of = |machine| Paid::of(results, &p.name, machine);
            let (nested, shadow, agile) = (of(NESTED)?, of(SHADOW)?, of(AGILE)?);
            let best = nested.cycles.min(shadow.cycles);
            let saved = 100.0 - share(agile.cycles, best);
            let text = format!(
                "{} of the cycles of the better one, {} traps for {} of shadow, {} of an epoch",
                percent(share(agile.cycles, best)),
                traps(results, &p.name, AGILE)?,
                traps(results, &p.name, SHADOW)?,
                percent(share(agile.instructions, EPOCH))
            );
            Some((outcome(agile, &p.name, reached(saved > 12.0, saved >= 0.0)), text))
        })
        .all();
        let native = tally(few(set), |p| {
            let of = |machine| Paid::of(results, &p.name, machine);
            let (base, nested, agile) = (of(BASE)?, of(NESTED)?, of(AGILE)?);
            let more = share(agile.time(), base.time()) - 100.0;
            let text =
                format!("{} more time, nested {}", percent(more), percent(share(nested.time(), base.time()) - 100.0));
            Some((outcome(agile, &p.name, reached(more <= 4.0, agile.time() < nested.time())), text))
        })
        .all();
        let verdict = worst([better.verdict, native.verdict]);
        Finding { verdict, why: format!("Against the better one: {} Against native: {}", better.why, native.why) }
    },
}];
