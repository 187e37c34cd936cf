//! A laboratory that is driven by traps instead of references (T94-70).

mod mapped;
mod refusal;
mod sampled;
mod sampling;

use super::lab::Lab;
use super::options::Options;
use super::spec::MachineSpec;
use farreach_types::Error;
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::counts::{MissEstimate, RunResult, TrapUse};
use farreach_types::event::{Kind, Op};
pub(super) use mapped::MappedPages;
use sampled::Sampled;
pub use sampling::{Estimate, Pace, SetSample};
use std::ops::Range;

/// Machines that learn of a program from its events and its traps: references to pages that are not mapped.
///
/// The caller has a real page table, which is empty at first. A reference to a page that is not mapped there, and a
/// store into one that is mapped for loads only, traps. The caller then calls [`TrapLab::trap`], unmaps what
/// [`TrapLab::take_unmapped`] names, and maps the page as the answer says, before the program goes on. So the machines
/// miss where they would have missed had they seen every reference.
pub struct TrapLab {
    lab: Lab,
    sampled: Sampled,
    /// The program's own time.
    own: u64,
    /// That time when what is simulated ended.
    ended: Option<u64>,
    /// Pages are mapped that the machines do not know of.
    forgotten: bool,
}

impl TrapLab {
    /// Builds the machines. `seed`: of everything random.
    ///
    /// # Errors
    /// As of [`Lab::new`]; and [`Error::Config`] for a machine that needs to see more than traps show, with the reason.
    pub fn new(specs: Vec<MachineSpec>, seed: u64) -> Result<TrapLab, Error> {
        refusal::check(&specs)?;
        let mut lab = Lab::new(specs, Options { plain: true, seed, ..Options::default() })?;
        let engine = lab.trap_engine();
        if let Some(refusal) = engine.needs_fetches() {
            return Err(refusal);
        }
        engine.mapped = Some(MappedPages::default());
        engine.tally.passed = Some(0);
        let sampled = Sampled::new(lab.specs().len());
        Ok(TrapLab { lab, sampled, own: 0, ended: None, forgotten: false })
    }

    /// The bits of the page number that choose the set in every array of every machine: what a sample of sets can be
    /// chosen by.
    ///
    /// # Errors
    /// [`Error::Config`]: a machine without such bits, or in which pages of other sets matter, with the reason.
    pub fn set_bits(&mut self) -> Result<Range<u32>, Error> {
        refusal::check_sets(self.lab.specs())?;
        self.lab.trap_engine().set_bits()
    }

    /// From now on only pages of this sample are simulated, of [`TrapLab::set_bits`]; of all again if `None`. Estimates
    /// begin anew. The caller may map the other pages at once and leave them mapped.
    pub fn sample(&mut self, sets: Option<SetSample>) {
        self.sampled.set(sets, self.lab.trap_misses(), self.own);
    }

    /// Until [`TrapLab::go_on`], nothing is simulated: the machines learn of events only.
    pub fn skip(&mut self) {
        self.sampled.skips = true;
    }

    /// The rest of the run does not count, and is not simulated: what is estimated ends here.
    pub fn end(&mut self) {
        self.skip();
        self.ended = Some(self.own);
    }

    /// What was skipped is over. The caller has mapped pages meanwhile that the machines do not hold, and must unmap
    /// all: [`TrapLab::take_forgotten`] says so once.
    pub fn go_on(&mut self) {
        self.forgotten |= std::mem::take(&mut self.sampled.skips);
        self.count_anew();
    }

    /// Whether all pages must be unmapped now.
    pub fn take_forgotten(&mut self) -> bool {
        std::mem::take(&mut self.forgotten)
    }

    /// Estimates begin anew, of the same sample: what went before is left out, and the machines stay as they are.
    pub fn count_anew(&mut self) {
        self.sample(self.sampled.sets().cloned());
        self.sampled.anew = true;
    }

    /// The sample.
    pub fn sampled_sets(&self) -> Option<&SetSample> {
        self.sampled.sets()
    }

    /// Whether references to a page are simulated now: if not, it may be mapped.
    #[inline]
    pub fn observes(&self, vpn: Vpn) -> bool {
        self.sampled.place(vpn).is_some()
    }

    /// What the part that was simulated says about all misses since the beginning, or since the last sample was chosen,
    /// machine by machine.
    pub fn estimates(&self) -> Vec<Estimate> {
        self.sampled.estimates()
    }

    /// The time that the program has run in user mode, in microseconds. Misses by second are about this time.
    pub fn progress(&mut self, own_microseconds: u64) {
        self.own = self.own.max(own_microseconds);
    }

    /// The microseconds since the beginning. Slices of the result are measured in them.
    pub fn pass(&mut self, microseconds: u64) {
        self.lab.trap_engine().tally.passed = Some(microseconds);
    }

    /// A reference to a page trapped. Afterwards the page may be mapped for loads and fetches. Returns whether it may
    /// be for stores, too. Pages that are not simulated may.
    ///
    /// # Errors
    /// [`Error::Simulation`]: a machine cannot go on, its memory is full, say.
    pub fn trap(&mut self, asid: Asid, vpn: Vpn, kind: Kind) -> Result<bool, Error> {
        let Some(place) = self.sampled.place(vpn) else { return Ok(true) };
        self.lab.trap_engine().keep_own_time(self.own);
        let stores = self.lab.trap_engine().trap(asid, vpn, kind)?;
        self.sampled.trapped(place, self.lab.trap_misses());
        Ok(stores)
    }

    /// An event of the program.
    ///
    /// # Errors
    /// [`Error::Trace`]: an event that cannot be, such as the start of an address space that has ended.
    pub fn event(&mut self, asid: Asid, op: &Op) -> Result<(), Error> {
        self.lab.trap_engine().trap_op(asid, op)
    }

    /// The caller has unmapped these pages. [`TrapLab::take_unmapped`] names those of them that were mapped.
    pub fn unmap(&mut self, asid: Asid, pages: VpnRange) {
        self.mapped_pages().remove(asid, pages);
    }

    /// Pages that must no longer be mapped, in runs.
    pub fn take_unmapped(&mut self, each: impl FnMut(Asid, VpnRange)) {
        self.mapped_pages().take_left(each);
    }

    /// Whether a page is mapped: a trap on it is none, if it may be stored into as well or is not.
    pub fn is_mapped(&mut self, asid: Asid, vpn: Vpn) -> bool {
        self.mapped_pages().contains(asid, vpn)
    }

    /// Pages that are mapped.
    pub fn mapped(&mut self) -> u64 {
        self.mapped_pages().len()
    }

    /// Misses so far, machine by machine.
    pub fn misses(&mut self) -> impl Iterator<Item = u64> {
        self.lab.trap_misses()
    }

    /// The result of what was seen so far. Lookups and references are 0: they were not seen. `instructions`: of the
    /// program, if something counted them; `source`: what ran, for people; `stopped`: why it ended early, if it did.
    pub fn result(&mut self, source: &str, stopped: Option<String>, instructions: Option<u64>) -> RunResult {
        let (microseconds, own) = (self.lab.trap_engine().tally.clock(), self.own);
        let mut result = self.lab.result_of(source, stopped, instructions);
        let sample = self.sampled.used(self.ended.unwrap_or(own));
        if sample.is_some() {
            for (machine, estimate) in result.machines.iter_mut().zip(self.sampled.estimates()) {
                let Estimate { total: misses, standard_error } = estimate;
                machine.estimate = Some(MissEstimate { misses, standard_error });
            }
        }
        result.workload.traps = Some(TrapUse {
            microseconds,
            own_microseconds: own,
            simulated: self.sampled.traps(),
            switches: 0,
            sample,
            native: None,
        });
        result
    }

    fn mapped_pages(&mut self) -> &mut MappedPages {
        self.lab.trap_engine().mapped.as_mut().expect("set when it was built")
    }

    /// As [`Lab::entries`].
    pub fn entries(&mut self) -> Vec<Vec<farreach_hw::tlb::EntryView>> {
        self.lab.entries()
    }
}
