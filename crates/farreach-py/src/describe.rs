//! Machines: from what Python says of one to a description, and what it says about itself.

use crate::errors::raise;
use crate::tlb;
use farreach::{MachineSpec, PRESETS, Preset, cost};
use pyo3::prelude::*;

/// A machine as Python hands it over: name, TOML text or `None` for a preset, overrides, and its class if the design
/// is written in Python.
#[derive(FromPyObject)]
pub struct Machine(pub String, pub Option<String>, pub String, pub Option<Py<PyAny>>);

impl Machine {
    /// The description. `seed` counts unless it has one of its own.
    pub fn spec(&self, py: Python<'_>, seed: u64) -> PyResult<MachineSpec> {
        let Machine(name, toml, overrides, class) = self;
        let spec = match (toml, class) {
            (None, _) => MachineSpec::parse(name, seed),
            (Some(toml), None) => MachineSpec::from_toml(name, toml, overrides, seed),
            (Some(toml), Some(class)) => {
                let designs = tlb::designs_with(py, class.bind(py))?;
                MachineSpec::with_designs(name, toml, overrides, seed, &designs)
            }
        };
        spec.map_err(|error| raise(py, error))
    }
}

/// Several, in order.
pub fn specs(py: Python<'_>, machines: &[Machine], seed: u64) -> PyResult<Vec<MachineSpec>> {
    machines.iter().map(|machine| machine.spec(py, seed)).collect()
}

/// What a description says.
#[pyclass(frozen, get_all)]
pub struct Description {
    name: String,
    about: String,
    /// Every key with its value, as JSON.
    config: String,
    toml: String,
    /// Files that are read for it.
    inputs: Vec<String>,
    /// Whether every reference counts, not only its page.
    has_caches: bool,
    area_rbe: Option<f64>,
    reach_bytes: u64,
}

/// Describes a machine.
#[pyfunction]
pub fn describe(py: Python<'_>, machine: Machine, seed: u64) -> PyResult<Description> {
    let spec = machine.spec(py, seed)?;
    let params = &spec.params;
    let sides = if spec.hardware.tlb().is_some() && params.flag("split") { 2 } else { 1 };
    let (area, reach) = match spec.hardware {
        farreach::Hardware::Tlb(design) => {
            let area = (design.bits)(params).map(|bits| cost::area_rbe(params.int("entries"), bits));
            (area.map(|one| one * f64::from(sides)), (design.reach)(params) * u64::from(sides as u32))
        }
        farreach::Hardware::System(kind) => (None, (kind.reach)(params)),
    };
    Ok(Description {
        config: serde_json::Value::Object(params.as_json().clone()).to_string(),
        toml: spec.to_toml(),
        inputs: spec.inputs().into_iter().map(str::to_owned).collect(),
        has_caches: spec.hardware.tlb().is_none(),
        area_rbe: area,
        reach_bytes: reach,
        name: spec.name,
        about: spec.about,
    })
}

/// The machines of a group of presets, `NAME[:key=value,...]`, or this one.
#[pyfunction]
pub fn named(text: &str) -> Vec<String> {
    Preset::named(text)
}

/// Names of the presets.
#[pyfunction]
pub fn presets() -> Vec<&'static str> {
    PRESETS.iter().map(|preset| preset.name).collect()
}
