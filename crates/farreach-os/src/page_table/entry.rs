//! Page table entries.

use farreach_types::addr::{Pfn, Vpn};
use farreach_types::event::Prot;
use farreach_types::translation::Attr;

/// The attributes of a page with this protection. The hardware must not write to a copy-on-write page.
pub fn attributes(prot: Prot, cow: bool) -> Attr {
    let bit = |on: bool, bit: u8| if on { bit } else { 0 };
    Attr(bit(prot.read, Attr::READ) | bit(prot.write && !cow, Attr::WRITE) | bit(prot.exec, Attr::EXEC))
}

/// One entry, with the state that the operating system keeps for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Frame.
    pub pfn: Pfn,
    /// Name of the region it belongs to, an index into the labels of the operating system.
    pub label: u32,
    /// Attributes the hardware sees.
    pub attr: Attr,
    /// log2 of the pages of the mapping.
    pub order: u8,
    /// Mapped at all.
    pub present: bool,
    /// A store must copy the page first, or make it writable if no other process shares it.
    pub cow: bool,
    /// Stored to since it was mapped.
    pub dirty: bool,
    /// The hardware must not store to it as long as it is clean: a store is a fault (FBR-7). Not in `attr`, since an
    /// entry that is clean asks the system before a store anyway.
    pub guarded: bool,
    /// Referenced since it was mapped.
    pub touched: bool,
    /// The accessed bit, in systems that look at it (OSC-2): see [`crate::accessed`].
    pub accessed: bool,
    /// Mapped by promotion, not by a fault.
    pub populated: bool,
    /// An access that its protection forbids was counted.
    pub forbidden: bool,
    /// The page belongs to the direct segment (DS13-3). The hardware never sees this entry; it is there for code that
    /// reads the page table.
    pub segment: bool,
}

impl Entry {
    /// The part of the entry that pages of a run share, for the page `back` pages before this one.
    pub(super) fn common(&self, back: u64) -> Entry {
        let pfn = Pfn(self.pfn.0.wrapping_sub(back));
        Entry { pfn, present: true, dirty: false, touched: false, accessed: false, populated: false, ..*self }
    }

    /// Mapped together with others and never referenced.
    pub(super) fn is_unused(&self) -> bool {
        self.present && self.populated && !self.touched
    }
}

/// Consecutive mapped pages in consecutive frames that differ at most in their dirty, touched, accessed and populated
/// bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// First page.
    pub first: Vpn,
    /// Pages.
    pub pages: u64,
    /// The entry of the first, with these bits clear.
    pub entry: Entry,
    /// Pages that were mapped together with others and never referenced.
    pub unused: u64,
}
