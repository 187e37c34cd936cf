//! Chip area in register-bit equivalents (AREA-1): single-ported, fully associative.

use farreach_hw::tlb::EntryBits;
use std::f64::consts::SQRT_2;

/// Control logic (a PLA), independent of the size.
const CONTROL: f64 = 130.0;
/// One RAM bit. A bit of the associative array is square and `sqrt 2` longer on either side.
const RAM_BIT: f64 = 0.6;
/// Drivers along one edge of an array and sense amplifiers along the other, in bit widths.
const EDGE: f64 = 6.0;

/// Area of `entries` entries of `bits` each. The example is the ratio that the text of the paper calls about 4.5
/// (AREA-7).
///
/// ```
/// use farreach_cost::area::area_rbe;
/// use farreach_hw::tlb::design;
/// use farreach_types::params::Params;
///
/// let area = |kind| {
///     let design = design(kind)?;
///     let params = Params::resolve(design.keys, &Default::default()).ok()?;
///     Some(area_rbe(params.int("entries"), (design.bits)(&params)?))
/// };
/// let ratio = area("complete").unwrap() / area("superpage").unwrap();
/// assert_eq!(format!("{ratio:.2}"), "4.42");
/// ```
pub fn area_rbe(entries: u64, bits: EntryBits) -> f64 {
    let n = entries as f64;
    let ram = RAM_BIT * (n + EDGE) * ((bits.data + bits.status) as f64 + EDGE);
    let cam = RAM_BIT * (SQRT_2 * n + EDGE) * (SQRT_2 * bits.tag as f64 + EDGE);
    CONTROL + ram + cam
}

/// The number of entries, not rounded, at which this kind of entry takes `area`. Area is linear in the entry count
/// (AREA-3).
pub fn entries_for_area(area: f64, bits: EntryBits) -> f64 {
    let none = area_rbe(0, bits);
    (area - none) / (area_rbe(1, bits) - none)
}
