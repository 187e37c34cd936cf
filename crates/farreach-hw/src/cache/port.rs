//! The port through which translation hardware reads its tables in memory (HW-7).
//!
//! Reads go out in steps: the references of a step are made in parallel, for a demand or in the background. With
//! `walk_cost = caches` the machine lends its caches to the port for the time of a lookup, so that a part learns at
//! once which level answered. Otherwise a reference has a fixed price, and the port counts it.
//!
//! A machine of several cores has one page table in one memory: the port, with the caches and the places of the tables,
//! is handed over to the core that runs.

use super::levels::LINE_SHIFT;
use super::{At, Entry, Levels, Nodes};
use farreach_types::addr::Asid;
use farreach_types::counts::{Answered, MemoryCounts, WalkCaches};

/// A reference of a walker to a table in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeRead {
    /// Level of a page table, 0 for the leaves of 4 KB pages, [`NodeRead::RANGES`], [`NodeRead::HOST`], or
    /// [`NodeRead::PART`].
    pub level: u8,
    /// Physical address of the first of eight bytes.
    pub address: u64,
}

impl NodeRead {
    /// The level of range tables.
    pub const RANGES: u8 = 5;
    /// All levels of a host's page table.
    pub const HOST: u8 = 6;
    /// Tables of a part that counts its references itself.
    pub const PART: u8 = 7;
}

/// Whether the program waits for a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// It does.
    Demand,
    /// It runs on meanwhile.
    Background,
}

/// Where the references of a step begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Begins {
    /// Where page-table walkers ask first (`walker_reads`).
    AsWalkers,
    /// The first-level data cache.
    L1d,
    /// The second level.
    L2,
}

/// What the last demand walk read, for those who predict walks or learn from them.
#[derive(Clone, Copy, Debug)]
pub struct LastWalk {
    /// Steps: nodes of a radix tree, or steps of another table.
    pub steps: u64,
    /// Nodes of a radix tree by level, from the leaves of base pages up.
    pub by_level: [u64; 5],
    /// Levels and answers of the steps in order, where references go through caches that are lent.
    answers: [Option<(u8, At)>; LastWalk::MOST],
    known: usize,
}

impl Default for LastWalk {
    fn default() -> LastWalk {
        LastWalk { steps: 0, by_level: [0; 5], answers: [None; LastWalk::MOST], known: 0 }
    }
}

impl LastWalk {
    /// Steps whose answers are kept. Walks of a radix tree have at most five, in two dimensions 35.
    const MOST: usize = 36;

    fn note(&mut self, level: u8, at: At) {
        if let Some(answer) = self.answers.get_mut(self.known) {
            *answer = Some((level, at));
            self.known += 1;
        }
    }

    /// The table level and the answer of each step, in order, as far as they are known.
    pub fn answers(&self) -> impl Iterator<Item = (u8, At)> + '_ {
        self.answers[..self.known].iter().flatten().copied()
    }

    /// Whether a reference went to memory.
    pub fn reached_memory(&self) -> bool {
        self.answers().any(|(_, at)| at == At::Memory)
    }
}

/// See the module.
pub struct Port {
    /// Those of the machine while they are lent, else the smallest there are.
    caches: Box<Levels>,
    lent: bool,
    /// Whether references go through caches, so that they need addresses.
    by_caches: bool,
    /// Where the tables of walkers lie, if anybody needs addresses.
    nodes: Option<Nodes>,
    recorded: Vec<NodeRead>,
    last_walk: LastWalk,
}

impl Port {
    /// `by_caches`: references go through caches.
    pub(crate) fn new(by_caches: bool) -> Port {
        Port {
            caches: Box::new(Levels::smallest()),
            lent: false,
            by_caches,
            nodes: None,
            recorded: Vec::new(),
            last_walk: LastWalk::default(),
        }
    }

    /// With tables of walkers, which have addresses.
    pub(crate) fn with_nodes(self, nodes: Option<Nodes>) -> Port {
        Port { nodes, ..self }
    }

    /// Whether tables of walkers have addresses.
    #[inline]
    pub(crate) fn has_nodes(&self) -> bool {
        self.nodes.is_some()
    }

    /// The read of an entry of a table of walkers.
    #[inline]
    pub(crate) fn place(&mut self, entry: Entry) -> NodeRead {
        let nodes = self.nodes.as_mut().expect("caches want to know where tables are");
        NodeRead { level: entry.level, address: nodes.address(entry) }
    }

    /// The tables of an address space are freed.
    pub(crate) fn gone(&mut self, asid: Asid) {
        if let Some(nodes) = &mut self.nodes {
            nodes.gone(asid);
        }
    }

    /// Whether references go through caches, so that they need addresses.
    #[inline]
    pub fn by_caches(&self) -> bool {
        self.by_caches
    }

    /// Exchanges caches with the machine: lends them before a lookup, and returns them behind it.
    #[inline]
    pub fn exchange(&mut self, caches: &mut Box<Levels>) {
        debug_assert!(self.by_caches, "nothing reads through caches");
        std::mem::swap(&mut self.caches, caches);
        self.lent = !self.lent;
    }

    /// The machine continues on another core, which gets the port in exchange for its own. The caches, if they are
    /// lent, answer for that core from now on.
    pub(crate) fn hand_over(&mut self, to: &mut Port, core: usize) {
        std::mem::swap(self, to);
        if to.lent {
            to.caches.run_on(core);
        }
    }

    /// The references since the last call, in order, if they go through caches and none were lent.
    pub fn recorded(&mut self) -> std::vec::Drain<'_, NodeRead> {
        self.recorded.drain(..)
    }

    /// A demand walk begins, which [`Port::last_walk`] is to describe.
    pub(crate) fn walk_begins(&mut self) {
        self.last_walk = LastWalk::default();
    }

    /// The walk is over. It read these numbers of nodes of each level of a radix tree, and of the host's, which a
    /// walker with fixed prices does not read through the port.
    pub(crate) fn walk_ends(&mut self, by_level: [u64; 5], of_host: u64) {
        self.last_walk.steps += by_level.iter().sum::<u64>() + of_host;
        self.last_walk.by_level = by_level;
    }

    /// The last demand walk.
    pub(crate) fn last_walk(&self) -> LastWalk {
        self.last_walk
    }

    /// The caches, those of the machine while they are lent.
    pub(crate) fn caches(&mut self) -> &mut Levels {
        &mut self.caches
    }

    #[inline]
    fn read(&mut self, read: NodeRead, begins: Begins) -> Option<At> {
        if self.lent {
            let line = read.address >> LINE_SHIFT;
            return Some(match begins {
                Begins::AsWalkers => self.caches.walker(line),
                Begins::L1d => self.caches.reference(1, line, false),
                Begins::L2 => self.caches.second(line),
            });
        }
        self.recorded.push(read);
        None
    }

    /// A reference to a node of the page table, a range table or a host's table, if references go through caches.
    /// What answered it, if that is known.
    #[inline]
    pub(crate) fn node(&mut self, read: NodeRead, counts: &mut WalkCaches) -> Option<At> {
        let at = if self.by_caches { self.read(read, Begins::AsWalkers)? } else { return None };
        self.last_walk.note(read.level, at);
        *answered_at(counts.at(read.level), at) += 1;
        Some(at)
    }

    /// As [`Port::node`], to a leaf of a data page (ITP-2).
    #[inline]
    pub(crate) fn leaf(&mut self, read: NodeRead, counts: &mut WalkCaches) -> Option<At> {
        let at = self.node(read, counts);
        if self.lent {
            self.caches.mark_leaf(read.address >> LINE_SHIFT);
        }
        at
    }

    /// One step of a part: references made in parallel. Returns the level that answered the slowest; `None` where
    /// references have a fixed price.
    pub(crate) fn step(&mut self, purpose: Purpose, addresses: &[u64], counts: &mut MemoryCounts) -> Option<At> {
        self.step_from(Begins::AsWalkers, purpose, addresses, counts)
    }

    /// As [`Port::step`], from this cache level on.
    pub(crate) fn step_from(
        &mut self,
        begins: Begins,
        purpose: Purpose,
        addresses: &[u64],
        counts: &mut MemoryCounts,
    ) -> Option<At> {
        debug_assert!(!addresses.is_empty(), "a step without references");
        let many = addresses.len() as u64;
        match purpose {
            Purpose::Demand => {
                self.last_walk.steps += 1;
                counts.made.steps += 1;
                counts.made.references += many;
            }
            Purpose::Background => counts.made.background_references += many,
        }
        if !self.by_caches {
            return None;
        }
        let mut slowest = None;
        for &address in addresses {
            let at = self.read(NodeRead { level: NodeRead::PART, address }, begins);
            if let (Some(at), Purpose::Background) = (at, purpose) {
                *answered_at(&mut counts.background_answered, at) += 1;
            }
            slowest = slowest.max(at);
        }
        if let (Some(at), Purpose::Demand) = (slowest, purpose) {
            self.last_walk.note(NodeRead::PART, at);
            *answered_at(&mut counts.answered, at) += 1;
        }
        slowest
    }
}

/// The counter of a level.
pub(crate) fn answered_at(counts: &mut Answered, at: At) -> &mut u64 {
    match at {
        At::L1 => &mut counts.l1,
        At::L2 => &mut counts.l2,
        At::Llc => &mut counts.llc,
        At::Memory => &mut counts.memory,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// HW-7: of references in parallel the slowest counts, and those in the background count apart.
    #[test]
    fn hw_7_a_step_costs_its_slowest_reference() {
        let mut caches = Box::new(Levels::smallest());
        let (mut port, mut counts) = (Port::new(true), MemoryCounts::default());
        port.exchange(&mut caches);
        // A second level of one line, and no last level: the line used last is there, all others are in memory.
        assert_eq!(port.step(Purpose::Demand, &[0], &mut counts), Some(At::Memory));
        assert_eq!(port.step(Purpose::Demand, &[8], &mut counts), Some(At::L2));
        assert_eq!(port.step(Purpose::Demand, &[16, 4096], &mut counts), Some(At::Memory));
        assert_eq!(port.step(Purpose::Background, &[4096, 0], &mut counts), Some(At::Memory));
        port.exchange(&mut caches);
        assert_eq!((counts.made.steps, counts.made.references, counts.made.background_references), (3, 4, 2));
        assert_eq!(counts.answered, Answered { l2: 1, memory: 2, ..Answered::default() });
        assert_eq!(counts.background_answered, Answered { l2: 1, memory: 1, ..Answered::default() });
        assert_eq!(port.recorded().count(), 0, "the caches answered");
    }

    /// With a fixed price nothing has an address, and every step is counted all the same.
    #[test]
    fn nothing_is_free_without_caches() {
        let (mut port, mut counts) = (Port::new(false), MemoryCounts::default());
        assert_eq!(port.step(Purpose::Demand, &[0, 64, 128], &mut counts), None);
        assert_eq!((counts.made.steps, counts.made.references), (1, 3));
    }
}
