//! Physical frames: which are free. Identity, reservation and contents belong to `memory`; this layer hands
//! out frames.
//!
//! - [`contract`]: the traits of allocators;
//! - [`fifo`]: the allocator of T94-43 to T94-50, a first-in first-out list with wholly free groups found at once;
//! - [`buddy`]: the buddy allocator of RMM15-24 to RMM15-27;
//! - [`colour`]: the page-colouring allocator, the negative control of T94-61;
//! - [`pool`]: frames set aside at the start;
//! - [`pinned`], [`fragmentation`]: which frames belong to others from the start;
//! - [`keys`]: the keys of a machine description, and the allocator they describe;
//! - [`numbers`]: frame numbers outside of every allocator.

mod allocated;
pub mod buddy;
pub mod colour;
pub mod contract;
pub mod fifo;
pub mod fragmentation;
pub mod keys;
pub mod numbers;
pub mod pinned;
pub mod pool;
pub(crate) mod queue;
pub(super) mod sparse;

pub use buddy::{Buddy, Pick};
pub use colour::Colouring;
pub use contract::{BlockAllocator, Eager, FrameAllocator};
pub use fifo::Fifo;
pub use fragmentation::Fragmentation;
pub use pinned::{PhysicalMemory, PinnedSet};
pub use pool::Pool;
