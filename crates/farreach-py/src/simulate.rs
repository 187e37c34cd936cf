//! Stored traces and arrays through machines, and the page-size study.

use crate::describe::{Machine, specs};
use crate::drive::{Lookout, Stop, Stream, drive};
use crate::errors::raise;
use crate::report::Report;
use crate::tlb::Failure;
use crate::traces::{FromIterator, open, source};
use farreach::counts::{MachineResult, RecorderLimit};
use farreach::event::Batch;
use farreach::event::Source;
use farreach::trace::{Cutter, Interleaved, Layout, Piece, Place, Relocator};
use farreach::{Lab, Options, PageLab, Progress, Sample};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// How to run.
#[derive(FromPyObject)]
pub struct Settings {
    pub limit: Option<u64>,
    pub seed: u64,
    /// Where new mappings begin.
    pub align: Option<Align>,
    /// 0: as many as there are processors.
    pub threads: usize,
    pub plain: bool,
    /// Called with instructions and references so far.
    pub progress: Option<Py<PyAny>>,
    /// Of this many windows one is simulated.
    pub sample: Option<u32>,
    /// Where it begins, as for `--from`.
    pub start: Option<String>,
    /// Instructions that are left out; that are not counted; of a phase.
    pub skip: Option<u64>,
    pub warmup: Option<u64>,
    pub every: Option<u64>,
}

/// A place in a run.
pub fn place(text: Option<String>) -> PyResult<Option<Place>> {
    let refuse = |what| PyValueError::new_err(format!("start: {what}"));
    text.map(|text| text.parse().map_err(refuse)).transpose()
}

impl Settings {
    /// Designs written in Python all need the interpreter's lock: on several threads they would wait for each other
    /// at every lookup, so by themselves they run on the caller's.
    pub fn options(&self, machines: &[Machine]) -> Options {
        let all = || match machines.iter().any(|machine| machine.3.is_some()) {
            true => 1,
            false => std::thread::available_parallelism().map_or(1, usize::from),
        };
        let threads = if self.threads == 0 { all() } else { self.threads };
        let sample = self.sample.map(Sample::one_in);
        Options {
            limit: self.limit,
            warmup: self.warmup,
            sample,
            seed: self.seed,
            twice: false,
            plain: self.plain,
            threads,
            ahead: 0,
        }
    }

    pub fn cutter(&self) -> PyResult<Cutter> {
        if self.every.is_some() && self.sample.is_some() {
            return Err(PyValueError::new_err("every is not allowed with sample, which estimates the whole"));
        }
        let (skip, warmup) = (self.skip.unwrap_or(0), self.warmup.unwrap_or(0));
        let piece = Piece { from: place(self.start.clone())?, skip, warmup, limit: None, every: self.every };
        Ok(Cutter::new(piece))
    }

    pub fn relocator(&self) -> PyResult<Option<Relocator>> {
        let refuse = |what| PyValueError::new_err(format!("align: {what}"));
        let layout = |align: &Align| match align {
            Align::Size(size) => Ok(Layout::Aligned(*size)),
            Align::Name(name) => name.parse(),
        };
        self.align.as_ref().map(|align| layout(align).and_then(Relocator::with).map_err(refuse)).transpose()
    }
}

/// A multiple, in bytes, or `linux`.
#[derive(FromPyObject)]
pub enum Align {
    Size(u64),
    Name(String),
}

/// Where references come from.
#[derive(FromPyObject)]
pub enum From {
    /// A file or a kernel, and a format that is forced.
    #[pyo3(transparent)]
    File((String, Option<String>)),
    /// Files or kernels that take turns, with the length of a time slice.
    #[pyo3(transparent)]
    Several((Vec<(String, Option<String>)>, u64)),
    /// An iterator over columns.
    #[pyo3(transparent)]
    Arrays(Py<PyAny>),
}

impl From {
    fn open(self) -> Result<Box<dyn Stream>, farreach::Error> {
        Ok(match self {
            From::File((file, format)) => open(&file, format.as_deref())?.0,
            From::Several((files, slice)) => {
                let sources = files.iter().map(|(file, format)| source(file, format.as_deref()));
                let sources = sources.collect::<Result<_, farreach::Error>>()?;
                Box::new(Box::new(Interleaved::new(sources, slice)) as Box<dyn Source + Send>)
            }
            From::Arrays(iterator) => Box::new(FromIterator::new(iterator)),
        })
    }
}

/// A laboratory, and what its designs report to.
pub fn lab(py: Python<'_>, machines: &[Machine], options: Options) -> PyResult<(Lab, Failure)> {
    let built = specs(py, machines, options.seed)?;
    let classes: Vec<_> =
        machines.iter().filter_map(|machine| machine.3.as_ref()).map(|class| class.bind(py)).collect();
    let failure = Failure::default();
    let lab = failure.scope(py, &classes, || Lab::new(built, options))?.map_err(|error| raise(py, error))?;
    Ok((lab, failure))
}

/// Runs machines over a stream.
#[pyfunction]
pub fn simulate(
    py: Python<'_>,
    source: From,
    label: &str,
    machines: Vec<Machine>,
    settings: Settings,
) -> PyResult<Report> {
    let (mut lab, failure) = lab(py, &machines, settings.options(&machines))?;
    let mut relocator = settings.relocator()?;
    let mut cutter = settings.cutter()?;
    let mut lookout = Lookout::new(settings.progress, failure);
    let result = py.detach(|| {
        let mut stream = source.open()?;
        let (so_far, failed) = drive(&mut *stream, &mut lookout, |batch| {
            let batch = cutter.apply(batch).map_err(|error| error.of_stream(label))?;
            let batch = relocator.as_mut().map_or(Ok(None), |r| r.apply(&batch).map(Some))?.unwrap_or(batch);
            Ok((lab.feed(batch).map_err(|error| error.of_stream(label))?, lab.progress()))
        })?;
        lab.finish().map_err(|error| error.of_stream(label))?;
        lab.judge(failed)?;
        lookout.end(so_far)?;
        cutter.end().map_err(|error| error.of_stream(label))?;
        let mut result = lab.result(label, None);
        result.workload.piece = cutter.used();
        Ok(result)
    });
    result.map(Report::from).map_err(|stop: Stop| stop.raise(py))
}

/// Page sizes side by side, and machines beside them.
pub struct Study {
    cutter: Cutter,
    pages: PageLab,
    beside: Option<Lab>,
}

impl Study {
    /// The failure is that of designs written in Python.
    pub fn new(
        py: Python<'_>,
        sizes: &[u64],
        entries: u64,
        machines: &[Machine],
        settings: &Settings,
    ) -> PyResult<(Study, Failure)> {
        let (options, cutter) = (settings.options(machines), settings.cutter()?);
        let threads = if machines.is_empty() { options.threads } else { options.threads / 2 };
        let pages = PageLab::new(sizes, entries, Options { threads, ..options.clone() });
        let pages = pages.map_err(|error| match error {
            farreach::Error::Config { machine, what } => PyValueError::new_err(format!("sizes {machine}: {what}")),
            other => raise(py, other),
        })?;
        let (beside, failure) = match machines {
            [] => (None, Failure::default()),
            machines => {
                let (lab, failure) = lab(py, machines, options)?;
                (Some(lab), failure)
            }
        };
        Ok((Study { cutter, pages, beside }, failure))
    }

    pub fn feed(&mut self, batch: Batch) -> farreach::Result<(bool, Progress)> {
        let batch = self.cutter.apply(batch)?;
        // Both reach the limit at the same reference, but one may hear of it later.
        let more = self.pages.feed(&batch)?;
        let beside = self.beside.as_mut().map_or(Ok(false), |lab| lab.feed(batch))?;
        Ok((more || beside, self.pages.progress()))
    }

    /// What the stream failed with counts unless the limit was reached before. Nothing can be fed after it.
    pub fn judge(&mut self, failed: Option<farreach::Error>) -> farreach::Result<()> {
        self.pages.finish()?;
        self.pages.judge(failed)
    }

    /// `limits`: those of the recorder that the program met.
    pub fn result(mut self, label: &str, limits: Vec<RecorderLimit>) -> farreach::Result<Report> {
        self.pages.finish()?;
        self.cutter.end()?;
        let mut policies: Vec<MachineResult> = Vec::new();
        if let Some(mut lab) = self.beside {
            lab.finish()?;
            policies = lab.result(label, None).machines;
        }
        let mut result = self.pages.result(label, None, policies);
        result.workload.limits = limits;
        result.workload.piece = self.cutter.used();
        Ok(result.into())
    }
}

/// The page-size study of a stream.
#[pyfunction]
pub fn pagesize(
    py: Python<'_>,
    source: From,
    label: &str,
    sizes: Vec<u64>,
    entries: u64,
    machines: Vec<Machine>,
    settings: Settings,
) -> PyResult<Report> {
    let (mut study, failure) = Study::new(py, &sizes, entries, &machines, &settings)?;
    let mut lookout = Lookout::new(settings.progress, failure);
    let result = py.detach(|| {
        let mut stream = source.open()?;
        let (so_far, failed) = drive(&mut *stream, &mut lookout, |batch| study.feed(batch))?;
        study.judge(failed)?;
        lookout.end(so_far)?;
        Ok(study.result(label, Vec::new())?)
    });
    result.map_err(|stop: Stop| stop.raise(py))
}
