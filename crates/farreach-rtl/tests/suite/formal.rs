//! `rtl/formal.sh`: what it proves holds, and does not hold of modules with mistakes.

use super::cases::folder;
use std::path::Path;
use std::process::Command;

/// Runs it for one of its runs, with modules from a folder. Whether the properties hold, and what it said.
fn formal(run: &str, modules: &Path) -> (bool, String) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../rtl/formal.sh");
    let mut command = Command::new(script);
    command.arg(run).env("DIR", modules).env("WORK", folder().join("formal"));
    let said = command.output().unwrap();
    let text = String::from_utf8_lossy(&said.stdout).into_owned() + &String::from_utf8_lossy(&said.stderr);
    (said.status.success(), text)
}

#[test]
fn properties_hold_and_mistakes_are_found() {
    let rtl = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../rtl");
    let (holds, said) = formal("single", &rtl);
    if said.contains("is missing") {
        return eprintln!("skipped: {said}");
    }
    assert!(holds && said.contains("proved"), "{said}");
    let wrong = folder().join("formal-wrong");
    std::fs::create_dir_all(&wrong).unwrap();
    for file in std::fs::read_dir(&rtl).unwrap().map(|file| file.unwrap().path()) {
        if file.extension().is_some_and(|ending| ending == "sv" || ending == "svh") {
            std::fs::copy(&file, wrong.join(file.file_name().unwrap())).unwrap();
        }
    }
    let single = wrong.join("single.sv");
    let text = std::fs::read_to_string(&single).unwrap();
    for (from, to) in [
        ("asid[i] == m_asid && ", ""),                               // the process is not compared
        ("is_valid <= is_valid & ~match;", "is_valid <= is_valid;"), // an invalidation leaves the entry
    ] {
        assert!(text.contains(from));
        std::fs::write(&single, text.replace(from, to)).unwrap();
        let (holds, said) = formal("single", &wrong);
        assert!(!holds && said.contains("does not hold"), "'{from}': {said}");
    }
}
