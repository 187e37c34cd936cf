//! A laboratory that is driven by traps instead of references (T94-70).

mod mapped;
mod refusal;

use super::lab::Lab;
use super::options::Options;
use super::spec::MachineSpec;
use farreach_types::Error;
use farreach_types::addr::{Asid, Vpn, VpnRange};
use farreach_types::counts::RunResult;
use farreach_types::event::{Kind, Op};
pub(super) use mapped::MappedPages;

/// Machines that learn of a program from its events and its traps: references to pages that are not mapped.
///
/// The caller has a real page table, which is empty at first. A reference to a page that is not mapped there, and a store
/// into one that is mapped for loads only, traps. The caller then calls [`TrapLab::trap`], unmaps what
/// [`TrapLab::take_unmapped`] names, and maps the page as the answer says, before the program goes on. So the machines
/// miss where they would have missed had they seen every reference.
pub struct TrapLab(Lab);

impl TrapLab {
    /// Builds the machines. `seed`: of everything random.
    ///
    /// # Errors
    /// As of [`Lab::new`]; and [`Error::Config`] for a machine that needs to see more than traps show, with the reason.
    pub fn new(specs: Vec<MachineSpec>, seed: u64) -> Result<TrapLab, Error> {
        refusal::check(&specs)?;
        let mut lab = Lab::new(specs, Options { plain: true, seed, ..Options::default() })?;
        let engine = lab.trap_engine();
        engine.mapped = Some(MappedPages::default());
        engine.tally.passed = Some(0);
        Ok(TrapLab(lab))
    }

    /// The microseconds since the beginning. Slices of the result are measured in them.
    pub fn pass(&mut self, microseconds: u64) {
        self.0.trap_engine().tally.passed = Some(microseconds);
    }

    /// A reference to a page trapped. Afterwards the page may be mapped for loads and fetches. Returns whether it may
    /// be for stores, too.
    ///
    /// # Errors
    /// [`Error::Simulation`]: a machine cannot go on, its memory is full, say.
    pub fn trap(&mut self, asid: Asid, vpn: Vpn, kind: Kind) -> Result<bool, Error> {
        self.0.trap_engine().trap(asid, vpn, kind)
    }

    /// An event of the program.
    ///
    /// # Errors
    /// [`Error::Trace`]: an event that cannot be, such as the start of an address space that has ended.
    pub fn event(&mut self, asid: Asid, op: &Op) -> Result<(), Error> {
        self.0.trap_engine().trap_op(asid, op)
    }

    /// These pages are no longer mapped, whatever the machines say: [`TrapLab::take_unmapped`] names those that were.
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
        self.0.trap_misses()
    }

    /// The result of what was seen so far. Lookups and references are 0: they were not seen. `instructions`: of the
    /// program, if something counted them; `source`: what ran, for people; `stopped`: why it ended early, if it did.
    pub fn result(&mut self, source: &str, stopped: Option<String>, instructions: Option<u64>) -> RunResult {
        self.0.result_of(source, stopped, instructions)
    }

    fn mapped_pages(&mut self) -> &mut MappedPages {
        self.0.trap_engine().mapped.as_mut().expect("set when it was built")
    }

    /// As [`Lab::entries`].
    pub fn entries(&mut self) -> Vec<Vec<farreach_hw::tlb::EntryView>> {
        self.0.entries()
    }
}
