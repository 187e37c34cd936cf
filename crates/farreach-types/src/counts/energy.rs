//! Energy of address translation, structure by structure.

use serde::{Deserialize, Serialize};

/// What the energy of a machine is made of.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Energy {
    /// Feature size in nm that all figures are scaled to.
    pub technology: u64,
    /// The parts that are known.
    pub parts: Vec<EnergyPart>,
    /// What no energy is known of, with the reason. If anything is missing, there is no sum.
    pub missing: Vec<String>,
}

/// The energy of one kind of event in one structure.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct EnergyPart {
    /// The structure, such as `l1d 4K:64/4`.
    pub structure: String,
    /// `lookups`, `fills`, `walks`, `reads`.
    pub event: String,
    /// How often.
    pub count: u64,
    /// Energy of one, in pJ, at the technology of the machine.
    pub each_pj: f64,
    /// Where the figure comes from.
    pub source: String,
    /// Feature size in nm at which it was found; 0 where it is not scaled.
    pub source_technology: u64,
}

impl EnergyPart {
    /// Of all of them, in pJ.
    pub fn pj(&self) -> f64 {
        self.count as f64 * self.each_pj
    }
}

impl Energy {
    /// Of the machine, in pJ; `None` if anything is missing.
    pub fn total_pj(&self) -> Option<f64> {
        self.missing.is_empty().then(|| self.parts.iter().map(EnergyPart::pj).sum())
    }
}
