//! What the kernel of a recorded system did with its page tables.

use serde::{Deserialize, Serialize};

counters! {
    /// What the kernel of a recorded system did with its page tables.
    GuestCounts {
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
        /// Page faults, where the instruction set has a vector for them.
        page_faults,
        /// Other exceptions, and all of them where page faults have no vector of their own.
        exceptions,
        /// Interrupts.
        interrupts,
    }
}
