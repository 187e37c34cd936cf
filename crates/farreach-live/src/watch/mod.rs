//! Which pages of a running process are used, by what the kernel offers. The process is neither stopped nor changed:
//! all of these clear bits that the kernel or the processor sets again, and look which were set.
//!
//! A processor sets the used bit of a page when it walks the page table. Where nothing flushes its TLB, a page whose
//! entry stays there all the time is not seen; [`Watcher::begin`] says whether it could be flushed.

mod clear_refs;
mod damon;
mod frames;
mod idle;
mod price;

use crate::tries::Failure;
use std::io;
use std::ops::Range;
use std::time::Duration;

pub use clear_refs::{clear_refs_works, soft_dirty_works};
pub use damon::ready as damon_ready;
pub use idle::ready as idle_ready;
pub use price::used_page;

/// Present pages that follow each other in the address space, and in frames.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Present {
    /// The pages.
    pub pages: Range<u64>,
    /// Frame of the first; `None` if frames are not visible.
    pub frame: Option<u64>,
}

/// A way to watch. The order is that of preference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// Used bits of pages, collected by DAMON.
    Damon,
    /// Used bits of pages, by the bitmap of idle pages.
    IdlePages,
    /// Used bits, cleared by `clear_refs` and counted by mapping in smaps.
    ClearRefs,
    /// Stores alone: soft-dirty bits of pages.
    SoftDirty,
    /// What is present; nothing about use.
    Resident,
}

impl Method {
    /// All, best first.
    pub const ALL: [Method; 5] =
        [Method::Damon, Method::IdlePages, Method::ClearRefs, Method::SoftDirty, Method::Resident];

    /// Its name in options.
    pub fn name(self) -> &'static str {
        match self {
            Method::Damon => "damon",
            Method::IdlePages => "idle-pages",
            Method::ClearRefs => "clear-refs",
            Method::SoftDirty => "soft-dirty",
            Method::Resident => "resident",
        }
    }

    /// Begins to watch a process.
    ///
    /// # Errors
    /// Why it does not work here, and what turns it on.
    pub fn open(self, pid: i32) -> Result<Box<dyn Watcher>, Failure> {
        Ok(match self {
            Method::Damon => Box::new(damon::Damon::open(pid)?),
            Method::IdlePages => Box::new(idle::IdlePages::open(pid)?),
            Method::ClearRefs => Box::new(clear_refs::ClearRefs::open(pid)?),
            Method::SoftDirty => Box::new(clear_refs::SoftDirty::open(pid)?),
            Method::Resident => Box::new(Resident),
        })
    }
}

/// What was used in an interval.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Seen {
    /// These pages.
    Pages(Vec<Range<u64>>),
    /// These pages, of those that were watched: all present pages of some blocks of 2 MB.
    Sample {
        /// Watched.
        watched: Vec<Range<u64>>,
        /// Used.
        used: Vec<Range<u64>>,
    },
    /// `Referenced` in smaps says how much of each mapping.
    InSmaps,
    /// It is not known.
    Nothing,
}

impl Seen {
    /// Pages whose use was noted, each of which cost the process [`used_page`]; `None` where smaps has their number.
    pub fn noted(&self) -> Option<u64> {
        match self {
            Seen::Pages(used) | Seen::Sample { used, .. } => Some(used.iter().map(|run| run.end - run.start).sum()),
            Seen::InSmaps => None,
            Seen::Nothing => Some(0),
        }
    }
}

/// A process that is watched, interval by interval.
pub trait Watcher {
    /// Begins an interval of about this length: forgets what was used. `present`: its pages now, ascending.
    ///
    /// # Errors
    /// The kernel's; `NotFound` or ESRCH if the process has ended.
    fn begin(&mut self, present: &[Present], length: Duration) -> io::Result<()>;

    /// Ends the interval. The memory of the process, if it is needed, is to be read at once.
    ///
    /// # Errors
    /// As `begin`.
    fn end(&mut self) -> io::Result<Seen>;

    /// Whether pages are seen whose entries stay in the TLB: it is flushed at the beginning of each interval.
    fn flushes(&self) -> bool {
        true
    }

    /// How long page faults of the process may have had to wait so far, call by call: the longest, and all.
    fn waits(&self) -> [Duration; 2] {
        [Duration::ZERO; 2]
    }

    /// The thread of the kernel that works for it, if there is one.
    fn kernel_thread(&self) -> Option<i32> {
        None
    }
}

/// Sees what is present, which the caller reads.
struct Resident;

impl Watcher for Resident {
    fn begin(&mut self, _: &[Present], _: Duration) -> io::Result<()> {
        Ok(())
    }
    fn end(&mut self) -> io::Result<Seen> {
        Ok(Seen::Nothing)
    }
}
