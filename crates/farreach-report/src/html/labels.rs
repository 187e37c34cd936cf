//! Room for the labels of dots, so that none covers a dot or another label, on a wide page and on a narrow one.

use super::axes::{HEIGHT, LINE};

/// Width of a letter in pixels, and of the chip before a name.
const LETTER: f64 = 7.3;
const CHIP: f64 = 24.0;
/// Longest label in pixels; the style sheet agrees.
const LABEL: f64 = 270.0;
/// From the middle of a dot to its label; the style sheet agrees.
const BESIDE: f64 = 9.0;
/// Half a dot, with its edge.
const DOT: f64 = 7.0;
/// Labels this far from their dots, in half lines, still keep off the frontier; further ones only off dots and labels.
const NEAR: i32 = 4;

/// A page on which labels are placed: the narrowest of its kind, because on wider ones dots are further apart and
/// labels have the same size.
pub(super) struct Room {
    width: f64,
    names: bool,
}

/// The narrowest page with names beside the dots: the style sheet drops the names below 52rem.
pub(super) const WIDE: Room = Room { width: 734.0, names: true };
/// A telephone; chips only, the names are in the legend.
pub(super) const NARROW: Room = Room { width: 288.0, names: false };

/// Where a label goes: its middle line, and on which side of the dot.
pub(super) struct Label {
    pub(super) top: f64,
    pub(super) left: bool,
}

/// Left, top, right, bottom.
type Box = [f64; 4];

fn apart(a: &Box, b: &Box) -> bool {
    a[2] <= b[0] || a[0] >= b[2] || a[3] <= b[1] || a[1] >= b[3]
}

/// Finds room for every label: beside its dot, else above or below, as near as possible. A dot is given as a fraction
/// of the width and pixels from the top; `names` are the lengths of the labels in letters, `steps` the corners of the
/// frontier.
pub(super) fn place(room: &Room, dots: &[(f64, f64)], names: &[usize], steps: &[(f64, f64)]) -> Vec<Label> {
    let mut taken: Vec<Box> =
        (dots.iter().map(|(x, y)| (x * room.width, y))).map(|(x, y)| [x - DOT, y - DOT, x + DOT, y + DOT]).collect();
    let lines: Vec<Box> = (steps.windows(2))
        .map(|w| {
            [w[0].0 * room.width - 1.0, w[0].1.min(w[1].1) - 1.0, w[1].0 * room.width + 1.0, w[0].1.max(w[1].1) + 1.0]
        })
        .collect();
    let mut labels = Vec::new();
    for (&(x, y), &letters) in dots.iter().zip(names) {
        let x = x * room.width;
        let wide = if room.names { (letters as f64 * LETTER + CHIP + 4.0).min(LABEL) } else { CHIP };
        let boxed = |&(top, left): &(f64, bool)| -> Box {
            let from = if left { x - BESIDE - wide } else { x + BESIDE };
            [from, top - LINE / 2.0, from + wide, top + LINE / 2.0]
        };
        let spots = |steps: i32| {
            let tops = (0..steps).flat_map(|k| [f64::from(k), -f64::from(k)]).map(move |k| y + k * LINE / 2.0);
            let inside = tops.filter(|top| (LINE / 2.0..=HEIGHT - LINE / 2.0).contains(top));
            inside.flat_map(|top| [false, true].map(|left| (top, left)))
        };
        let free = |spot: &(f64, bool), others: &[Box]| {
            let own = boxed(spot);
            own[0] >= 0.0 && own[2] <= room.width && others.iter().all(|other| apart(&own, other))
        };
        let off_frontier = spots(NEAR).find(|spot| free(spot, &taken) && free(spot, &lines));
        let found = off_frontier.or_else(|| spots(30).find(|spot| free(spot, &taken)));
        let (top, left) = found.unwrap_or((y.clamp(LINE / 2.0, HEIGHT - LINE / 2.0), x > room.width / 2.0));
        taken.push(boxed(&(top, left)));
        labels.push(Label { top, left });
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten page sizes and two policies, as close as they come.
    #[test]
    fn no_label_covers_a_dot_or_another_label() {
        let dots: Vec<(f64, f64)> =
            (0..12).map(|i| (0.2 + 0.012 * f64::from(i * i % 7), 20.0 + 9.0 * f64::from(i))).collect();
        for room in [WIDE, NARROW] {
            let labels = place(&room, &dots, &[5; 12], &[]);
            let wide = if room.names { 5.0 * LETTER + CHIP } else { CHIP };
            let boxes: Vec<Box> = (dots.iter().zip(&labels))
                .map(|((x, _), label)| {
                    let from = if label.left { x * room.width - BESIDE - wide } else { x * room.width + BESIDE };
                    [from, label.top - LINE / 2.0, from + wide, label.top + LINE / 2.0]
                })
                .collect();
            for (i, a) in boxes.iter().enumerate() {
                assert!(boxes[..i].iter().all(|b| apart(a, b)), "label {i} of {boxes:?}");
                let dot = |(x, y): &(f64, f64)| [x * room.width - DOT, y - DOT, x * room.width + DOT, y + DOT];
                assert!(dots.iter().all(|d| apart(a, &dot(d))), "label {i} covers a dot");
            }
        }
    }
}
