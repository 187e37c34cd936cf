//! Ranges of frame numbers. The allocator's frames come first. Frames of recorded machines, which are never allocated,
//! have larger numbers, so that the two never mix.

use farreach_types::addr::Pfn;

/// First frame of a dump of a live process (`placement = mapping`): 64 TB of 4 KB frames are enough for the allocator.
pub const DUMP: u64 = crate::dump::FRAMES;

/// First frame of the kernel's direct map. Below are 128 TB of 4 KB frames for the allocator and dumps, and 64 TB for
/// the page tables of a guest. The direct map ends where four levels of a host's page table do.
pub const DIRECT_MAP: u64 = 3 << 34;

/// Whether only the direct map names this frame.
#[inline]
pub fn is_direct_map(pfn: Pfn) -> bool {
    pfn.0 >= DIRECT_MAP
}
