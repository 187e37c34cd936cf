//! What records whole systems: QEMU, the plugin, the programs that execute marks, kernels.

use farreach_guest::{cache_dir, kernels_in, qemu};
use farreach_live::tries::{Failure, Tried};
use farreach_live::{mark_program, plugin_dir};
use farreach_types::event::Arch;

/// Finds all of it. Kernels are fetched when a guest needs one, so none may be there.
pub fn systems() -> Tried {
    let failed = |e: farreach_types::Error| Failure::new(e.to_string()).or_turn_on(qemu::TURN_ON);
    let (mut found, mut emulated) = (Vec::new(), Vec::new());
    let mut missing = None;
    for system in &qemu::SYSTEMS {
        match qemu::find(system.arch) {
            Ok(qemu) => {
                found.push(format!("QEMU {} for {}", qemu.version, system.arch.name()));
                emulated.push(system.arch);
            }
            Err(error) => missing = Some(error),
        }
    }
    if let Some(error) = missing.filter(|_| found.is_empty()) {
        return Err(failed(error));
    }
    let dir = plugin_dir(None).map_err(failed)?;
    for arch in emulated {
        mark_program(arch).map_err(failed)?;
    }
    found.push(format!("the plugin in {}", dir.display()));
    let kernels = cache_dir().map(|cache| qemu::SYSTEMS.iter().flat_map(|s| names(&cache, s.arch)).collect::<Vec<_>>());
    match kernels.unwrap_or_default() {
        kernels if kernels.is_empty() => found.push("no kernel is kept yet".into()),
        kernels => found.push(format!("kernels {}", kernels.join(", "))),
    }
    Ok(found.join("; "))
}

/// The kernels of an instruction set that are kept.
fn names(cache: &std::path::Path, arch: Arch) -> Vec<String> {
    kernels_in(cache, arch).into_iter().map(|(_, version)| version).collect()
}
