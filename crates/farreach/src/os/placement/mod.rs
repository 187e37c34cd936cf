//! Where a page goes: the policies that choose a frame for an object page that has none. A policy is one file here and one
//! line in [`PLACEMENTS`].

mod demand;
mod reservation;
mod two_size;

pub(super) use reservation::object_kinds;

use super::memory::Memory;
use super::object::ObjectId;
use crate::addr::{Pfn, Vpn};
use crate::params::{Key, Params};

/// A page that needs a frame.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// Where it was referenced.
    pub vpn: Vpn,
    /// What it belongs to.
    pub object: ObjectId,
    /// Which page of it.
    pub page: u64,
}

/// A placement policy. It takes frames from the memory it is given; making the asked-for page busy is the caller's business.
pub trait Placement: Send {
    /// A frame for a page that has neither a busy nor a reserved one; `None` when memory is full.
    fn place(&mut self, memory: &mut Memory, ask: Ask) -> Option<Pfn>;

    /// log2 of the base pages in the large pages that the policy allocates whole and notes in
    /// `Object::large`: they are mapped as one at the fault, if nothing is in the way.
    fn large(&self) -> Option<u32> {
        None
    }
}

/// A policy as the registry knows it.
pub struct PlacementKind {
    /// Value of the key `placement`.
    pub name: &'static str,
    /// One line for people.
    pub about: &'static str,
    /// The keys it reads.
    pub keys: &'static [&'static Key],
    /// Builds it.
    pub build: fn(&Params) -> Result<Box<dyn Placement>, String>,
}

/// All placement policies. A new policy is one file and one line here.
pub const PLACEMENTS: &[&PlacementKind] = &[&demand::DEMAND, &reservation::RESERVATION, &two_size::TWO_SIZE];

/// The policy of this name.
pub fn placement(name: &str) -> Option<&'static PlacementKind> {
    PLACEMENTS.iter().copied().find(|p| p.name == name)
}
