//! The address of the latest fetch of the running thread, for designs that need the program counter (HW-6).
//!
//! Blocks that are only counted do not note it. Their words are kept instead, as a range of the batch, and the last of
//! them that fetches is looked for when it matters: before a block that begins with data, before an event, and at the
//! end of the batch. Machines without such a design note an address where a block is taken reference by reference, and
//! nothing else.

use super::super::compiled::{Compiled, Hot};
use super::super::instance::TlbInstance;
use super::Engine;
use farreach_types::Error;
use farreach_types::addr::Asid;
use farreach_types::event::{Kind, Op, block_id, words_behind};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::ops::Range;

/// See the module.
pub(in super::super) struct Fetches {
    /// The designs that need it.
    pub designs: u32,
    /// Of the running thread; `None` before its first fetch.
    pub latest: Option<u64>,
    /// Of the threads that do not run, by process and number, which no event may have named.
    others: HashMap<(Asid, Option<u32>), u64, FixedState>,
    /// Words of the batch that were counted since `latest` was noted.
    counted: Range<usize>,
}

impl Fetches {
    pub fn new(instances: &mut [TlbInstance]) -> Fetches {
        let needs = |instance: &mut TlbInstance| instance.each().any(|(tlb, _)| tlb.on_fetch().is_some());
        let mask = |mask, (design, instance)| mask | u32::from(needs(instance)) << design;
        Fetches {
            designs: instances.iter_mut().enumerate().fold(0, mask),
            latest: None,
            others: HashMap::default(),
            counted: 0..0,
        }
    }

    /// Whether a design needs it.
    #[inline(always)]
    pub fn wanted(&self) -> bool {
        self.designs != 0
    }

    /// These words were counted, all of them executions of blocks.
    #[inline(always)]
    pub fn counted(&mut self, words: Range<usize>) {
        if !words.is_empty() {
            self.counted = words;
        }
    }

    /// Notes the latest fetch of the words that were counted.
    #[cold]
    fn settle(&mut self, compiled: &Compiled, words: &[u64]) {
        let Range { start: mut at, end } = std::mem::replace(&mut self.counted, 0..0);
        while at < end {
            let block = compiled.blocks.get(block_id(words[at])).expect("it was counted");
            if let Some(last) = block.instrs.last() {
                self.latest = Some(last.pc);
            }
            at += 1 + words_behind(words[at]);
        }
    }

    /// A block is about to be taken reference by reference, or something else happens. If that `begins` with a fetch,
    /// this one is the latest before anything needs to know.
    #[inline(always)]
    pub fn before(&mut self, begins: bool, compiled: &Compiled, words: &[u64]) {
        if !self.counted.is_empty() {
            if !begins {
                self.settle(compiled, words);
            }
            self.counted = 0..0;
        }
    }

    /// The first `fetched` instructions of this block were fetched.
    #[inline(always)]
    pub fn note(&mut self, hot: Hot, fetched: u32) {
        if fetched > 0 {
            self.latest = Some(hot.pc(fetched as usize - 1));
        }
    }

    /// Another thread goes on, perhaps of another process. Its threads are named by process and number.
    pub fn go_on(&mut self, from: (Asid, Option<u32>), to: (Asid, Option<u32>)) {
        if self.wanted() && from != to {
            if let Some(latest) = self.latest.take() {
                self.others.insert(from, latest);
            }
            self.latest = self.others.remove(&to);
        }
    }

    /// A thread forked, or a program ended.
    pub fn follow(&mut self, asid: Asid, thread: Option<u32>, op: &Op) {
        match (op, self.latest) {
            (Op::Fork { child }, Some(latest)) if self.wanted() => _ = self.others.insert((*child, thread), latest),
            (Op::End(_), _) if self.wanted() => {
                self.others.retain(|(of, _), _| *of != asid);
                self.latest = None;
            }
            _ => {}
        }
    }
}

impl Engine {
    /// Tells those of these designs that need it the latest fetch, before a lookup. Refuses a lookup before the thread
    /// has fetched anything.
    #[cold]
    pub(super) fn tell_fetch(&mut self, asid: Asid, vpn: u64, kind: Kind, designs: u32) -> Result<(), Error> {
        let mut left = designs & self.fetches.designs;
        while left != 0 {
            let instance = &mut self.instances[left.trailing_zeros() as usize];
            left &= left - 1;
            if let Some(address) = self.fetches.latest {
                let tlb = instance.tlb(kind).0;
                tlb.latest_fetch(address);
                tlb.position(self.tally.references.fetch);
                continue;
            }
            let what = format!(
                "{} needs the program counter (HW-6), and there is a {} of page {vpn:#x} in address space {} before \
                 the first fetch of its thread; the stream must have instruction fetches",
                because_of(instance),
                if kind == Kind::Store { "store" } else { "load" },
                asid.0
            );
            return Err(Error::Simulation { machine: instance.name.clone(), what });
        }
        Ok(())
    }

    /// Why traps cannot drive this engine, if a design needs the program counter.
    pub fn needs_fetches(&mut self) -> Option<Error> {
        let design = self.fetches.wanted().then(|| self.fetches.designs.trailing_zeros() as usize)?;
        let instance = &mut self.instances[design];
        let what = format!(
            "{} cannot be driven by traps: they show pages, and the program counter is not known at each lookup (HW-6)",
            because_of(instance)
        );
        Some(Error::Config { machine: instance.name.clone(), what })
    }
}

/// The key and value for which a design needs the program counter.
fn because_of(instance: &mut TlbInstance) -> String {
    instance.each().find_map(|(tlb, _)| Some(tlb.on_fetch()?.because_of())).unwrap_or_default()
}
