//! Reports of papers: do they begin with what was claimed and what became of it, with each verdict in its word, and
//! explain their codes?

use farreach_report::papers::{csv, html, markdown, terminal};
use farreach_types::papers::{Code, Head, Judged, Kind, PAPERS_SCHEMA, Papers, Section, Verdict};

fn papers() -> Papers {
    let mut section = Section::new("rmm15-fig6", "Overhead of page walks", "CW-12, AMB-93");
    section.note("Means are arithmetic (AMB-93).");
    section.codes = [("CW-12", "tables of RMM15"), ("AMB-93", "averages are arithmetic")]
        .map(|(id, words)| Code { id: id.into(), words: words.into() })
        .into();
    section.verdicts = Verdict::ALL
        .into_iter()
        .enumerate()
        .map(|(i, verdict)| Judged {
            id: format!("H-RM-{}", i + 1),
            kind: if i == 0 { Kind::Main } else { Kind::Side },
            claim: format!("Claim {i}"),
            verdict,
            why: format!("number {i}."),
            studies: vec!["rmm15-fig6".into()],
        })
        .collect();
    let head = Head {
        paper: "RMM15".into(),
        title: "ranges".into(),
        counts: "main claim: holds; side remarks: 1 fails".into(),
        claimed: "walks cost little.".into(),
        holds: "H-RM-1.".into(),
        not: "H-RM-4.".into(),
    };
    let (set, programs) = ("small".into(), Vec::new());
    Papers { schema: PAPERS_SCHEMA.into(), set, programs, heads: vec![head], sections: vec![section] }
}

#[test]
fn a_terminal_begins_with_the_paper_in_three_lines_and_ends_with_the_codes() {
    let text = terminal::render(&papers(), 100);
    let start = "RMM15, ranges: main claim: holds; side remarks: 1 fails.\n  claimed: walks cost little.\n  holds here: \
                 H-RM-1.\n  does not, and why: H-RM-4.\n\nrmm15-fig6: Overhead of page walks\n";
    assert!(text.starts_with(start), "{text}");
    let end = "  Means are arithmetic (AMB-93).\n\n  Codes\n    AMB-93: averages are arithmetic\n";
    assert!(text.ends_with(end), "{text}");
    for words in [
        "H-RM-1 (main claim): Claim 0.\n    HOLDS: number 0.",
        "H-RM-2: Claim 1.\n    STRONGER THAN CLAIMED: number 1.",
        "H-RM-3: Claim 2.\n    NOT SHOWN ON THESE PROGRAMS: number 2.",
        "H-RM-4: Claim 3.\n    FAILS: number 3.",
        "H-RM-5: Claim 4.\n    NOT TESTABLE HERE: number 4.",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn a_page_says_what_its_words_and_codes_mean() {
    let page = html::render(&papers());
    for words in [
        "<h1>RMM15: main claim: holds; side remarks: 1 fails</h1>",
        "<dt>Claimed</dt><dd>Walks cost little.</dd>",
        "<dt>Does not, and why</dt><dd>H-RM-4.</dd>",
        "Means are arithmetic (<abbr title=\"averages are arithmetic\">AMB-93</abbr>).",
        "<dt>CW-12</dt><dd>Tables of RMM15.</dd>",
        "<span class=\"badge open\" title=\"the programs run show neither",
        "<dt>not shown on these programs</dt><dd>The programs run show neither",
        "<span class=\"main\">main claim</span>",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
}

#[test]
fn markdown_and_csv_have_heads_and_kinds() {
    let text = markdown::render(&papers());
    let start = "5 claims; main claim: holds; side remarks: 1 stronger, 1 not shown, 1 fails, 1 not testable.";
    assert!(text.contains(start), "{text}");
    for words in
        ["## RMM15: ranges", "* **Holds here**: H-RM-1.", "| H-RM-4 | Claim 3 | side remark | fails | number 3. |"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
    let rows = csv::render(&papers());
    for row in [
        "RMM15,head,\"does not, and why\",text,measured,,H-RM-4.",
        "rmm15-fig6,verdicts,H-RM-1,kind,measured,,main claim",
        "rmm15-fig6,verdicts,H-RM-3,verdict,measured,,not shown on these programs",
        "rmm15-fig6,codes,AMB-93,words,printed,,averages are arithmetic",
    ] {
        assert!(rows.lines().any(|line| line == row), "{row}: {rows}");
    }
}
