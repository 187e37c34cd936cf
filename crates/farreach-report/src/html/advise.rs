//! The page of advice: the recommendation as its title, the facts, the tables.

use super::{Head, document};
use crate::advise::{percent, range, table};
use crate::format::{digits, rate};
use farreach_types::counts::AdviceResult;
use maud::html;

/// The page.
pub fn render(result: &AdviceResult) -> String {
    let row = result.rows.iter().find(|row| row.name == result.recommendation.row);
    let title = row.map_or("Nothing can be said.".to_owned(), |row| match &row.saved_percent {
        Some(saved) if row.name != result.rows[0].name => {
            format!("{} saves {} % of run time.", row.change, range(saved, percent))
        }
        _ if row.name != result.rows[0].name => format!("{} saves most.", row.change),
        _ => "Leave it as it is.".into(),
    });
    let head = Head {
        about: "advice for one machine".into(),
        title: &title,
        source: &result.source,
        facts: html! {
            dl.facts {
                @for setting in &result.settings { div { dt { (setting.name) } dd { (setting.value) } } }
                @if let Some(native) = &result.native {
                    div { dt { "processor time" } dd { (digits(native.median_seconds)) " s" } }
                    div { dt { "noise" } dd { (rate(native.noise_percent)) " %" } }
                }
            }
        },
        warning: None,
    };
    document(&head, &html! { section { h2 { "Changes, and what to do" } pre { (table(result, 120)) } } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_title_is_the_recommendation_and_names_are_escaped() {
        let page = render(&crate::advise::tests::example());
        assert!(page.contains("THP always saves 4.0 to 24 % of run time.") && !page.contains("<program>"), "{page}");
    }
}
