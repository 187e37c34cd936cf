//! What a whole system did, and what machines counted for each of its contexts.

use super::Lookups;
use crate::event::Arch;
use serde::{Deserialize, Serialize};

/// Who runs: the kernel or a program, in an address space. A system call runs in the context of the kernel and of the
/// space of its caller.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Context {
    /// The kernel.
    pub kernel: bool,
    /// The number of the address space that is loaded. 0: only the kernel's half, before the first other one.
    pub space: u32,
    /// The program that it runs, as far as events tell; that of its last name. Spaces with one name can be added up.
    pub program: String,
}

/// What one context did. Those of a run add up to the whole.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ContextUse {
    /// Which.
    #[serde(flatten)]
    pub context: Context,
    /// Its references; fetches are its instructions. As in [`Workload::references`](super::Workload::references).
    pub references: Lookups,
    /// Its lookups in 4 KB pages. As in [`Workload::lookups`](super::Workload::lookups).
    pub lookups: Lookups,
}

/// A kind of exception or interrupt.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ExceptionCount {
    /// x86-64: the vector. AArch64: the offset of the entry in the table of vectors. RISC-V: the cause, with 1 << 31
    /// for interrupts.
    pub vector: u32,
    /// How often.
    pub count: u64,
}

/// A whole system as a workload: a kernel and its programs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GuestUse {
    /// Its instruction set.
    pub arch: Arch,
    /// Its virtual processors.
    pub processors: u32,
    /// Its memory.
    pub memory_bytes: u64,
    /// Its events.
    pub events: GuestEvents,
    /// Its exceptions and interrupts, by vector, ascending.
    pub exceptions: Vec<ExceptionCount>,
    /// What each of its virtual processors met, in their order.
    #[serde(default)]
    pub by_processor: Vec<ProcessorEvents>,
    /// Its contexts that ran: by space, ascending; of each the kernel first.
    pub contexts: Vec<ContextUse>,
    /// What its recorder checked and met; absent where it did not say so, as of a trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checks: Option<GuestChecks>,
}

counters! {
    /// What the recorder of a whole system checked and met, in the order in which it counts it (`enum fr_counter` of
    /// the stream).
    GuestChecks {
        /// Translations that were compared with the physical address that the emulator gives.
        compared,
        /// Of these, those that differed, but for those of `stale`, and words of page tables that were changed unseen.
        /// A recording with any is refused.
        different,
        /// Blocks cut by a fault or otherwise.
        cuts,
        /// Of these, instructions that the emulator tried again.
        retries,
        /// Ends of blocks of which it is not known whether they ran as a whole.
        unknown_edges,
        /// Frames that were watched as page tables.
        table_frames,
        /// References to memory that is no RAM.
        device,
        /// References left out because paging was off, or of another format.
        early,
        /// References left out because firmware made them, in a mode of its own without translation.
        firmware,
        /// References by a translation that another processor had changed, where the one that made them was not told
        /// yet.
        stale,
    }
}

impl GuestChecks {
    /// Counters.
    pub const COUNTERS: usize = 10;

    /// From the counters, in the order of the stream.
    pub fn from_words(words: [u64; GuestChecks::COUNTERS]) -> GuestChecks {
        let [compared, different, cuts, retries, unknown_edges, table_frames, device, early, firmware, stale] = words;
        GuestChecks { compared, different, cuts, retries, unknown_edges, table_frames, device, early, firmware, stale }
    }
}

counters! {
    /// Events of a whole system.
    GuestEvents {
        /// Context switches: how often another address space went on.
        space_switches,
        /// How often another virtual processor went on.
        processor_switches,
        /// How often the kernel was entered from a program.
        kernel_entries,
        /// Exceptions and interrupts.
        exceptions,
        /// Writes of registers that hold the root of page tables.
        root_writes,
        /// Instructions that invalidate translations.
        invalidations,
        /// Of these, those that concern all processors.
        broadcasts,
        /// Shootdowns that its processors received: see [`ProcessorEvents`].
        shootdowns_received,
        /// Words of page tables that the guest wrote, or that were seen for the first time.
        table_words,
    }
}

counters! {
    /// Events of one virtual processor.
    #[derive(Copy)]
    ProcessorEvents {
        /// Context switches on it.
        space_switches,
        /// How often it entered the kernel from a program.
        kernel_entries,
        /// Its exceptions and interrupts.
        exceptions,
        /// Instructions of its own that invalidate translations.
        invalidations,
        /// Shootdowns that it received. x86-64: interrupts by which another processor of Linux calls a function here,
        /// in which it invalidated or flushed something. Others: invalidations that others broadcast.
        shootdowns_received,
    }
}

/// What one machine counted for a whole system.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct GuestCounts {
    /// Flushes that its processors received: spans of pages that they were told to drop, by the guest's instructions
    /// and writes of registers.
    pub flushes: u64,
    /// Translations that these dropped. They are among [`TlbCounts::invalidations`](super::TlbCounts::invalidations).
    pub flushed: u64,
    /// Times that the TLBs of a processor were told to drop all that they have of an address space, by an instruction
    /// or a write of a register. 0 on machines with caches, as are the next two.
    #[serde(default)]
    pub space_flushes: u64,
    /// Entries of the kernel's global pages that were in them after that, added up.
    #[serde(default)]
    pub global_kept: u64,
    /// Entries with the tags of other address spaces that were.
    #[serde(default)]
    pub tagged_kept: u64,
    /// By context, in the order of [`GuestUse::contexts`].
    pub contexts: Vec<ContextRow>,
}

/// What one machine counted in one context. Those of all contexts add up to the machine's counts.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ContextRow {
    /// Which.
    #[serde(flatten)]
    pub context: Context,
    /// Counts, as in [`TlbCounts`](super::TlbCounts).
    #[serde(flatten)]
    pub counts: ContextCounts,
    /// Its part of [`Cost::cycles`](super::Cost::cycles), each rounded so that they add up to that; absent in machines
    /// whose cycles come from more than these counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycles: Option<u64>,
}

counters! {
    /// The counts of a machine that are also kept by context.
    #[derive(Copy)]
    ContextCounts {
        /// Lookups in base pages of the machine.
        lookups,
        /// Lookups that missed.
        misses,
        /// Misses of fetches.
        fetch_misses,
        /// Misses of loads and stores.
        data_misses,
        /// Fetches that hit in the second level.
        second_level_fetch_hits,
        /// Loads and stores that did.
        second_level_data_hits,
        /// Lookups that a range alone answered.
        range_hits,
        /// Page table entries that miss handlers read beyond the first.
        extra_pte_reads,
        /// Page walks by hardware.
        walks,
        /// Nodes of radix trees that walks read, in both dimensions.
        walk_references,
    }
}

impl ContextCounts {
    /// What was counted since `before`.
    pub fn since(&self, before: &ContextCounts) -> ContextCounts {
        ContextCounts {
            lookups: self.lookups - before.lookups,
            misses: self.misses - before.misses,
            fetch_misses: self.fetch_misses - before.fetch_misses,
            data_misses: self.data_misses - before.data_misses,
            second_level_fetch_hits: self.second_level_fetch_hits - before.second_level_fetch_hits,
            second_level_data_hits: self.second_level_data_hits - before.second_level_data_hits,
            range_hits: self.range_hits - before.range_hits,
            extra_pte_reads: self.extra_pte_reads - before.extra_pte_reads,
            walks: self.walks - before.walks,
            walk_references: self.walk_references - before.walk_references,
        }
    }
}

impl GuestUse {
    /// The references of the kernel, or of programs.
    pub fn references(&self, kernel: bool) -> Lookups {
        self.sum(kernel, |of| of.references)
    }

    /// Their lookups.
    pub fn lookups(&self, kernel: bool) -> Lookups {
        self.sum(kernel, |of| of.lookups)
    }

    fn sum(&self, kernel: bool, what: impl Fn(&ContextUse) -> Lookups) -> Lookups {
        let mut sum = Lookups::default();
        self.contexts.iter().filter(|of| of.context.kernel == kernel).for_each(|of| sum += &what(of));
        sum
    }
}

impl GuestCounts {
    /// The counts of the kernel, or of programs.
    pub fn of(&self, kernel: bool) -> ContextCounts {
        let mut sum = ContextCounts::default();
        self.contexts.iter().filter(|row| row.context.kernel == kernel).for_each(|row| sum += &row.counts);
        sum
    }

    /// The cycles of the kernel, or of programs; `None` if they are not known.
    pub fn cycles(&self, kernel: bool) -> Option<u64> {
        self.contexts.iter().filter(|row| row.context.kernel == kernel).map(|row| row.cycles).sum()
    }
}

counters! {
    /// What the kernel of a recorded system did with its page tables.
    GuestOsCounts {
        /// Words of known tables that changed.
        table_words,
        /// Mappings that changed or went, as far as designs could have had them.
        leaves_changed,
        /// Mappings that came where none was, in tables on the way to touched pages.
        leaves_added,
        /// Invalidations of addresses (INVLPG, TLBI by address).
        invalidations_pages,
        /// Invalidations of all addresses of a tag.
        invalidations_spaces,
        /// Invalidations of everything.
        invalidations_all,
        /// Of these, the ones for all processors.
        invalidations_broadcast,
        /// Ranges of pages whose entries were dropped by invalidations, registers or for want of tags.
        flushes,
        /// Times that another address space of user pages ran on a processor.
        space_switches,
        /// Mappings that were used after their word had changed, before the guest invalidated them; each once for each
        /// change. Only with `stale = guest`.
        stale_lookups,
        /// Pages that a processor used by a translation that another one had changed, where the machine did not have
        /// it any more. They have it again until the processor drops translations, or another one goes on.
        restored_pages,
        /// Page faults, where the instruction set has a vector for them.
        page_faults,
        /// Other exceptions, and all of them where page faults have no vector of their own.
        exceptions,
        /// Interrupts.
        interrupts,
    }
}
