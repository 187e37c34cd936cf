//! Machines that traps cannot drive.

use crate::filter::MAX_DESIGNS;
use crate::spec::MachineSpec;
use farreach_hw::tlb::range::RANGE_ORDER;
use farreach_hw::tlb::{cores, keys, policies};
use farreach_types::Error;

/// Refuses machines that need to see more than traps show.
pub(super) fn check(specs: &[MachineSpec]) -> Result<(), Error> {
    if let Some(spec) = specs.get(MAX_DESIGNS) {
        let what = format!("it is one too many: traps drive up to {MAX_DESIGNS} machines at once");
        return Err(Error::Config { machine: spec.name.clone(), what });
    }
    let refusal = |spec: &MachineSpec| Some(Error::Config { machine: spec.name.clone(), what: refusal(spec)? });
    specs.iter().find_map(refusal).map_or(Ok(()), Err)
}

/// Refuses machines of which a sample of sets cannot be simulated alone, for reasons other than their arrays.
pub(super) fn check_sets(specs: &[MachineSpec]) -> Result<(), Error> {
    let refusal = |spec: &MachineSpec| {
        let params = &spec.params;
        let refuse =
            |key: &str, value: &str, why: &str| Some(format!("sets cannot be sampled with {key} = {value}: {why}"));
        match params.text("placement") {
            "demand" => {}
            other => {
                let why = "what a page gets may depend on the others; placement must be demand";
                return refuse("placement", other, why);
            }
        }
        if params.has(keys::PROCESS_IDS.name) && !params.flag(keys::PROCESS_IDS.name) {
            let why = "a switch to a process is not seen if it touches no page of the sample; process_ids must be true";
            return refuse(keys::PROCESS_IDS.name, "false", why);
        }
        None
    };
    let found = |spec: &MachineSpec| Some(Error::Config { machine: spec.name.clone(), what: refusal(spec)? });
    specs.iter().find_map(found).map_or(Ok(()), Err)
}

/// Why this machine is refused, if it is.
fn refusal(spec: &MachineSpec) -> Option<String> {
    let params = &spec.params;
    let text = |key: &str| if params.has(key) { params.text(key) } else { "" };
    if spec.by_lines() {
        let why = "it cannot be driven by traps, which show pages and no lines: it has caches; use `farreach run`";
        return Some(why.into());
    }
    let refuse = |key: &str, value: &str, why: &str| Some(format!("{key} = {value} cannot be driven by traps: {why}"));
    if spec.follows_recorded_system() {
        return refuse("placement", "guest", "a program that traps makes no page tables; use `farreach guest run`");
    }
    let (l1, all) = (text(keys::L1_REPLACEMENT.name), text(keys::REPLACEMENT.name));
    let first_level = if ["", "same"].contains(&l1) { all } else { l1 };
    if ["lru", "plru"].contains(&first_level) {
        let why = "the use of mapped pages is not seen, nor which entry was used last (T94-71)";
        let key = if l1.is_empty() { keys::REPLACEMENT.name } else { keys::L1_REPLACEMENT.name };
        return refuse("replacement", first_level, &format!("{why}; {key} must be one of used-bit, fifo, random"));
    }
    if first_level == "used-bit" && params.has(keys::FILL_SETS_USED.name) && !params.flag(keys::FILL_SETS_USED.name) {
        let why = "the reference that missed is repeated, and sets the used bit; fill_sets_used must be true";
        return refuse(keys::FILL_SETS_USED.name, "false", why);
    }
    if let Some(policy) = policies::foresees(params) {
        return Some(format!("{policy} cannot be driven by traps: it must know what comes, and a run comes once"));
    }
    if text(RANGE_ORDER.name) == "first" {
        let why = "ranges in front of the first level see every reference; range_order must be parallel or serial";
        return refuse(RANGE_ORDER.name, "first", why);
    }
    if params.has(cores::CORES.name) && params.int(cores::CORES.name) > 1 {
        let why = "all threads of a program share one page table, on every core; cores must be 1";
        return refuse(cores::CORES.name, &params.int(cores::CORES.name).to_string(), why);
    }
    if spec.system_reads_counters() {
        let why = "counters are read at switches of processes, of which only some trap; range_feedback must be false";
        return refuse("range_feedback", "true", why);
    }
    if let Some(key) = farreach_os::walk_key(params) {
        let why = format!("a trap is not always a walk; {} must be {}", key.name, key.without);
        return refuse(key.name, &key.value, &why);
    }
    None
}
