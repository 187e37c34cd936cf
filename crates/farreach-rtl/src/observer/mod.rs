//! What a design does, as requests to modules.

mod array;
mod changes;
mod mmu;

use crate::compile::Compiler;
use crate::excerpt::Excerpt;
use crate::modules::for_design;
use crate::part::{Difference, Part, Stop, Tally};
use array::Array;
use farreach_hw::tlb::{Tlb, cores, host, walk};
use farreach_types::params::Params;
use mmu::Mmu;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Result of a check.
#[derive(Default, Debug)]
pub struct Outcome {
    /// What went through each structure, in the order in which they ended: its name, its module, how much.
    pub parts: Vec<(String, &'static str, Tally)>,
    /// What was kept of the requests to a structure of each kind, for [`Checker::keep`].
    pub excerpts: Vec<(String, Excerpt)>,
    /// Where a module does something else than the simulator; the check ended there.
    pub difference: Option<Difference>,
    /// Why the check could not go on.
    pub failure: Option<String>,
}

/// Puts observers around TLBs, and collects what they find.
#[derive(Clone)]
pub struct Checker {
    compiler: Option<Compiler>,
    waves: PathBuf,
    /// Requests to a design between comparisons of all its valid, modified and used bits.
    states_every: u64,
    shared: Shared,
}

/// What observers have in common.
#[derive(Clone, Default)]
pub(crate) struct Shared(Arc<(Mutex<Outcome>, AtomicBool)>);

impl Shared {
    fn with<T>(&self, f: impl FnOnce(&mut Outcome) -> T) -> T {
        f(&mut self.0.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether requests are to be kept.
    fn keeps(&self) -> bool {
        self.0.1.load(Ordering::Relaxed)
    }

    fn stopped(&self) -> bool {
        self.with(|outcome| outcome.difference.is_some() || outcome.failure.is_some())
    }

    fn stop(&self, why: Stop) {
        self.with(|outcome| match why {
            // Of several, the first counts.
            Stop::Difference(difference) => _ = outcome.difference.get_or_insert(*difference),
            Stop::Failure(what) => _ = outcome.failure.get_or_insert(what),
        });
    }

    /// A structure is through.
    fn end(&self, part: &mut Part) {
        if !self.stopped()
            && let Err(why) = part.finish()
        {
            self.stop(why);
        }
        let report = (part.label().to_owned(), part.module().name, part.tally);
        let excerpt = part.take_excerpt().and_then(|excerpt| Some((structure(part)?.to_owned(), excerpt)));
        self.with(|outcome| {
            outcome.parts.push(report);
            let Some((name, new)) = excerpt.filter(|(_, excerpt)| !excerpt.lookups.is_empty()) else { return };
            // Of several structures of a kind the first counts in which something is held.
            match outcome.excerpts.iter_mut().find(|(of, _)| *of == name) {
                Some((_, old)) if old.filled() || !new.filled() => {}
                Some((_, old)) => *old = new,
                None => outcome.excerpts.push((name, new)),
            }
        });
    }
}

/// What the excerpt of a structure is called: the name that configurations of synthesis have for it.
fn structure(part: &Part) -> Option<&'static str> {
    let is = |array: &str| part.label().ends_with(array);
    match part.module().name {
        "range_tlb" => Some("range"),
        "clustered" => Some("clusters"),
        "walker" => Some("walker"),
        "range_walker" => Some("range-walker"),
        "set_associative" | "single" if part.label().contains(" l1") || part.label().contains(" l2") => {
            let arrays = [
                (" l1d 4K", "l1d"),
                (" l1d 2M", "l1d-2m"),
                (" l1d 1G", "l1d-1g"),
                (" l1i 4K", "l1i"),
                (" l1i 2M", "l1i-2m"),
            ];
            let first = arrays.into_iter().find(|(array, _)| is(array));
            first.or(is(" l2 4K").then_some(("", "l2"))).map(|(_, name)| name)
        }
        "set_associative" => Some("set-associative"),
        name @ ("single" | "superpage" | "partial" | "complete" | "integrated" | "segment") => Some(name),
        _ => None,
    }
}

impl Checker {
    /// `waves`: the folder for waveforms, which must be there. `states_every`: a comparison of all valid, modified and
    /// used bits after this number of requests to a design of one array.
    pub fn new(compiler: Compiler, waves: &Path, states_every: u64) -> Checker {
        let compiler = Some(compiler);
        Checker { compiler, waves: waves.to_owned(), states_every: states_every.max(1), shared: Shared::default() }
    }

    /// Compares nothing: for excerpts of what structures are asked from [`Checker::keep`] on.
    pub fn of_excerpts() -> Checker {
        Checker { compiler: None, waves: PathBuf::new(), states_every: u64::MAX, shared: Shared::default() }
    }

    /// Puts an observer around the TLB of a machine. Its modules are compiled, if they were not before.
    ///
    /// # Errors
    /// There is no RTL of the design with these keys, or it cannot be compiled.
    pub fn observe(
        &self,
        machine: &str,
        kind: &str,
        params: &Params,
        tlb: Box<dyn Tlb>,
    ) -> Result<Box<dyn Tlb>, String> {
        if !walk::walks(params) {
            let (module, parameters) = for_design(kind, params)?;
            let part = self.part(machine.to_owned(), (module, &parameters))?;
            return Ok(Box::new(Array::new(tlb, part, params, self.states_every, self.shared.clone())));
        }
        for (key, only) in [(cores::CORES.name, "1"), (host::GUEST.name, "none")] {
            let value = params.as_json().get(key).map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned));
            if let Some(other) = value.filter(|value| value != only) {
                return Err(format!("{key} = {other}: there is no RTL of it; {key} must be {only}"));
            }
        }
        Ok(Box::new(Mmu::new(machine, kind, params, tlb, self)?))
    }

    /// From now on, each structure keeps what it is asked: an excerpt of the program.
    pub fn keep(&self) {
        self.shared.0.1.store(true, Ordering::Relaxed);
    }

    /// Whether the check has ended before its time.
    pub fn stopped(&self) -> bool {
        self.shared.stopped()
    }

    /// The result, once all observers are gone.
    pub fn outcome(&self) -> Outcome {
        self.shared.with(std::mem::take)
    }

    fn part(&self, label: String, of: (&'static crate::Module, &crate::modules::Parameters)) -> Result<Part, String> {
        Part::new(label, of, self.compiler.as_ref(), &self.waves)
    }
}
