//! The address of the latest fetch of the running thread, for designs that need the program counter (HW-6).
//!
//! Blocks that are only counted do not note it. Their words are kept instead, as a range of the batch, and the last of
//! them that fetches is looked for when it matters: before a block that begins with data, before an event, and at the
//! end of the batch. Machines without such a design note an address where a block is taken reference by reference, and
//! nothing else.

use super::super::compiled::{Compiled, Hot};
use super::super::instance::TlbInstance;
use super::super::threads::{LatestFetch, never_fetched};
use super::Engine;
use farreach_types::Error;
use farreach_types::addr::Asid;
use farreach_types::event::{Kind, Op, block_id, words_behind};
use std::ops::Range;

/// See the module.
pub(in super::super) struct Fetches {
    /// The designs that need it.
    pub designs: u32,
    pub latest: LatestFetch,
    /// Words of the batch that were counted since `latest` was noted.
    counted: Range<usize>,
}

impl Fetches {
    pub fn new(instances: &mut [TlbInstance]) -> Fetches {
        let needs = |instance: &mut TlbInstance| instance.each().any(|(tlb, _)| tlb.on_fetch().is_some());
        let mask = |mask, (design, instance)| mask | u32::from(needs(instance)) << design;
        Fetches {
            designs: instances.iter_mut().enumerate().fold(0, mask),
            latest: LatestFetch::default(),
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
                self.latest.address = Some(last.pc);
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
            self.latest.address = Some(hot.pc(fetched as usize - 1));
        }
    }

    /// See [`LatestFetch::go_on`].
    pub fn go_on(&mut self, from: (Asid, Option<u32>), to: (Asid, Option<u32>)) {
        if self.wanted() {
            self.latest.go_on(from, to);
        }
    }

    /// See [`LatestFetch::follow`].
    pub fn follow(&mut self, asid: Asid, thread: Option<u32>, op: &Op) {
        if self.wanted() {
            self.latest.follow(asid, thread, op);
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
            if let Some(address) = self.fetches.latest.address {
                let tlb = instance.tlb(kind).0;
                tlb.latest_fetch(address);
                tlb.position(self.tally.references.fetch);
                continue;
            }
            let because = because_of(instance);
            return Err(never_fetched(&instance.name, &because, (asid, vpn, kind)));
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
