//! Names of regions, as results show them.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::sync::Arc;

/// The heap.
pub(crate) const HEAP: &str = "heap";
/// A stack.
pub(crate) const STACK: &str = "stack";
/// Private anonymous memory.
pub(crate) const ANONYMOUS: &str = "anonymous";
/// Shared anonymous memory.
pub(crate) const SHARED: &str = "shared memory";
/// Mappings of the kernel in a process: its own code and data (vdso, vvar).
pub(crate) const KERNEL: &str = "kernel-provided";
/// The kernel's direct map.
pub(crate) const DIRECT_MAP: &str = "direct map";
/// The half of the kernel in a recorded system.
pub(crate) const GUEST_KERNEL: &str = "kernel";
/// A program of a recorded system whose name is not known.
pub(crate) const GUEST_PROGRAM: &str = "(no name)";
/// A page that was referenced where nothing is mapped.
pub(crate) const NOT_MAPPED: &str = "not mapped";
/// The one region of a stream without map events.
pub(crate) const WHOLE_SPACE: &str = "whole space";

/// Region names, each once.
#[derive(Default)]
pub(crate) struct Labels {
    names: Vec<Arc<str>>,
    index: HashMap<Arc<str>, u32, FixedState>,
}

impl Labels {
    /// All names, by number.
    pub fn all(&self) -> &[Arc<str>] {
        &self.names
    }

    /// The name with this number.
    pub fn name(&self, label: u32) -> &str {
        &self.names[label as usize]
    }

    /// The number of a name, which may be new.
    pub fn intern(&mut self, name: &str) -> u32 {
        if let Some(&i) = self.index.get(name) {
            return i;
        }
        let name: Arc<str> = name.into();
        self.names.push(Arc::clone(&name));
        self.index.insert(name, self.names.len() as u32 - 1);
        self.names.len() as u32 - 1
    }

    /// Whether a region of this name is neither heap nor requested memory, but placed and grown by the system.
    pub fn is_stack_or_kernel(&self, label: u32) -> bool {
        [STACK, KERNEL].contains(&self.name(label))
    }
}
