//! Traces as arrays, and arrays as traces.

use crate::drive::{Lookout, Stop, Stream};
use crate::errors::raise;
use crate::events::{Event, given, taken};
use farreach::addr::Asid;
use farreach::event::{Batch, OP_BIT, Source};
use farreach::trace::columns::{Collector, Columns, Expander, Slices};
use farreach::trace::{self, Arrival, FORMATS, Header, Pipe, TraceInfo, TraceWriter, kernels};
use farreach::{Error, Progress};
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

/// How long to wait for a pipe before looking whether there was a signal.
const PIPE_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Names of the formats, and what they are.
#[pyfunction]
pub fn formats() -> Vec<(&'static str, &'static str)> {
    FORMATS.iter().map(|format| (format.name, format.about)).collect()
}

/// What a trace contains, as JSON: it is read to its end.
#[pyfunction]
#[pyo3(signature = (file, format=None))]
pub fn summarize(py: Python<'_>, file: &str, format: Option<&str>) -> PyResult<String> {
    let summary = py.detach(|| trace::summarize(trace::open_trace(file, format)?));
    let summary = summary.map_err(|error| raise(py, error))?;
    serde_json::to_string(&summary).map_err(|e| PyValueError::new_err(e.to_string()))
}

/// The stream of a file, or of the kernel that `workload:NAME` names.
pub fn open(file: &str, format: Option<&str>) -> Result<(Box<dyn Stream>, Option<TraceInfo>), Error> {
    if let Some(source) = kernels::open_source(file)? {
        return Ok((Box::new(source), None));
    }
    if trace::is_pipe(file) {
        return Ok((Box::new(Pipe::open(file.to_owned(), format.map(str::to_owned))?), None));
    }
    let opened = trace::open_trace(file, format)?;
    Ok((Box::new(opened.source), Some(opened.info)))
}

/// One that waits for its turn beside others: a file, or a kernel.
pub fn source(file: &str, format: Option<&str>) -> Result<Box<dyn Source + Send>, Error> {
    match kernels::open_source(file)? {
        Some(source) => Ok(source),
        None if trace::is_pipe(file) => {
            let what = "several traces must be files; a pipe can be read by itself alone".into();
            Err(Error::Trace { file: file.to_owned(), place: "interleave".into(), what })
        }
        None => Ok(trace::open_trace(file, format)?.source),
    }
}

impl Stream for Pipe {
    fn next(&mut self, lookout: &mut Lookout, so_far: Progress) -> Result<Option<Batch>, Stop> {
        loop {
            lookout.look(so_far)?;
            match self.wait(PIPE_POLL_INTERVAL)? {
                Arrival::Batch(batch) => return Ok(Some(batch)),
                Arrival::End => return Ok(None),
                Arrival::Nothing => {}
            }
        }
    }
}

/// Reads a trace, as columns or as blocks.
#[pyclass(frozen)]
pub struct TraceReader(Mutex<Reading>);

struct Reading {
    stream: Box<dyn Stream>,
    lookout: Lookout,
    info: Option<String>,
    expander: Expander,
    batch: Option<Batch>,
    at: usize,
}

/// Address, size, kind, address space.
type Arrays = (Py<PyArray1<u64>>, Py<PyArray1<u32>>, Py<PyArray1<u8>>, Py<PyArray1<u32>>, Vec<Event>);
/// Address space, words, events.
type Words = (u32, Py<PyArray1<u64>>, Vec<Event>);

impl Reading {
    fn columns(&mut self, enough: usize) -> Result<Columns, Stop> {
        let mut columns = Columns::default();
        for column in [&mut columns.size, &mut columns.space] {
            column.reserve(enough + enough / 64);
        }
        columns.address.reserve(enough + enough / 64);
        columns.kind.reserve(enough + enough / 64);
        while columns.len() < enough {
            let batch = match self.batch.take() {
                Some(batch) => batch,
                None => match self.stream.next(&mut self.lookout, Progress::default())? {
                    Some(batch) => batch,
                    None => break,
                },
            };
            self.at = self.expander.expand(&batch, self.at, enough, &mut columns)?;
            if self.at < batch.words.len() {
                self.batch = Some(batch);
            } else {
                self.at = 0;
            }
        }
        Ok(columns)
    }
}

#[pymethods]
impl TraceReader {
    #[new]
    #[pyo3(signature = (file, format=None))]
    fn new(py: Python<'_>, file: &str, format: Option<&str>) -> PyResult<TraceReader> {
        let (stream, info) = py.detach(|| open(file, format)).map_err(|error| raise(py, error))?;
        let info = info.map(|info| {
            let TraceInfo { file, format, compression, bytes, header } = info;
            serde_json::json!({
                "file": file, "format": format, "compression": compression, "bytes": bytes, "header": header,
            })
            .to_string()
        });
        let lookout = Lookout::new(None, Default::default());
        let reading = Reading { stream, lookout, info, expander: Expander::default(), batch: None, at: 0 };
        Ok(TraceReader(Mutex::new(reading)))
    }

    /// What is known before reading, as JSON.
    fn info(&self, py: Python<'_>) -> Option<String> {
        py.detach(|| self.lock().info.clone())
    }

    /// The next references, at least as many as asked for while there are so many; `None` at the end.
    fn columns(&self, py: Python<'_>, enough: usize) -> PyResult<Option<Arrays>> {
        let columns = py.detach(|| self.lock().columns(enough)).map_err(|stop| stop.raise(py))?;
        if columns.is_empty() {
            return Ok(None);
        }
        let events = columns.events.iter().map(|(at, asid, op)| given(*at, *asid, op)).collect::<PyResult<_>>()?;
        Ok(Some((
            PyArray1::from_vec(py, columns.address).unbind(),
            PyArray1::from_vec(py, columns.size).unbind(),
            PyArray1::from_vec(py, columns.kind).unbind(),
            PyArray1::from_vec(py, columns.space).unbind(),
            events,
        )))
    }

    /// The next piece of the stream as it is; `None` at the end.
    fn words(&self, py: Python<'_>) -> PyResult<Option<Words>> {
        let next = py.detach(|| {
            let mut reading = self.lock();
            let Reading { stream, lookout, .. } = &mut *reading;
            stream.next(lookout, Progress::default())
        });
        let Some(Batch { asid, words, ops }) = next.map_err(|stop| stop.raise(py))? else { return Ok(None) };
        let mut events = Vec::with_capacity(ops.len());
        let marks = words.iter().enumerate().filter(|(_, word)| *word & OP_BIT != 0);
        for (at, word) in marks {
            let index = usize::try_from(word & !OP_BIT).ok().filter(|&index| index < ops.len());
            let op = index.map(|index| &ops[index]).ok_or_else(|| PyValueError::new_err("a word names no event"))?;
            events.push(given(at, asid, op)?);
        }
        Ok(Some((asid.0, PyArray1::from_vec(py, words).unbind(), events)))
    }
}

impl TraceReader {
    fn lock(&self) -> std::sync::MutexGuard<'_, Reading> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// A column from Python: an array, or one value for all.
#[derive(FromPyObject)]
enum Column<'py, T: numpy::Element> {
    #[pyo3(transparent)]
    Array(PyReadonlyArray1<'py, T>),
    #[pyo3(transparent)]
    One(u32),
}

/// Columns from Python, as [`Collector::push`] takes them: address, size, kind, address space, events.
pub struct Given<'py> {
    address: PyReadonlyArray1<'py, u64>,
    size: Column<'py, u32>,
    kind: Column<'py, u8>,
    space: Column<'py, u32>,
    events: Vec<Event>,
}

impl<'py> Given<'py> {
    pub fn of(object: &Bound<'py, PyAny>) -> PyResult<Given<'py>> {
        let (address, size, kind, space, events) = object.cast::<PyTuple>()?.extract()?;
        Ok(Given { address, size, kind, space, events })
    }

    /// Gives everything to a collector, and takes what it makes of it.
    pub fn collect(
        &self,
        collector: &mut Collector,
        mut each: impl FnMut(Batch) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        /// References between two looks at the collector.
        const STEP: usize = 1 << 14;
        fn slice<'a, T: numpy::Element>(column: &'a Column<'_, T>) -> PyResult<Result<&'a [T], u32>> {
            Ok(match column {
                Column::Array(array) => Ok(array.as_slice()?),
                Column::One(one) => Err(*one),
            })
        }
        let kind = match slice(&self.kind)? {
            Ok(array) => Ok(array),
            Err(one) => Err(u8::try_from(one).unwrap_or(u8::MAX)),
        };
        let slices = Slices {
            address: self.address.as_slice().map_err(PyErr::from)?,
            size: slice(&self.size)?,
            kind,
            space: slice(&self.space)?,
        };
        let count = slices.address.len();
        for (name, len) in [
            ("size", slices.size.map_or(count, <[u32]>::len)),
            ("kind", slices.kind.map_or(count, <[u8]>::len)),
            ("pid", slices.space.map_or(count, <[u32]>::len)),
        ] {
            if len != count {
                let what =
                    format!("{name} has {len} elements, address has {count}; as many are allowed, or one number");
                return Err(PyValueError::new_err(what).into());
            }
        }
        let mut at = 0;
        let mut take = |collector: &mut Collector| -> Result<(), Stop> {
            while let Some(batch) = collector.take(false)? {
                each(batch)?;
            }
            Ok(())
        };
        let events = self.events.iter().map(|(at, asid, text)| (*at, Some((*asid, text))));
        for (until, event) in events.chain([(count, None)]) {
            if until < at || until > count {
                let what = format!("event at {until}: events are in order, and at most at {count}");
                return Err(PyValueError::new_err(what).into());
            }
            while at < until {
                let next = until.min(at + STEP);
                collector.push(slices, at..next)?;
                at = next;
                take(collector)?;
            }
            if let Some((asid, text)) = event {
                match taken(text)? {
                    op if op.is_definition() => {
                        let what = "events define and code: only blocks have them";
                        return Err(PyValueError::new_err(what).into());
                    }
                    op => collector.op(Asid(asid), op)?,
                }
                take(collector)?;
            }
        }
        Ok(())
    }
}

/// References from an iterator of Python, as a stream.
pub struct FromIterator {
    iterator: Py<PyAny>,
    collector: Collector,
    ready: std::collections::VecDeque<Batch>,
    ended: bool,
}

impl FromIterator {
    pub fn new(iterator: Py<PyAny>) -> FromIterator {
        FromIterator { iterator, collector: Collector::new("arrays"), ready: Default::default(), ended: false }
    }
}

impl Stream for FromIterator {
    fn next(&mut self, lookout: &mut Lookout, so_far: Progress) -> Result<Option<Batch>, Stop> {
        loop {
            lookout.look(so_far)?;
            if let Some(batch) = self.ready.pop_front() {
                return Ok(Some(batch));
            }
            if self.ended {
                return Ok(None);
            }
            let FromIterator { iterator, collector, ready, ended } = self;
            Python::attach(|py| match iterator.bind(py).try_iter()?.next() {
                Some(object) => Given::of(&object?)?.collect(collector, |batch| {
                    ready.push_back(batch);
                    Ok(())
                }),
                None => {
                    *ended = true;
                    while let Some(batch) = collector.take(true)? {
                        ready.push_back(batch);
                    }
                    Ok(())
                }
            })?;
        }
    }
}

/// Writes a trace.
#[pyclass(frozen)]
pub struct Writer(Mutex<Option<(TraceWriter, Collector)>>);

impl Writer {
    fn with<T>(&self, act: impl FnOnce(&mut TraceWriter, &mut Collector) -> Result<T, Stop>) -> Result<T, Stop> {
        let mut open = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let Some((writer, collector)) = &mut *open else {
            return Err(PyRuntimeError::new_err("the trace is closed; nothing can be written").into());
        };
        act(writer, collector)
    }
}

#[pymethods]
impl Writer {
    #[new]
    fn new(py: Python<'_>, file: PathBuf, header: &str) -> PyResult<Writer> {
        let header: Header = serde_json::from_str(header).map_err(|e| PyValueError::new_err(format!("header: {e}")))?;
        let name = file.display().to_string();
        let writer = TraceWriter::create(&file, header).map_err(|error| raise(py, error))?;
        Ok(Writer(Mutex::new(Some((writer, Collector::new(&name))))))
    }

    /// Appends columns.
    fn columns(&self, py: Python<'_>, object: &Bound<'_, PyAny>) -> PyResult<()> {
        let given = Given::of(object)?;
        let done = self.with(|writer, collector| given.collect(collector, |batch| Ok(writer.write(&batch)?)));
        done.map_err(|stop| stop.raise(py))
    }

    /// Appends a piece of a stream as it is.
    fn words(&self, py: Python<'_>, asid: u32, words: PyReadonlyArray1<'_, u64>, events: Vec<Event>) -> PyResult<()> {
        let (asid, mut words) = (Asid(asid), words.as_slice()?.to_vec());
        let ops = events.iter().map(|(_, _, text)| taken(text)).collect::<PyResult<Vec<_>>>()?;
        for (index, (at, ..)) in events.iter().enumerate() {
            let count = words.len();
            let word = words.get_mut(*at).filter(|word| **word & OP_BIT != 0).ok_or_else(|| {
                PyValueError::new_err(format!("event at {at}: none of the {count} words there stands for an event"))
            })?;
            *word = OP_BIT | index as u64;
        }
        let batch = Batch { asid, words, ops };
        let done = py.detach(|| {
            self.with(|writer, collector| {
                while let Some(before) = collector.take(true)? {
                    writer.write(&before)?;
                }
                Ok(writer.write(&batch)?)
            })
        });
        done.map_err(|stop| stop.raise(py))
    }

    /// Makes the file whole; returns instructions, loads, stores and events in it.
    fn close(&self, py: Python<'_>) -> PyResult<(u64, u64, u64, u64)> {
        let done = py.detach(|| {
            self.with(|writer, collector| {
                while let Some(batch) = collector.take(true)? {
                    writer.write(&batch)?;
                }
                Ok(())
            })?;
            let open = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
            let (writer, _) = open.expect("it was open a moment ago");
            Ok(writer.finish()?)
        });
        let totals = done.map_err(|stop: Stop| stop.raise(py))?;
        Ok((totals.instructions, totals.loads, totals.stores, totals.ops))
    }

    /// Gives up: there is no file.
    fn abandon(&self, py: Python<'_>) {
        py.detach(|| drop(self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take()));
    }
}
