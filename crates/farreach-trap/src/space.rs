//! An address space of the program, as the monitor keeps it.

use crate::agent::{Agent, Trouble};
use crate::call::Waiting;
use crate::contents;
use crate::regions::{Memory, OnFork, Region, Regions};
use crate::uffd::Uffd;
use rustix::fd::OwnedFd;
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

pub const PAGE: u64 = 4096;

/// Pages that are reclaimed by the kernel, if not more leave at once; the agent is faster with many.
const FEW: u64 = 12;

/// See the module.
pub struct Space {
    pub agent: Agent,
    pub uffd: Uffd,
    /// Contents of its private memory: those of a page lie at the page's address.
    pub memory: OwnedFd,
    /// The number of `memory` among the agent's files.
    file: u64,
    pub regions: Regions,
    /// End of the heap that brk moves.
    pub heap_end: u64,
    /// Where the stack has not grown yet: room that the laboratory is told of page by page, as the kernel would map it.
    pub stack_room: Range<u64>,
    /// The stack of the first task, with that room.
    pub stack: Range<u64>,
    /// Bytes of segments that shmat attached, by address.
    pub attached: HashMap<u64, u64>,
    /// Tasks of the program in it.
    pub tasks: usize,
    /// The task that is inside a system call that changes mappings: one at a time.
    pub caller: Option<i32>,
    /// Tasks that wait for that.
    pub callers: VecDeque<(i32, Waiting)>,
    pagemap: File,
}

/// How pages left the page table.
#[derive(Default)]
pub struct Unmapped {
    pub pages: u64,
    pub by_agent: u64,
    /// The kernel may not be asked.
    pub refused: bool,
}

impl Space {
    /// An address space in which nothing is observed yet.
    pub fn new(agent: Agent, regions: Regions, heap_end: u64) -> Result<Space, Trouble> {
        let uffd = Uffd::new(agent.userfaultfd()?)?;
        let (file, memory) = agent.memory_file()?;
        rustix::fs::ftruncate(&memory, 1 << 47)?;
        let pagemap = File::open(format!("/proc/{}/pagemap", agent.number()))?;
        Ok(Space {
            agent,
            uffd,
            memory,
            file,
            regions,
            heap_end,
            stack_room: 0..0,
            stack: 0..0,
            attached: HashMap::new(),
            tasks: 1,
            caller: None,
            callers: VecDeque::new(),
            pagemap,
        })
    }

    /// Puts memory of the space's own in the place of what the kernel mapped, and observes it.
    pub fn overlay(&mut self, bytes: Range<u64>, region: Region) -> Result<(), Trouble> {
        self.agent.map(bytes.clone(), region.prot, self.file)?;
        self.uffd.register(bytes.clone())?;
        self.regions.insert(bytes.start, region);
        Ok(())
    }

    /// Observes memory that the kernel shares with others, if that can be. Returns whether it is.
    pub fn observe_shared(&mut self, bytes: Range<u64>, prot: i32) -> bool {
        let seen = self.uffd.register(bytes.clone()).is_ok();
        let memory = if seen { Memory::Shared } else { Memory::Unseen };
        self.regions.insert(bytes.start, Region { end: bytes.end, prot, memory, on_fork: OnFork::Copy });
        seen
    }

    /// Observes memory like that of a region.
    pub fn overlay_or_observe(&mut self, bytes: Range<u64>, region: Region) -> Result<(), Trouble> {
        match region.memory {
            Memory::Own | Memory::File { .. } => self.overlay(bytes, region)?,
            Memory::Shared => _ = self.observe_shared(bytes, region.prot),
            Memory::Unseen => self.regions.insert(bytes.start, region),
        }
        Ok(())
    }

    /// What lies in these bytes is gone: regions, and contents of the space's own memory.
    pub fn forget(&mut self, bytes: Range<u64>) -> Result<(), Trouble> {
        self.drop_contents(bytes.clone())?;
        self.regions.remove(bytes);
        Ok(())
    }

    /// Drops the contents of the space's own memory in these bytes.
    pub fn drop_contents(&self, bytes: Range<u64>) -> Result<(), Trouble> {
        for (part, region) in self.regions.within(bytes) {
            if region.memory.is_own() {
                contents::drop_contents(&self.memory, part)?;
            }
        }
        Ok(())
    }

    /// Takes the contents of a child's memory from its parent, and observes the child. Returns the pages copied.
    pub fn take_over(&mut self, parent: &Space) -> Result<u64, Trouble> {
        let mut copied = 0;
        for (bytes, region) in parent.regions.iter().map(|(bytes, region)| (bytes, *region)) {
            match (region.memory, region.on_fork) {
                (_, OnFork::Leave) => {}
                (Memory::Unseen, _) => self.regions.insert(bytes.start, region),
                (Memory::Shared, _) => _ = self.observe_shared(bytes, region.prot),
                (Memory::Own | Memory::File { .. }, on_fork) => {
                    if on_fork == OnFork::Copy {
                        copied += contents::copy(&parent.memory, bytes.clone(), &self.memory, 0)? / PAGE;
                    }
                    let memory = if on_fork == OnFork::Wipe { Memory::Own } else { region.memory };
                    self.overlay(bytes, Region { memory, ..region })?;
                }
            }
        }
        self.stack_room = parent.stack_room.clone();
        self.stack = parent.stack.clone();
        self.attached.clone_from(&parent.attached);
        Ok(copied)
    }

    /// Takes pages out of the page table. They are out when this returns. `reclaim`: the kernel may be asked to reclaim
    /// them, which costs less than the agent; but it does so as it likes, so one looks.
    pub fn unmap(&mut self, runs: &[Range<u64>], reclaim: bool) -> Result<Unmapped, Trouble> {
        let mut done = Unmapped::default();
        let observed = |run: &Range<u64>| {
            let inside = self.regions.find(run.start).filter(|(_, region)| run.end <= region.end);
            let seen = inside.map(|(_, region)| region.memory != Memory::Unseen);
            match seen {
                Some(true) => vec![run.clone()],
                Some(false) => Vec::new(),
                None => {
                    let parts = self.regions.within(run.clone());
                    parts.into_iter().filter(|(_, r)| r.memory != Memory::Unseen).map(|(part, _)| part).collect()
                }
            }
        };
        let pieces: Vec<Range<u64>> = runs.iter().flat_map(observed).collect();
        done.pages = pieces.iter().map(|piece| (piece.end - piece.start) / PAGE).sum();
        if done.pages == 0 {
            return Ok(done);
        }
        if !reclaim || done.pages > FEW {
            pieces.into_iter().try_for_each(|piece| self.agent.unmap_pages(piece))?;
            done.by_agent = done.pages;
            return Ok(done);
        }
        // Pages that it does not reclaim are still there, which is seen below.
        let asked = crate::sys::reclaim(&self.agent.process, &pieces);
        done.refused = asked.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied);
        for piece in pieces {
            for page in piece.step_by(PAGE as usize) {
                if self.is_mapped(page)? {
                    self.agent.unmap_pages(page..page + PAGE)?;
                    done.by_agent += 1;
                }
            }
        }
        Ok(done)
    }

    /// Whether a page is in the page table.
    pub fn is_mapped(&self, page: u64) -> io::Result<bool> {
        let mut entry = [0; 8];
        self.pagemap.read_exact_at(&mut entry, page / PAGE * 8)?;
        Ok(u64::from_ne_bytes(entry) >> 63 != 0)
    }
}
