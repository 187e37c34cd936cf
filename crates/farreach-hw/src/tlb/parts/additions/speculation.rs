//! What predictors of translations have in common (SPT-4): the program goes on with the predicted frame while the walk
//! verifies it, so that a correct prediction hides the walk.

use super::{Context, Counter, Law, shown};
use crate::cache::answered_at;
use crate::cache::levels::{L1_CYCLES, L2_CYCLES, LLC_CYCLES, MEMORY_CYCLES};
use crate::tlb::parts::hierarchy::walk::by_caches;
use farreach_types::addr::Pfn;
use farreach_types::params::{Allowed, Key, Params};

/// SPT-4.
pub const SPEC_WINDOW: Key = Key {
    name: "spec_window",
    default: "all",
    allowed: Allowed::Size { min: 1, or: "all" },
    about: "cycles that the program can go on with a predicted frame; all: until the walk has ended. Steps of the walk \
            are hidden, from the first, as long as they fit whole",
};
/// SPT-4.
pub const FLUSH_CYCLES: Key = Key {
    name: "flush_cycles",
    default: "20",
    allowed: Allowed::Number { min: 0.0, max: 1e12 },
    about: "cycles lost when the program has gone on with a wrong frame, beside the walk",
};

/// Counters of these parts.
pub(super) const COUNTERS: &[Counter] = &[
    Counter::new("correct", "walks that found what was predicted"),
    Counter { name: "wrong", about: "walks that found another frame than was predicted", price: Some(&FLUSH_CYCLES) },
    Counter::new("none", "walks without a prediction"),
];

/// Their law: each walk is one of the three.
pub(super) const LAWS: &[Law] = &[Law {
    name: "SPT-4",
    sides: |part, counts| {
        let of = |name| part.counters.get(name);
        (of("correct") + of("wrong") + of("none"), counts.walk.walks)
    },
}];

/// The additions that hide walks. A machine has one of them.
pub(super) const HIDING: [&str; 3] = ["spectlb", "spot", "asap"];

/// Refuses machines for which the addition is not defined, and two that hide the same walk.
pub(super) fn check(params: &Params) -> Result<(), String> {
    super::only_native(params)?;
    check_alone(params)
}

/// Refuses two that hide the same walk.
pub(super) fn check_alone(params: &Params) -> Result<(), String> {
    let names = params.texts(super::BEHIND.name);
    if names.iter().filter(|name| HIDING.contains(&name.as_str())).count() > 1 {
        let why = "each hides the walk from the program, which cannot wait less than not at all";
        return Err(format!("{} is not allowed: {why}; only one of {} can be there", shown(params), HIDING.join(", ")));
    }
    Ok(())
}

/// The part of a walk that a correct prediction hides.
pub(super) struct Speculation {
    /// Cycles, with the latency of each cache level and of memory; none: all of it.
    window: Option<(f64, [f64; 4])>,
}

/// How a prediction ended; in the order of [`COUNTERS`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ended {
    Correct,
    Wrong,
    None,
}

impl Speculation {
    /// From the keys.
    pub fn new(params: &Params) -> Result<Speculation, String> {
        let Some(cycles) = params.size(SPEC_WINDOW.name) else { return Ok(Speculation { window: None }) };
        if !by_caches(params) {
            return Err(format!(
                "{} = {cycles} is not allowed with walk_cost = fixed: what a step of a walk takes is known only with \
                 caches; {} must be {}",
                SPEC_WINDOW.name, SPEC_WINDOW.name, SPEC_WINDOW.default
            ));
        }
        let latencies = [L1_CYCLES, L2_CYCLES, LLC_CYCLES, MEMORY_CYCLES].map(|key| params.number(key.name));
        Ok(Speculation { window: Some((cycles as f64, latencies)) })
    }

    /// A walk found this frame. Counts how the prediction ended, and what it hid.
    pub fn verify(&self, predicted: Option<Pfn>, found: Pfn, context: &mut Context) -> Ended {
        let ended = match predicted {
            Some(frame) if frame == found => Ended::Correct,
            Some(_) => Ended::Wrong,
            None => Ended::None,
        };
        *context.own().at(ended as usize) += 1;
        if ended == Ended::Correct {
            self.hide(context);
        }
        ended
    }

    fn hide(&self, context: &mut Context) {
        let walk = context.port.last_walk();
        let memory = context.memory();
        let Some((mut left, latencies)) = self.window else {
            memory.hidden_references += walk.steps;
            walk.answers().for_each(|(_, at)| *answered_at(&mut memory.hidden_answered, at) += 1);
            return;
        };
        for (_, at) in walk.answers() {
            left -= latencies[at as usize];
            if left < 0.0 {
                break;
            }
            memory.hidden_references += 1;
            *answered_at(&mut memory.hidden_answered, at) += 1;
        }
    }
}
