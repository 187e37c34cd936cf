//! What farreach may ask of the kernel: each interface with what it is needed for, and a try whether it works here, for
//! this user.

use crate::pages::PageSize;
use crate::systems::systems;
use farreach_live::tries::{self, Failure, Tried};
use farreach_live::{huge_pages_for, populate};

/// An interface that is tried.
pub struct Interface {
    /// Its name.
    pub name: &'static str,
    /// Commands that may use it.
    pub commands: &'static [&'static str],
    /// What farreach needs it for.
    pub needed_for: &'static str,
    /// Uses it as farreach does, and undoes what it did.
    pub attempt: fn() -> Tried,
}

const fn new(
    name: &'static str,
    commands: &'static [&'static str],
    needed_for: &'static str,
    attempt: fn() -> Tried,
) -> Interface {
    Interface { name, commands, needed_for, attempt }
}

const RECORDING: [&str; 5] = ["run", "record", "pagesize", "papers", "workloads"];
const TRAP: [&str; 1] = ["trap"];
const WATCH: [&str; 1] = ["watch"];

/// In the order in which they are shown.
pub const INTERFACES: [Interface; 24] = [
    new("recorder", &RECORDING, "run, record, pagesize, papers, workloads", tries::recorder),
    new("frames", &["contiguity"], "contiguity: physical ranges", tries::frames),
    new("pagemap-scan", &["contiguity"], "contiguity --dump: which pages are huge", tries::page_map_scan),
    new("damon", &WATCH, "watch --method damon", tries::damon),
    new("idle-pages", &WATCH, "watch --method idle-pages", tries::idle_pages),
    new("clear-refs", &WATCH, "watch --method clear-refs", tries::clear_refs),
    new("soft-dirty", &WATCH, "watch --method soft-dirty", tries::soft_dirty),
    new("huge-pages", &["workloads"], "workloads --native --pages 2m", || huge(2 << 20)),
    new("huge-pages-64k", &["workloads"], "workloads --native --pages 64k", || huge(64 << 10)),
    new("hugetlbfs", &[], "programs that ask for MAP_HUGETLB", tries::hugetlb),
    new("swap", &[], "programs larger than memory", tries::swap_out),
    new("kernel", &TRAP, "trap", tries::kernel),
    new("memfd", &TRAP, "trap", tries::memfd),
    new("userfaultfd", &TRAP, "trap", tries::userfaultfd),
    new("userfaultfd-minor", &TRAP, "trap", tries::minor_faults),
    new("userfaultfd-wp", &TRAP, "trap", tries::write_protection),
    new("seccomp", &TRAP, "trap", tries::filter),
    new("ptrace", &TRAP, "trap", tries::ptrace),
    new("pidfd", &TRAP, "trap", tries::pidfd),
    new("personality", &TRAP, "trap", tries::personality),
    new("affinity", &TRAP, "trap", tries::affinity),
    new("seccomp-notification", &[], "nothing yet", tries::notification),
    new("instructions", &[], "nothing yet", tries::instructions),
    new("systems", &["guest"], "guest, run --system, record --system", systems),
];

/// What a command needs and this system lacks, with what turns it on.
pub fn missing(command: &str) -> Vec<String> {
    let needed = INTERFACES.iter().filter(|interface| interface.commands.contains(&command));
    needed.filter_map(|interface| Some(format!("{}: {}", interface.name, (interface.attempt)().err()?))).collect()
}

/// Memory of this process in transparent huge pages.
fn huge(bytes: u64) -> Tried {
    const MEMORY: usize = 8 << 20;
    let size = PageSize { bytes };
    if let Some(missing) = size.missing() {
        return Err(missing);
    }
    let before = size.held();
    let memory: Vec<u8> = Vec::with_capacity(MEMORY);
    let at = memory.as_ptr().addr()..memory.as_ptr().addr() + MEMORY;
    huge_pages_for(&at, size.larger()).map_err(|e| Failure::of("MADV_HUGEPAGE", e))?;
    populate(&at).map_err(|e| Failure::of("MADV_POPULATE_WRITE", e))?;
    match size.held().saturating_sub(before) {
        0 => Err(Failure::new(format!("the kernel gave no pages of {}: free memory may be in pieces", size.name()))
            .or_turn_on("echo 1 | sudo tee /proc/sys/vm/compact_memory")),
        held => Ok(format!("{} of {} MB are in pages of {}", held >> 20, MEMORY >> 20, size.name())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        assert!(missing("no command of this name").is_empty());
        let names = INTERFACES.iter().map(|interface| interface.name);
        assert!(missing("watch").iter().all(|line| names.clone().any(|name| line.starts_with(name))));
    }
}
