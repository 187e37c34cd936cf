//! Events that are no references: what the operating system does, and definitions of blocks.

use super::{Block, Guest};
use crate::addr::Asid;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Most bytes of one [`Op::KernelStore`]: a system call transfers fewer.
pub const MAX_KERNEL_STORE: u64 = 1 << 31;

/// Protection of a mapping.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Prot {
    /// Loads allowed.
    pub read: bool,
    /// Stores allowed.
    pub write: bool,
    /// Fetches allowed.
    pub exec: bool,
}

impl Prot {
    /// Read and write.
    pub const RW: Prot = Prot { read: true, write: true, exec: false };
    /// Everything allowed: what a trace without map events gets.
    pub const RWX: Prot = Prot { read: true, write: true, exec: true };
    /// Nothing allowed: a guard.
    pub const NONE: Prot = Prot { read: false, write: false, exec: false };
}

/// What is mapped (XC-2). A guard is any mapping whose protection is [`Prot::NONE`].
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Backing {
    /// Anonymous memory from mmap.
    Anonymous,
    /// The brk heap.
    Heap,
    /// A stack; it grows downwards by further `Map`s of kind `Stack` that end where it starts.
    Stack,
    /// A file, mapped from byte `offset` on.
    File {
        /// Absolute path, as the kernel names it.
        path: Arc<str>,
        /// Offset in the file of the first byte of the mapping; a multiple of the base page.
        offset: u64,
    },
    /// vdso, vvar and other pages that the kernel provides.
    Kernel,
}

/// A new mapping. It replaces all mappings in its bytes.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Mapping {
    /// Virtual address of the first byte; a multiple of 4096.
    pub start: u64,
    /// Length in bytes; a multiple of 4096, not 0.
    pub len: u64,
    /// Protection.
    pub prot: Prot,
    /// Whether stores are seen by other mappings of the object (MAP_SHARED).
    pub shared: bool,
    /// The object that backs it.
    pub backing: Backing,
}

/// Advice of madvise that changes memory or page sizes; other advice is not recorded.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Advice {
    /// MADV_DONTNEED, MADV_FREE and MADV_REMOVE: the contents are dropped.
    DontNeed,
    /// MADV_HUGEPAGE.
    HugePage,
    /// MADV_NOHUGEPAGE.
    NoHugePage,
    /// MADV_WILLNEED.
    WillNeed,
    /// MAP_POPULATE, MAP_LOCKED and MADV_POPULATE_*: the kernel maps the pages at once.
    Populate,
    /// MADV_COLLAPSE: groups of base pages become superpages at once.
    Collapse,
}

/// Which memory of a process may have transparent huge pages, by prctl(PR_SET_THP_DISABLE). Children inherit it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub enum ThpRule {
    /// What the system's mode and madvise say.
    #[default]
    System,
    /// Regions with MADV_HUGEPAGE alone (PR_THP_DISABLE_EXCEPT_ADVISED, Linux 6.18), in every mode.
    Advised,
    /// None.
    Never,
}

/// How an address space ends.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum End {
    /// exit or exit_group with this status.
    Exit(i32),
    /// Killed by this signal.
    Signal(i32),
    /// Replaced by a new program; the new address space is the next `Start` with this one as its parent.
    Exec,
    /// The recorder ended without a record of the end (SIGKILL): everything up to here was recovered.
    Lost,
}

/// Where one part of a simulated run ends and the next begins.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Boundary {
    /// The warm-up ends: what is counted begins.
    Counted,
    /// A phase ends, and the next begins.
    Phase,
}

/// Every event that is not a reference. All concern the address space of their batch.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Op {
    /// Defines block `id`.
    Define {
        /// Unique in the trace, below 2^31.
        id: u32,
        /// The block.
        block: Arc<Block>,
    },
    /// The bytes of the instructions of a block that was defined before, one behind the other. A recorder that has them
    /// says so once for each block. They are part of the definition, and belong to no address space either.
    Code {
        /// The block.
        id: u32,
        /// As many as its instructions have together.
        bytes: Arc<[u8]>,
    },
    /// The stream is a page trace: only the pages of data references are those of the program, and which of them touch
    /// two. Addresses within pages are not. Before all but definitions, and of the whole stream.
    Pages,
    /// The stream is of samples: a few of the references of programs, with nothing about those between them. They say
    /// which pages are used and how often, and nothing of what follows what. Stands where `Pages` may.
    Samples,
    /// The first event of an address space that no `Fork` announced: the first program, and each exec.
    Start {
        /// Process id of the operating system, for display.
        pid: u32,
        /// The address space before the exec, if there was one.
        parent: Option<Asid>,
        /// Path of the program.
        program: Arc<str>,
    },
    /// From here on `child` is a copy-on-write copy of this address space.
    Fork {
        /// The new address space.
        child: Asid,
    },
    /// New mapping.
    Map(Mapping),
    /// The bytes `[start, start+len)` are mapped no more.
    Unmap {
        /// First byte, a multiple of 4096.
        start: u64,
        /// Bytes, a multiple of 4096.
        len: u64,
    },
    /// mremap: the pages of the old place, with their contents, are now at the new place. Same start: grown or shrunk
    /// in place.
    Remap {
        /// Old first byte.
        old_start: u64,
        /// Old length.
        old_len: u64,
        /// New first byte.
        new_start: u64,
        /// New length.
        new_len: u64,
    },
    /// mprotect.
    Protect {
        /// First byte, a multiple of 4096.
        start: u64,
        /// Bytes, a multiple of 4096.
        len: u64,
        /// New protection.
        prot: Prot,
    },
    /// madvise.
    Advise {
        /// First byte, a multiple of 4096.
        start: u64,
        /// Bytes, a multiple of 4096.
        len: u64,
        /// What was advised.
        advice: Advice,
    },
    /// The kernel stored to these bytes for the program: what a system call gives it, a signal's frame, what lies on
    /// the stack as it starts. Pages get memory by it as by a store of the program. No reference: TLBs do not see it.
    KernelStore {
        /// First byte.
        start: u64,
        /// Bytes: not 0, and at most [`MAX_KERNEL_STORE`].
        len: u64,
    },
    /// prctl(PR_SET_THP_DISABLE), and at the start of a program what it has from its parent.
    Thp(ThpRule),
    /// A thread begins.
    ThreadStart {
        /// Thread number inside its process.
        thread: u32,
    },
    /// A thread ends.
    ThreadExit {
        /// Thread number inside its process.
        thread: u32,
    },
    /// From here on the references are this thread's.
    Switch {
        /// Thread number inside its process.
        thread: u32,
    },
    /// A part of the run ends here. The cutter of a stream puts it there on its way to machines: it is
    /// nothing of a program, and no file has it.
    Boundary(Boundary),
    /// An event of a whole system.
    Guest(Guest),
    /// The address space is gone.
    End(End),
}

impl Op {
    /// A store of the kernel. The error says what is wrong with its bytes.
    pub fn kernel_store(start: u64, len: u64) -> Result<Op, String> {
        if len == 0 || len > MAX_KERNEL_STORE {
            return Err(format!("the kernel stores {len} bytes at {start:#x}; 1 to {MAX_KERNEL_STORE} are possible"));
        }
        match start.checked_add(len) {
            Some(_) => Ok(Op::KernelStore { start, len }),
            None => Err(format!("the kernel stores {len} bytes at {start:#x}, which reach past 2^64")),
        }
    }

    /// Whether it says what the stream is, and nothing of a program.
    pub fn is_mark(&self) -> bool {
        matches!(self, Op::Pages | Op::Samples)
    }

    /// Whether it says what a block is, and nothing of a program.
    pub fn is_definition(&self) -> bool {
        matches!(self, Op::Define { .. } | Op::Code { .. })
    }
}
