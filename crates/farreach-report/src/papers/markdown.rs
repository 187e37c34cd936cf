//! The claims and verdicts as a Markdown table, for documents.

use farreach_types::papers::{Papers, Verdict};

/// One row per claim.
pub fn render(papers: &Papers) -> String {
    let verdicts = papers.verdicts();
    let number = |verdict| verdicts.iter().filter(|v| v.verdict == verdict).count();
    let mut out = format!(
        "# The claims of the papers on the {} set of programs\n\n\
         <!-- Made by `farreach papers --all{} --markdown`. -->\n\n\
         {} claims: {} hold, {} fail, {} cannot be tested here. The numbers behind a claim: \
         `farreach papers STUDY{}`, with the study named beside it.\n\n\
         | claim | | verdict | what was found | study |\n|---|---|---|---|---|\n",
        papers.set,
        if papers.set == "small" { " --small" } else { "" },
        verdicts.len(),
        number(Verdict::Holds),
        number(Verdict::Fails),
        number(Verdict::NotTestable),
        if papers.set == "small" { " --small" } else { "" },
    );
    let cell = |text: &str| crate::format::clean(text).replace('|', "\\|");
    for v in verdicts {
        out += &format!(
            "| {} | {} | {} | {} | {} |\n",
            v.id,
            cell(&v.claim),
            v.verdict,
            cell(&v.why),
            v.studies.join(", ")
        );
    }
    out
}
