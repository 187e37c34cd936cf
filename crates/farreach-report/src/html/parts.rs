//! Elements that several charts use.

use farreach_types::counts::RunResult;
use maud::{Markup, html};

/// What the page shows: a cleaned result and the design others are compared with.
pub(super) struct Page<'a> {
    pub(super) result: &'a RunResult,
    pub(super) base: usize,
}

/// Number of colours in the style sheet.
const COLOURS: usize = 8;

/// The class that gives design `i` its colour. From the ninth on colours repeat, then with dashed lines.
pub(crate) fn colour(i: usize) -> String {
    let dash = if (i / COLOURS) % 2 == 1 { " dash" } else { "" };
    format!("s{}{dash}", i % COLOURS)
}

/// The letters that identify design `i` where its name does not fit, and without colours.
pub(super) fn letters(i: usize) -> String {
    let letter = |n: usize| char::from(b'A' + (n % 26) as u8);
    if i < 26 { letter(i).to_string() } else { format!("{}{}", letter(i / 26 - 1), letter(i)) }
}

/// The coloured tag of design `i`.
pub(super) fn chip(i: usize) -> Markup {
    html! { span class={ "chip " (colour(i)) } { (letters(i)) } }
}

/// Tag and name.
pub(super) fn named(page: &Page, i: usize) -> Markup {
    html! { span.named { (chip(i)) span.name { (breakable(&page.result.machines[i].name)) } } }
}

/// A name that may break where an override or a folder begins, but not inside of a number such as `2,169`.
pub(super) fn breakable(name: &str) -> String {
    let digit = |at: usize| name.as_bytes().get(at).is_some_and(u8::is_ascii_digit);
    let mut broken = String::with_capacity(name.len() + 16);
    for (at, sign) in name.char_indices() {
        broken.push(sign);
        if matches!(sign, ':' | ',' | '/') && !(digit(at.wrapping_sub(1)) && digit(at + 1)) {
            broken.push('\u{200b}');
        }
    }
    broken
}

/// Tags and names of all designs, for charts on narrow screens.
pub(super) fn legend(page: &Page) -> Markup {
    html! { div.legend { @for i in 0..page.result.machines.len() { (named(page, i)) } } }
}

/// A length or position in percent, with few digits and one format.
pub(crate) fn percent(part: f64) -> String {
    format!("{:.2}%", 100.0 * part)
}

/// A number for a coordinate.
pub(crate) fn px(x: f64) -> String {
    format!("{x:.1}")
}

/// Moves labels of height `gap` apart, within `0..height`, keeping their order; the places come back in the order
/// given.
pub(crate) fn apart(wanted: &[f64], gap: f64, height: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|&a, &b| wanted[a].total_cmp(&wanted[b]));
    let mut places = wanted.to_vec();
    let mut floor = gap / 2.0;
    for &i in &order {
        places[i] = places[i].max(floor);
        floor = places[i] + gap;
    }
    let mut ceiling = height - gap / 2.0;
    for &i in order.iter().rev() {
        places[i] = places[i].min(ceiling);
        ceiling = places[i] - gap;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_moved_apart_and_stay_inside() {
        let places = apart(&[299.0, 298.0, 5.0, 6.0, 150.0], 20.0, 300.0);
        assert_eq!(places, [290.0, 270.0, 10.0, 30.0, 150.0]);
    }

    #[test]
    fn names_break_and_numbers_do_not() {
        let shown = |name| breakable(name).replace('\u{200b}', "|");
        assert_eq!(shown("a/b:size=4K,16K,x=2"), "a/|b:|size=4K,|16K,|x=2");
        assert_eq!(shown("t94/single: 2,169 misses,"), "t94/|single:| 2,169 misses,|");
        assert_eq!(shown(",1"), ",|1");
    }

    #[test]
    fn every_design_has_its_own_letters() {
        let all: std::collections::HashSet<String> = (0..100).map(letters).collect();
        assert_eq!((all.len(), letters(0), letters(26), letters(27)), (100, "A".into(), "AA".into(), "AB".into()));
    }
}
