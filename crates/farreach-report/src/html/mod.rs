//! A self-contained page: no script, no network, opened from a file. The template engine escapes text from outside, and
//! the page's content security policy forbids scripts as well.

pub mod advise;
mod axes;
mod bars;
mod columns;
pub mod contiguity;
mod energy;
mod guest;
mod headline;
mod labels;
mod lines;
pub mod pagesize;
pub(super) mod parts;
mod plots;
pub(super) mod scale;
mod scatter;
mod systems;
mod tables;
pub mod tlbs;
pub mod watch;

use super::format::{bytes, count, counted, rate};
use super::limits::{HEADING, endings, sentence};
use super::view::{baseline, cleaned, sampled};
use farreach_types::counts::{RunResult, Workload};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use parts::Page;

pub(super) const STYLE: &str = include_str!("style.css");
/// Nothing may be loaded or run; only the page's own style is allowed.
pub(super) const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// The page.
pub fn render(result: &RunResult) -> String {
    let result = &cleaned(result);
    let page = &Page { result, base: baseline(result) };
    let about = counted(result.machines.len() as u64, "translation design");
    document(
        &Head::program(&result.workload, &about, &headline::headline(page)),
        &html! {
            @if !result.machines.is_empty() {
                (bars::misses(page))
                @if let Some(guest) = guest::sections(page) { (guest) }
                @if let Some(systems) = systems::sections(page) { (systems) }
                @if let Some(chart) = plots::area(page) { (chart) }
                @if let Some(chart) = plots::phases(page) { (chart) }
                @if let Some(chart) = plots::timeline(page) { (chart) }
                @if let Some(chart) = bars::regions(page) { (chart) }
                (bars::memory(page))
                @if let Some(table) = tables::compaction(page) { (table) }
                @if let Some(table) = tables::ledger(page) { (table) }
                @if let Some(table) = energy::energy(page) { (table) }
                (tables::numbers(page))
                (tables::configuration(page))
            }
            (reading(page))
        },
    )
}

/// The head of a page, above the charts.
struct Head<'a> {
    /// What kind of page it is.
    about: String,
    /// The main result in a sentence.
    title: &'a str,
    /// What ran or was looked at.
    source: &'a str,
    /// A `dl` with the main figures.
    facts: Markup,
    /// What limits the validity of the page, if anything does.
    warning: Option<Markup>,
}

impl<'a> Head<'a> {
    /// The head of a page about a simulated program.
    fn program(workload: &'a Workload, about: &str, title: &'a str) -> Head<'a> {
        let part = sampled(workload);
        let ended = endings(&workload.signals);
        let any = part.is_some() || workload.stopped.is_some() || ended.is_some() || !workload.limits.is_empty();
        let warning = any.then(|| {
            html! {
                @if let Some(part) = &part {
                    (part) " "
                }
                @if let Some(ended) = &ended { (ended) ". " }
                @if let Some(why) = &workload.stopped {
                    b { "Stopped early: " } (why) ". Everything below is about the part that ran."
                }
                @if !workload.limits.is_empty() {
                    b.line { (HEADING) ":" }
                    @for limit in &workload.limits { span.line { (sentence(limit)) } }
                }
            }
        });
        Head {
            about: format!("one {}, {about}", if workload.guest.is_some() { "system" } else { "program" }),
            title,
            source: &workload.source,
            facts: facts(workload),
            warning,
        }
    }
}

/// A page: its head, and the rest.
fn document(head: &Head, body: &Markup) -> String {
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "farreach: " (head.source) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    p.eyebrow { "farreach · " (head.about) }
                    h1 { (parts::breakable(head.title)) }
                    p.source { code { (head.source) } }
                    (head.facts)
                    @if let Some(warning) = &head.warning { p.stopped { (warning) } }
                }
                main { (body) }
            }
        }
    };
    markup.into_string() + "\n"
}

fn facts(w: &Workload) -> Markup {
    let l = &w.lookups;
    html! {
        dl.facts {
            @if w.instructions > 0 { div { dt { "instructions" } dd { (count(w.instructions)) } } }
            @if let Some(traps) = &w.traps {
                div { dt { "seconds" } dd { (rate(traps.microseconds as f64 / 1e6)) } }
                div { dt { "of its own" } dd { (rate(traps.own_microseconds as f64 / 1e6)) } }
                div { dt { "traps" } dd { (count(traps.simulated)) } }
                @if traps.switches > 0 { div { dt { "switches" } dd { (count(traps.switches)) } } }
            } @else {
                div { dt { "lookups" } dd { (count(l.total())) } }
                div { dt { "fetch" } dd { (count(l.fetch)) } }
                div { dt { "load" } dd { (count(l.load)) } }
                div { dt { "store" } dd { (count(l.store)) } }
            }
            div { dt { "touched" } dd { (bytes(w.touched_bytes)) } }
            @if w.guest.is_none() {
                div { dt { "processes" } dd { (count(w.processes)) } }
                div { dt { "threads" } dd { (count(w.threads)) } }
            }
        }
    }
}

fn reading(page: &Page) -> Markup {
    html! {
        section.reading {
            h2 { "How to read this" }
            @if page.result.machines.len() > 1 { (tables::roll(page)) }
            dl {
                dt { "Lookup, miss" }
                dd {
                    "Each reference makes one lookup for every 4 KB page it touches. A miss is a lookup that no entry "
                    "could answer."
                }
                dt { "Miss cycles, share of time" }
                dd {
                    "Misses times " code { "penalty" } ", or, where hardware walks, the nodes that it reads; besides, "
                    "what only a second level or a range answers, and the further page table entries that a miss "
                    "reads, each at the price of its key. The share of time assumes that everything else takes "
                    code { "cpi" } " cycles per instruction; set these to those of your machine."
                }
                dt { "Area" }
                dd {
                    "Register-bit equivalents of a single-ported, fully associative TLB: one bit of a register is 1, a "
                    "RAM bit 0.6, a bit that is compared in parallel 1.2, with drivers, sense amplifiers and control "
                    "logic."
                }
                dt { "Resident, wasted, reserved, touched" }
                dd {
                    "Resident is the most memory in use at any time; wasted is what of it was never referenced by "
                    "then. Reserved frames are kept together for a superpage but count as free. Touched are the "
                    "distinct pages referenced over the whole run."
                }
                dt { "Ledger" }
                dd {
                    "Larger pages save misses and cost memory, reading, checking and bookkeeping. The ledger puts both "
                    "sides in cycles at the prices under Configuration. Some are assumptions: change them and run "
                    "again."
                }
                dt { "Reach" }
                dd {
                    "What the TLB maps when every entry is of the largest kind and full: an upper bound, rarely "
                    "reached."
                }
            }
        }
    }
}
