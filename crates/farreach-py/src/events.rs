//! Events of a stream, and blocks, as Python has them: a position, an address space, and JSON.

use farreach::addr::Asid;
use farreach::event::Op;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Position, address space, the event as JSON.
pub type Event = (usize, u32, String);

/// For Python.
pub fn given(at: usize, asid: Asid, op: &Op) -> PyResult<Event> {
    let text = serde_json::to_string(op).map_err(|e| PyValueError::new_err(e.to_string()))?;
    Ok((at, asid.0, text))
}

/// From Python.
pub fn taken(text: &str) -> PyResult<Op> {
    serde_json::from_str(text).map_err(|e| PyValueError::new_err(format!("event {text}: {e}")))
}
