//! The figure of a structure of some size.

use crate::hardware::{Figure, LIBRARY};

/// Energies of a structure of one size, in pJ.
pub(super) struct Request {
    /// Of a lookup.
    pub lookup: f64,
    /// Of a fill.
    pub fill: Option<f64>,
    /// In nm.
    pub technology: u64,
    /// For people.
    pub source: String,
}

/// The figure of a structure: of this size, or on the line between the next smaller and larger one.
pub(super) fn request(all: &[Figure], structure: &str, entries: Option<u64>) -> Result<Request, String> {
    let entries_of = |figure: &Figure| match figure.configuration.rsplit_once('-') {
        Some((name, entries)) if name == structure => entries.parse::<u64>().ok(),
        _ => None,
    };
    let of = all.iter().filter(|figure| figure.library == LIBRARY && figure.request_pj().0.is_some());
    let single = |figure: &Figure, source: String| {
        let (lookup, fill) = figure.request_pj();
        let lookup = lookup.expect("those without were left out");
        Request { lookup, fill, technology: figure.technology(), source }
    };
    let say = |figure: &Figure| format!("{} in {LIBRARY}, mean of {}", figure.configuration, figure.programs());
    let Some(entries) = entries else {
        let found = of.clone().find(|figure| figure.configuration == structure);
        return found
            .map(|figure| single(figure, say(figure)))
            .ok_or_else(|| format!("{structure} was not synthesised"));
    };
    let mut sizes: Vec<(u64, &Figure)> = of.filter_map(|figure| Some((entries_of(figure)?, figure))).collect();
    sizes.sort_by_key(|(entries, _)| *entries);
    if let Some((_, figure)) = sizes.iter().find(|(size, _)| *size == entries) {
        return Ok(single(figure, say(figure)));
    }
    let between = sizes.windows(2).find(|pair| (pair[0].0..pair[1].0).contains(&entries));
    let Some([(below, a), (above, b)]) = between else {
        let sizes = sizes.iter().map(|(entries, _)| entries.to_string()).collect::<Vec<_>>().join(", ");
        let sizes = if sizes.is_empty() { "none".into() } else { format!("only {sizes}") };
        return Err(format!("{structure} with {entries} entries: {sizes} were synthesised"));
    };
    let share = (entries - below) as f64 / (above - below) as f64;
    let (a_pj, b_pj) = (a.request_pj(), b.request_pj());
    let line = |a: Option<f64>, b: Option<f64>| Some(a? + (b? - a?) * share);
    let source = format!("between {} and {} in {LIBRARY}, mean of {}", a.configuration, b.configuration, a.programs());
    let lookup = line(a_pj.0, b_pj.0).ok_or_else(|| format!("{structure} was not synthesised"))?;
    Ok(Request { lookup, fill: line(a_pj.1, b_pj.1), technology: a.technology(), source })
}
