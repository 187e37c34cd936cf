//! `farreach completions`: the scripts with which shells complete command lines. The shell calls farreach itself for
//! every word, so that it always offers what this version accepts.

use super::common::print;
use anyhow::Result;
use clap::{Args, Command, ValueEnum};
use clap_complete::engine::{
    ArgValueCandidates, ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter,
};
use clap_complete::env::{Bash, CompleteEnv, EnvCompleter, Fish, Zsh};
use farreach_kernels::KERNELS;
use farreach_machine::{MachineSpec, PRESETS, Preset};
use farreach_native::this;
use farreach_papers::STUDIES;
use farreach_workloads as workloads;
use std::ffi::OsStr;

/// The environment variable by which a shell asks for completions.
const VARIABLE: &str = "FARREACH_COMPLETE";

/// Print a script for shell completion of commands, options, machines, workloads and studies
#[derive(Args)]
#[command(after_help = "\
Examples:
  farreach completions bash > ~/.local/share/bash-completion/completions/farreach
  farreach completions zsh > ~/.zfunc/_farreach                       a folder of $fpath
  farreach completions fish > ~/.config/fish/completions/farreach.fish")]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

#[derive(Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Prints the script.
pub fn run(args: CompletionsArgs) -> Result<()> {
    let shell: &dyn EnvCompleter = match args.shell {
        Shell::Bash => &Bash,
        Shell::Zsh => &Zsh,
        Shell::Fish => &Fish,
    };
    let mut script = Vec::new();
    shell.write_registration(VARIABLE, "farreach", "farreach", "farreach", &mut script)?;
    print(&String::from_utf8(script)?)
}

/// Answers a shell that asks for completions, and exits; otherwise does nothing.
pub fn answer(command: fn() -> Command) {
    CompleteEnv::with_factory(|| with_names(command())).var(VARIABLE).complete();
}

/// The command, with completers for arguments that the parser accepts as any text.
fn with_names(command: Command) -> Command {
    let name = command.get_name().to_owned();
    let command = command.mut_args(|arg| match (name.as_str(), arg.get_id().as_str()) {
        (_, "machines") | ("machines", "name") => arg.add(ArgValueCompleter::new(machines)),
        ("papers", "ids") => arg.add(ArgValueCandidates::new(studies)),
        ("papers", "workloads") | ("workloads", "name") => arg.add(ArgValueCandidates::new(all_workloads)),
        _ => arg,
    });
    command.mut_subcommands(with_names)
}

fn candidate(name: &str, about: &str) -> CompletionCandidate {
    CompletionCandidate::new(name).help(Some(about.to_owned().into()))
}

/// Presets, groups of them, and files. Behind a colon: keys, then the words that a key takes.
fn machines(current: &OsStr) -> Vec<CompletionCandidate> {
    let text = current.to_string_lossy();
    if let Some((base, overrides)) = text.split_once(':') {
        let last = overrides.rsplit(',').next().unwrap_or_default();
        return overrides_of(base, &text[..text.len() - last.len()], last);
    }
    let mut found = PathCompleter::file().filter(|file| file.extension() == Some(OsStr::new("toml"))).complete(current);
    let named = |name: &str, about: &str| name.starts_with(&*text).then(|| candidate(name, about));
    let about = |preset: &Preset| MachineSpec::parse(preset.name, 0).map(|spec| spec.about).unwrap_or_default();
    found.extend(PRESETS.iter().filter_map(|preset| named(preset.name, &about(preset))));
    found.extend(Preset::groups().into_iter().filter_map(|group| named(group, "all presets of the group")));
    found.extend(named(this::NAME, "this processor"));
    found
}

/// The keys of a machine that begin with `last`, or if `last` has a key already, the values of that key; each behind
/// the text `before`.
fn overrides_of(base: &str, before: &str, last: &str) -> Vec<CompletionCandidate> {
    let group = Preset::all_of(base);
    let Ok(spec) = this::parse(group.first().map_or(base, |preset| preset.name), 0) else { return Vec::new() };
    let keys = MachineSpec::keys(spec.hardware, spec.params.as_json());
    match last.split_once('=') {
        None => {
            let keys = keys.iter().filter(|key| key.name.starts_with(last));
            keys.map(|key| candidate(&format!("{before}{}=", key.name), key.about)).collect()
        }
        Some((name, value)) => {
            let words = keys.iter().find(|key| key.name == name).map(|key| MachineSpec::words(key)).unwrap_or_default();
            let words = words.into_iter().filter(|word| word.starts_with(value));
            words.map(|word| candidate(&format!("{before}{name}={word}"), "")).collect()
        }
    }
}

fn studies() -> Vec<CompletionCandidate> {
    STUDIES.iter().map(|study| candidate(study.id, study.title)).collect()
}

fn all_workloads() -> Vec<CompletionCandidate> {
    let kernels = KERNELS.iter().map(|kernel| candidate(kernel.name, kernel.about));
    kernels.chain(workloads::programs().iter().map(|program| candidate(&program.name, &program.about))).collect()
}
