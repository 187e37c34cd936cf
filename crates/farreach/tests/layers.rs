//! ARCHITECTURE.md states the layers as absences: what a layer must not know. This test reads the sources and holds them to it.

use std::fs;
use std::path::{Path, PathBuf};

/// Layer, and the layers it may use besides itself. `error`, `nouns`, `params` and `text_file` are at everybody's disposal.
const ALLOWED: &[(&str, &[&str])] = &[
    ("addr", &[]),
    ("error", &[]),
    ("nouns", &[]),
    ("params", &["addr"]),
    ("text_file", &["addr"]),
    ("event", &["addr"]),
    ("counts", &["addr"]),
    ("trace", &["addr", "event"]),
    ("hw", &["addr", "event", "counts"]),
    // The page table speaks the hardware's types (Pte, Attr), and only these.
    ("os", &["addr", "event", "counts", "hw"]),
    ("machine", &["addr", "event", "counts", "hw", "os", "cost"]),
    ("cost", &["addr", "counts", "hw"]),
    ("study", &["addr", "event", "counts", "hw", "machine", "cost"]),
    ("report", &["addr", "counts", "study"]),
];

fn sources(dir: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let path = entry.path();
        match path.is_dir() {
            true => sources(&path, into),
            false if path.extension().is_some_and(|e| e == "rs") => into.push(path),
            false => {}
        }
    }
}

/// The program text: comments and unit tests may name what they like.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let text = text.split("#[cfg(test)]").next().unwrap();
    text.lines().filter(|l| !l.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// Names after `crate::`, also inside `use crate::{a, b::c}`.
fn used(code: &str) -> Vec<String> {
    let mut names = Vec::new();
    for part in code.split("crate::").skip(1) {
        match part.strip_prefix('{') {
            Some(list) => {
                let (mut depth, mut item) = (0, String::new());
                for c in list.chars() {
                    match c {
                        '{' => depth += 1,
                        '}' if depth == 0 => break,
                        '}' => depth -= 1,
                        ',' if depth == 0 => names.push(std::mem::take(&mut item)),
                        c => item.push(c),
                    }
                }
                names.push(item);
            }
            None => names.push(part.to_owned()),
        }
    }
    let word = |s: String| s.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    names.into_iter().map(word).filter(|w| w.chars().next().is_some_and(char::is_lowercase)).collect()
}

fn layer_of(path: &Path, src: &Path) -> String {
    let first = path.strip_prefix(src).unwrap().components().next().unwrap().as_os_str().to_string_lossy().into_owned();
    first.trim_end_matches(".rs").to_owned()
}

#[test]
fn no_layer_knows_what_it_must_not() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&src, &mut files);
    let mut broken = Vec::new();
    for file in &files {
        let layer = layer_of(file, &src);
        if layer == "lib" {
            continue;
        }
        let (_, allowed) = ALLOWED.iter().find(|(name, _)| *name == layer).unwrap_or_else(|| panic!("{layer} has no rule"));
        for name in used(&code(file)) {
            let free = ["error", "nouns", "params", "text_file"].contains(&name.as_str()) || name == layer;
            if !free && !allowed.contains(&name.as_str()) {
                broken.push(format!("{}: uses {name}", file.strip_prefix(&src).unwrap().display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
    assert!(files.len() > 40, "the sources were found");
}

#[test]
fn the_operating_system_knows_no_design() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&src.join("os"), &mut files);
    for file in files {
        let code = code(&file);
        for word in ["DESIGNS", "dyn Tlb", "Tlb)", "Noise", "single::", "partial_subblock", "superpage::"] {
            assert!(!code.contains(word), "{} names {word}", file.display());
        }
    }
}

#[test]
fn the_library_has_no_unsafe_code_and_the_loop_stands_once() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    assert!(fs::read_to_string(src.join("lib.rs")).unwrap().contains("#![forbid(unsafe_code)]"));
    let mut files = Vec::new();
    sources(&src, &mut files);
    let loops = files.iter().filter(|f| code(f).contains(".access(")).collect::<Vec<_>>();
    let mut places: Vec<_> = loops.iter().map(|f| f.strip_prefix(&src).unwrap().display().to_string()).collect();
    places.sort();
    // What the papers draw is a page table made by hand and a few loads, no
    // loop over a stream; a TLB with caches is one machine of the other loop; and cores hand on to those of the one that runs.
    assert_eq!(
        places,
        ["hw/system/mmu.rs", "hw/tlb/cores.rs", "machine/by_hand.rs", "machine/engine/ask.rs"],
        "only the loop asks designs"
    );
}

#[test]
fn the_reader_of_uses_reads_uses() {
    let text =
        "use crate::{Error, addr::{Vpn, Pfn}, os};\nuse crate::hw::tlb::Pte;\nfn f() -> crate::Result<()> { crate::cost::x() }";
    assert_eq!(used(text), ["addr", "os", "hw", "cost"]);
}
