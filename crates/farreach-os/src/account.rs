//! Where all frames are, for checks that none is lost.

use crate::os::Os;

/// The frames of the memory by state, at one moment. In a finite memory the sum of all but the first and the last is
/// `total` and `foreign`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frames {
    /// Number of frames; `None`: unlimited.
    pub total: Option<u64>,
    /// Free for any request; `None`: unlimited.
    pub free: Option<u64>,
    /// Pinned: they belong to others all the time (fragmentation).
    pub pinned: u64,
    /// With contents.
    pub resident: u64,
    /// Held back for a page or a process.
    pub reserved: u64,
    /// Set aside by the policy, and free there.
    pub set_aside: u64,
    /// Belong to others, and can be moved.
    pub others: u64,
    /// Set aside, and never known to the allocator.
    pub foreign: u64,
}

impl Os {
    /// Where all frames are.
    pub fn frames(&self) -> Frames {
        let memory = &self.memory;
        Frames {
            total: memory.alloc.total(),
            free: memory.alloc.free_frames(),
            pinned: memory.alloc.pinned(),
            resident: memory.resident(),
            reserved: memory.reserved(),
            set_aside: memory.pool.free_frames(),
            others: memory.others().len(),
            foreign: memory.pool.foreign(),
        }
    }
}
