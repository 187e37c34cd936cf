//! farreach in Python: what the package `farreach` (in `python/`) asks the library for.
//!
//! Everything here is thin: arguments become machines and streams, the library runs them without the interpreter's
//! lock, and what comes out goes back as text or arrays. What is better said in Python is said there: classes for
//! people, frames, plots, sweeps. The names of this module are the package's own business; `_core.pyi` lists them.
//!
//! It must not know how a simulation works, nor how work is spread over processes.

mod check;
mod describe;
mod drive;
mod errors;
mod events;
mod record;
mod report;
mod simulate;
mod sweep;
mod tlb;
mod traces;

use pyo3::prelude::*;

/// The compiled half of the package.
#[pymodule]
mod _core {
    use super::*;
    #[pymodule_export]
    use crate::check::check;
    #[pymodule_export]
    use crate::describe::{Description, describe, named, presets};
    #[pymodule_export]
    use crate::record::{pagesize_of_command, run};
    #[pymodule_export]
    use crate::report::Report;
    #[pymodule_export]
    use crate::simulate::{pagesize, simulate};
    #[pymodule_export]
    use crate::sweep::{
        Cache, Sought, build, estimate, find_tool, hash_of, keep, kept, kernel_program, model, plan, run_pass, sought,
        tool_path, traces_of,
    };
    #[pymodule_export]
    use crate::tlb::{Pte, Tlb};
    #[pymodule_export]
    use crate::traces::{TraceReader, Writer, formats, summarize};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
