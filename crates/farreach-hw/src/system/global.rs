//! Addresses of SV97: 32-bit effective addresses, the 52-bit global space, its page table, and the windows onto
//! physical memory (SV97-9 to SV97-14, AMB-42).

use farreach_types::addr::BASE_SHIFT;

/// Bits of an effective address inside its segment: 256 MB.
pub const SEGMENT_SHIFT: u32 = 28;
/// Segment registers that belong to the user: the lower 2 GB (SV97-10).
pub const USER_REGISTERS: usize = 8;
/// Bits of a segment identifier.
pub const ID_BITS: u32 = 24;
/// Identifiers from here on have the top ten bits 0x3FE or 0x3FF, where the windows and the page table lie: never
/// allocated (AMB-42).
pub const RESERVED_IDS: u32 = 0x3FE << 14;
/// Upper 20 bits of global addresses that are physical and cached (SV97-11).
pub const PHYSICAL_CACHED: u64 = 0xFFFFF;
/// Upper 20 bits of global addresses that are physical and not cached.
pub const PHYSICAL_UNCACHED: u64 = 0xFFFFE;
/// Bits of a physical address: 4 GB.
pub const PHYSICAL_BITS: u32 = 32;
/// Pages of the page table of one segment: 256 KB of 4-byte entries.
pub const TABLE_PAGES: u64 = 1 << (SEGMENT_SHIFT - BASE_SHIFT + 2 - BASE_SHIFT);

const UPTE_WINDOW: u64 = 0x3FF << 42;

/// Global address: identifier and the low 28 bits of the effective address (SV97-9).
#[inline(always)]
pub const fn global(id: u32, effective: u64) -> u64 {
    (id as u64) << SEGMENT_SHIFT | effective & ((1 << SEGMENT_SHIFT) - 1)
}

/// Global address of the user page table entry: ten 1-bits, the 40-bit page number, two 0-bits (SV97-12).
///
/// ```
/// use farreach_hw::system::global::{global, upte};
/// assert_eq!(upte(global(0xABCDEF, 0x12345678)), 0xFFEAF37BC8D14);
/// ```
#[inline(always)]
pub const fn upte(global: u64) -> u64 {
    UPTE_WINDOW | global >> BASE_SHIFT << 2
}

/// Byte offset of the root entry in the URPT: bits 30 to 22 of the effective address, 4 bytes each (SV97-14).
#[inline(always)]
pub const fn root_offset(effective: u64) -> u64 {
    (effective >> 22 & 0x1FF) * 4
}

/// Group of the URPT that the root entry lies in: the segment register (SV97-13).
pub const fn root_group(effective: u64) -> u64 {
    root_offset(effective) / (TABLE_PAGES * 4)
}

/// Global address under which a physical address is cached.
#[inline(always)]
pub const fn cached(physical: u64) -> u64 {
    PHYSICAL_CACHED << PHYSICAL_BITS | physical & ((1 << PHYSICAL_BITS) - 1)
}

/// Whether a global address is physical: no translation, no exception (SV97-4, SV97-11).
pub const fn is_physical(global: u64) -> bool {
    matches!(global >> PHYSICAL_BITS, PHYSICAL_CACHED | PHYSICAL_UNCACHED)
}

/// The segment that a global address belongs to: its own, or that of the page whose table entry it is. `None` for
/// physical addresses.
pub const fn id_of(global: u64) -> Option<u32> {
    if is_physical(global) {
        return None;
    }
    let entry = global & UPTE_WINDOW == UPTE_WINDOW;
    let id = if entry { global >> (SEGMENT_SHIFT - BASE_SHIFT + 2) } else { global >> SEGMENT_SHIFT };
    Some((id & ((1 << ID_BITS) - 1)) as u32)
}

/// Where kernel memory lies. The operating system of the laboratory places user pages only, so these addresses are a
/// convention: the top of the 4 GB of physical memory.
pub mod kernel {
    /// Code of the miss handlers.
    pub const HANDLERS: u64 = 0xFF00_0000;
    /// Distance from the handler to the second handler, where a machine has one (the root refill of SV97-30).
    pub const ROOT_HANDLER: u64 = 0x400;
    /// Handlers begin at most this many bytes after [`HANDLERS`], so that they end before [`CONTROL_BLOCKS`].
    pub const MOST_OFFSET: u64 = 0xF_0000;
    /// Process control blocks, a page each; the lower half is the URPT (SV97-13).
    pub const CONTROL_BLOCKS: u64 = 0xFF10_0000;
    /// Copies of the URPT groups of segments that no register holds, 256 bytes each.
    pub const GROUPS: u64 = 0xFC00_0000;
    /// Page tables at physical addresses: pages, and nodes of other organisations.
    pub const TABLES: u64 = 0x8000_0000;

    /// Process control block of an address space. There is room for 3824 in a row; then the addresses repeat.
    pub const fn control_block(asid: u32) -> u64 {
        CONTROL_BLOCKS + (asid as u64 % 0xEF0) * 4096
    }
    /// The copy of the URPT group of a segment. There is room for 196608.
    pub const fn group(id: u32) -> u64 {
        GROUPS + (id as u64 % 0x30000) * 256
    }
}
