//! Errors of the library as exceptions of the package.

use farreach::Error;
use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// The exceptions are written in Python, where they take their message apart.
static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();

fn make(py: Python<'_>, class: &str, args: impl for<'py> pyo3::call::PyCallArgs<'py>) -> PyErr {
    let module = MODULE.get_or_try_init(py, || PyModule::import(py, "farreach.errors").map(Bound::unbind));
    let raised = module.and_then(|module| module.bind(py).getattr(class)?.call1(args));
    raised.map_or_else(|error| error, PyErr::from_value)
}

/// An error of the library as an exception.
pub fn raise(py: Python<'_>, error: Error) -> PyErr {
    match error {
        Error::Trace { file, place, what } => make(py, "TraceError", (file, place, what)),
        Error::Config { machine, what } => make(py, "MachineError", (machine, what)),
        Error::Simulation { machine, what } => make(py, "SimulationError", (machine, what)),
        Error::Workload { workload, what } => make(py, "WorkloadError", (workload, what)),
        Error::Io { file, source } => match source.raw_os_error() {
            // The system's own classes: FileNotFoundError and so on.
            Some(code) => {
                let text = source.to_string();
                let text = text.split(" (os error").next().unwrap_or_default().to_owned();
                PyOSError::new_err((code, text, file))
            }
            None => PyOSError::new_err(format!("{file}: {source}")),
        },
        Error::Failed(_) | Error::Step { .. } | Error::System(_) => PyRuntimeError::new_err(error.to_string()),
    }
}

/// A design that breaks its contract.
pub fn broken(py: Python<'_>, machine: &str, what: &str) -> PyErr {
    make(py, "ConformanceError", (machine, what))
}

/// A description that is refused where the library did not see it.
pub fn refuse(py: Python<'_>, machine: &str, what: &str) -> PyErr {
    make(py, "MachineError", (machine, what))
}
