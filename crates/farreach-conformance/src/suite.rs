//! The checks of every design: streams of references and changes, and a check after each step.

use crate::filtered::Filtered;
use crate::subject::Subject;
use crate::table::Told;
use crate::tally::need;
use crate::timed::Timed;
use crate::watch::{Watch, apply, ask};
use crate::world::{Event, World};
use farreach_hw::tlb::{EntryView, Outcome, Unfiltered};
use farreach_types::counts::TlbCounts;

/// The streams.
#[derive(Clone, Debug)]
pub struct Effort {
    /// Their seeds.
    pub seeds: std::ops::Range<u64>,
    /// Events of each.
    pub steps: usize,
}

/// Checks a design against the contract.
///
/// # Errors
/// The violation and its place.
pub fn conform(subject: &Subject, effort: &Effort) -> Result<(), String> {
    need(subject.traits.reach > 0 || subject.traits.opaque, || "its reach is 0".into())?;
    for seed in effort.seeds.clone() {
        stream(subject, seed, effort.steps).map_err(|(step, event, what)| {
            format!("{}: stream {seed}, step {step}, {event}:\n  {what}", subject.name)
        })?;
    }
    seeds(subject, effort.steps).map_err(|what| format!("{}: {what}", subject.name))
}

/// One stream through the design, and through another that never sees filtered lookups.
fn stream(subject: &Subject, seed: u64, steps: usize) -> Result<(), (usize, Event, String)> {
    let mut world = World::new(seed, subject.traits.capacity);
    let mut plain = Watch::new(subject);
    let mut filtered = Filtered::new(subject);
    let mut timed = Timed::new(subject);
    let mut reported_before = true;
    for n in 0..steps {
        let event = world.step();
        let reported = world.all_reported();
        // Before the first of several events, all of which the table shows already, the entries must be those of the
        // last check.
        let at = |what| (n, event, what);
        if let Event::Lookup(lookup, pte) = event {
            let table = &world.table;
            let answer = plain.lookup(lookup, pte, table).map_err(at)?;
            if answer.filterable && n % 4 == 0 {
                plain.repeat(lookup, pte, table).map_err(at)?;
            }
            if n % 8 == 0 && !subject.traits.opaque {
                plain.bits(lookup, answer).map_err(at)?;
            }
            if let Some(timed) = &mut timed {
                timed.lookup(lookup, pte, answer, table).map_err(at)?;
            }
            let skipped = filtered.lookup(lookup, pte, answer, table).map_err(at)?;
            if plain.unseen() >= 8 + subject.traits.capacity / 8 {
                plain.check_entries(table, reported).map_err(at)?;
                filtered.equals(&*plain.tlb).map_err(at)?;
            } else if skipped && n % 8 == 0 {
                filtered.equals(&*plain.tlb).map_err(at)?;
            }
        } else {
            plain.apply(event, &world.table).map_err(at)?;
            filtered.apply(event, &world.table).map_err(at)?;
            if let Some(timed) = &mut timed {
                timed.apply(event, &world.table);
                timed.equals(&*plain.tlb).map_err(at)?;
            }
            if reported {
                plain.check_entries(&world.table, true).map_err(at)?;
                if reported_before || n % 4 == 0 {
                    filtered.equals(&*plain.tlb).map_err(at)?;
                }
            }
        }
        reported_before = reported;
    }
    let last = Event::Switch(farreach_types::addr::Asid(0));
    plain
        .check_entries(&world.table, world.all_reported())
        .and_then(|()| filtered.equals(&*plain.tlb))
        .map_err(|what| (steps, last, what))
}

/// The state at the end of a run.
type Outcomes = (Vec<Option<Outcome>>, TlbCounts, Vec<EntryView>);

fn run(subject: &Subject, seed: Option<u64>, steps: usize) -> Outcomes {
    let mut world = World::new(77, subject.traits.capacity);
    let mut tlb = subject.build(seed);
    let mut unfiltered = Unfiltered::default();
    let mut outcomes = Vec::new();
    let mut told = Told::default();
    for _ in 0..steps {
        unfiltered.clear();
        outcomes.push(match world.step() {
            Event::Lookup(at, pte) => Some(ask(&mut *tlb, &mut told, (at, pte, &world.table), &mut unfiltered).outcome),
            event => {
                apply(event, &mut *tlb, &world.table, &mut unfiltered);
                None
            }
        });
    }
    (outcomes, tlb.counts().clone(), tlb.entries())
}

/// XC-4: equal seeds give equal results. Another seed gives another result if the design draws random numbers, and the
/// same result if not.
fn seeds(subject: &Subject, steps: usize) -> Result<(), String> {
    let first = run(subject, None, steps);
    need(first == run(subject, None, steps), || "equal seeds give different results".into())?;
    if subject.traits.opaque || subject.traits.hashed {
        return Ok(());
    }
    if !subject.params.has("seed") {
        return need(!subject.traits.random, || "something is drawn, and there is no key 'seed'".into());
    }
    let others = |steps| {
        let first = run(subject, None, steps);
        let differs = |i: &u64| run(subject, Some(subject.params.int("seed") + 1000 * i), steps) != first;
        ((1..4).any(|i| differs(&i)), first.1.evictions.max(first.1.range.evictions))
    };
    if !subject.traits.random {
        return need(!others(steps).0, || "another seed gives another result although nothing is drawn".into());
    }
    let holds = others(steps).0 || matches!(others(8 * steps), (true, _) | (_, ..50));
    need(holds || subject.traits.one_way, || "other seeds give the same result although victims are drawn".into())
}
