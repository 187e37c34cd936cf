//! Codes of the specification where they stand in a text, with their words.

use crate::format::clean;
use farreach_types::papers::{Code, Papers, Section};
use maud::{Markup, html};
use std::collections::BTreeSet;

/// The codes in a text: where each begins and ends.
fn places<'a>(text: &str, codes: &'a [Code]) -> Vec<(usize, usize, &'a Code)> {
    let bytes = text.as_bytes();
    let apart = |at: Option<&u8>| at.is_none_or(|b| !b.is_ascii_alphanumeric() && *b != b'-');
    // A letter behind a code is a part of its rule.
    let ends = |at: Option<&u8>| at.is_none_or(|b| !b.is_ascii_digit() && !b.is_ascii_uppercase());
    let mut found: Vec<(usize, usize, &Code)> = Vec::new();
    for code in codes {
        for (start, _) in text.match_indices(&code.id) {
            let end = start + code.id.len();
            if apart(start.checked_sub(1).and_then(|i| bytes.get(i))) && ends(bytes.get(end)) {
                found.push((start, end, code));
            }
        }
    }
    found.sort_by_key(|(start, ..)| *start);
    found
}

/// A text whose codes say what they mean, when a pointer rests on them.
pub(super) fn marked(text: &str, codes: &[Code]) -> Markup {
    let text = clean(text);
    let mut at = 0;
    let parts = places(&text, codes).into_iter().map(|(start, end, code)| {
        let before = std::mem::replace(&mut at, end);
        (text[before..start].to_owned(), text[start..end].to_owned(), code.words.clone())
    });
    let parts: Vec<(String, String, String)> = parts.collect();
    html! {
        @for (before, id, words) in &parts { (before) abbr title=(words) { (id) } }
        (text[at..])
    }
}

/// The codes in the texts of a section: its notes, claims and reasons. The others are in its list of rules.
pub(super) fn in_texts(section: &Section) -> impl Iterator<Item = &Code> {
    let texts = section.notes.iter().chain(section.verdicts.iter().flat_map(|v| [&v.claim, &v.why]));
    let texts: Vec<&String> = texts.collect();
    let there = move |code: &&Code| texts.iter().any(|text| !places(text, std::slice::from_ref(code)).is_empty());
    section.codes.iter().filter(there)
}

/// Those in claims and reasons, by id, each once.
pub(super) fn of_verdicts(papers: &Papers) -> Vec<&Code> {
    let mut seen = BTreeSet::new();
    let codes = papers.sections.iter().flat_map(|section| {
        let texts = || section.verdicts.iter().flat_map(|v| [&v.claim, &v.why]);
        section
            .codes
            .iter()
            .filter(move |code| texts().any(|text| !places(text, std::slice::from_ref(code)).is_empty()))
    });
    codes.filter(|code| seen.insert(&code.id)).collect()
}

/// All of a report, each once.
pub(super) fn all(papers: &Papers) -> Vec<&Code> {
    let mut seen = BTreeSet::new();
    papers.sections.iter().flat_map(|section| &section.codes).filter(|code| seen.insert(&code.id)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_explained_where_they_stand() {
        let code = |id: &str, words: &str| Code { id: id.into(), words: words.into() };
        let codes = [code("AMB-9", "no second"), code("AMB-93", "a \"mean\""), code("RMM15-27", "carving")];
        assert_eq!(
            marked("Means (AMB-93), RMM15-27a <and> XAMB-9.", &codes).into_string(),
            "Means (<abbr title=\"a &quot;mean&quot;\">AMB-93</abbr>), \
             <abbr title=\"carving\">RMM15-27</abbr>a &lt;and&gt; XAMB-9."
        );
    }

    #[test]
    fn a_terminal_lists_the_codes_of_its_texts_only() {
        let mut section = Section::new("x", "", "CW-12, AMB-93");
        section.note("Means are arithmetic (AMB-93).");
        let code = |id: &str| Code { id: id.into(), words: "words".into() };
        section.codes = vec![code("CW-12"), code("AMB-93")];
        assert_eq!(in_texts(&section).map(|c| c.id.as_str()).collect::<Vec<_>>(), ["AMB-93"]);
    }
}
