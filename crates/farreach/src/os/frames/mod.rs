//! Physical frames: who is free. Identity, reservation and contents are the business of [`super`]; this layer hands out frames.

use crate::addr::Pfn;
use std::ops::Range;

/// Hands out frames of a physical memory that is finite or without end. Takes memory by what is touched, not by what exists:
/// a terabyte of free frames costs next to nothing.
pub trait FrameAllocator: Send {
    /// One frame for an ordinary request; `None` when no frame is free.
    fn alloc(&mut self) -> Option<Pfn>;

    /// One frame for virtual page `vpn`; allocators that care for the address (page colouring) override it.
    fn alloc_near(&mut self, vpn: crate::addr::Vpn) -> Option<Pfn> {
        let _ = vpn;
        self.alloc()
    }

    /// Takes the frames `base + covered` of the lowest wholly free aligned group of `2^order` frames and returns `base`; the other
    /// frames of the group stay as free as they were (T94-44, T94-50). `None` when no group is wholly free.
    fn alloc_group(&mut self, order: u32, covered: Range<u64>) -> Option<Pfn>;

    /// Gives back a frame that `alloc` or `alloc_group` handed out. Panics on any other frame.
    fn free(&mut self, pfn: Pfn);

    /// Frames there are, pinned ones included; `None`: no end.
    fn total(&self) -> Option<u64>;

    /// Frames that are handed out now.
    fn allocated(&self) -> u64;

    /// Frames that belong to others for ever (fragmentation).
    fn pinned(&self) -> u64;

    /// Free frames; `None`: no end. `free + allocated + pinned = total` after every operation (XC-6).
    fn free_frames(&self) -> Option<u64>;

    /// Groups and list elements looked at so far, the work of allocation (Table 2 of T94).
    fn steps(&self) -> u64;
}
/// Keys.
pub const KEYS: &[&crate::params::Key] = &[];
/// Build.
pub fn build(_params: &crate::params::Params, _seed: u64) -> Result<Box<dyn FrameAllocator>, String> {
    Err("none".into())
}
