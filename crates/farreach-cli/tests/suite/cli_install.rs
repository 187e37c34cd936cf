//! Does an installation work by itself: the command with its recorder, manual pages, completions?

use crate::cli::{Dir, Ran, command, farreach, line};
use crate::common::{root, tool};
use std::process::Command;

/// Files below a directory, as paths in it.
fn files(dir: &str) -> Vec<String> {
    let found = Command::new("find").args([dir, "-type", "f", "-printf", "%P\\n"]).output().unwrap();
    let mut names: Vec<String> = String::from_utf8(found.stdout).unwrap().lines().map(str::to_owned).collect();
    names.sort();
    names
}

/// `make TARGET` for an installation in `/usr` of this directory, of the programs that the tests use.
fn make(target: &str, dir: &str) {
    let mut make = Command::new("make");
    let program = format!("FARREACH={}", env!("CARGO_BIN_EXE_farreach"));
    let recorder = format!("TOOL={}", tool().join("farreach-amd64-linux").display());
    make.current_dir(root()).args(["-s", target, "PREFIX=/usr", &format!("DESTDIR={dir}"), &program, &recorder]);
    // Without the variables of a make that runs these tests.
    let out = Ran::of(make.env_remove("MAKEFLAGS").env_remove("MAKELEVEL").output().unwrap());
    assert_eq!((out.status, &*out.err), (0, ""), "{}", out.out);
}

#[test]
fn an_installation_works_by_itself_and_goes_again() {
    let dir = Dir::new();
    let prefix = dir.path("usr");
    make("install", &dir.path(""));
    let there = files(&prefix);
    for name in [
        "bin/farreach",
        "lib/farreach/farreach-amd64-linux",
        "lib/farreach/farreach-guard",
        "lib/farreach/farreach-text.so",
        "share/bash-completion/completions/farreach",
        "share/doc/farreach/LICENSE-MIT",
        "share/doc/farreach/copyright",
        "share/farreach/machines/t94/partial.toml",
        "share/fish/vendor_completions.d/farreach.fish",
        "share/man/man1/farreach-run.1",
        "share/man/man1/farreach.1",
        "share/zsh/site-functions/_farreach",
    ] {
        assert!(there.iter().any(|file| file == name), "no {name} in {there:?}");
    }
    let presets = there.iter().filter(|file| file.starts_with("share/farreach/machines/")).count();
    assert_eq!(presets, line("machines --json").good().json().as_array().unwrap().len());

    let run = |args: &[&str]| {
        let mut installed = Command::new(format!("{prefix}/bin/farreach"));
        Ran::of(installed.current_dir("/").env_remove("FARREACH_VALGRIND_DIR").args(args).output().unwrap())
    };
    let result = run(&["run", "--json", "-m", "t94/single", "--limit", "50k", "--", "true"]).good().json();
    assert!(result["workload"]["instructions"].as_u64().unwrap() > 10_000, "{result}");
    let preset = format!("{prefix}/share/farreach/machines/t94/partial.toml");
    assert_eq!(run(&["machines", &preset, "--json"]).good().json(), line("machines t94/partial --json").good().json());

    std::fs::remove_dir_all(format!("{prefix}/lib")).unwrap();
    let places = [
        &*format!("{prefix}/lib/farreach, "),
        "/valgrind",
        "farreach-amd64-linux is not there",
        "FARREACH_VALGRIND_DIR",
    ];
    run(&["run", "--", "true"]).bad(125, &places);
    make("uninstall", &dir.path(""));
    assert_eq!(files(&prefix), [""; 0]);
}

#[test]
fn every_subcommand_has_a_manual_page() {
    let dir = Dir::new();
    farreach(["man", &dir.path("")]).good();
    let help = line("--help").good().out;
    let (_, commands) = help.split_once("Commands:\n").unwrap();
    let listed = commands.lines().take_while(|line| !line.is_empty()).filter_map(|line| line.strip_prefix("  "));
    let listed: Vec<&str> = listed.filter_map(|line| line.split(' ').next()).filter(|name| !name.is_empty()).collect();
    assert!(listed.contains(&"run") && listed.contains(&"completions") && !listed.contains(&"man"), "{help}");
    for name in listed.into_iter().filter(|name| *name != "help").chain(["trace-info", "trace-convert"]) {
        let page = dir.read(&format!("farreach-{name}.1"));
        assert!(page.contains(".SH EXAMPLES\n.nf\n") && page.contains(".SH OPTIONS"), "{name}: {page}");
        assert!(page.contains(&format!("farreach\\-{}", name.replace('-', "\\-"))), "{name}: {page}");
    }
    let page = dir.read("farreach-run.1");
    for words in [
        ".SH \"EXIT STATUS\"\n.nf\n",
        "farreach run \\-\\- gcc \\-O2 \\-c big.c\n",
        "\\-\\-machine",
        ".SH \"SEE ALSO\"\nfarreach(1)",
    ] {
        assert!(page.contains(words), "'{words}' is not in: {page}");
    }
    assert!(
        dir.names().iter().all(|name| name.starts_with("farreach") && name.ends_with(".1") && !name.contains("-man"))
    );
    farreach(["man", "/nonexistent/folder"]).bad(1, &["/nonexistent/folder"]);
}

/// The completions of the last of these words: each with its meaning behind a tab.
fn offered(words: &[&str]) -> String {
    let ran = Ran::of(command().env("FARREACH_COMPLETE", "fish").arg("--").args(words).output().unwrap());
    ran.good().out
}

#[test]
fn names_are_completed() {
    for (words, names) in [
        (&["run", "-m", "t94/p"][..], &["t94/partial\t64-entry partial-subblock TLB"][..]),
        (&["sim", "x", "--machine", "ds13"], &["ds13/4k\t", "ds13\tall presets of the group"]),
        (&["machines", "today/z"], &["today/zen2\t", "today/zen5\t"]),
        (&["run", "-m", "thi"], &["this\t"]),
        (&["run", "-m", "t94/partial:fac"], &["t94/partial:factor=\t"]),
        (&["run", "-m", "t94/partial:factor=4,repl"], &["t94/partial:factor=4,replacement=\t"]),
        (&["run", "-m", "t94/single:replacement=l"], &["t94/single:replacement=lru"]),
        (&["run", "-m", "t94/single:placement=res"], &["t94/single:placement=reservation"]),
        (&["papers", "t94-table6"], &["t94-table6\t"]),
        (&["workloads", "gu"], &["gups\t"]),
        (&["trace", "inf"], &["info\t"]),
        (&["area", "part"], &["partial"]),
    ] {
        let words = [&["farreach"], words].concat();
        let text = offered(&words);
        names.iter().for_each(|name| assert!(text.contains(name), "{words:?} offers {text}"));
        assert!(!text.contains("t94/single\t"), "{words:?} offers {text}");
    }
    let dir = Dir::new();
    dir.write("mine.toml", "");
    dir.write("mine.txt", "");
    let text = offered(&["farreach", "run", "-m", &dir.path("mi")]);
    assert!(text.contains("mine.toml") && !text.contains("mine.txt"), "{text}");
}

/// The script that bash reads, in a bash.
#[test]
fn bash_completes_with_it() {
    let script = r#"
        PATH="$(dirname "$0"):$PATH"
        source <(farreach completions bash)
        complete -p farreach | grep -q _clap_complete_farreach || echo "it is not registered"
        COMP_WORDS=(farreach run -m t94/pa) COMP_CWORD=3 COMP_TYPE=9
        _clap_complete_farreach farreach t94/pa -m
        printf '%s\n' "${COMPREPLY[@]}""#;
    let bash = Command::new("bash").args(["-c", script, env!("CARGO_BIN_EXE_farreach")]).output().unwrap();
    assert_eq!(Ran::of(bash).good().out, "t94/partial\n");
    for shell in ["zsh", "fish"] {
        let text = farreach(["completions", shell]).good().out;
        assert!(text.contains("FARREACH_COMPLETE") && text.contains("farreach"), "{text}");
    }
    farreach(["completions", "tcsh"]).bad(2, &["tcsh", "bash, zsh, fish"]);
}
