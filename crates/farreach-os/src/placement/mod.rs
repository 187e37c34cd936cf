//! Placement: the policies that choose a frame for an object page that has none. A policy is one file here, after the
//! contract in [`contract`], and one line in [`PLACEMENTS`].

pub(crate) mod cap;
pub(crate) mod carrefour;
pub mod contract;
mod demand;
mod eager;
mod freebsd;
pub(crate) mod guest;
pub(crate) mod hawkeye;
mod hugetlb;
mod ingens;
mod linux;
mod mapping;
mod mosaic;
mod navarro;
mod perforated;
mod quicksilver;
mod ranger;
mod reservation;
mod segment;
mod solaris;
mod thp;
mod tps;
mod trident;
mod two_size;
pub mod utopia;
mod windows;

pub use contract::PlacementKind;
pub use segment::SEGMENT;

/// All placement policies. A new policy is one file and one line here.
pub const PLACEMENTS: &[&PlacementKind] = &[
    &demand::DEMAND,
    &reservation::RESERVATION,
    &navarro::NAVARRO,
    &freebsd::FREEBSD,
    &quicksilver::QUICKSILVER,
    &tps::TPS,
    &two_size::TWO_SIZE,
    &thp::THP_KIND,
    &linux::LINUX,
    &ingens::INGENS,
    &hawkeye::HAWKEYE,
    &solaris::SOLARIS,
    &windows::WINDOWS,
    &trident::TRIDENT,
    &cap::CAP,
    &ranger::RANGER,
    &carrefour::CARREFOUR,
    &perforated::PERFORATED,
    &hugetlb::HUGETLB,
    &eager::EAGER,
    &SEGMENT,
    &mapping::MAPPING,
    &utopia::UTOPIA,
    &mosaic::MOSAIC,
    &guest::GUEST,
];

/// The policy of this name.
pub fn placement(name: &str) -> Option<&'static PlacementKind> {
    PLACEMENTS.iter().copied().find(|p| p.name == name)
}
