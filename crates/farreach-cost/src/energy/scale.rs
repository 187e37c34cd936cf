//! Energies of one technology in another.

/// Supply voltage of the usual process of a feature size in nm, the largest first.
const SUPPLY: [(f64, f64); 9] = [
    (350.0, 3.3),
    (250.0, 2.5),
    (180.0, 1.8),
    (130.0, 1.2),
    (90.0, 1.0),
    (65.0, 1.0),
    (45.0, 0.9),
    (32.0, 0.9),
    (22.0, 0.8),
];

/// Supply voltage at a feature size; linear between those of [`SUPPLY`].
fn supply(nm: f64) -> f64 {
    let between = SUPPLY.windows(2).find(|pair| (pair[1].0..=pair[0].0).contains(&nm));
    between.map_or_else(
        || if nm > SUPPLY[0].0 { SUPPLY[0].1 } else { SUPPLY[SUPPLY.len() - 1].1 },
        |pair| pair[1].1 + (pair[0].1 - pair[1].1) * (nm - pair[1].0) / (pair[0].0 - pair[1].0),
    )
}

/// Factor of an energy from one feature size in nm to another: capacitance shrinks with the size, energy with
/// capacitance and the square of the voltage.
///
/// ```
/// use farreach_cost::energy::scale;
/// assert_eq!([scale(180, 180), scale(180, 45), scale(45, 180)], [1.0, 1.0 / 16.0, 16.0]);
/// ```
pub fn scale(from: u64, to: u64) -> f64 {
    let (from, to) = (from as f64, to as f64);
    to / from * (supply(to) / supply(from)).powi(2)
}
