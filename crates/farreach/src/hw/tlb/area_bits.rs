//! Field widths of T94-1, from which AREA-2 builds its entries.

use crate::params::Params;

/// Virtual page number.
pub(super) const VPN: u64 = 52;
/// Physical page number.
pub(super) const PPN: u64 = 36;
/// Attributes of one mapping.
pub(super) const ATTR: u64 = 8;
/// The size field of an entry that can have several page sizes.
pub(super) const SIZE: u64 = 4;
/// The used bit (AREA-2, S).
pub(super) const USED: u64 = 1;

/// The process id; a design without one does not pay for it.
pub(super) fn pid(params: &Params) -> u64 {
    if params.flag("process_ids") { 12 } else { 0 }
}
