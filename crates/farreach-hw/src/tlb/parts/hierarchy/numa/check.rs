//! Machines for which nodes of memory are defined.

use super::{NODES, NUMA_TABLES, chosen};
use crate::tlb::parts::additions::BEHIND;
use crate::tlb::parts::hierarchy::cores::CORES;
use crate::tlb::parts::hierarchy::cores::mechanisms::SHOOTDOWN;
use crate::tlb::parts::hierarchy::host::GUEST;
use crate::tlb::parts::hierarchy::shared::sharers;
use farreach_types::params::{Key, PAGE_SIZE, Params};

/// Refuses other machines.
pub(in crate::tlb) fn check(params: &Params) -> Result<(), String> {
    let Some(listed) = chosen(params) else { return Ok(()) };
    let refuse = |with: String, why: String| {
        Err(format!("{} = {} is not allowed with {with}: {why}", NUMA_TABLES.name, listed.name))
    };
    let (cores, nodes) = (params.int(CORES.name), params.int(NODES.name));
    if cores % nodes != 0 {
        let why = format!("each node has as many cores; cores must be a multiple of {} = {nodes}", NODES.name);
        return refuse(format!("cores = {cores}"), why);
    }
    // Other walks than those of its walkers for the program have no node (HW-12). Another table than a radix tree is
    // not allowed on several cores.
    let fixed: [(&Key, &str); 2] = [
        (&GUEST, "nodes are not defined in virtual machines (OS-VMT-1)"),
        (&BEHIND, "nodes are defined for walks that the program waits for"),
    ];
    for (key, why) in fixed {
        let value = params.as_json().get(key.name);
        let is_default = value == key.check(&key.default.into()).ok().as_ref();
        if !is_default {
            let value = value.map(|value| value.to_string().replace('"', "")).unwrap_or_default();
            return refuse(format!("{} = {value}", key.name), format!("{why}; {} must be {}", key.name, key.default));
        }
    }
    if sharers(params) > 1 {
        return refuse(
            "l2_shared = true".into(),
            "cores of several nodes share no TLB; l2_shared must be false".into(),
        );
    }
    if params.int(PAGE_SIZE.name) != 4096 {
        return refuse("such a page_size".into(), "its tables are those of x86-64; page_size must be 4K".into());
    }
    let shootdown = params.text(SHOOTDOWN.name);
    if listed.name == "on_demand" && shootdown != SHOOTDOWN.default {
        let why = format!(
            "its shootdowns interrupt the nodes with copies (OS-NPT-2); shootdown must be {}",
            SHOOTDOWN.default
        );
        return refuse(format!("shootdown = {shootdown}"), why);
    }
    Ok(())
}
