//! What guests do, without a recorder.

use crate::{cache, guest};
use farreach_guest::{Guest, Input, qemu};
use farreach_types::event::Arch;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Those that QEMU is here for. That for RISC-V may be missing.
fn arches() -> impl Iterator<Item = Arch> {
    let there = |arch: &Arch| *arch != Arch::Riscv64 || qemu::find(*arch).is_ok();
    Arch::ALL.into_iter().filter(there)
}

/// What the guest says on its console.
fn boot(guest: &Guest, cache: &Path) -> String {
    let prepared = guest.prepare(cache, &|line| eprintln!("{line}")).unwrap();
    let line = &prepared.command;
    let run = Command::new(&line[0]).args(&line[1..]).stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let Output { status, stdout, .. } = run.unwrap();
    assert!(status.success());
    String::from_utf8(stdout).unwrap()
}

#[test]
fn a_command_runs_alone_on_the_console_of_all_architectures() {
    let Some(cache) = cache() else { return };
    for arch in arches() {
        let script = "uname -m; pwd; echo \"$1\"; cat; nproc; ls -1 /farreach; test -d /proc/1 && exit 7";
        let said = boot(&guest(arch, &["sh", "-c", script, "sh", "it's $HOME"]), &cache);
        let expected = format!("{}\n/a folder\nit's $HOME\n1\nbusybox\ninit\nmark\nsh\n", arch.name());
        assert_eq!(said, expected, "nothing else, and no line is ended as on a terminal");
    }
}

#[test]
fn a_guest_has_what_it_was_given() {
    let Some(cache) = cache() else { return };
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("hello"), "from a folder\n").unwrap();
    let script = "cat /hello; cat; nproc; grep -c . /proc/cmdline; /usr/bin/env true && grep -o quiet.* /proc/cmdline";
    let made = Guest {
        roots: vec![folder.path().into()],
        copies: vec!["/usr/bin/env".into()],
        processors: 2,
        append: "pti=on".into(),
        input: Input::Bytes(b"from a file\n".to_vec()),
        ..guest(Arch::X86, &["sh", "-c", script])
    };
    let said = boot(&made, &cache);
    assert_eq!(said, "from a folder\nfrom a file\n2\n1\nquiet panic=-1 rdinit=/farreach/init no_timer_check pti=on\n");
}

#[test]
fn two_runs_are_equal_to_the_instruction() {
    let Some(cache) = cache() else { return };
    // The time in nanoseconds is the number of instructions; random numbers and addresses are the same.
    let script = "cat /proc/uptime /proc/self/maps /proc/sys/kernel/random/uuid; date +%s; ls -l /proc/self/exe";
    for arch in arches() {
        let [one, other] = [0, 1].map(|_| boot(&guest(arch, &["sh", "-c", script]), &cache));
        assert!(one.lines().count() > 8, "{one}");
        assert_eq!(one, other);
    }
}

#[test]
fn packages_of_another_architecture_run() {
    let Some(cache) = cache() else { return };
    let made = Guest { packages: vec!["xz-utils".into()], ..guest(Arch::Aarch64, &["sh", "-c", ""]) };
    let script = "xz --version | head -n 1 | cut -d ' ' -f 1,2; \
                  xz -c /usr/bin/xz | xz -d | cmp - /usr/bin/xz && echo same; test -e /usr/bin/perl && echo perl";
    let made = Guest { command: ["sh", "-c", script].map(Into::into).into(), ..made };
    assert_eq!(boot(&made, &cache), "xz (XZ\nsame\n");
}

#[test]
fn what_a_guest_lacks_is_said_before_it_boots() {
    let Some(cache) = cache() else { return };
    let refused = |guest: Guest| guest.prepare(&cache, &|_| ()).err().unwrap().to_string();
    let why = refused(guest(Arch::Aarch64, &["no-such-program"]));
    assert!(why.contains("does not have 'no-such-program'; programs of this machine do not run on aarch64"), "{why}");
    let why = refused(guest(Arch::X86, &["no-such-program"]));
    assert!(why.contains("does not have 'no-such-program', nor this machine"), "{why}");
    let why = refused(Guest { memory: Some(64 << 20), ..guest(Arch::X86, &["true"]) });
    assert_eq!(why, "--memory 64M: whole megabytes from 128M on are allowed");
    let why = refused(Guest { roots: vec!["/nowhere".into()], ..guest(Arch::X86, &["true"]) });
    assert!(why.starts_with("--root /nowhere: "), "{why}");
    let why = refused(Guest { packages: vec!["no-such-package-at-all".into()], ..guest(Arch::X86, &["true"]) });
    assert!(why.contains("Unable to locate package no-such-package-at-all"), "{why}");
}
