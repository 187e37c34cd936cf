//! The claims and verdicts as a Markdown table, for documents.

use super::codes::of_verdicts;
use crate::format::{clean, sentence};
use farreach_types::papers::{Papers, counts};

/// The heads of the papers, one row per claim, and the codes in words.
pub fn render(papers: &Papers) -> String {
    let verdicts = papers.verdicts();
    let small = if papers.set == "small" { " --small" } else { "" };
    let cell = |text: &str| clean(text).replace('|', "\\|");
    let mut out = format!(
        "# The claims of the papers on the {} set of programs\n\n\
         <!-- Made by `farreach papers --all{small} --markdown`. -->\n\n\
         {}. The numbers behind a claim: `farreach papers STUDY{small}`, with the study named beside it.\n",
        papers.set,
        match verdicts.len() {
            0 => "No claims".into(),
            claims => format!("{claims} claims; {}", counts(verdicts.iter().copied())),
        },
    );
    for head in &papers.heads {
        out += &format!(
            "\n## {}: {}\n\n{}.\n\n* **Claimed**: {}\n* **Holds here**: {}\n* **Does not, and why**: {}\n",
            head.paper,
            head.title,
            sentence(&head.counts),
            clean(&head.claimed),
            clean(&head.holds),
            clean(&head.not),
        );
    }
    out += "\n## All claims\n\n| claim | | kind | verdict | what was found | study |\n|---|---|---|---|---|---|\n";
    for v in verdicts {
        out += &format!(
            "| {} | {} | {} | {} | {} | {} |\n",
            v.id,
            cell(&v.claim),
            v.kind,
            v.verdict,
            cell(&v.why),
            v.studies.join(", ")
        );
    }
    let codes = of_verdicts(papers);
    if !codes.is_empty() {
        out += "\n## Codes used on this page\n\n";
        for code in codes {
            out += &format!("* {}: {}\n", code.id, clean(&code.words));
        }
    }
    out
}
