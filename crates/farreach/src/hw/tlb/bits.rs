//! Bits of one TLB entry by kind (AREA-2), for 64-bit virtual and 48-bit physical addresses, 4 KB pages and 12-bit process
//! ids (T94-1). The one place that knows them; designs and the area command ask here.

use super::EntryBits;

/// Process id.
const PID: u64 = 12;
/// Virtual page number.
const VPN: u64 = 52;
/// Physical page number.
const PPN: u64 = 36;
/// Attributes.
const ATTR: u64 = 8;
/// Page size of a superpage entry. It takes part in matching, so it counts as tag.
const SIZE: u64 = 4;
/// The used bit, one per entry whatever the number of subblocks.
const USED: u64 = 1;

/// Largest subblock factor the kinds are defined for: a valid bit per subblock fits in one machine word.
pub const MAX_FACTOR: u64 = 64;

/// The kinds of fully associative TLB that the area model covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EntryKind {
    /// One page size (T94-3).
    Single,
    /// Base pages and superpages (T94-4).
    Superpage,
    /// One tag, a full translation per subblock (T94-5).
    Complete,
    /// One tag and one frame number, a valid bit per subblock (T94-6).
    Partial,
}

impl EntryKind {
    /// All kinds.
    pub const ALL: [EntryKind; 4] = [EntryKind::Single, EntryKind::Superpage, EntryKind::Complete, EntryKind::Partial];

    /// The word for it in machine descriptions and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            EntryKind::Single => "single",
            EntryKind::Superpage => "superpage",
            EntryKind::Complete => "complete",
            EntryKind::Partial => "partial",
        }
    }

    /// The kind of this name.
    pub fn from_name(name: &str) -> Option<EntryKind> {
        EntryKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether an entry holds subblocks, so that the factor matters.
    pub fn has_subblocks(self) -> bool {
        matches!(self, EntryKind::Complete | EntryKind::Partial)
    }
}

/// Bits of one entry. `factor` is the number of base pages per tag, a power of two up to [`MAX_FACTOR`]; kinds without
/// subblocks ignore it.
///
/// ```
/// use farreach::hw::tlb::bits::{EntryKind, entry_bits};
/// let bits = entry_bits(EntryKind::Partial, 16);
/// assert_eq!((bits.tag, bits.data, bits.status), (76, 61, 1));
/// ```
pub fn entry_bits(kind: EntryKind, factor: u64) -> EntryBits {
    let within = || {
        assert!(factor.is_power_of_two() && factor <= MAX_FACTOR, "factor {factor} is not a power of two up to {MAX_FACTOR}");
        u64::from(factor.ilog2())
    };
    // Modified and valid, one each.
    let mapping = PPN + ATTR + 2;
    let (tag, data) = match kind {
        EntryKind::Single => (PID + VPN, mapping),
        EntryKind::Superpage => (PID + VPN + SIZE, mapping),
        EntryKind::Complete => (PID + VPN - within(), factor * mapping),
        // The valid bits are matched, so they are tag; the SB bit and the modified bits are data.
        EntryKind::Partial => (PID + VPN - within() + factor, PPN + ATTR + 1 + factor),
    };
    EntryBits { tag, data, status: USED }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn area_2_bit_counts() {
        for (kind, factor, tag, data) in [
            (EntryKind::Single, 16, 64, 46),
            (EntryKind::Superpage, 16, 68, 46),
            (EntryKind::Complete, 16, 60, 736),
            (EntryKind::Complete, 2, 63, 92),
            (EntryKind::Complete, 4, 62, 184),
            (EntryKind::Partial, 16, 76, 61),
            (EntryKind::Partial, 2, 65, 47),
        ] {
            assert_eq!(entry_bits(kind, factor), EntryBits { tag, data, status: 1 }, "{kind:?} {factor}");
        }
    }

    #[test]
    fn names_are_read_back() {
        for kind in EntryKind::ALL {
            assert_eq!(EntryKind::from_name(kind.name()), Some(kind));
        }
        assert_eq!(EntryKind::from_name("set-associative"), None);
    }

    #[test]
    #[should_panic(expected = "factor 3")]
    fn a_factor_must_be_a_power_of_two() {
        entry_bits(EntryKind::Partial, 3);
    }
}
