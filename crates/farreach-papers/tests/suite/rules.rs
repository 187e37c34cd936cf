//! Does every rule of the specification have code and a test that name it, or a reason for having none?
//! `papers/rules.csv` lists them.
//!
//! | status | must name the rule | note |
//! |---|---|---|
//! | `code` | a source and a test | |
//! | `source` | a source | why no test does |
//! | `test` | a test | why no source does |
//! | `prose` | none | why the rule has no code |
//!
//! A rule is named by its id in full, in a comment or a string; a letter behind it is a part of the rule (`RMM15-27a`).
//! The name of a test may begin with ids (`fn ca_9_t94_57_what_it_shows`). A range (`T94-43 to T94-50`) names only its
//! ends: it states the subject of a file, not that each rule in it is covered. Bare numbers name nothing. Tests are
//! files below `tests`, of `farreach-oracle` and `farreach-conformance`, files called `tests.rs`, and modules behind
//! `#[cfg(test)]`. Every text with the form of an id must be an id.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const LIST: &str = "papers/rules.csv";
/// Sources, and pages of the book, whose ids must exist but do not count as naming a rule.
const READ: &[&str] = &["rs", "c", "h", "md", "toml"];

struct Rule {
    line: u64,
    status: String,
    summary: String,
    note: String,
}

/// By id.
type Rules = BTreeMap<String, Rule>;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum By {
    Source,
    Test,
    Page,
}

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors()
        .find(|dir| dir.join(LIST).is_file())
        .unwrap_or_else(|| panic!("no {LIST} above {}", here.display()))
        .into()
}

fn read(text: &str) -> Result<Rules, Vec<String>> {
    let (mut rules, mut wrong) = (Rules::new(), Vec::new());
    for row in csv::Reader::from_reader(text.as_bytes()).records() {
        let row = row.unwrap_or_else(|e| panic!("{LIST}: {e}"));
        let line = row.position().map_or(0, |p| p.line());
        let field = |i: usize| row[i].to_owned();
        let rule = Rule { line, status: field(1), summary: field(2), note: field(3) };
        let id = field(0);
        if !["code", "source", "test", "prose"].contains(&rule.status.as_str()) {
            wrong.push(format!("{LIST}:{line}: {id}: status '{}' is none of code, source, test, prose", rule.status));
        }
        if rule.summary.is_empty() || rule.note.is_empty() != (rule.status == "code") {
            wrong.push(format!(
                "{LIST}:{line}: {id}: every rule has a summary, and each that is not code a note that says why"
            ));
        }
        if rules.insert(id.clone(), rule).is_some() {
            wrong.push(format!("{LIST}:{line}: {id} is listed twice"));
        }
    }
    if wrong.is_empty() { Ok(rules) } else { Err(wrong) }
}

/// The part before the number.
fn families(rules: &Rules) -> BTreeSet<&str> {
    rules.keys().filter_map(|id| Some(id.rsplit_once('-')?.0)).collect()
}

/// A number at the beginning of the text, and what follows it and the letter of a part.
fn number(text: &str) -> Option<(&str, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let rest = &text[digits..];
    let rest = rest.strip_prefix(|c: char| c.is_ascii_lowercase()).unwrap_or(rest);
    (digits > 0).then_some((&text[..digits], rest))
}

/// Ids, with their places in the text. `T94` and the like before a number is an id even if there is no such paper.
fn named(text: &str, families: &BTreeSet<&str>) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    for (at, token) in text.split(|c| !word(c)).map(|token| (token.as_ptr() as usize - text.as_ptr() as usize, token)) {
        let family = token.char_indices().filter(|&(_, c)| c == '-').map(|(i, _)| &token[..i]).rfind(|f| {
            let letters = f.bytes().take_while(u8::is_ascii_uppercase).count();
            let like_a_paper =
                letters > 0 && f.len() == letters + 2 && f[letters..].bytes().all(|c| c.is_ascii_digit());
            families.contains(f) || like_a_paper
        });
        let Some(family) = family else { continue };
        if let Some((n, rest)) = number(&token[family.len() + 1..])
            && !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        {
            found.push((at, format!("{family}-{n}")));
        }
    }
    found
}

/// Ids that names of functions begin with.
fn in_names(text: &str, families: &BTreeSet<&str>) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("fn ") {
        let mut rest = &text[at + 3..];
        while let Some((id, behind)) = families.iter().find_map(|family| {
            let lower = format!("{}_", family.to_lowercase().replace('-', "_"));
            let (n, behind) = number(rest.strip_prefix(&lower)?)?;
            Some((format!("{family}-{n}"), behind.strip_prefix('_').or(behind.starts_with('(').then_some(behind))?))
        }) {
            found.push((at, id));
            rest = behind;
        }
    }
    found
}

/// Where the tests in a file begin.
fn tests_from(path: &Path, text: &str) -> usize {
    let of_tests = ["tests", "farreach-oracle", "farreach-conformance"];
    if path.components().any(|c| of_tests.iter().any(|name| c.as_os_str() == *name)) || path.ends_with("tests.rs") {
        return 0;
    }
    let module = |at: &usize| {
        let line = text[*at..].lines().nth(1).unwrap_or("");
        line.starts_with("mod ") && line.ends_with('{')
    };
    text.match_indices("#[cfg(test)]").map(|(at, _)| at).find(module).unwrap_or(text.len())
}

/// Which files name which rule, and the faults: ids of no rule, rules without the required names.
fn problems(rules: &Rules, files: &[(PathBuf, String)]) -> Vec<String> {
    let families = families(rules);
    let (mut seen, mut wrong) = (BTreeSet::new(), Vec::new());
    for (path, text) in files {
        let tests = tests_from(path, text);
        let page = path.extension().is_some_and(|e| e == "md" || e == "toml");
        let by = |at: usize| match at < tests {
            _ if page => By::Page,
            true => By::Source,
            false => By::Test,
        };
        let names = in_names(text, &families).into_iter().filter(|n| by(n.0) == By::Test);
        for (at, id) in named(text, &families).into_iter().chain(names) {
            if !rules.contains_key(&id) {
                let line = text[..at].matches('\n').count() + 1;
                wrong.push(format!("{}:{line}: {id} is no rule of {LIST}", path.display()));
            }
            seen.insert((id, by(at)));
        }
    }
    for (id, rule) in rules {
        let needs: &[By] = match rule.status.as_str() {
            "code" => &[By::Source, By::Test],
            "source" => &[By::Source],
            "test" => &[By::Test],
            _ => &[],
        };
        for by in needs.iter().filter(|by| !seen.contains(&(id.clone(), **by))) {
            let who = format!("{by:?}").to_lowercase();
            wrong.push(format!(
                "{LIST}:{}: {id} ({}) is {}, and no {who} names it",
                rule.line, rule.summary, rule.status
            ));
        }
    }
    wrong
}

fn walk(dir: &Path, root: &Path, into: &mut Vec<(PathBuf, String)>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        let is = |names: &[&str]| path.file_name().is_some_and(|n| names.iter().any(|name| n == *name));
        if path.is_dir() && !is(&["target", "benches", "examples"]) {
            walk(&path, root, into);
        } else if path.extension().is_some_and(|e| READ.iter().any(|read| e == *read))
            && !path.ends_with("suite/rules.rs")
        {
            into.push((path.strip_prefix(root).unwrap().into(), fs::read_to_string(&path).unwrap()));
        }
    }
}

#[test]
fn every_rule_is_named_or_has_a_reason() {
    let root = root();
    let rules =
        read(&fs::read_to_string(root.join(LIST)).unwrap()).unwrap_or_else(|wrong| panic!("\n{}", wrong.join("\n")));
    let mut files = Vec::new();
    ["crates", "capture", "docs", "machines"].into_iter().for_each(|dir| walk(&root.join(dir), &root, &mut files));
    assert!(rules.len() > 400 && files.len() > 300, "{} rules, {} files", rules.len(), files.len());
    let wrong = problems(&rules, &files);
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn ids_are_found_where_they_are_and_nowhere_else() {
    let rules = read(
        "id,status,summary,note\nF-1,code,a,\nT94-13,code,a,\nH-T94-1,code,a,\nRMM15-27,code,a,\nH-SV-2,code,a,\n",
    )
    .ok()
    .unwrap();
    let families = families(&rules);
    let ids = |text: &str| named(text, &families).into_iter().map(|n| n.1).collect::<Vec<_>>();
    assert_eq!(ids("// T94-13, H-T94-1: as `RMM15-27a`; H-SV-2."), ["T94-13", "H-T94-1", "RMM15-27", "H-SV-2"]);
    assert_eq!(
        ids("T94-43 to T94-50, T94-9..12, F-5, 6"),
        ["T94-43", "T94-50", "T94-9", "F-5"],
        "ends of ranges, no bare numbers"
    );
    assert_eq!(ids("T49-13, SV79-1"), ["T49-13", "SV79-1"], "papers that are none");
    assert!(ids("UTF-8 0xF-1 F-16LE GPL-2 E5-2430 OT-3 x86-64 T94_13 T94-x AF-1").is_empty());
    let names = |text: &str| in_names(text, &families).into_iter().map(|n| n.1).collect::<Vec<_>>();
    assert_eq!(
        names("fn f_1_h_t94_1_rmm15_27b_the_f_3() {}\nfn t94_13() {}"),
        ["F-1", "H-T94-1", "RMM15-27", "T94-13"]
    );
    assert!(names("fn f_() {}\nfn f_16bits() {}\nfn half_f_1_x() {}").is_empty());
}

#[test]
fn what_is_missing_or_no_rule_is_told() {
    let csv = |status: &str, note: &str| format!("id,status,summary,note\nT94-1,{status},widths,{note}\n");
    let source = "/// T94-1.\nfn a() {}\n";
    let found = |status: &str, note: &str, files: &[(&str, &str)]| {
        let files: Vec<_> = files.iter().map(|(path, text)| (PathBuf::from(path), (*text).to_owned())).collect();
        problems(&read(&csv(status, note)).ok().unwrap(), &files)
    };
    let test = format!("fn b() {{}}\n#[cfg(test)]\nmod tests {{\n{source}}}\n");
    assert!(found("code", "", &[("crates/a/src/a.rs", source), ("crates/a/tests/a.rs", "fn t94_1_a() {}")]).is_empty());
    assert!(found("code", "", &[("crates/a/src/a.rs", source), ("crates/a/src/b.rs", &test)]).is_empty());
    let missing = |who: &str| vec![format!("{LIST}:2: T94-1 (widths) is code, and no {who} names it")];
    assert_eq!(found("code", "", &[("crates/a/src/a.rs", source)]), missing("test"));
    assert_eq!(found("code", "", &[("crates/a/src/a/tests.rs", source)]), missing("source"));
    assert_eq!(
        found("code", "", &[("crates/a/tests/a.rs", source), ("crates/a/src/a.rs", "fn t94_1_a() {}")]),
        missing("source")
    );
    assert_eq!(found("source", "why", &[("docs/a.md", source)]).len(), 1, "a page is no source");
    assert_eq!(found("prose", "why", &[("docs/a.md", "T94-2")]), [format!("docs/a.md:1: T94-2 is no rule of {LIST}")]);
    assert!(found("source", "why", &[("a.rs", source)]).is_empty() && found("prose", "why", &[]).is_empty());
    assert_eq!(found("prose", "why", &[("a.rs", "\n// T94-2\n")]), [format!("a.rs:2: T94-2 is no rule of {LIST}")]);
    for (status, note) in [("prose", ""), ("code", "why"), ("done", "why")] {
        assert_eq!(read(&csv(status, note)).err().map(|wrong| wrong.len()), Some(1), "{status} {note}");
    }
    assert_eq!(
        read("id,status,summary,note\nF-1,code,a,\nF-1,code,a,\n").err().unwrap(),
        [format!("{LIST}:3: F-1 is listed twice")]
    );
}
