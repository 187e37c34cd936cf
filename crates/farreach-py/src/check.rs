//! The conformance suite for a design that is written in Python.

use crate::describe::Machine;
use crate::errors::{broken, refuse};
use crate::tlb::Failure;
use farreach::conformance::{Effort, Subject, Traits, conform};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

/// Holds a design to the contract, over so many streams of so many events each. Raises what the design raises, or which
/// rule it breaks, and where.
#[pyfunction]
pub fn check(py: Python<'_>, machine: Machine, streams: u64, steps: usize) -> PyResult<()> {
    let spec = machine.spec(py, 0)?;
    let (Some(class), Some(design)) = (&machine.3, spec.hardware.tlb()) else {
        let what = format!("{}: a design written in Python is needed; tests of farreach check its own", spec.name);
        return Err(PyTypeError::new_err(what));
    };
    let failure = Failure::default();
    let found = failure.scope(py, &[class.bind(py)], || {
        // It was not built yet, and may refuse its keys.
        if let Err(what) = (design.build)(&spec.params) {
            return Err(refuse(py, &spec.name, &what));
        }
        let subject = Subject {
            design,
            name: spec.name.clone(),
            params: spec.params.clone(),
            make: Box::new(design.build),
            traits: Traits::default(),
        };
        let found = conform(&subject.examined(), &Effort { seeds: 0..streams, steps });
        found.map_err(|what| broken(py, &spec.name, &what))
    })?;
    // What it raised comes before what that broke.
    failure.take().map_or(found, Err)
}
