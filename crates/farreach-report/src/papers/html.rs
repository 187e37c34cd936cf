//! One page for all tables and figures: no script, no network. First the papers in three lines each, then the verdicts,
//! then each study with its numbers, then the words and codes.

use super::cells::{Stands, shown, stands, under};
use super::charts::{bars, chart};
use super::codes::{self, marked};
use crate::format::{clean, sentence};
use crate::html::{POLICY, STYLE};
use farreach_types::papers::{Code, Column, Head, Judged, Kind, Origin, Papers, Section, Table, Verdict, counts};
use maud::{DOCTYPE, Markup, PreEscaped, html};

const OWN_STYLE: &str = include_str!("style.css");

/// The page.
pub fn render(papers: &Papers) -> String {
    let verdicts = papers.verdicts();
    let title = match &papers.heads[..] {
        [] => None,
        [one] => Some(format!("{}: {}", one.paper, one.counts)),
        all => Some(format!("{} papers, {} claims: {}", all.len(), verdicts.len(), counts(verdicts.iter().copied()))),
    };
    let programs: Vec<String> = papers.programs.iter().map(|p| clean(&p.name)).collect();
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "farreach: the papers, measured again" }
                style { (PreEscaped(STYLE)) (PreEscaped(OWN_STYLE)) }
            }
            body {
                header {
                    p.eyebrow { "farreach · the papers' tables and figures, measured again" }
                    @if let Some(title) = title { h1 { (title) } }
                    @for h in &papers.heads { (head(h, papers.heads.len() > 1)) }
                    p.source { "Programs, " (papers.set) " set: " (programs.join(", ")) }
                    nav.toc { @for s in &papers.sections { a href={ "#" (s.id) } { (s.id) } " " } }
                }
                main {
                    @if !verdicts.is_empty() && papers.sections.len() > 1 {
                        section {
                            h2 { "Verdicts" }
                            p.lead {
                                "Each claim is judged by the numbers below, with the same rule on every run. What was "
                                "found stands with the first table or figure that a claim rests on, and on which "
                                "programs it does not hold. Nothing is tuned."
                            }
                            table.verdicts {
                                tbody { @for v in &verdicts { (linked(v)) } }
                            }
                        }
                    }
                    @for s in &papers.sections { (section(s)) }
                    (words(papers))
                }
            }
        }
    };
    markup.into_string() + "\n"
}

fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Holds | Verdict::Stronger => "holds",
        Verdict::NotShown => "open",
        Verdict::Fails => "fails",
        Verdict::NotTestable => "untested",
    }
}

fn badge(v: &Judged) -> Markup {
    html! {
        span class={ "badge " (class(v.verdict)) } title=(v.verdict.meaning()) { (v.verdict) }
        @if v.kind == Kind::Main { " " span.main { (v.kind) } }
    }
}

/// A paper in three lines. `named`: with its name and its verdicts in numbers, which the title has where it is alone.
fn head(h: &Head, named: bool) -> Markup {
    html! {
        div.paper {
            @if named { h2 { (h.paper) ", " (h.title) ": " (h.counts) } }
            dl {
                @for (name, text) in
                    [("Claimed", &h.claimed), ("Holds here", &h.holds), ("Does not, and why", &h.not)]
                {
                    div { dt { (name) } dd { (sentence(&clean(text))) } }
                }
            }
        }
    }
}

/// What the verdicts and the codes on the page mean.
fn words(papers: &Papers) -> Markup {
    let there = |verdict: &Verdict| papers.verdicts().iter().any(|v| v.verdict == *verdict);
    let verdicts: Vec<Verdict> = Verdict::ALL.into_iter().filter(there).collect();
    let codes = codes::all(papers);
    html! {
        @if !verdicts.is_empty() || !codes.is_empty() {
            section id="words" {
                h2 { "Words and codes used on this page" }
                dl.words {
                    @for v in verdicts { div { dt { (v) } dd { (sentence(v.meaning())) "." } } }
                    @for c in codes { div { dt { (c.id) } dd { (sentence(&clean(&c.words))) "." } } }
                }
            }
        }
    }
}

/// A claim in the list of all; its reason is shown with its study.
fn linked(v: &Judged) -> Markup {
    html! {
        tr {
            td { a href={ "#" (v.studies.first().map_or("", String::as_str)) } { (v.id) } }
            td { (badge(v)) }
            td { (v.claim) "." }
        }
    }
}

fn verdict(v: &Judged, codes: &[Code]) -> Markup {
    html! {
        tr {
            td { (v.id) }
            td { (badge(v)) }
            td {
                details open[v.verdict != Verdict::Holds] { summary { (v.claim) "." } p { (marked(&v.why, codes)) } }
            }
        }
    }
}

/// The command lines that find the numbers of a table again, and those of its rows.
fn commands(table: &Table) -> Markup {
    let line = |command: &str| html! { code { (clean(command)) } };
    html! {
        @if !table.command.is_empty() {
            details.commands {
                summary { "Measure it again" }
                dl {
                    div { dt { "all rows" } dd { (line(&table.command)) } }
                    @for row in table.rows.iter().filter(|row| !row.command.is_empty()) {
                        div { dt { (clean(&row.name)) } dd { (line(&row.command)) } }
                    }
                }
            }
        }
    }
}

fn section(section: &Section) -> Markup {
    let small = section.charts.len() > 3;
    html! {
        section id=(section.id) {
            h2 { (section.title) }
            p.lead { code { (section.id) } " · " (marked(&section.rules, &section.codes)) }
            @if !section.verdicts.is_empty() {
                table.verdicts { tbody { @for v in &section.verdicts { (verdict(v, &section.codes)) } } }
            }
            div.charts[small] {
                @for c in &section.charts { (if small { chart(c, 200.0, 150.0) } else { chart(c, 560.0, 300.0) }) }
            }
            @for b in &section.bars { (bars(b, 230.0)) }
            @for t in &section.tables { (table(t)) }
            @for note in &section.notes { p.note { (marked(note, &section.codes)) } }
        }
    }
}

/// Neighbouring columns of one name share a head, which is aligned as the first of them.
fn heads<'a>(columns: &'a [Column], stands: &[Stands]) -> Vec<(&'a str, usize, Stands)> {
    let mut at = 0;
    let head = |part: &'a [Column]| {
        at += part.len();
        (part[0].name.as_str(), part.len(), stands[at - part.len()])
    };
    columns.chunk_by(|a, b| a.name == b.name).map(head).collect()
}

fn table(table: &Table) -> Markup {
    let stands = stands(table);
    let left = |stands: Stands| stands != Stands::Right;
    html! {
        h3 { (table.title) }
        div.scroll {
            table.papers {
                thead {
                    tr {
                        th {}
                        @for (name, columns, place) in heads(&table.columns, &stands) {
                            th.words[left(place)] scope="colgroup" colspan=(columns) { (name) }
                        }
                    }
                    tr {
                        th scope="col" { (table.rows_are) }
                        @for (c, &place) in table.columns.iter().zip(&stands) {
                            th.printed[c.origin == Origin::Printed].words[left(place)] scope="col" { (under(c)) }
                        }
                    }
                }
                tbody {
                    @for row in &table.rows {
                        tr {
                            th scope="row" { (clean(&row.name)) }
                            @for ((cell, c), &place) in row.cells.iter().zip(&table.columns).zip(&stands) {
                                @let printed = c.origin == Origin::Printed;
                                @let wrapped = place == Stands::Wrapped;
                                td.printed[printed].words[left(place)].sentences[wrapped] { (shown(cell, c)) }
                            }
                        }
                    }
                }
            }
        }
        (commands(table))
    }
}
