//! Whole systems: misses of kernel and user by design, what the guest did, and its programs.

use super::bars;
use super::parts::{Page, breakable, named, percent};
use super::scale::Scale;
use super::tables::{heads, side_by_side};
use crate::format::{NONE, count, counted, grouped, rate, sentence};
use crate::guest::{PRIVILEGES, Sides, about, checked, facts, in_kernel, kinds, programs, vector};
use farreach_types::counts::GuestUse;
use farreach_types::plural::pluralize;
use maud::{Markup, html};

/// All of it; nothing if what ran was no whole system.
pub(super) fn sections(page: &Page) -> Option<Markup> {
    let guest = page.result.workload.guest.as_ref()?;
    Some(html! {
        section {
            h2 { "Kernel and user" }
            p.lead { (about(guest)) "." }
            (what_it_did(guest))
            (misses(page))
        }
        (by_program(page))
        (interruptions(guest))
    })
}

/// Its references by privilege, its events, and the checks of its translations.
fn what_it_did(guest: &GuestUse) -> Markup {
    html! {
        dl.facts {
            @for (name, kernel) in PRIVILEGES {
                div { dt { (name) " instructions" } dd { (count(guest.references(kernel).fetch)) } }
                div { dt { (name) " lookups" } dd { (count(guest.lookups(kernel).total())) } }
            }
            @if let Some(part) = in_kernel(guest) { div { dt { "% in the kernel" } dd { (rate(part)) } } }
            @for (one, n) in facts(guest).into_iter().flatten() { div { dt { (pluralize(n, one)) } dd { (count(n)) } } }
        }
        @if let Some(checks) = &guest.checks {
            p.stopped[checks.different > 0].note[checks.different == 0] { (sentence(&checked(checks).join("; "))) "." }
        }
    }
}

/// A bar for each design: the kernel, then its programs.
fn misses(page: &Page) -> Markup {
    let sides: Vec<Option<Sides>> = page.result.machines.iter().map(|m| Sides::of(page.result, m)).collect();
    let most = sides.iter().flatten().map(Sides::all_misses).max().unwrap_or(0);
    let scale = Scale::linear(most as f64);
    html! {
        p.keys { span { i.key.r0 {} "misses of the kernel" } span { i.key.r1 {} "misses of its programs" } }
        div.bars {
            div.head.label {}
            div.head {}
            div.head.value.three { span { "kernel" } span { "user" } span { "kernel %" } }
            @for (i, side) in sides.iter().enumerate() {
                div.label { (named(page, i)) }
                @if let Some(side) = side {
                    div.bar { (bar(&page.result.machines[i].name, side, scale)) }
                    div.value.three {
                        b { (count(side.misses(true))) }
                        span { (count(side.misses(false))) span.narrow { " user" } }
                        span { (side.kernel_misses().map_or_else(|| NONE.into(), rate)) span.narrow { " kernel %" } }
                    }
                } @else {
                    div.bar {}
                    div.value.three { b { (NONE) } span { (NONE) } span { (NONE) } }
                }
            }
            (bars::axis(scale))
        }
    }
}

fn bar(name: &str, side: &Sides, scale: Scale) -> Markup {
    let words = |(name, kernel): (&str, bool)| {
        let misses = side.misses(kernel);
        let each = side.per_thousand(kernel).map_or_else(String::new, |n| format!(" ({} per 1000 instr.)", rate(n)));
        format!("{} {} in {name}{each}", grouped(misses), pluralize(misses, "miss"))
    };
    let tip = format!("{name}: {}", PRIVILEGES.map(words).join(", "));
    html! {
        svg width="100%" height="22" role="img" aria-label=(tip) {
            title { (tip) }
            @for tick in scale.ticks() {
                line.grid x1=(percent(scale.at(tick))) x2=(percent(scale.at(tick))) y1="0" y2="22" {}
            }
            @let kernel = side.misses(true);
            @for (class, from, n) in [("region r0", 0, kernel), ("region r1", kernel, side.misses(false))] {
                @if n > 0 {
                    rect class=(class) x=(percent(scale.at(from as f64))) y="2" height="18"
                        width=(percent(scale.at(n as f64))) {}
                }
            }
        }
    }
}

/// The programs, if they have names.
fn by_program(page: &Page) -> Markup {
    let programs = programs(page.result, page.base);
    let machines = &page.result.machines;
    let number = |n: Option<f64>| n.map_or_else(|| NONE.to_owned(), rate);
    html! {
        @if !programs.is_empty() {
            section {
                h2 { "By program" }
                p.lead {
                    "Address spaces of one name, with what the kernel did in them: misses, the kernel's share of them, "
                    "and misses for 1000 instructions."
                }
                (side_by_side(page, html! {
                    table.numbers {
                        thead {
                            tr {
                                th scope="col" { "program" }
                                th scope="col" { "instructions" }
                                (heads(page))
                            }
                        }
                        tbody {
                            @for program in &programs {
                                tr {
                                    th scope="row" {
                                        (breakable(&program.name)) " "
                                        @if program.spaces > 0 {
                                            span.note { (counted(program.spaces, "address space")) }
                                        }
                                    }
                                    td {
                                        (count(program.instructions()))
                                        small { (number(program.in_kernel())) " % kernel" }
                                    }
                                    @for i in 0..machines.len() {
                                        td {
                                            (program.misses(i).map_or_else(|| NONE.into(), count))
                                            @if program.misses(i).is_some() {
                                                small { (number(program.kernel_misses(i))) " % kernel" }
                                                small { (number(program.per_thousand(i))) " per 1000" }
                                            }
                                        }
                                    }
                                }
                            }
                        }
                    }
                }))
            }
        }
    }
}

/// Exceptions and interrupts by what they were, most first.
fn interruptions(guest: &GuestUse) -> Markup {
    let kinds = kinds(guest);
    html! {
        @if !kinds.is_empty() {
            section {
                h2 { "Exceptions and interrupts" }
                p.lead { "All together: " (grouped(guest.events.exceptions)) "." }
                dl.pairs {
                    @for kind in kinds {
                        div { dt { (vector(guest.arch, kind.vector)) } dd { (grouped(kind.count)) } }
                    }
                }
            }
        }
    }
}
