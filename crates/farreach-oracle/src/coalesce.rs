//! TLBs that hold several sizes in one array (MIX-1 to MIX-5, SKW-1 to SKW-3), or runs behind anchors (ANC-1 to ANC-3,
//! ANC-5), as lists. Each is one array, told of every lookup that reaches it; [`anchor`] has a first level too.
//!
//! * OC-1 A lookup renews the entry that answers, and a fill the entry that is new or joined. The victim of a set is
//!   the lowest free way, else the entry used least recently.
//! * OC-2 MIX: superpages only are bundled: the page that missed, and those before and after it in its line of eight
//!   and in its aligned group of `mix_bundle`, as long as each continues it with equal attributes.
//! * OC-3 MIX: a mirror was lost, and is refilled alone, if another set has a mirror with this superpage. Else all
//!   sets of the base pages of the bundle get one, in ascending order.
//! * OC-4 MIX: what is filled joins an entry of the same group with the same distance of frames and attributes; with
//!   `length`, only if both together are in a row. Of several it joins the lowest way.
//! * OC-5 MIX: an entry with a page of a change is dropped as a whole.
//! * OC-6 ANC: base pages only. An anchor that is not mapped has no contiguity. c is counted at the walk.
//! * OC-7 ANC: `references` are leaves: that of v, and that of the anchor if it is not in its line of eight. Upper
//!   levels are not counted.
//! * OC-8 ANC: the anchor itself fills the anchor entry, also where c = 1. In sets, the law of D without contiguous
//!   pairs then does not hold: its set is that of v div D.
//! * OC-9 SKW: x is v shifted right by the largest order, mod k. An entry has the way's set of its page in units of
//!   its size, by the hash of OT-19.

pub mod anchor;
pub mod mix;
pub mod skew;

use std::collections::BTreeMap;

/// A mapping of one page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mapped {
    /// Log2 of its base pages.
    pub order: u8,
    /// Frame of its first base page.
    pub pfn: u64,
    /// Attributes.
    pub attr: u8,
}

/// Mappings by process and first page.
#[derive(Clone, Default, Debug)]
pub struct Mappings(pub BTreeMap<(u32, u64), Mapped>);

impl Mappings {
    /// The first page and the mapping of a base page.
    pub fn get(&self, asid: u32, vpn: u64) -> Option<(u64, Mapped)> {
        let (&(of, first), &mapped) = self.0.range(..=(asid, vpn)).next_back()?;
        (of == asid && vpn < first + (1 << mapped.order)).then_some((first, mapped))
    }
}
