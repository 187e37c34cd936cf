//! All numbers of the look with the most memory, and the meaning of the terms.

use super::kinds;
use crate::format::{digits, grouped, rate};
use farreach_types::counts::{ContiguityResult, Ranges};
use maud::{Markup, html};

/// A name and where its value is.
type Field = (&'static str, fn(&Ranges) -> String);

/// Every number, exact.
pub(super) fn numbers(result: &ContiguityResult) -> Markup {
    let kinds = kinds(&result.peak);
    let fields: [Field; 10] = [
        ("count", |r| grouped(r.count)),
        ("cover, 50 %", |r| grouped(r.cover[0])),
        ("cover, 90 %", |r| grouped(r.cover[1])),
        ("cover, 99 %", |r| grouped(r.cover[2])),
        ("count_8", |r| grouped(r.count_8)),
        ("percent_in_8", |r| rate(r.percent_in_8)),
        ("largest_percent", |r| rate(r.largest_percent)),
        ("max_pages", |r| grouped(r.max_pages)),
        ("median_pages", |r| grouped(r.median_pages)),
        ("mean_pages", |r| digits(r.mean_pages)),
    ];
    let longest = kinds.iter().map(|(_, r)| r.histogram.len()).max().unwrap_or(0);
    let at = |r: &Ranges, i: usize| r.histogram.get(i).copied().unwrap_or_default();
    html! {
        section {
            h2 { "All numbers" }
            p.lead { "Names are those of the JSON report. A page is 4 KB." }
            div.scroll {
                table.numbers {
                    thead { tr { th scope="col" {} @for (name, _) in &kinds { th scope="col" { (name) } } } }
                    tbody {
                        @for (name, of) in fields {
                            tr { th scope="row" { code { (name) } } @for (_, r) in &kinds { td { (of(r)) } } }
                        }
                    }
                }
            }
            div.scroll {
                table.numbers {
                    thead {
                        tr {
                            th scope="col" { "pages of a range" }
                            @for (name, _) in &kinds {
                                th scope="col" { (name) ", ranges" } th scope="col" { (name) ", pages" }
                            }
                        }
                    }
                    tbody {
                        @for i in (0..longest).filter(|i| kinds.iter().any(|(_, r)| at(r, *i)[0] > 0)) {
                            tr {
                                th scope="row" { (grouped(1 << i)) @if i > 0 { " to " (grouped((2 << i) - 1)) } }
                                @for (_, r) in &kinds { @for n in at(r, i) { td.even[n == 0] { (grouped(n)) } } }
                            }
                        }
                    }
                }
            }
            p.note { "Result schema: " code { (result.schema) } "." }
        }
    }
}

pub(super) fn reading(result: &ContiguityResult) -> Markup {
    html! {
        section.reading {
            h2 { "How to read this" }
            dl {
                dt { "Present" }
                dd {
                    "Pages that have memory at that moment, shared files among them. What is reserved and was never "
                    "touched is not there."
                }
                dt { "Range" }
                dd {
                    "Present pages that follow each other and have the same permission: in the address space (virtual: "
                    "what ideal placement would make of it), or in the address space and in memory alike (physical: "
                    "what it is)."
                }
                dt { "Clustered TLB, contiguous bit, 2 MB pages" }
                dd {
                    "One entry for eight pages whose frames lie in one aligned group of eight; for sixteen aligned "
                    "pages in sixteen aligned frames; for 512. What does not fit takes an entry per page. 2 MB pages "
                    "count where memory lies so that they could be used, whether the kernel uses them or not."
                }
                dt { "Range TLB" }
                dd { "One entry per range, of any length and alignment." }
                dt { "In huge pages" }
                dd { "What the kernel maps by 2 MB leaves now." }
                @if result.samples.len() > 1 {
                    dt { "Looks" }
                    dd { "A process goes on while it is looked at: each page is true for its own moment." }
                }
            }
        }
    }
}
