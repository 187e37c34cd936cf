//! Points, passes and the cache, for sweeps. Which pass runs where is decided in Python.

use crate::describe::Machine;
use crate::drive::Lookout;
use crate::errors::raise;
use crate::simulate::place;
use crate::tlb::Failure;
use farreach::sweep::{Answer, Estimate, Extent, Kept, MODEL, Pass, Point, Program, Wanted, hash_file};
use farreach::trace::Piece;
use farreach::{Error, Progress};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::path::{Path, PathBuf};

fn read<T: serde::de::DeserializeOwned>(what: &str, text: &str) -> PyResult<T> {
    serde_json::from_str(text).map_err(|e| PyValueError::new_err(format!("{what}: {e}")))
}

fn write<T: serde::Serialize>(value: &T) -> PyResult<String> {
    serde_json::to_string(value).map_err(|e| PyValueError::new_err(e.to_string()))
}

/// The version of the model.
#[pyfunction]
pub fn model() -> &'static str {
    MODEL
}

/// Hash of a file's contents, or of all files of a folder with their names.
#[pyfunction]
pub fn hash_of(py: Python<'_>, file: PathBuf) -> PyResult<String> {
    fn hash(path: &Path) -> Result<String, Error> {
        if !path.is_dir() {
            return hash_file(path);
        }
        let fail = |source| Error::Io { file: path.display().to_string(), source };
        let mut entries: Vec<PathBuf> =
            std::fs::read_dir(path).map_err(fail)?.map(|e| Ok(e?.path())).collect::<Result<_, _>>().map_err(fail)?;
        entries.sort();
        let mut parts = vec!["folder".to_owned()];
        for entry in entries {
            parts.push(entry.file_name().unwrap_or_default().to_string_lossy().into_owned());
            parts.push(hash(&entry)?);
        }
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        Ok(farreach::sweep::key(&parts))
    }
    py.detach(|| hash(&file)).map_err(|error| raise(py, error))
}

/// Keeps JSON in a file, under a key and with a checksum. `name`: what it is.
#[pyfunction]
pub fn keep(py: Python<'_>, file: PathBuf, name: &str, key: &str, body: &str) -> PyResult<()> {
    py.detach(|| farreach::sweep::keep(&file, name, key, body)).map_err(|error| raise(py, error))
}

/// The JSON that a file keeps under a key, or why it cannot be used; neither: there is no file.
#[pyfunction]
pub fn kept(py: Python<'_>, file: PathBuf, name: &str, key: &str) -> (Option<String>, Option<String>) {
    match py.detach(|| farreach::sweep::kept(&file, name, key)) {
        Kept::There(body) => (Some(body), None),
        Kept::Nothing => (None, None),
        Kept::Unfit(why) => (None, Some(why)),
    }
}

/// The absolute path of a program that farreach itself starts.
#[pyfunction]
pub fn find_tool(name: &str) -> PyResult<PathBuf> {
    Ok(farreach::live::tool::find(name)?)
}

/// Folders of programs that farreach itself starts, as `PATH` has them.
#[pyfunction]
pub fn tool_path() -> std::ffi::OsString {
    farreach::live::tool::path()
}

/// The program that `workload:NAME` names, as JSON; `None` if the text does not begin so.
#[pyfunction]
pub fn kernel_program(py: Python<'_>, text: &str) -> PyResult<Option<String>> {
    let Some(program) = Program::kernel(text).map_err(|error| raise(py, error))? else { return Ok(None) };
    // What it refuses is found now.
    program.open().map_err(|error| raise(py, error))?;
    write(&program).map(Some)
}

/// A point that is wanted: its key, and all that a plan needs.
#[pyclass(frozen)]
pub struct Sought {
    #[pyo3(get)]
    key: String,
    point: Point,
    program: Program,
    label: String,
    extent: Extent,
    has_caches: bool,
}

/// Where a piece begins, the numbers of instructions that are left out and not counted, and of a phase.
type PieceParts = (Option<String>, u64, u64, Option<u64>);

/// A machine on a program (JSON), which results call `label`. The machine is built once, for what only its parts can
/// judge. `extent`: where it ends, the windows of which one is simulated, and the piece.
#[pyfunction]
pub fn sought(
    py: Python<'_>,
    machine: Machine,
    seed: u64,
    program: &str,
    label: &str,
    extent: (Option<u64>, Option<u32>, PieceParts),
) -> PyResult<Sought> {
    if machine.3.is_some() {
        let what = "a design written in Python has no key in the cache: a sweep takes presets, kinds and files";
        return Err(crate::errors::refuse(py, &machine.0, what));
    }
    let spec = machine.spec(py, seed)?;
    let program: Program = read("program", program)?;
    let (limit, sample, (from, skip, warmup, every)) = extent;
    let piece = Piece { from: place(from)?, skip, warmup, every, limit: None };
    let extent = Extent { limit, sample, piece };
    let point = Point::new(&spec, seed, &program, &extent).map_err(|error| raise(py, error))?;
    let has_caches = Wanted::has_caches(&spec);
    Ok(Sought { key: point.key.clone(), point, program, label: label.to_owned(), extent, has_caches })
}

/// Builds a machine and throws it away: what only its parts can judge is refused now, and that it cannot be sampled.
#[pyfunction]
pub fn build(py: Python<'_>, machine: Machine, seed: u64, sample: Option<u32>) -> PyResult<()> {
    let spec = machine.spec(py, seed)?;
    let sample = sample.map(farreach::Sample::one_in);
    let options = farreach::Options { twice: true, sample, ..Default::default() };
    py.detach(|| farreach::Lab::new(vec![spec], options).map(drop)).map_err(|error| raise(py, error))
}

/// Passes for these points, each as JSON.
#[pyfunction]
pub fn plan(points: Vec<PyRef<'_, Sought>>, width: usize, workers: usize) -> PyResult<Vec<String>> {
    let wanted = points.iter().map(|sought| Wanted {
        program: sought.program.clone(),
        label: sought.label.clone(),
        extent: sought.extent.clone(),
        has_caches: sought.has_caches,
        point: sought.point.clone(),
    });
    farreach::sweep::plan(wanted.collect(), width, workers).iter().map(write).collect()
}

/// Seconds of each of these passes, on one thread.
#[pyfunction]
pub fn estimate(py: Python<'_>, passes: Vec<String>, workers: usize) -> PyResult<Vec<f64>> {
    let passes: Vec<Pass> = passes.iter().map(|text| read("pass", text)).collect::<PyResult<_>>()?;
    Ok(py.detach(|| Estimate::of(&passes, workers)).map_err(|error| raise(py, error))?.seconds)
}

/// The traces of a pass: path and hash of each. `moved` are paths to use instead, in the same order; returns the pass
/// with them.
#[pyfunction]
#[pyo3(signature = (pass_, moved=None))]
pub fn traces_of(pass_: &str, moved: Option<Vec<String>>) -> PyResult<(Vec<(String, String)>, String)> {
    let mut pass: Pass = read("pass", pass_)?;
    let mut found: Vec<(String, String)> = Vec::new();
    for (i, (file, hash)) in pass.program.traces_mut().into_iter().enumerate() {
        found.push((file.clone(), hash.to_owned()));
        if let Some(path) = moved.as_ref().and_then(|moved| moved.get(i)) {
            file.clone_from(path);
        }
    }
    Ok((found, write(&pass)?))
}

/// Runs a pass. `progress` is called now and then with instructions and references so far, and ends the pass by
/// raising. Returns the results by their keys, each as JSON.
#[pyfunction]
pub fn run_pass(
    py: Python<'_>,
    pass_: &str,
    threads: usize,
    progress: Option<Py<PyAny>>,
) -> PyResult<Vec<(String, String)>> {
    let pass: Pass = read("pass", pass_)?;
    let mut lookout = Lookout::new(progress, Failure::default());
    let (outcome, stop) = py.detach(|| {
        let (mut stop, mut so_far) = (None, Progress::default());
        let outcome = pass.run(threads, |progress| {
            so_far = progress;
            match lookout.look(progress) {
                Ok(()) => true,
                Err(why) => {
                    stop = Some(why);
                    false
                }
            }
        });
        let end = lookout.end(so_far);
        (outcome, stop.or(end.err()))
    });
    if let Some(stop) = stop {
        return Err(stop.raise(py));
    }
    let answers = outcome.map_err(|error| raise(py, error))?.unwrap_or_default();
    answers.into_iter().map(|(key, answer)| Ok((key, write(&answer)?))).collect()
}

/// A folder of results.
#[pyclass(frozen)]
pub struct Cache(farreach::sweep::Cache);

#[pymethods]
impl Cache {
    #[new]
    fn new(py: Python<'_>, dir: PathBuf) -> PyResult<Cache> {
        farreach::sweep::Cache::open(&dir).map(Cache).map_err(|error| raise(py, error))
    }

    /// The results of these keys, each as JSON; `None` where there is none. And what is to be said of files that cannot
    /// be used.
    fn get(&self, py: Python<'_>, keys: Vec<String>) -> PyResult<(Vec<Option<String>>, Vec<String>)> {
        py.detach(|| {
            let mut unfit = Vec::new();
            let mut get =
                |key: &String| self.0.get(key, |why| unfit.push(why)).map(|answer| write(&answer)).transpose();
            let found = keys.iter().map(&mut get).collect::<PyResult<_>>()?;
            Ok((found, unfit))
        })
    }

    /// Keeps a result.
    fn put(&self, py: Python<'_>, key: &str, answer: &str) -> PyResult<()> {
        let answer: Answer = read("result", answer)?;
        py.detach(|| self.0.put(key, &answer)).map_err(|error| raise(py, error))
    }
}
