//! What `make` installs where something is missing: the scripts in packaging/, among commands that only note how they
//! are called.

use crate::cli::{Dir, Ran};
use crate::common::root;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

/// The oldest compiler that the sources allow.
const LEAST: &str = env!("CARGO_PKG_RUST_VERSION");

/// A machine with a few commands, whose `HOME` is `home`.
struct Machine(Dir);

impl Machine {
    fn new(user: &str) -> Machine {
        let machine = Machine(Dir::new());
        std::fs::create_dir_all(machine.0.path("bin")).unwrap();
        let path = std::env::var_os("PATH").unwrap();
        for tool in ["bash", "sed", "sort", "head", "grep", "dirname", "env", "cp", "true"] {
            let found = std::env::split_paths(&path).map(|dir| dir.join(tool)).find(|file| file.is_file()).unwrap();
            symlink(found, machine.0.path(&format!("bin/{tool}"))).unwrap();
        }
        machine.script("bin/id", &format!("echo {user}"));
        machine
    }

    fn script(&self, path: &str, text: &str) {
        let file = self.0.path(path);
        std::fs::create_dir_all(file.rsplit_once('/').unwrap().0).unwrap();
        self.0.write(path, format!("#!/bin/bash\n{text}\n"));
        std::fs::set_permissions(file, PermissionsExt::from_mode(0o755)).unwrap();
    }

    /// A toolchain in this folder.
    fn rust(&self, folder: &str, version: &str) {
        self.script(&format!("{folder}/cargo"), "");
        self.script(&format!("{folder}/rustc"), &format!("echo 'rustc {version} (0123456 2026-01-01)'"));
    }

    /// A package manager that notes what it is told, and with it a compiler that an installation brings.
    fn manager(&self, name: &str, brings: &str) {
        let (log, bin) = (self.0.write("log", ""), self.0.path("bin"));
        self.rust("brought", brings);
        let brought = self.0.path("brought");
        let text = format!("echo \"$@\" >> {log}; case \"$*\" in *rust*) cp {brought}/* {bin};; esac");
        self.script(&format!("bin/{name}"), &text);
    }

    /// As apt tells the candidates of these packages.
    fn apt(&self, candidates: &[(&str, &str)], brings: &str) {
        self.manager("apt-get", brings);
        let mut text = String::from("case \"$*\" in\n");
        for (name, version) in candidates {
            text += &format!("'policy {name}') echo '{name}:'; echo '  Candidate: {version}';;\n");
        }
        let names: Vec<&str> = candidates.iter().map(|(name, _)| *name).collect();
        text += &format!("'pkgnames rustc-1.') printf '%s\\n' {} rustc-1.80-doc;;\nesac", names.join(" "));
        self.script("bin/apt-cache", &text);
    }

    fn run(&self, script: &str, args: &[&str]) -> Ran {
        let mut command = Command::new(root().join("packaging").join(script));
        command.args(args).env_clear().env("PATH", self.0.path("bin")).env("HOME", self.0.path("home"));
        Ran::of(command.stdin(std::process::Stdio::null()).output().unwrap())
    }
}

/// Debian 12.
const BOOKWORM: [(&str, &str); 2] = [("rustc", "1.63.0+dfsg1-2"), ("rustc-web", "1.96.0+dfsg1-1~deb12u2")];

#[test]
fn the_first_toolchain_that_is_new_enough_is_taken() {
    let machine = Machine::new("1000");
    let version = || machine.run("with-rust", &["rustc", "--version"]);
    version().bad(1, &[&format!("Rust {LEAST} or newer\n")]);
    machine.rust("bin", "1.63.0");
    version().bad(1, &[&format!("Rust {LEAST} or newer (here is 1.63.0)\n")]);
    // rustup without a toolchain.
    machine.script("home/.cargo/bin/cargo", "exit 1");
    machine.script("home/.cargo/bin/rustc", "echo 'error: no default toolchain' >&2; exit 1");
    machine.rust("bin", LEAST);
    assert!(version().good().out.starts_with(&format!("rustc {LEAST} ")));
    machine.rust("home/.cargo/bin", "1.100.0");
    assert!(version().good().out.starts_with("rustc 1.100.0 "));
}

#[test]
fn the_newest_compiler_of_the_distribution_is_installed() {
    // Debian 12 and 13, the latter also without its compiler for browsers, and Ubuntu 24.04.
    let bookworm = BOOKWORM.as_slice();
    let trixie = [("rustc", "1.85.1+dfsg1-1+deb13u1"), ("rustc-web", "1.96.0+dfsg1-1~deb13u1+b1")];
    let plain = [("rustc", "1:99.1+dfsg1-1"), ("rustc-web", "(none)")];
    let noble = [
        ("rustc", "1.75.0+dfsg0ubuntu1-0ubuntu7"),
        ("rustc-1.80", "1.80.1+dfsg0"),
        ("rustc-1.91", "1.91.1+dfsg~24.04"),
    ];
    for (candidates, packages) in [
        (bookworm, "cargo-web rustc-web"),
        (&trixie, "cargo-web rustc-web"),
        (&plain, "cargo rustc"),
        (&noble, "cargo-1.91 rustc-1.91"),
    ] {
        let machine = Machine::new("0");
        machine.apt(candidates, "1.96.0");
        let ran = machine.run("install-missing", &["valgrind", "rust"]).good();
        assert_eq!(ran.out, format!("make: installing packages: valgrind {packages}\n"));
        let options = "install -y -qq --no-install-recommends --no-remove";
        assert_eq!(machine.0.read("log"), format!("update -qq\n{options} valgrind {packages}\n"));
        // The second time there is nothing to do.
        assert_eq!(machine.run("install-missing", &["rust"]).good().out, "");
    }
    let machine = Machine::new("0");
    machine.apt(&BOOKWORM[..1], "1.63.0");
    machine.run("install-missing", &["gcc", "rust"]).bad(1, &[LEAST, "no package here has", "rustup"]);
    assert_eq!(machine.0.read("log"), "update -qq\n", "nothing is installed");
}

#[test]
fn a_user_without_root_gets_one_line_with_what_to_install() {
    let machine = Machine::new("65534");
    machine.apt(&BOOKWORM, "1.96.0");
    let needs = ["gcc", "libc6-dev", "rust"];
    let line = "make: packages are missing. As root: apt-get update && apt-get install --no-install-recommends gcc \
                libc6-dev cargo-web rustc-web\n";
    let told = |machine: &Machine| machine.run("install-missing", &needs);
    let ran = told(&machine);
    assert_eq!((ran.status, ran.out.as_str(), ran.err.as_str()), (1, "", line));
    // Nobody is there to type a password.
    machine.script("bin/sudo", "[ \"$1\" != -n ] || exit 1; echo sudo >> /dev/stderr");
    let ran = told(&machine);
    assert_eq!((ran.status, ran.out.as_str(), ran.err.as_str()), (1, "", line));
    assert_eq!(machine.0.read("log"), "", "nothing was tried");
    machine.script("bin/sudo", "[ \"$1\" = -n ] && shift; \"$@\"");
    told(&machine).good();
    assert!(machine.0.read("log").ends_with(" gcc libc6-dev cargo-web rustc-web\n"));
    // Toolchains of rustup are its user's.
    let machine = Machine::new("1000");
    machine.apt(&BOOKWORM, "1.96.0");
    machine.rust("home/.cargo/bin", "1.70.0");
    machine.script("home/.cargo/bin/rustup", "");
    told(&machine).bad(1, &["(here is 1.70.0)", "rustup update stable"]);
    // No package manager at all.
    Machine::new("1000").run("install-missing", &needs).bad(1, &["gcc libc6-dev rust", "by Debian's names"]);
}

#[test]
fn packages_have_other_names_elsewhere() {
    for (manager, call) in [
        ("dnf", "install -y -q gcc valgrind valgrind-devel valgrind-tools-devel glibc-devel rust cargo\n"),
        ("pacman", "-S --needed --noconfirm gcc valgrind glibc rust\n"),
        ("zypper", "--non-interactive install gcc valgrind valgrind-devel glibc-devel rust cargo\n"),
    ] {
        let machine = Machine::new("0");
        machine.manager(manager, "1.96.0");
        machine.run("install-missing", &["gcc", "valgrind", "libc6-dev", "rust"]).good();
        assert_eq!(machine.0.read("log"), call);
        // What it brings may be too old.
        let machine = Machine::new("0");
        machine.manager(manager, "1.70.0");
        let ran = machine.run("install-missing", &["rust"]);
        assert_eq!(ran.status, 1);
        assert!(ran.err.contains("(here is 1.70.0)") && ran.err.contains("rustup"), "{}", ran.err);
    }
}

#[test]
fn rustfmt_and_clippy_are_those_of_the_compiler() {
    let needs = ["rust-lint"];
    let machine = Machine::new("0");
    machine.apt(&BOOKWORM, "1.96.0");
    machine.run("install-missing", &["rust", "rust-lint"]).good();
    assert!(machine.0.read("log").ends_with(" cargo-web rustc-web rustfmt-web rust-web-clippy\n"));
    // One that no package has brought, as rustup's.
    machine.run("install-missing", &needs).bad(1, &["rustup component add rustfmt clippy"]);
}
