//! The energy of translation, structure by structure.

use super::parts::{Page, named};
use crate::format::{count, rate, significant};
use crate::view::pj_per_lookup;
use farreach_types::counts::{Energy, EnergyPart};
use maud::{Markup, html};

/// What the energy of each design is made of, if that of any structure is known.
pub(super) fn energy(page: &Page) -> Option<Markup> {
    let machines = &page.result.machines;
    if machines.iter().all(|m| m.cost.energy.parts.is_empty()) {
        return None;
    }
    Some(html! {
        section {
            h2 { "Energy of translation" }
            p.lead {
                "Lookups, fills and walks, and what walks read, at the figures of the structures as they were "
                "synthesised, with flip-flops for memory; caches at printed figures. Neither the clock of what nothing "
                "is asked of is counted, nor the instructions of handlers. Good for comparing designs, no forecast of "
                "a chip."
            }
            div.scroll {
                table.numbers {
                    thead {
                        tr {
                            th scope="col" { "structure" }
                            th scope="col" { "event" }
                            th scope="col" { "times" }
                            th scope="col" { "pJ each" }
                            th scope="col" { "pJ" }
                            th.words scope="col" { "figure" }
                        }
                    }
                    @for (i, m) in machines.iter().enumerate() {
                        tbody {
                            tr.group {
                                th scope="rowgroup" colspan="6" {
                                    (named(page, i))
                                    @if let (Some(pj), Some(each)) = (m.cost.energy_pj, pj_per_lookup(m)) {
                                        (count(pj.round() as u64)) " pJ, " (rate(each)) " for each lookup"
                                    }
                                }
                            }
                            @for part in &m.cost.energy.parts { (row(part)) }
                            (missing(&m.cost.energy))
                        }
                    }
                }
            }
        }
    })
}

fn row(part: &EnergyPart) -> Markup {
    html! {
        tr {
            th scope="row" { (part.structure) }
            td { (part.event) }
            td { (count(part.count)) }
            td { (significant(part.each_pj)) }
            td { (count(part.pj().round() as u64)) }
            td.words {
                (part.source)
                @if part.source_technology > 0 { ", " (part.source_technology) " nm" }
            }
        }
    }
}

fn missing(energy: &Energy) -> Markup {
    html! {
        @for why in &energy.missing {
            tr { td.words colspan="6" { "No energy: " (crate::format::clean(why)) } }
        }
    }
}
