//! The program and the machine, as they are: runs by itself, allocator, settings.

use super::change::Program;
use super::{Settings, trial, verify};
use farreach_cost::today;
use farreach_live::native::{Native, Seen, Way};
use farreach_live::system::System;
use farreach_live::{AllocatorKind, Text, Watch, allocator_of, text_of};
use farreach_native::this::measure::gigahertz;
use farreach_types::Result;
use farreach_types::addr::Bytes;
use farreach_types::counts::{NativeRuns, Setting};
use farreach_workloads::Load;
use std::ffi::OsString;
use std::path::Path;

/// Of a program that ended too soon.
const NOT_SEEN: &str = "not seen";

/// The program by itself, as often as asked; nothing for a trace.
pub fn native_runs(
    settings: &Settings,
    load: Option<&Load>,
    signals: &Watch,
    system: &System,
) -> Result<Option<Vec<Native>>> {
    if settings.command.is_empty() {
        return Ok(None);
    }
    let way = Way { stdin: settings.stdin.clone(), ..Way::default() };
    let mut runs: Vec<Native> = Vec::new();
    for _ in 0..settings.runs {
        let warm = trial::warm_bytes(system, runs.iter());
        runs.push(trial::native(&settings.command, &way, load, signals, warm)?.0);
    }
    Ok(Some(runs))
}

/// What is known of the program before it is recorded.
pub fn about(settings: &Settings, native: Option<&[Native]>) -> Program {
    let largest = native.and_then(|runs| runs.iter().max_by_key(|run| (run.seen.anything(), run.resident_bytes)));
    let seen = largest.map(|run| &run.seen).filter(|seen| seen.anything());
    let file = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let name = match (seen, settings.command.first()) {
        (Some(seen), _) => file(&seen.program),
        (None, Some(command)) => file(Path::new(command)),
        (None, None) => settings.file.clone().unwrap_or_default(),
    };
    // The libraries of a program that has just begun are not mapped yet.
    let allocator = seen.and_then(|seen| match allocator_of(&seen.program, &seen.files) {
        AllocatorKind::Unknown if seen.early => None,
        kind => Some(kind),
    });
    Program {
        takes_arguments: takes_arguments(&settings.command, &name),
        shares: seen.is_some_and(Seen::shares_memory),
        thp_disabled: native.is_some_and(|runs| runs.iter().any(|run| run.seen.thp_disabled)),
        name,
        unseen: native.is_some() && allocator.is_none(),
        allocator,
        resident_bytes: largest.and_then(|run| run.resident_bytes),
        text: seen.map_or(Text::Unknown, |seen| text_of(&seen.program)),
    }
}

/// Whether arguments at the end of the command reach this program: it is the command, or a shell passes them on.
fn takes_arguments(command: &[OsString], program: &str) -> bool {
    let Some(first) = command.first() else { return true };
    let folders = std::env::var_os("PATH").unwrap_or_default();
    // A path has its own folder, which replaces these.
    let mut files = std::env::split_paths(&folders).map(|folder| folder.join(first));
    let file = files.find(|file| file.is_file()).and_then(|file| file.canonicalize().ok()).unwrap_or_default();
    file.file_name().is_some_and(|name| name.to_string_lossy() == program)
        || command.iter().any(|word| word.to_string_lossy().contains("\"$@\""))
}

/// Medians of its runs.
pub fn summary(runs: &[Native], about: &Program) -> NativeRuns {
    let cpu_seconds: Vec<f64> = runs.iter().map(verify::seconds).collect();
    NativeRuns {
        runs: runs.len() as u64,
        user_seconds: verify::median(runs.iter().map(|run| run.user.as_secs_f64())).unwrap_or(0.0),
        median_seconds: verify::median(cpu_seconds.iter().copied()).unwrap_or(0.0),
        noise_percent: today::noise(&cpu_seconds),
        cpu_seconds,
        resident_bytes: about.resident_bytes,
        gigahertz: gigahertz(),
        allocator: about.allocator.as_ref().map_or_else(|| NOT_SEEN.to_owned(), ToString::to_string),
        thp_disabled: about.thp_disabled,
        huge_bytes: runs.iter().map(|run| run.seen.huge_bytes).max().unwrap_or(0),
    }
}

/// Settings of the system that decide about page sizes, and what was seen of the program.
pub fn in_force(system: &System, program: &Program) -> Vec<Setting> {
    let mut all = Vec::new();
    let mut add = |name: &str, value: String| all.push(Setting { name: name.into(), value });
    match &system.thp {
        None => add("transparent huge pages", "none in this kernel".into()),
        Some(thp) => {
            add("transparent huge pages", thp.enabled.clone().unwrap_or_default());
            add("defrag", thp.defrag.clone().unwrap_or_default());
            let on = thp.sizes.iter().filter(|size| size.enabled != "never");
            let sizes: Vec<String> = on.map(|size| format!("{} {}", Bytes(size.bytes), size.enabled)).collect();
            if !thp.sizes.is_empty() {
                add("sizes", if sizes.is_empty() { "none".into() } else { sizes.join(", ") });
            }
        }
    }
    for pool in system.hugetlb.iter().filter(|pool| pool.pages > 0) {
        add(&format!("pool of {}", Bytes(pool.bytes)), format!("{} pages, {} free", pool.pages, pool.free));
    }
    if let Some(name) = &system.hypervisor {
        add("hypervisor", name.clone());
    }
    match &program.allocator {
        Some(allocator) => add("allocator", allocator.to_string()),
        None if program.unseen => add("allocator", NOT_SEEN.into()),
        None => {}
    }
    if program.thp_disabled {
        add("the program", "switches transparent huge pages off for itself".into());
    }
    all
}
