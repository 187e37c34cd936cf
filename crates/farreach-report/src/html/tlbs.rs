//! The page of measured TLBs: a chart for each page size.

use super::axes::x_axis;
use super::lines::{Drawn, Mark, plot};
use super::parts::chip;
use super::scale::Scale;
use super::{Head, document};
use crate::format::{counted, digits, grouped};
use crate::tlbs::{judgements, pages, table};
use farreach_types::addr::Bytes;
use farreach_types::counts::{TlbCurve, TlbMeasurement};
use maud::{Markup, html};

/// The least that a logarithmic axis shows, in cycles.
const FLOOR: f64 = 1.0;

/// The page.
pub fn render(result: &TlbMeasurement) -> String {
    let mut sizes: Vec<u64> = result.curves.iter().map(|curve| curve.page_size).collect();
    sizes.dedup();
    let knee = result.knees.iter().find(|knee| knee.level == 1);
    let title = knee.map_or("No level of the TLB was told apart from the next.".to_owned(), |knee| {
        format!("The first level of the data TLB answers up to {}.", counted(knee.entries, "page"))
    });
    let nested = html! {
        b { "A virtual machine: " }
        "entries are no larger than the pages of the host, and a walk goes through the page tables of guest and host."
    };
    let head = Head {
        about: "the TLBs of one processor, measured".into(),
        title: &title,
        source: &result.processor,
        facts: html! {
            dl.facts {
                div { dt { "gigahertz" } dd { (digits(result.gigahertz)) } }
                div { dt { "repetitions" } dd { (result.repetitions) } }
                @for price in &result.prices {
                    div { dt { (price.event) ", " (Bytes(price.page_size)) } dd { (digits(price.cycles)) " cycles" } }
                }
            }
        },
        warning: result.hypervisor.is_some().then_some(nested),
    };
    let body = html! {
        @for size in sizes { (chart(result, size)) }
        section {
            h2 { "Against the description" }
            ul { @for sentence in judgements(result) { li { (sentence) } } }
        }
        section { h2 { "Numbers" } pre { (table(result, 100)) } }
    };
    document(&head, &body)
}

fn chart(result: &TlbMeasurement, size: u64) -> Markup {
    let curves: Vec<&TlbCurve> = result.curves.iter().filter(|curve| curve.page_size == size).collect();
    let all = || curves.iter().flat_map(|curve| &curve.points);
    let x = Scale::fit(all().map(|point| point.pages as f64));
    // A second level is hidden beside a walk on a linear axis.
    let y = Scale::fit(all().map(|point| point.cycles.max(FLOOR)));
    let drawn = |(design, curve): (usize, &&TlbCurve)| Drawn {
        design,
        name: pages(curve.page_size, curve.stride_pages),
        points: curve.points.iter().map(|point| (x.at(point.pages as f64), point.cycles.max(FLOOR))).collect(),
    };
    let lines: Vec<Drawn> = curves.iter().enumerate().map(drawn).collect();
    let marks = marks(result, size, x);
    let upright: Vec<f64> = x.ticks().into_iter().map(|tick| x.at(tick)).collect();
    let spread = curves.iter().map(|curve| curve.spread());
    let [median, worst] = spread.fold([0.0f64; 2], |[a, b], [c, d]| [a.max(c), b.max(d)]);
    html! {
        section {
            h2 { "Pages of " (Bytes(size)) }
            p.lead {
                "Cycles that translation adds to a load in a chain of dependent loads, one in each page: what it takes "
                "beyond a chain of as many lines in few pages. Medians; half of the repetitions are within "
                (digits(median)) " cycles of them at the median point, within " (digits(worst)) " at the worst."
                @if y.is_log() { " The scale is logarithmic, and less than a cycle stands at 1." }
                @if !marks.is_empty() {
                    " Dashed: entries of the first and of the second level as they are described, by CPUID or the "
                    "preset of the core. In the colour of a curve: up to where it shows a level to answer."
                }
            }
            (plot("cycles by pages", y, &upright, &x_axis(x, "pages of the chain"), &lines, &marks, None))
            div.legend {
                @for line in &lines { span.named { (chip(line.design)) span.name { (line.name) } } }
            }
        }
    }
}

/// Entries as described, and knees as found.
fn marks(result: &TlbMeasurement, size: u64, x: Scale) -> Vec<Mark> {
    let here = || result.knees.iter().filter(|knee| knee.page_size == size);
    let mut described: Vec<u64> = here().filter_map(|knee| knee.described).collect();
    described.sort_unstable();
    described.dedup();
    let curves: Vec<u64> = result.curves.iter().filter(|c| c.page_size == size).map(|c| c.stride_pages).collect();
    let knee = |entries: u64, words: String, design| Mark { at: x.at(entries as f64), words, design };
    let told = described.into_iter().map(|n| knee(n, format!("{} described", grouped(n)), None));
    let found = here().map(|k| {
        let design = curves.iter().position(|stride| *stride == k.stride_pages);
        knee(k.entries, format!("up to {}", grouped(k.entries)), design)
    });
    told.chain(found).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_a_chart_and_escapes_names() {
        let page = render(&crate::tlbs::example());
        assert!(page.contains("Pages of 4K") && page.contains("polyline") && page.contains("answers up to 64 pages"));
        assert!(page.contains("64 described") && page.contains("up to 64<") && page.contains("as measured."), "{page}");
        assert!(page.contains("a &lt;processor&gt;") && !page.contains("<processor>"), "{page}");
    }
}
