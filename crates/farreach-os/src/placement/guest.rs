//! No placement: the kernel of a recorded system made the page tables. `crate::guest` is the mechanism.

use super::contract::{FrameRequest, Placement, PlacementKind};
use crate::memory::Memory;
use farreach_types::addr::{Bytes, Pfn};
use farreach_types::params::{Allowed, Key, Params};

const STALE: Key = Key {
    name: "stale",
    default: "dropped",
    allowed: Allowed::OneOf(&["dropped", "guest"]),
    about: "an entry goes when the guest changes the word of its table, or only when the guest invalidates it, as \
            hardware does",
};
const TAGS: Key = Key {
    name: "tags",
    default: "guest",
    allowed: Allowed::OneOf(&["guest", "pcid", "all"]),
    about: "entries that outlive a switch of address spaces: those that the guest's registers let live, those of the \
            last 6 spaces of a processor as in Linux with PCID (SHD-4), or all",
};

/// Registry entry.
pub const GUEST: PlacementKind = PlacementKind {
    name: "guest",
    about: "the page tables of a recorded system, as its own kernel made them",
    keys: &[&STALE, &TAGS],
    build,
};

/// Which entries outlive a switch of address spaces.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Tags {
    /// As the guest's registers say.
    #[default]
    Guest,
    /// Those of the last spaces of a processor (SHD-4).
    Pcid,
    /// All.
    All,
}

/// How entries follow the guest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GuestPolicy {
    /// Stale entries stay until the guest invalidates them.
    pub keeps_stale: bool,
    /// What outlives switches.
    pub tags: Tags,
}

struct Guest(GuestPolicy);

fn build(params: &Params) -> Result<Box<dyn Placement>, String> {
    let sizes: Vec<String> = params.sizes("promote").into_iter().map(|size| Bytes(size).to_string()).collect();
    let memory = params.size("memory").map_or("unlimited".into(), |bytes| Bytes(bytes).to_string());
    let promote = if sizes.is_empty() { "none".into() } else { sizes.join("+") };
    // Keys of policies of this crate, the value that each must have, and whose work it is.
    for (key, value, only, why) in [
        ("promote", promote.as_str(), "none", "the guest's kernel makes its own large pages"),
        ("compaction", params.text("compaction"), "none", "the guest's kernel moves its own pages"),
        ("reclaim_unused", params.text("reclaim_unused"), "never", "the guest's kernel takes back its own pages"),
        ("memory", &memory, "unlimited", "the recorded system had its own memory"),
    ] {
        if value != only {
            return Err(format!("{key} = {value} is not allowed with placement = guest: {why}; {key} must be {only}"));
        }
    }
    let tags = match params.text(TAGS.name) {
        "pcid" => Tags::Pcid,
        "all" => Tags::All,
        _ => Tags::Guest,
    };
    Ok(Box::new(Guest(GuestPolicy { keeps_stale: params.text(STALE.name) == "guest", tags })))
}

impl Placement for Guest {
    fn allocate(&mut self, _: &mut Memory, _: FrameRequest) -> Option<Pfn> {
        unreachable!("a guest's kernel allocates its frames")
    }

    fn guest_policy(&self) -> Option<GuestPolicy> {
        Some(self.0)
    }
}
