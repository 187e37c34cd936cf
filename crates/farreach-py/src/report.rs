//! Results in every form.

use farreach::counts::{ADVICE_SCHEMA, CONTIGUITY_SCHEMA, PAGESIZE_SCHEMA, RESULT_SCHEMA, WATCH_SCHEMA};
use farreach::counts::{AdviceResult, ContiguityResult, PageSizeResult, RunResult, WatchResult};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde_json::Value;

enum Kind {
    Run(Box<RunResult>),
    Pages(Box<PageSizeResult>),
    Contiguity(Box<ContiguityResult>),
    Advice(Box<AdviceResult>),
    Watch(Box<WatchResult>),
}

/// A result of one of the studies.
#[pyclass(frozen)]
pub struct Report(Kind);

impl From<RunResult> for Report {
    fn from(result: RunResult) -> Report {
        Report(Kind::Run(Box::new(result)))
    }
}

impl From<PageSizeResult> for Report {
    fn from(result: PageSizeResult) -> Report {
        Report(Kind::Pages(Box::new(result)))
    }
}

impl Report {
    fn any(&self) -> &dyn farreach::Report {
        match &self.0 {
            Kind::Run(result) => &**result,
            Kind::Pages(result) => &**result,
            Kind::Contiguity(result) => &**result,
            Kind::Advice(result) => &**result,
            Kind::Watch(result) => &**result,
        }
    }
}

#[pymethods]
impl Report {
    /// A result from its JSON; the schema says which.
    #[staticmethod]
    fn from_json(text: &str) -> PyResult<Report> {
        fn read<T: serde::de::DeserializeOwned>(value: Value) -> PyResult<Box<T>> {
            serde_json::from_value(value).map(Box::new).map_err(|e| PyValueError::new_err(e.to_string()))
        }
        let value: Value = serde_json::from_str(text).map_err(|e| PyValueError::new_err(e.to_string()))?;
        Ok(Report(match value["schema"].as_str() {
            Some(RESULT_SCHEMA) => Kind::Run(read(value)?),
            Some(PAGESIZE_SCHEMA) => Kind::Pages(read(value)?),
            Some(CONTIGUITY_SCHEMA) => Kind::Contiguity(read(value)?),
            Some(ADVICE_SCHEMA) => Kind::Advice(read(value)?),
            Some(WATCH_SCHEMA) => Kind::Watch(read(value)?),
            other => {
                let schemas = [RESULT_SCHEMA, PAGESIZE_SCHEMA, CONTIGUITY_SCHEMA, ADVICE_SCHEMA, WATCH_SCHEMA];
                let given = other.map_or_else(|| value["schema"].to_string(), |text| format!("'{text}'"));
                return Err(PyValueError::new_err(format!(
                    "schema = {given} is not allowed: schema must be one of {}",
                    schemas.join(", ")
                )));
            }
        }))
    }

    /// As `--json` prints it.
    fn json(&self, py: Python<'_>) -> String {
        py.detach(|| self.any().json())
    }

    /// As `--csv` prints it.
    fn csv(&self) -> String {
        self.any().csv()
    }

    /// A page complete in itself.
    fn html(&self, py: Python<'_>) -> String {
        py.detach(|| self.any().html())
    }

    /// The table for people, in lines of so many characters; `None`: as many as it takes.
    #[pyo3(signature = (width=None))]
    fn table(&self, width: Option<usize>) -> String {
        self.any().table(width.unwrap_or(usize::MAX))
    }
}
