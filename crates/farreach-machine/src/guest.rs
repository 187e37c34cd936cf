//! Counts of a whole system: its events, and for each context (the kernel or programs, in an address space) what it
//! did and what each design counted in it.
//!
//! A context is counted by differences: when it ends, all that was counted since the one before ended is its own. So
//! contexts add up to the whole, and the loop over blocks knows nothing of them.

use super::tally::Tally;
use farreach_types::addr::{Asid, KERNEL};
use farreach_types::counts::{
    Context, ContextCounts, ContextRow, ContextUse, ExceptionCount, GuestCounts, GuestEvents, GuestUse, Lookups,
    ProcessorEvents,
};
use farreach_types::event::{Arch, Guest, MOST_PROCESSORS, Op, Register};
use farreach_types::plural::with_noun;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// An address space, and whether a program runs and not the kernel.
type Key = (Asid, bool);

/// See the module.
pub(super) struct GuestRun {
    arch: Arch,
    memory: u64,
    events: GuestEvents,
    exceptions: BTreeMap<u32, u64>,
    names: HashMap<Asid, Arc<str>, FixedState>,
    processors: Vec<Processor>,
    /// The one that runs, and whether anything ran on it yet.
    running: usize,
    started: bool,
    contexts: Vec<Counted>,
    indices: HashMap<Key, usize, FixedState>,
    /// The context that runs, by index.
    open: Option<usize>,
    /// Everything when the latest context ended.
    tally: Tally,
    /// As before, by design.
    designs: Vec<ContextCounts>,
    flushes: Vec<Flushes>,
}

/// What is known of a virtual processor.
#[derive(Clone)]
struct Processor {
    kernel: bool,
    /// The address space that it ran last.
    space: Option<Asid>,
    events: ProcessorEvents,
    /// Another one calls a function here, as a shootdown does, and nothing was invalidated yet.
    is_called: bool,
}

/// The vectors by which a processor of Linux on x86-64 calls a function on others.
const CALLS: std::ops::RangeInclusive<u32> = 0xfb..=0xfc;

impl Default for Processor {
    /// It begins in the kernel.
    fn default() -> Processor {
        Processor { kernel: true, space: None, events: ProcessorEvents::default(), is_called: false }
    }
}

/// What a context did, and what each design counted in it.
struct Counted {
    key: Key,
    references: Lookups,
    lookups: Lookups,
    designs: Vec<ContextCounts>,
}

/// Of a design: flushes that it received, and translations that they dropped; and those of all of an address space,
/// with the entries that stayed.
#[derive(Clone, Copy, Default)]
struct Flushes {
    received: u64,
    dropped: u64,
    of_spaces: u64,
    global_kept: u64,
    tagged_kept: u64,
}

/// What an event asks of an engine before its operating systems get it.
pub(super) enum Effect {
    /// It is no event of a whole system.
    Program,
    /// Nothing but to count it.
    Nothing,
    /// The system begins: arguments of [`GuestRun::new`].
    Begins { arch: Arch, processors: u32, memory: u64 },
    /// Another processor runs.
    Processor(usize),
    /// The kernel is entered, or left.
    Privilege(bool),
}

impl Effect {
    /// That of an event. `ran`: there were references before it.
    pub fn of(op: &Op, guest: Option<&GuestRun>, ran: bool) -> Result<Effect, String> {
        Ok(match (op, guest) {
            (Op::Guest(Guest::Machine { .. }), Some(_)) => {
                return Err("a whole system begins a second time: a result is of one".into());
            }
            (&Op::Guest(Guest::Machine { arch, processors, memory }), None) => {
                if ran || processors == 0 || processors > MOST_PROCESSORS {
                    return Err(format!(
                        "a whole system begins with its machine, which has 1 to {MOST_PROCESSORS} processors"
                    ));
                }
                Effect::Begins { arch, processors, memory }
            }
            (Op::Guest(_), None) => return Err("an event of a whole system whose machine is not known yet".into()),
            (_, None) => Effect::Program,
            (&Op::Switch { thread }, Some(guest)) => {
                let processor = thread as usize;
                if processor >= guest.processors.len() {
                    let have = with_noun(guest.processors.len() as u64, "processor");
                    return Err(format!("virtual processor {thread} of a system with {have}"));
                }
                if processor == guest.running { Effect::Nothing } else { Effect::Processor(processor) }
            }
            (&Op::Guest(Guest::Privilege { kernel }), Some(guest)) if guest.in_kernel() != kernel => {
                Effect::Privilege(kernel)
            }
            (_, Some(_)) => Effect::Nothing,
        })
    }
}

impl GuestRun {
    /// A system of which nothing ran yet, for `designs` designs. A processor begins in the kernel.
    pub fn new(arch: Arch, processors: u32, memory: u64, designs: usize) -> GuestRun {
        GuestRun {
            arch,
            memory,
            events: GuestEvents::default(),
            exceptions: BTreeMap::new(),
            names: HashMap::from_iter([(KERNEL, "kernel".into())]),
            processors: vec![Processor::default(); processors as usize],
            running: 0,
            started: false,
            contexts: Vec::new(),
            indices: HashMap::default(),
            open: None,
            tally: Tally::default(),
            designs: vec![ContextCounts::default(); designs],
            flushes: vec![Flushes::default(); designs],
        }
    }

    /// Another processor runs. Returns the one that did; `None` if nothing ran before.
    pub fn run_on(&mut self, processor: usize) -> Option<usize> {
        let before = std::mem::replace(&mut self.running, processor);
        self.events.processor_switches += u64::from(self.started);
        self.started.then_some(before)
    }

    /// Whether the processor that runs is in the kernel.
    fn in_kernel(&self) -> bool {
        self.processors[self.running].kernel
    }

    /// The processor that runs enters the kernel, or leaves it.
    pub fn set_kernel(&mut self, kernel: bool) {
        let processor = &mut self.processors[self.running];
        processor.kernel = kernel;
        processor.is_called &= kernel;
        processor.events.kernel_entries += u64::from(kernel);
        self.events.kernel_entries += u64::from(kernel);
    }

    /// Whether a context runs.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// A context begins: the running processor in this address space. Returns whether it ran another address space
    /// before, or none.
    pub fn begin(&mut self, asid: Asid) -> bool {
        self.started = true;
        let Processor { kernel, space, events, .. } = &mut self.processors[self.running];
        let key = (asid, !*kernel);
        let before = space.replace(asid);
        let contexts = &mut self.contexts;
        let index = *self.indices.entry(key).or_insert_with(|| {
            let designs = vec![ContextCounts::default(); self.designs.len()];
            contexts.push(Counted { key, references: Lookups::default(), lookups: Lookups::default(), designs });
            contexts.len() - 1
        });
        self.open = Some(index);
        let switched = u64::from(before.is_some_and(|before| before != asid));
        events.space_switches += switched;
        self.events.space_switches += switched;
        before != Some(asid)
    }

    /// The context ends, if one runs: everything as it is now.
    pub fn end(&mut self, tally: &Tally, now: impl Iterator<Item = ContextCounts>) {
        let Some(index) = self.open.take() else { return };
        let context = &mut self.contexts[index];
        context.references += &tally.references.since(&self.tally.references);
        context.lookups += &tally.lookups().since(&self.tally.lookups());
        self.tally = *tally;
        for ((before, sum), now) in self.designs.iter_mut().zip(&mut context.designs).zip(now) {
            *sum += &now.since(before);
            *before = now;
        }
    }

    /// Counts an event.
    pub fn follow(&mut self, asid: Asid, op: &Op) {
        match op {
            Op::Start { program, .. } => _ = self.names.insert(asid, program.clone()),
            Op::Fork { child } => {
                if let Some(name) = self.names.get(&asid) {
                    self.names.insert(*child, name.clone());
                }
            }
            Op::Guest(Guest::Name(name)) => _ = self.names.insert(asid, name.clone()),
            Op::Guest(Guest::Exception { vector }) => {
                self.events.exceptions += 1;
                let processor = &mut self.processors[self.running];
                processor.events.exceptions += 1;
                processor.is_called = self.arch == Arch::X86 && CALLS.contains(vector);
                *self.exceptions.entry(*vector).or_default() += 1;
            }
            Op::Guest(Guest::Register { register, .. }) => {
                self.events.root_writes += u64::from(*register != Register::Control);
                self.serve_call();
            }
            Op::Guest(Guest::Invalidate(invalidate)) => {
                self.events.invalidations += 1;
                self.events.broadcasts += u64::from(invalidate.broadcast);
                self.processors[self.running].events.invalidations += 1;
                self.serve_call();
                let others = self.processors.iter_mut().enumerate().filter(|(i, _)| *i != self.running);
                let receivers = others.filter(|_| invalidate.broadcast);
                receivers.for_each(|(_, other)| other.events.shootdowns_received += 1);
            }
            Op::Guest(Guest::Entries { values, .. }) => self.events.table_words += values.len() as u64,
            _ => {}
        }
    }

    /// The running processor drops translations. The first time after another one called it, that is a shootdown.
    fn serve_call(&mut self) {
        let processor = &mut self.processors[self.running];
        processor.events.shootdowns_received += u64::from(std::mem::take(&mut processor.is_called));
    }

    /// Counts entries that stayed in the TLBs of a design at a flush of an address space: by the spaces whose tags they
    /// have.
    pub fn kept(&mut self, design: usize, entries: impl Iterator<Item = Asid>) {
        let flushes = &mut self.flushes[design];
        flushes.of_spaces += 1;
        for asid in entries {
            *if asid == KERNEL { &mut flushes.global_kept } else { &mut flushes.tagged_kept } += 1;
        }
    }

    /// Counts the TLBs of a design that received a flush, and the translations that they dropped.
    pub fn flushed(&mut self, design: usize, received: u64, dropped: u64) {
        let flushes = &mut self.flushes[design];
        flushes.received += received;
        flushes.dropped += dropped;
    }

    /// The contexts in the order of results.
    fn sorted(&self) -> impl Iterator<Item = (Context, &Counted)> {
        let mut sorted: Vec<&Counted> = self.contexts.iter().collect();
        sorted.sort_by_key(|counted| counted.key);
        sorted.into_iter().map(|counted| {
            let (asid, user) = counted.key;
            let program = self.names.get(&asid).map_or_else(String::new, |name| name.to_string());
            (Context { kernel: !user, space: asid.0, program }, counted)
        })
    }

    /// The system as a workload. No context may run.
    pub fn used(&self) -> GuestUse {
        let contexts = self.sorted().map(|(context, counted)| ContextUse {
            context,
            references: counted.references,
            lookups: counted.lookups,
        });
        GuestUse {
            arch: self.arch,
            processors: self.processors.len() as u32,
            memory_bytes: self.memory,
            events: GuestEvents {
                shootdowns_received: self.processors.iter().map(|of| of.events.shootdowns_received).sum(),
                ..self.events.clone()
            },
            exceptions: self.exceptions.iter().map(|(&vector, &count)| ExceptionCount { vector, count }).collect(),
            by_processor: self.processors.iter().map(|processor| processor.events).collect(),
            contexts: contexts.collect(),
            checks: None,
        }
    }

    /// The counts of a design, without cycles. No context may run.
    pub fn counts(&self, design: usize) -> GuestCounts {
        let rows = self.sorted().map(|(context, counted)| ContextRow {
            context,
            counts: counted.designs[design],
            cycles: None,
        });
        let Flushes { received, dropped, of_spaces, global_kept, tagged_kept } = self.flushes[design];
        GuestCounts {
            flushes: received,
            flushed: dropped,
            space_flushes: of_spaces,
            global_kept,
            tagged_kept,
            contexts: rows.collect(),
        }
    }
}
