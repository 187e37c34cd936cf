//! Linux: a page of the page table lies on the node of the core that first needed it.

use super::{COMMON_KEYS, Listed, NodeSet, Placement};

pub const LISTED: Listed = Listed {
    name: "first_touch",
    about: "a page of the page table lies on the node of the core that first needed it",
    keys: COMMON_KEYS,
    build: |_| Ok(Box::new(FirstTouch)),
};

struct FirstTouch;

impl Placement for FirstTouch {
    fn made(&self, by: u8) -> (Option<u8>, NodeSet) {
        (Some(by), 1 << by)
    }
}
