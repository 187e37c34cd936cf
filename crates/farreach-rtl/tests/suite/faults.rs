//! Planted mistakes are found: those of `rtl/faults.toml`, each in a file of its own copy.

use super::cases::{case, compiler, folder};
use farreach_rtl::Checker;
use serde_json::Value;

/// Random runs until a mistake must be found.
const RUNS: u64 = 30;
/// Steps of each.
const STEPS: u64 = 1500;
/// Of the list, those that a short run looks at; a long one looks at all.
const EVERY: usize = 8;

fn list() -> Vec<[String; 5]> {
    let text = include_str!("../../../../rtl/faults.toml");
    let all: Value = toml::from_str(text).unwrap();
    let word = |fault: &Value, key: &str| fault[key].as_str().unwrap_or_else(|| panic!("{fault}: {key}")).to_owned();
    let keys = ["what", "case", "file", "from", "to"];
    all["fault"].as_array().unwrap().iter().map(|fault| keys.map(|key| word(fault, key))).collect()
}

/// Without any tool: a change of a module must not leave a mistake behind that is no longer one.
#[test]
fn each_planted_mistake_has_its_place() {
    for [what, name, file, from, to] in list() {
        case(&name);
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../rtl/").to_owned() + &file;
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{what}: {path}: {e}"));
        assert_eq!(text.matches(&from).count(), 1, "{what}: '{from}' in {file}");
        assert_ne!(from, to, "{what}");
    }
}

#[test]
fn planted_mistakes_are_found() {
    let Some(compiler) = compiler() else { return };
    let long = std::env::var("FARREACH_TIMES").is_ok_and(|times| times != "1");
    let mut missed = Vec::new();
    for [what, name, file, from, to] in list().into_iter().step_by(if long { 1 } else { EVERY }) {
        let compiler = compiler.clone().edited(&file, &from, &to).unwrap_or_else(|e| panic!("{what}: {e}"));
        let checker = Checker::new(compiler, folder(), 7);
        for seed in 0..RUNS {
            case(&name).run(&format!("mistake {name}"), seed, STEPS, &checker);
            if checker.stopped() {
                break;
            }
        }
        let outcome = checker.outcome();
        match (&outcome.difference, &outcome.failure) {
            (Some(difference), _) => {
                println!("{what}:\n{difference}\n");
                let wave = difference.wave.as_ref().unwrap_or_else(|e| panic!("{what}: {e}"));
                assert!(std::fs::metadata(wave).is_ok_and(|file| file.len() > 0), "{what}: {wave:?}");
            }
            // A module that stops answering is found, too.
            (None, Some(failure)) => println!("{what}: {failure}\n"),
            (None, None) => missed.push(what),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:#?}");
}
