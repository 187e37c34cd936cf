//! Which frame numbers belong to whom. The allocator's frames come first. Frames of other machines, which nobody allocates, have numbers
//! beyond them, so that they never meet.

use farreach_types::addr::Pfn;

/// First frame of a dump of a living process (`placement = mapping`): 64 TB of 4 KB frames are enough for the allocator.
pub const DUMP: u64 = crate::dump::FRAMES;

/// First frame of the kernel's direct map: 128 TB of 4 KB frames are enough for others, 64 TB beyond them for the page tables of a
/// guest, and all ends where four levels of a host do.
pub const DIRECT_MAP: u64 = 3 << 34;

/// Whether only the direct map names this frame.
#[inline]
pub fn is_direct_map(pfn: Pfn) -> bool {
    pfn.0 >= DIRECT_MAP
}
