//! The designs that a description can name.

use super::contract::Design;
use super::designs::{
    clustered, coalesced, complete_subblock, hierarchy, integrated, partial_subblock, range, segment, single, skewed,
    superpage, two_level,
};

/// All designs. A new design is one file in `designs` and one line here.
pub const DESIGNS: &[&Design] = &[
    &single::DESIGN,
    &superpage::DESIGN,
    &complete_subblock::DESIGN,
    &partial_subblock::DESIGN,
    &integrated::DESIGN,
    &two_level::DESIGN,
    &hierarchy::DESIGN,
    &range::DESIGN,
    &clustered::DESIGN,
    &coalesced::DESIGN,
    &segment::DESIGN,
    &skewed::DESIGN,
];

/// The design of this kind.
pub fn design(kind: &str) -> Option<&'static Design> {
    DESIGNS.iter().copied().find(|d| d.kind == kind)
}
