//! The codes of the specification in words. A report carries those that it uses, because the specification is not there
//! where it is read.

use farreach_types::papers::{Code, Section};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

const LIST: &str = include_str!("../../../papers/rules.csv");

/// Summaries by id.
static WORDS: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| {
    let mut reader = csv::Reader::from_reader(LIST.as_bytes());
    let rows = reader.records().map(|row| row.expect("the carried list is CSV"));
    rows.map(|row| (row[0].to_owned(), row[2].to_owned())).collect()
});

/// What kind of code it is, for those that do not say it themselves.
const KINDS: [(&str, &str); 4] = [
    ("AMB-", "an unclear place of the paper, read so"),
    ("CA-", "a check without programs"),
    ("CW-", "a check with programs"),
    ("AREA-", "the area model"),
];

/// The codes in a text, in order, each once. A letter behind a code is a part of its rule.
fn codes_in(text: &str) -> Vec<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
    let trimmed = words.map(|w| w.trim_matches('-').trim_end_matches(|c: char| c.is_ascii_lowercase()));
    let mut found = Vec::new();
    for id in trimmed.filter(|w| WORDS.contains_key(*w)) {
        if !found.contains(&id) {
            found.push(id);
        }
    }
    found
}

/// Those of a section in words, but for its own claims, which say themselves what they are.
pub(crate) fn of(section: &Section) -> Vec<Code> {
    let own: BTreeSet<&str> = section.verdicts.iter().map(|v| v.id.as_str()).collect();
    let texts = std::iter::once(&section.rules).chain(&section.notes);
    let texts = texts.chain(section.verdicts.iter().flat_map(|v| [&v.claim, &v.why]));
    let mut all: Vec<&str> = Vec::new();
    for id in texts.flat_map(|text| codes_in(text)) {
        if !own.contains(id) && !all.contains(&id) {
            all.push(id);
        }
    }
    let words = |id: &str| match KINDS.iter().find(|(start, _)| id.starts_with(start)) {
        Some((_, kind)) => format!("{kind}: {}", WORDS[id]),
        None => WORDS[id].clone(),
    };
    all.into_iter().map(|id| Code { id: id.into(), words: words(id) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_found_wherever_they_stand() {
        assert_eq!(
            codes_in("as drawn (AMB-1). RMM15-27a, T94-7 to T94-13; t94-fig3 and AMB-1"),
            ["AMB-1", "RMM15-27", "T94-7", "T94-13"]
        );
        assert!(codes_in("UTF-8, glibc-2, H-, T94").is_empty());
    }

    #[test]
    fn every_code_of_every_study_has_words() {
        for study in crate::STUDIES {
            let mut section = Section::new(study.id, study.title, study.rules);
            section.note("References of the kernel (XC-8).");
            let codes = of(&section);
            assert!(codes.len() > study.rules.matches(", ").count(), "{}: {codes:?}", study.id);
            assert!(codes.iter().all(|code| !code.words.is_empty()), "{codes:?}");
        }
        let mut section = Section::new("x", "", "CW-12");
        section.note("Means are arithmetic (AMB-93).");
        assert_eq!(of(&section)[1].words, "an unclear place of the paper, read so: averages are arithmetic");
    }
}
