//! Nodes of memory for data (CLP-1): which node the running thread is on, what of its accesses is sampled, and pages
//! that move to other nodes. Where frames lie is in [`memory::homes`](crate::memory).
//!
//! The system does not see accesses that hit in a TLB, so samples are page walks ([`Os::walked`]): of each walk it is
//! known which page a thread of which node needed.

mod threads;

use crate::memory::homes::Homes;
use crate::os::Os;
use crate::placement::contract::{Moved, NumaPolicy};
use farreach_types::addr::{Asid, Pfn, Vpn, VpnRange};
use farreach_types::event::Op;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use threads::Threads;

/// Samples of a page by threads of one node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Sample {
    /// Whose page.
    pub asid: Asid,
    /// The base page, also of a superpage.
    pub vpn: Vpn,
    /// The node of the threads.
    pub node: u8,
    /// How many.
    pub times: u64,
}

/// See the module.
pub(crate) struct Numa {
    threads: Threads,
    /// One of this number of walks is a sample.
    every: u64,
    walks: u64,
    /// Since they were last taken.
    samples: HashMap<(Asid, Vpn, u8), u64, FixedState>,
    local: u64,
    remote: u64,
}

/// What came of a page that should lie on a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Placed {
    /// It lies there.
    Already,
    /// It was copied.
    Copied,
    /// It cannot move, or there is no frame.
    Failed,
}

impl Numa {
    pub fn new(policy: NumaPolicy) -> Numa {
        Numa {
            threads: Threads::new(policy.cores, policy.nodes.into()),
            every: policy.every,
            walks: 0,
            samples: HashMap::default(),
            local: 0,
            remote: 0,
        }
    }

    /// Walks so far.
    pub fn walks(&self) -> u64 {
        self.walks
    }

    /// The samples since the last call, in the order of processes and pages.
    pub fn take_samples(&mut self) -> Vec<Sample> {
        let all = self.samples.drain().map(|((asid, vpn, node), times)| Sample { asid, vpn, node, times });
        let mut all: Vec<Sample> = all.collect();
        all.sort_unstable();
        all
    }
}

impl Os {
    /// Memory has nodes from now on.
    pub(crate) fn set_nodes(&mut self, policy: Option<NumaPolicy>) {
        self.numa = policy.map(|policy| Box::new(Numa::new(policy)));
        self.memory.homes = policy.map(|_| Homes::default());
    }

    /// A process runs: what gets contents now lies on the node of its thread.
    #[inline]
    pub(crate) fn runs(&mut self, asid: Asid) {
        if let (Some(numa), Some(homes)) = (&mut self.numa, &mut self.memory.homes) {
            homes.running = numa.threads.node_of(asid);
        }
    }

    /// After an event: another thread may run.
    pub(crate) fn follow_threads(&mut self, asid: Asid, op: &Op) {
        if let Some(numa) = &mut self.numa {
            numa.threads.follow(asid, op);
        }
    }

    /// A walk found this page in the page table: it may be a sample (CLP-1).
    pub(crate) fn walk_sampled(&mut self, asid: Asid, vpn: Vpn) {
        let (Some(numa), Some(homes)) = (&mut self.numa, &self.memory.homes) else { return };
        numa.walks += 1;
        if !numa.walks.is_multiple_of(numa.every) {
            return;
        }
        let Some(entry) = self.spaces.get(asid.0 as usize).and_then(|space| space.table.get(vpn)) else { return };
        let node = numa.threads.node_of(asid);
        *numa.samples.entry((asid, vpn, node)).or_insert(0) += 1;
        let is_local = homes.get(entry.pfn) == node;
        *if is_local { &mut numa.local } else { &mut numa.remote } += 1;
    }

    /// The node of a frame, 0 where memory has none.
    pub(crate) fn home(&self, pfn: Pfn) -> u8 {
        self.memory.homes.as_ref().map_or(0, |homes| homes.get(pfn))
    }

    /// The node on which a superpage made of these pages comes to lie, if memory has nodes: that of most of them.
    pub(crate) fn home_of_group(&self, asid: Asid, group: VpnRange) -> Option<u8> {
        let table = &self.spaces[asid.0 as usize].table;
        let frames = || table.mapped_in(group).into_iter().filter_map(|vpn| Some(table.get(vpn)?.pfn));
        self.memory.homes.as_ref().and_then(|_| self.memory.home_of_most(frames()))
    }

    /// A whole page or superpage, which is mapped, is to lie on a node: it is copied to other frames. Pages that
    /// are mapped more than once stay, those of the kernel too, and all if there are no frames.
    pub(crate) fn move_to_node(&mut self, asid: Asid, pages: VpnRange, node: u8) -> Placed {
        let entry = self.spaces[asid.0 as usize].table.get(pages.start);
        let Some(entry) = entry else { return Placed::Failed };
        let (from, order) = (entry.pfn, entry.order);
        if (from.0..from.0 + pages.pages).all(|frame| self.home(Pfn(frame)) == node) {
            return Placed::Already;
        }
        let is_kernel = self.spaces[asid.0 as usize].regions.find(pages.start).is_some_and(|at| self.is_kernel(at));
        if is_kernel || 1 << order != pages.pages || !self.moves_alone(&Moved { asid, vpn: pages.start, from, order }) {
            return Placed::Failed;
        }
        // HWE-6: all of it is copied.
        self.memory.alloc.prefer_zeroed(false);
        let to = match order {
            0 => self.memory.alloc_frame(pages.start),
            order => self.memory.alloc_block(order.into()),
        };
        let Some(to) = to else { return Placed::Failed };
        self.move_run(asid, pages, to);
        self.memory.set_home(to, pages.pages, Some(node));
        self.memory.release_freed();
        self.sync_ranges(asid);
        Placed::Copied
    }

    /// Samples by whether the page lay on the node of its thread, by name; nothing where memory has no nodes.
    pub(crate) fn sample_counters(&self) -> Vec<(&'static str, u64)> {
        let numa = self.numa.as_ref();
        numa.map_or(Vec::new(), |numa| vec![("walk_samples_local", numa.local), ("walk_samples_remote", numa.remote)])
    }
}
