//! What a walk reads, step by step (HW-7). A table lists it; who walks makes the references: natively at once, in a
//! virtual machine each behind the translation of its address.

use crate::cache::{Port, Purpose};
use farreach_types::counts::{MemoryCounts, OwnCounts};

/// How a step is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum How {
    /// At addresses of the table.
    Walks,
    /// As before, and in a virtual machine the walker knows where they are in system memory.
    Knows,
    /// While the program runs on.
    Background,
}

/// The references of one walk, in steps. Memory is kept from walk to walk.
#[derive(Default, Debug)]
pub(in crate::tlb) struct Steps {
    addresses: Vec<u64>,
    /// Where a step ends among these.
    steps: Vec<(usize, How)>,
}

/// One step: references made in parallel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::tlb) struct Step<'a> {
    pub addresses: &'a [u64],
    /// Whether the walker of a virtual machine knows where they are in system memory.
    pub is_known: bool,
}

impl Steps {
    pub fn clear(&mut self) {
        self.addresses.clear();
        self.steps.clear();
    }

    fn add(&mut self, addresses: &[u64], how: How) {
        self.addresses.extend_from_slice(addresses);
        self.steps.push((self.addresses.len(), how));
    }

    fn all(&self) -> impl Iterator<Item = (Step<'_>, How)> {
        let begins = [0].into_iter().chain(self.steps.iter().map(|(end, _)| *end));
        begins.zip(&self.steps).map(|(begin, &(end, how))| {
            (Step { addresses: &self.addresses[begin..end], is_known: how == How::Knows }, how)
        })
    }

    /// The steps of the walk.
    pub fn of_walk(&self) -> impl Iterator<Item = Step<'_>> {
        self.all().filter(|(_, how)| *how != How::Background).map(|(step, _)| step)
    }

    /// What is read behind it while the program runs on.
    pub fn behind(&self) -> impl Iterator<Item = Step<'_>> {
        self.all().filter(|(_, how)| *how == How::Background).map(|(step, _)| step)
    }

    /// References, those behind the walk too.
    pub fn references(&self) -> u64 {
        self.addresses.len() as u64
    }

    /// Makes them where nothing has to be translated.
    pub fn make(&self, purpose: Purpose, port: &mut Port, memory: &mut MemoryCounts) {
        self.of_walk().for_each(|step| _ = port.step(purpose, step.addresses, memory));
        self.behind().for_each(|step| _ = port.step(Purpose::Background, step.addresses, memory));
    }
}

/// What a table lists in.
pub(in crate::tlb) struct Reads<'a> {
    steps: &'a mut Steps,
    purpose: Purpose,
    /// The table's own counters; none in the background, where a walk is on the account of an addition.
    own: Option<&'a mut OwnCounts>,
    /// Whether the program waits for this walk in particular.
    waits: bool,
    /// The walk ended without the page, though it is mapped.
    pub failed: bool,
}

impl<'a> Reads<'a> {
    /// A walk of the processor's own table.
    pub fn new(purpose: Purpose, steps: &'a mut Steps, own: Option<&'a mut OwnCounts>) -> Reads<'a> {
        steps.clear();
        Reads { steps, purpose, own, waits: purpose == Purpose::Demand, failed: false }
    }

    /// A walk of a host's table, which waits unless the program waits for another beside it.
    pub fn of_host(steps: &'a mut Steps, own: &'a mut OwnCounts, waits: bool) -> Reads<'a> {
        steps.clear();
        Reads { steps, purpose: Purpose::Demand, own: Some(own), waits, failed: false }
    }

    /// One step: references made in parallel.
    pub fn step(&mut self, addresses: &[u64]) {
        self.steps.add(addresses, How::Walks);
    }

    /// As [`Reads::step`]; in a virtual machine the walker knows where the addresses are in system memory, so that
    /// nothing translates them.
    pub fn known(&mut self, addresses: &[u64]) {
        self.steps.add(addresses, How::Knows);
    }

    /// References that the walk does not wait for, such as those that fill its caches.
    pub fn background(&mut self, addresses: &[u64]) {
        self.steps.add(addresses, How::Background);
    }

    /// Whether the program waits for the walk. Only then it may fault or call software (HW-10).
    pub fn is_demand(&self) -> bool {
        self.purpose == Purpose::Demand
    }

    /// The walk ends without the page, though that may be mapped. Only in the background.
    pub fn fails(&mut self) {
        debug_assert!(!self.is_demand(), "a demand walk finds what is mapped");
        self.failed = true;
    }

    /// Counts in the table's counter at this place; nothing for a walk in the background.
    pub fn count(&mut self, place: usize, n: u64) {
        if let Some(own) = &mut self.own {
            *own.at(place) += n;
        }
    }

    /// As [`Reads::count`], something for which the program waits. Of walks in parallel it waits for one.
    pub fn count_wait(&mut self, place: usize, n: u64) {
        if self.waits {
            self.count(place, n);
        }
    }
}
